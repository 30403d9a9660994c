"""The JSON Schema of a policy document, made from the same tables that `parse_policy` checks with.

What a schema cannot say (fallbacks that lead back, an id used twice) is left to `parse_policy`: it has the last word.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from recovery_ops.rules.classification.redaction import MASK
from recovery_ops.rules.enums import Category, Compensation, Importance, Verdict
from recovery_ops.rules.incidents.detection import OUTAGE_SETTINGS
from recovery_ops.rules.playbook.verdicts import MAY_ANSWER
from recovery_ops.rules.policy import masking_patterns as mask_patterns
from recovery_ops.rules.policy import masking_rules
from recovery_ops.rules.policy.classification_rules import (
    MAY_BE_OVERRIDDEN,
    MAY_BE_SAID,
    MOST_RULES,
    MOST_STARS,
    NAME_CHARS,
    PATTERN_CHARS,
    PATTERNS,
    STATUS_CODES,
)
from recovery_ops.rules.policy.escalation_rules import ALLOW, DENY, LONGEST_QUEUE
from recovery_ops.rules.policy.escalation_terms import BUILT_IN_TERMS, queue_always, settings_of_terms
from recovery_ops.rules.policy.failure_effects import BRIEFS, CLASSES, MAY_OPEN, STATUSES
from recovery_ops.rules.policy.fleet_settings import QUORUM_SETTINGS, RAMP_SETTINGS, STUCK_SETTINGS
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS, SCHEMA_VERSION
from recovery_ops.rules.policy.retry_table import Again
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.policy.settings import SETTINGS, Setting
from recovery_ops.rules.policy.spend_settings import SPEND_SETTINGS
from recovery_ops.rules.run_limits import GUARD_SETTINGS

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

_NAME: Schema = {"type": "string", "minLength": 1}
_NAMES: Schema = {"type": "array", "items": {"type": "string", "pattern": r"\S"}}


def policy_schema() -> Schema:
    """What a policy document may hold. Keys that it does not name are allowed, and ignored by agents."""
    return {
        "$schema": DIALECT,
        "title": "Recovery Ops policy",
        "description": "Every setting of an environment. A key that is not named here is ignored by agents.",
        "type": "object",
        "properties": {
            "schema_version": {"type": "integer", "minimum": 1, "default": SCHEMA_VERSION},
            "version": {"description": "Set by the release."},
            "requires": _listed("Required features; none are known.", {"type": "array", "maxItems": 0}),
            "foreground_sources": _listed("Foreground query sources; all others are background.", _NAMES),
            "retry_table": {
                "description": "Retryable failures. A row with a status wins over one without; others are not retried.",
                "type": "array",
                "items": _row(),
            },
            "defaults": {
                "description": f"Settings by kind of operation: {', '.join(BUILT_IN_DEFAULTS)}.",
                "type": "object",
                "additionalProperties": _settings(SETTINGS),
            },
            "rules": {
                "description": "Settings by scope. The more specific scope wins, then the later rule.",
                "type": "array",
                "items": _rule(),
            },
            "guards": _or_null(_settings(GUARD_SETTINGS) | {"description": "Limits of one run."}),
            "spend_caps": _or_null(_settings(SPEND_SETTINGS) | {"description": "Limits of model spending."}),
            "capacity_events": _or_null(_settings(OUTAGE_SETTINGS) | {"description": "Thresholds of an incident."}),
            "reset_ramp": _or_null(_settings(RAMP_SETTINGS) | {"description": "Steps of a reset of many breakers."}),
            "stuck_breakers": _or_null(_settings(STUCK_SETTINGS) | {"description": "Thresholds of a stuck breaker."}),
            "failures": _or_null(_effects()),
            "quorum": _or_null(_quorum()),
            "classification": _or_null(_classification()),
            "masking": _or_null(_masking()),
            "playbook": _or_null(_playbook()),
            "tools": _or_null(
                {"description": "Stricter rules for tools than those in the code.", "type": "array", "items": _tool()}
            ),
            "escalations": _or_null(_escalations()),
            "escalation_terms": _or_null(_escalation_terms()),
            "importance": _or_null(
                {
                    "description": "Priority of each query source under load shedding.",
                    "type": "object",
                    "additionalProperties": {"enum": [one.value for one in Importance]},
                }
            ),
        },
    }


def _listed(description: str, schema: Schema) -> Schema:
    return {**schema, "description": description}


def _or_null(schema: Schema) -> Schema:
    return {"description": schema.get("description", ""), "anyOf": [schema, {"type": "null"}]}


def _settings(settings: dict[str, Setting]) -> Schema:
    return {"type": "object", "properties": {name: _setting(setting) for name, setting in settings.items()}}


def _setting(setting: Setting) -> Schema:
    described = {"description": f"{setting.brief}{f' ({setting.unit})' if setting.unit else ''}."}
    if setting.kind == "flag":
        return described | {"type": ["boolean", "null"]}
    if setting.kind == "word":
        return described | {"enum": [*setting.words, None]}
    bounds: Schema = {"minimum": setting.minimum}
    if not math.isinf(setting.maximum):
        bounds["maximum"] = setting.maximum
    return described | {"type": ["integer" if setting.kind == "whole" else "number", "null"]} | bounds


def _row() -> Schema:
    again = {"enum": [one.value for one in Again]}
    return {
        "type": "object",
        "required": ["category", "foreground", "background"],
        "properties": {
            "category": {"enum": [one.value for one in Category]},
            "status_code": {"type": ["integer", "null"], "minimum": 100, "maximum": 999},
            "foreground": again,
            "background": again,
        },
    }


def _rule() -> Schema:
    return {
        "type": "object",
        "properties": {
            "id": {"type": ["string", "null"], "description": "Name of the rule on screens and in events."},
            "scope": {
                "description": "Part of the environment; * matches anything, also in a name: model:*.",
                "type": "object",
                "properties": {part.name: _NAME for part in fields(Scope)},
                "additionalProperties": False,
            },
            "settings": _settings(SETTINGS),
            "fallbacks": _or_null(_listed("The order in which the declared fallbacks are tried.", _NAMES)),
            "models": _or_null(_listed("Which declared models are asked after the first, in order.", _NAMES)),
        },
    }


def _effects() -> Schema:
    statuses: Schema = {
        "type": ["array", "null"],
        "items": {
            "anyOf": [
                {"type": "integer", "minimum": STATUSES.start, "maximum": STATUSES.stop - 1},
                {"enum": list(CLASSES)},
            ]
        },
    }
    categories: Schema = {"type": ["array", "null"], "items": {"enum": [one.value for one in MAY_OPEN]}}
    return {
        "description": "Effects of failures other than a retry: on breakers, gates, and Retry-After.",
        "type": "object",
        "properties": {
            name: _listed(f"{brief}.", categories if name == "open_breakers" else statuses)
            for name, brief in BRIEFS.items()
        },
    }


def _quorum() -> Schema:
    rule = _settings(QUORUM_SETTINGS)
    rule["properties"] = {"operation": {"type": "string", "pattern": r"\S"}, **rule["properties"]}
    return {
        "description": "Share of instances with an open breaker at which the console trips the others.",
        "type": "array",
        "items": rule | {"required": ["operation"]},
    }


def _masking() -> Schema:
    def line(most: int) -> Schema:
        return {"type": "string", "minLength": 1, "maxLength": most}

    rule: Schema = {
        "type": "object",
        "required": ["name", "pattern"],
        "properties": {
            "name": line(masking_rules.NAME_CHARS),
            "pattern": line(mask_patterns.PATTERN_CHARS)
            | {"description": "A regular expression without repeated groups."},
            "replacement": line(masking_rules.REPLACEMENT_CHARS) | {"description": f"Without it {MASK}."},
        },
        "additionalProperties": False,
    }
    return {
        "description": "Masking rules on top of the default masking, for agents and on arrival.",
        "type": "object",
        "properties": {
            "rules": {"type": "array", "maxItems": masking_rules.MOST_RULES, "items": rule},
            "attributes": _listed(
                "Names of attributes of which no value is kept.",
                {
                    "type": "array",
                    "maxItems": masking_rules.MOST_ATTRIBUTES,
                    "items": line(masking_rules.ATTRIBUTE_CHARS),
                },
            ),
        },
        "additionalProperties": False,
    }


def _classification() -> Schema:
    pattern: Schema = {
        "type": ["string", "null"],
        "maxLength": PATTERN_CHARS,
        "pattern": rf"^(?:[^*]*\*){{0,{MOST_STARS}}}[^*]*$",
        "description": "The whole text, case-insensitive; * matches any characters.",
    }
    match: Schema = {
        "description": "Conditions; all must match.",
        "type": "object",
        "minProperties": 1,
        "properties": {
            **dict.fromkeys(PATTERNS, pattern),
            "status_codes": {
                "type": ["array", "null"],
                "items": {"type": "integer", "minimum": STATUS_CODES.start, "maximum": STATUS_CODES.stop - 1},
            },
        },
        "additionalProperties": False,
    }
    return {
        "description": "Categories of failures that the rules do not know. The first match wins.",
        "type": "array",
        "maxItems": MOST_RULES,
        "items": {
            "type": "object",
            "required": ["name", "match", "category"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": NAME_CHARS},
                "match": match,
                "category": {"enum": [one.value for one in MAY_BE_SAID]},
                "overrides": _or_null(
                    _listed(
                        "Known categories that it may change; it may always name what is unknown.",
                        {"type": "array", "items": {"enum": [one.value for one in MAY_BE_OVERRIDDEN]}},
                    )
                ),
            },
        },
    }


def _playbook() -> Schema:
    return {
        "description": "Action for each verdict; every verdict has an entry.",
        "type": "object",
        "required": [one.value for one in Verdict],
        "properties": {verdict.value: _play(allowed) for verdict, allowed in MAY_ANSWER.items()},
        "additionalProperties": False,
    }


def _play(allowed: frozenset[Compensation]) -> Schema:
    return {
        "type": "object",
        "required": ["compensation"],
        "properties": {
            "compensation": {"enum": sorted(one.value for one in allowed)},
            "delays_s": {
                "description": "Delays of the retries, in seconds.",
                "type": "array",
                "items": {"type": "number"},
            },
            "queue": {"type": "string", "maxLength": 64},
        },
    }


def _tool() -> Schema:
    return {
        "type": "object",
        "required": ["operation"],
        "properties": {
            "operation": _NAME,
            "require_permission": {"enum": [True, None]},
            "is_destructive": {"enum": [True, None]},
            "idempotent": {"enum": [False, None]},
            "optional": {"enum": [False, None]},
            "bypass_allowed": {"enum": [False, None]},
        },
    }


def _escalations() -> Schema:
    asking: Schema = {
        "type": "object",
        "required": ["queue"],
        "properties": {
            "queue": {"type": "string", "minLength": 1, "maxLength": 64},
            "deadline_s": {"type": "number", "minimum": 1},
            "default_answer": {"enum": [DENY, ALLOW]},
        },
    }
    categories = [one.value for one in Category if one is not Category.CANCELLED]
    return {
        "description": "Failures that are escalated, with their queue.",
        "type": "object",
        "properties": dict.fromkeys(categories, asking),
        "additionalProperties": False,
    }


def _escalation_terms() -> Schema:
    return {
        "description": "Severity, escalation policy, deadlines and default action of each kind of escalation.",
        "type": "object",
        "properties": {kind: _terms(kind) for kind in BUILT_IN_TERMS},
        "additionalProperties": False,
    }


def _terms(kind: str) -> Schema:
    row = _settings(settings_of_terms(kind))
    always = queue_always(kind)
    queue: Schema = {"description": "Queue; empty: that of the agent."}
    if always:
        queue |= {"enum": ["", always, None]}
    else:
        queue |= {"type": ["string", "null"], "maxLength": LONGEST_QUEUE, "pattern": r"^(?:\S(?:[\s\S]*\S)?)?$"}
    row["properties"] = {"queue": queue, **row["properties"]}
    return row
