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
            "version": {"description": "Given by the release."},
            "requires": _listed("Features that must not be ignored; none are known.", {"type": "array", "maxItems": 0}),
            "foreground_sources": _listed("Sources that somebody waits for; all others are background.", _NAMES),
            "retry_table": {
                "description": "What may be retried. A row with a status beats one without; what is not listed is not.",
                "type": "array",
                "items": _row(),
            },
            "defaults": {
                "description": f"Settings by kind of operation: {', '.join(BUILT_IN_DEFAULTS)}.",
                "type": "object",
                "additionalProperties": _settings(SETTINGS),
            },
            "rules": {
                "description": "Settings for parts of the environment. The more specific scope wins, then the later.",
                "type": "array",
                "items": _rule(),
            },
            "guards": _or_null(_settings(GUARD_SETTINGS) | {"description": "The limits of one run."}),
            "spend_caps": _or_null(_settings(SPEND_SETTINGS) | {"description": "What model calls may spend."}),
            "capacity_events": _or_null(_settings(OUTAGE_SETTINGS) | {"description": "When failures are an outage."}),
            "reset_ramp": _or_null(_settings(RAMP_SETTINGS) | {"description": "In which steps a reset of many goes."}),
            "stuck_breakers": _or_null(_settings(STUCK_SETTINGS) | {"description": "When a breaker is stuck."}),
            "failures": _or_null(_effects()),
            "quorum": _or_null(_quorum()),
            "classification": _or_null(_classification()),
            "masking": _or_null(_masking()),
            "playbook": _or_null(_playbook()),
            "tools": _or_null(
                {"description": "More caution than the code asks for.", "type": "array", "items": _tool()}
            ),
            "escalations": _or_null(_escalations()),
            "escalation_terms": _or_null(_escalation_terms()),
            "importance": _or_null(
                {
                    "description": "How important each source is when an operator sheds load.",
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
            "id": {"type": ["string", "null"], "description": "How screens and events call the rule."},
            "scope": {
                "description": "Which part of the environment; * stands for anything, also in a name: model:*.",
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
        "description": "What failures lead to beside a retry: an open breaker, a closed gate, a server that is heard.",
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
        "description": "When enough instances opened a breaker, the console trips the rest; the most specific holds.",
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
        "description": "What is hidden beside what is hidden anyway: by agents before they send, and on arrival.",
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
        "description": "The whole text, without case; * stands for any run of characters.",
    }
    match: Schema = {
        "description": "Which failures it is about: all that is said has to fit.",
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
        "description": "What failures are that the rules do not know. The first rule that matches wins.",
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
        "description": "What is done about each verdict; every verdict has an entry.",
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
            "delays_s": {"description": "One retry after each.", "type": "array", "items": {"type": "number"}},
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
        "description": "Which failures are put to a person, in which queue.",
        "type": "object",
        "properties": dict.fromkeys(categories, asking),
        "additionalProperties": False,
    }


def _escalation_terms() -> Schema:
    return {
        "description": "How urgent each kind of question is, who is asked, how long it may take, what silence means.",
        "type": "object",
        "properties": {kind: _terms(kind) for kind in BUILT_IN_TERMS},
        "additionalProperties": False,
    }


def _terms(kind: str) -> Schema:
    row = _settings(settings_of_terms(kind))
    always = queue_always(kind)
    queue: Schema = {"description": "The queue that is asked; empty: the one that the agent names."}
    if always:
        queue |= {"enum": ["", always, None]}
    else:
        queue |= {"type": ["string", "null"], "maxLength": LONGEST_QUEUE, "pattern": r"^(?:\S(?:[\s\S]*\S)?)?$"}
    row["properties"] = {"queue": queue, **row["properties"]}
    return row
