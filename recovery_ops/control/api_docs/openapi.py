"""The OpenAPI document of the API, made from the views: their addresses, docstrings, bodies and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.urls import URLPattern

from events.pages.table_files import KINDS
from recovery_ops import __version__
from recovery_ops.control.api_docs.screen_counterparts import VERBS
from recovery_ops.control.api_docs.summaries import SUMMARIES
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.core.actions import ACTIONS
from recovery_ops.control.core.api.pagination import USUAL
from recovery_ops.control.core.api.requests import ApiView, BodySpec
from recovery_ops.control.core.checks import (
    DEFAULT_EXPIRY_S,
    KEY_CHARS,
    LEAST_EXPIRY_S,
    LEAST_REASON_CHARS,
    LONGEST_EXPIRY_ADMIN_S,
)
from recovery_ops.control.core.cursors import CURSOR_CHARS
from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS
from recovery_ops.control.core.numbers import DIGITS, MAX_NUMBER
from recovery_ops.control.core.reasons import RULE
from recovery_ops.control.dashboard.models import TAG_CHARS, TAGS_MOST, TEXT_CHARS
from recovery_ops.control.escalations.models import ANSWER_CHARS
from recovery_ops.control.exports.catalogue import LISTS
from recovery_ops.control.exports.models import QUERY_CHARS
from recovery_ops.control.issues.services.issues import MOST_MORE
from recovery_ops.control.notifications.models.notifications import ADDRESS_CHARS, SECRET_CHARS, Channel
from recovery_ops.control.notifications.services.checks import BOUNDS
from recovery_ops.control.notifications.triggers import TRIGGERS
from recovery_ops.control.policies.masking import TESTED_CHARS
from recovery_ops.control.policies.services.cohorts import LEAST_FOR_S, LONGEST_FOR_S, MOST_CALLS
from recovery_ops.control.runbooks.models import STEP_CHARS
from recovery_ops.control.runbooks.models import TEXT_CHARS as RUNBOOK_CHARS
from recovery_ops.rules.notifications.escalation_levels import LONGEST_S, STEPS_MOST
from recovery_ops.rules.notifications.grouping import Severity
from recovery_ops.rules.policy.feedback import Want
from recovery_ops.rules.policy.schema import policy_schema

BASE = "/api/v1"
METHODS = ("get", "post", "put", "patch", "delete")
_PART = re.compile(r"<(?:(\w+):)?(\w+)>")
_PROBLEMS = {
    "400": "The request is invalid; `fields` names the wrong fields.",
    "401": "No session, or the key is unknown.",
    "403": "The key or user lacks the permission.",
    "404": "The object does not exist; nothing changed.",
    "405": "The address does not accept this method.",
    "406": "The API answers in JSON only.",
    "409": "The object changed since it was read (`changes` lists the changes), or is in another state.",
    "415": "The body must be JSON.",
    "429": "The rate limit of the key is exceeded; retry after `Retry-After` seconds.",
    "503": "The database is unavailable; nothing changed.",
}
_MASKING = "#/components/schemas/Policy/properties/masking/anyOf/0/properties"
_FIELDS: dict[str, dict[str, Any]] = {
    "reason": {
        "type": "string",
        "maxLength": REASON_CHARS,
        "description": f"Reason, recorded in the audit log. {RULE}",
    },
    "dry_run": {"type": "boolean", "description": "Check the request and report its effect without a change."},
    "expires_in_s": {
        "type": "number",
        "minimum": LEAST_EXPIRY_S,
        "maximum": LONGEST_EXPIRY_ADMIN_S,
        "default": DEFAULT_EXPIRY_S,
        "description": "Duration in seconds from now; more than 24 h for admins only.",
    },
    "confirm": {
        "type": "string",
        "maxLength": NAME_CHARS,
        "description": "Repeated name to confirm a change with wide reach; not for a dry run.",
    },
    "ahead": {"type": "boolean", "description": "Allow names that no instance has reported yet."},
    "settings": {"type": "object", "description": "Values by setting; null removes one."},
    "document": {"$ref": "#/components/schemas/Policy"},
    "start": {"type": "string", "format": "date-time"},
    "end": {"type": "string", "format": "date-time"},
    "go_live_at": {"type": "string", "format": "date-time", "description": "Time of the release, within 30 days."},
    "least": {
        "enum": [*(value for value, _ in LoadShed.LEASTS), None],
        "description": "Lowest priority that passes; null: all.",
    },
    "accepts_golden": {"type": "boolean", "description": "Accept changed golden runs."},
    "rule": {"$ref": "#/components/schemas/Policy/properties/classification/anyOf/0/items"},
    "rules": {"$ref": f"{_MASKING}/rules"},
    "attributes": {"$ref": f"{_MASKING}/attributes"},
    "propose": {"type": "boolean", "description": "Draft a proposal instead of a release."},
    "sample": {"type": "string", "maxLength": TESTED_CHARS, "description": "Text to test the rules on."},
    "want": {"enum": [one.value for one in Want], "description": "Expected reaction."},
    "must": {"type": "string", "minLength": LEAST_REASON_CHARS, "maxLength": REASON_CHARS},
    "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "description": "Share of the instances."},
    "for_s": {
        "type": "number",
        "minimum": LEAST_FOR_S,
        "maximum": LONGEST_FOR_S,
        "description": "Duration in seconds.",
    },
    "least_calls": {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_CALLS,
        "description": "Calls on each side that the health gate needs.",
    },
    "numbers": {
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": MAX_NUMBER},
        "minItems": 1,
        "maxItems": 200,
    },
    "at": {"type": "string", "format": "date-time", "description": "Time, or start of a range."},
    "until": {"type": "string", "format": "date-time", "description": "End of the range."},
    "note": {"type": "string", "minLength": 1, "maxLength": TEXT_CHARS, "description": "Text of the annotation."},
    "tags": {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": TAG_CHARS},
        "maxItems": TAGS_MOST,
    },
    "to": {"type": "string", "minLength": 1, "maxLength": NAME_CHARS, "description": "Name of a user, or a queue."},
    "more": {"type": "integer", "minimum": 1, "maximum": MOST_MORE, "description": "Number of further failures."},
    "fingerprint": {
        "type": "string",
        "minLength": 1,
        "maxLength": NAME_CHARS,
        "description": "Fingerprint of an issue.",
    },
    "into": {"type": "integer", "minimum": 1, "maximum": MAX_NUMBER, "description": "Another escalation."},
    "text": {"type": "string", "maxLength": ANSWER_CHARS, "description": "Answer to the waiting run."},
    "address": {
        "type": "string",
        "maxLength": ADDRESS_CHARS,
        "description": "URL of the channel, or receivers of e-mail. Write-only.",
    },
    "secret": {
        "type": "string",
        "maxLength": SECRET_CHARS,
        "description": "Signing secret or routing key. Write-only.",
    },
    "kind": {"enum": [kind for kind, _ in Channel.KINDS]},
    "markdown": {
        "type": "string",
        "maxLength": RUNBOOK_CHARS,
        "description": "Steps, one per line that starts with -; empty deletes the runbook.",
    },
    "review_on": {"type": "string", "description": "Date of the next review; empty for none."},
    "owner": {"type": "string", "maxLength": NAME_CHARS, "description": "Owner of the runbook."},
    "step": {
        "type": "string",
        "minLength": 1,
        "maxLength": STEP_CHARS,
        "description": "Key or text of a step.",
    },
    "list": {"enum": list(LISTS), "description": "List to export."},
    "format": {"enum": list(KINDS)},
    "narrowed": {
        "type": "string",
        "maxLength": QUERY_CHARS,
        "description": "Filters of the list, as in the query of its page's address.",
    },
    "is_on": {"type": "boolean"},
    "channel": {"type": "integer", "minimum": 1, "maximum": MAX_NUMBER, "description": "Number of a channel."},
    "triggers": {"type": "array", "items": {"enum": list(TRIGGERS)}, "minItems": 1, "maxItems": len(TRIGGERS)},
    "least_severity": {"enum": [one.value for one in Severity]},
    "quiet_passes": {"enum": [one.value for one in Severity]},
    "quiet_from": {"type": ["string", "null"], "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
    "quiet_to": {"type": ["string", "null"], "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
    **{name: {"type": "integer", "minimum": least, "maximum": most} for name, (least, most) in BOUNDS.items()},
    "steps": {
        "type": "array",
        "minItems": 1,
        "maxItems": STEPS_MOST,
        "items": {
            "type": "object",
            "required": ["after_s", "channel"],
            "properties": {
                "after_s": {"type": "number", "minimum": 0, "maximum": LONGEST_S},
                "channel": {"type": "integer", "minimum": 1, "maximum": MAX_NUMBER},
                "person": {"type": "string", "maxLength": NAME_CHARS},
            },
        },
    },
    "break_glass": {
        "type": "boolean",
        "description": "Break-glass: apply without the required approval; reviewed later.",
    },
}
_TYPES: dict[type, dict[str, Any]] = {
    str: {"type": "string", "minLength": 1, "maxLength": NAME_CHARS},
    bool: {"type": "boolean"},
    float: {"type": "number"},
    int: {"type": "integer", "minimum": 0, "maximum": MAX_NUMBER},
    dict: {"type": "object"},
    list: {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "maxItems": 200},
    object: {},
}


def openapi(patterns: list[URLPattern]) -> dict[str, Any]:
    """The document for these addresses, which stand under /api/v1/."""
    paths: dict[str, Any] = {}
    for pattern in patterns:
        view = getattr(pattern.callback, "view_class", None)
        if view is None or not issubclass(view, ApiView) or pattern.name is None:
            continue
        route = str(pattern.pattern)
        address = f"{BASE}/{_template(route)}"
        paths[address] = {
            method: _operation(view, method, route, pattern.name) for method in METHODS if hasattr(view, method)
        }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Recovery Ops",
            "version": __version__,
            "description": "API of the console. Every change can be checked with dry_run, is applied once "
            "per Idempotency-Key, and is rejected with 409 if If-Match is out of date.",
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key with the permission `read`, `act` (changes), `settings` (notifications) "
                    "or `admin` (keys and accounts): `manage.py key create`.",
                }
            },
            "schemas": {"Policy": _policy(), "Problem": _problem()},
        },
    }


def _template(route: str) -> str:
    return _PART.sub(lambda part: "{" + part.group(2) + "}", route)


def summary_of(view: type[ApiView]) -> str:
    """The docstring of a view, without its address."""
    text = " ".join((view.__doc__ or "").split())
    head, colon, rest = text.partition(": ")
    return rest if colon and head.startswith("`") else text


def _operation(view: type[ApiView], method: str, route: str, name: str) -> dict[str, Any]:
    takes = view.takes.get(method.upper())
    success = str(view.answers.get(method.upper(), 200))
    found: dict[str, Any] = {
        "operationId": f"{name.removeprefix('api-').replace('-', '_')}_{method}",
        "tags": [route.partition("/")[0]],
        "summary": SUMMARIES[f"{method.upper()} {_template(route)}"],
        "description": summary_of(view),
        "parameters": [*_path_parameters(route), *_other_parameters(view, method, is_change=takes is not None)],
        "responses": {
            **dict.fromkeys({success, "200"} if takes else {"200"}, _answer(view.content)),
            **{status: _answer("application/problem+json", why) for status, why in _PROBLEMS.items()},
        },
    }
    if takes is not None and "break_glass" in takes.fields:
        found["responses"]["202"] = _answer(
            "application/json", "Waits for a second approver; `request` is the approval request."
        )
    if method == "get":
        found["responses"]["304"] = {"description": "Not changed since the sent ETag."}
    if view.is_open:
        found["security"] = []
        found["responses"]["200"] = _answer("application/schema+json" if "schema" in route else "application/json")
    if takes is not None:
        body = _body(takes, is_reason_needed="reason" in takes.fields and _always_needs_reason(name))
        if view.is_reading:
            body["properties"]["document"] = {"description": "Document to check."}
        found["requestBody"] = {"required": bool(body["required"]), "content": {"application/json": {"schema": body}}}
    return found


def _path_parameters(route: str) -> Iterator[dict[str, Any]]:
    for kind, name in _PART.findall(route):
        schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": NAME_CHARS}
        if kind == "number":
            schema = {"type": "integer", "minimum": 0, "maximum": MAX_NUMBER}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _other_parameters(view: type[ApiView], method: str, *, is_change: bool) -> Iterator[dict[str, Any]]:
    for name, what in view.asks.items() if method == "get" else ():
        schema: dict[str, Any] = {"type": "string"}
        if name == "limit":
            schema = {"type": "integer", "minimum": 1, "maximum": int(what.rpartition(" ")[2]), "default": USUAL}
        elif name == "cursor":
            schema |= {"minLength": 1, "maxLength": CURSOR_CHARS}
        elif name in ("revision", "after"):
            schema = {"type": "integer", "minimum": 0}
        yield {"name": name, "in": "query", "required": False, "description": what, "schema": schema}
    if is_change and not view.is_reading:
        key = {"type": "string", "maxLength": KEY_CHARS, "pattern": "^[A-Za-z0-9_-]*$"}
        text = "A repeated request with the same key gets the answer of the first."
        yield {"name": "Idempotency-Key", "in": "header", "required": False, "description": text, "schema": key}
        text = "ETag of the version that was read, weak or not: 409 if it is out of date. `*`: any version."
        match = {"type": "string", "pattern": rf'^(\*|(W/)?"[0-9]{{1,{DIGITS}}}")$'}
        yield {"name": "If-Match", "in": "header", "required": False, "description": text, "schema": match}


def _always_needs_reason(name: str) -> bool:
    """Whether every action of this address needs a reason, whatever it reaches."""
    verbs = [verb for verb, address in VERBS.items() if address == name]
    return bool(verbs) and all(ACTIONS[verb].needs_reason for verb in verbs)


def _body(takes: BodySpec, *, is_reason_needed: bool) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [*(["reason"] if is_reason_needed else []), *takes.needed],
        "properties": {
            name: takes.described.get(name) or _described(name, kind) for name, kind in takes.fields.items()
        },
        "additionalProperties": False,
    }


def _described(name: str, kind: type) -> Mapping[str, Any]:
    """A field by its name, where one of that name has this type; else by its type."""
    found, plain = _FIELDS.get(name, {}), _TYPES[kind]
    is_of_kind = "type" not in found or "type" not in plain or found["type"] == plain["type"]
    return found if found and is_of_kind else plain


def _answer(content_type: str, description: str = "The requested data, or the applied change.") -> dict[str, Any]:
    schema: Mapping[str, Any] = {"type": "object"}
    if content_type == "application/problem+json":
        schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {content_type: {"schema": schema}}}


def _policy() -> dict[str, Any]:
    return {name: part for name, part in policy_schema().items() if name != "$schema"}


def _problem() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "Problem document of RFC 9457.",
        "required": ["title", "status", "code", "detail"],
        "properties": {
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string", "description": "Error code for programs."},
            "detail": {"type": "string", "description": "Error message for users."},
            "fields": {"type": "object", "additionalProperties": {"type": "string"}},
            "changes": {"type": "array", "items": {"type": "object"}},
        },
    }
