"""The OpenAPI document of the API, made from the views: their addresses, docstrings, bodies and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.urls import URLPattern

from events.exports import KINDS
from recovery_ops import __version__
from recovery_ops.control.actions.checks import (
    DEFAULT_EXPIRY_S,
    KEY_CHARS,
    LEAST_EXPIRY_S,
    LEAST_REASON_CHARS,
    LONGEST_EXPIRY_ADMIN_S,
)
from recovery_ops.control.actions.cohorts import LEAST_FOR_S, LONGEST_FOR_S, MOST_CALLS
from recovery_ops.control.actions.failures import MOST_MORE
from recovery_ops.control.actions.notifying_checks import BOUNDS
from recovery_ops.control.api.paging import USUAL
from recovery_ops.control.api.requests import Api, Takes
from recovery_ops.control.cursors import CURSOR_CHARS
from recovery_ops.control.exporting.catalogue import LISTS
from recovery_ops.control.masking import TESTED_CHARS
from recovery_ops.control.models import NAME_CHARS, REASON_CHARS, Channel, LoadShed
from recovery_ops.control.models.annotations import TAG_CHARS, TAGS_MOST, TEXT_CHARS
from recovery_ops.control.models.escalations import ANSWER_CHARS
from recovery_ops.control.models.exports import QUERY_CHARS
from recovery_ops.control.models.notifying import ADDRESS_CHARS, SECRET_CHARS
from recovery_ops.control.models.runbooks import STEP_CHARS
from recovery_ops.control.models.runbooks import TEXT_CHARS as RUNBOOK_CHARS
from recovery_ops.control.notify.triggers import TRIGGERS
from recovery_ops.control.numbers import DIGITS, MOST
from recovery_ops.rules.chains import LONGEST_S, STEPS_MOST
from recovery_ops.rules.feedback import Want
from recovery_ops.rules.schema import policy_schema
from recovery_ops.rules.telling import Severity

BASE = "/api/v1"
METHODS = ("get", "post", "put", "patch", "delete")
_PART = re.compile(r"<(?:(\w+):)?(\w+)>")
_PROBLEMS = {
    "400": "What was sent is not understood, or a field has a fault: `fields` says which.",
    "401": "Nobody is signed in, or the key is not known.",
    "403": "This key or person may not.",
    "404": "There is no such thing, and nothing was changed.",
    "405": "This address does not take that method.",
    "406": "The API answers in JSON alone.",
    "409": "It was changed since you looked (`changes` says by whom), or is in another state.",
    "415": "A body is JSON.",
    "429": "This key asks more often than it may; `Retry-After` says when to ask again.",
    "503": "The store cannot be reached now; nothing was changed.",
}
_MASKING = "#/components/schemas/Policy/properties/masking/anyOf/0/properties"
_FIELDS: dict[str, dict[str, Any]] = {
    "reason": {
        "type": "string",
        "minLength": LEAST_REASON_CHARS,
        "maxLength": REASON_CHARS,
        "description": "Why. Kept in the audit log.",
    },
    "dry_run": {"type": "boolean", "description": "Check everything, say what it would do, write nothing."},
    "expires_in_s": {
        "type": "number",
        "minimum": LEAST_EXPIRY_S,
        "maximum": LONGEST_EXPIRY_ADMIN_S,
        "default": DEFAULT_EXPIRY_S,
        "description": "For how long, in seconds from now; beyond 24 h for admins.",
    },
    "confirm": {
        "type": "string",
        "maxLength": NAME_CHARS,
        "description": "The name that has to be repeated where a change reaches everybody; not for a dry run.",
    },
    "ahead": {"type": "boolean", "description": "Also for what nobody has reported yet."},
    "knobs": {"type": "object", "description": "Values by the names of the policy; null takes one back."},
    "document": {"$ref": "#/components/schemas/Policy"},
    "start": {"type": "string", "format": "date-time"},
    "end": {"type": "string", "format": "date-time"},
    "go_live_at": {"type": "string", "format": "date-time", "description": "A moment to come, within 30 days."},
    "least": {
        "enum": [*(value for value, _ in LoadShed.LEASTS), None],
        "description": "The least importance that passes; null: everything.",
    },
    "accepts_golden": {"type": "boolean", "description": "That golden runs change is meant."},
    "rule": {"$ref": "#/components/schemas/Policy/properties/classification/anyOf/0/items"},
    "rules": {"$ref": f"{_MASKING}/rules"},
    "attributes": {"$ref": f"{_MASKING}/attributes"},
    "propose": {"type": "boolean", "description": "Draft a proposal instead of a release."},
    "sample": {"type": "string", "maxLength": TESTED_CHARS, "description": "A text to try the rules on."},
    "want": {"enum": [one.value for one in Want], "description": "What should have happened."},
    "must": {"type": "string", "minLength": LEAST_REASON_CHARS, "maxLength": REASON_CHARS},
    "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "description": "Of the instances."},
    "for_s": {
        "type": "number",
        "minimum": LEAST_FOR_S,
        "maximum": LONGEST_FOR_S,
        "description": "For how long, in seconds.",
    },
    "least_calls": {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_CALLS,
        "description": "On each side, before the health gate concludes anything.",
    },
    "numbers": {
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": MOST},
        "minItems": 1,
        "maxItems": 200,
    },
    "at": {"type": "string", "format": "date-time", "description": "The moment at which it is, or from which on."},
    "until": {"type": "string", "format": "date-time", "description": "A later moment, at which it ends."},
    "note": {"type": "string", "minLength": 1, "maxLength": TEXT_CHARS, "description": "What people read there."},
    "tags": {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": TAG_CHARS},
        "maxItems": TAGS_MOST,
    },
    "to": {"type": "string", "minLength": 1, "maxLength": NAME_CHARS, "description": "A person's name, or a queue."},
    "more": {"type": "integer", "minimum": 1, "maximum": MOST_MORE, "description": "So many further failures."},
    "fingerprint": {
        "type": "string",
        "minLength": 1,
        "maxLength": NAME_CHARS,
        "description": "Of a cause of failures.",
    },
    "into": {"type": "integer", "minimum": 1, "maximum": MOST, "description": "Another escalation."},
    "text": {"type": "string", "maxLength": ANSWER_CHARS, "description": "What the waiting run is told."},
    "address": {
        "type": "string",
        "maxLength": ADDRESS_CHARS,
        "description": "Where messages go: an address, or the receivers of e-mail. Never told again.",
    },
    "secret": {"type": "string", "maxLength": SECRET_CHARS, "description": "Signs, or is the routing key. Never told."},
    "kind": {"enum": [kind for kind, _ in Channel.KINDS]},
    "markdown": {
        "type": "string",
        "maxLength": RUNBOOK_CHARS,
        "description": "Steps, a line that begins with - for each; empty takes them away.",
    },
    "review_on": {"type": "string", "description": "A day: by when somebody looks again; empty for none."},
    "owner": {"type": "string", "maxLength": NAME_CHARS, "description": "Who keeps it right."},
    "step": {
        "type": "string",
        "minLength": 1,
        "maxLength": STEP_CHARS,
        "description": "The key of a step, or its words.",
    },
    "list": {"enum": list(LISTS), "description": "Which list is written into a file."},
    "format": {"enum": list(KINDS)},
    "narrowed": {
        "type": "string",
        "maxLength": QUERY_CHARS,
        "description": "What narrows it, as the address of its page says it behind the question mark.",
    },
    "is_on": {"type": "boolean"},
    "channel": {"type": "integer", "minimum": 1, "maximum": MOST, "description": "A channel's number."},
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
                "channel": {"type": "integer", "minimum": 1, "maximum": MOST},
                "person": {"type": "string", "maxLength": NAME_CHARS},
            },
        },
    },
    "break_glass": {"type": "boolean", "description": "Without the approval that is asked for; recorded and reviewed."},
}
_TYPES: dict[type, dict[str, Any]] = {
    str: {"type": "string", "minLength": 1, "maxLength": NAME_CHARS},
    bool: {"type": "boolean"},
    float: {"type": "number"},
    int: {"type": "integer", "minimum": 0, "maximum": MOST},
    dict: {"type": "object"},
    list: {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "maxItems": 200},
    object: {},
}


def openapi(patterns: list[URLPattern]) -> dict[str, Any]:
    """The document for these addresses, which stand under /api/v1/."""
    paths: dict[str, Any] = {}
    for pattern in patterns:
        view = getattr(pattern.callback, "view_class", None)
        if view is None or not issubclass(view, Api) or pattern.name is None:
            continue
        route = str(pattern.pattern)
        address = f"{BASE}/{_PART.sub(lambda part: '{' + part.group(2) + '}', route)}"
        paths[address] = {
            method: _operation(view, method, route, pattern.name) for method in METHODS if hasattr(view, method)
        }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Recovery Ops",
            "version": __version__,
            "description": "What the console shows and does, for programs. Every change has a reason, can be tried "
            "with dry_run, is done once for each Idempotency-Key, and is refused with 409 when If-Match is out "
            "of date.",
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key of scope `read` to look, `act` to change, `settings` to set up "
                    "notifications and `admin` to make keys and accounts: `manage.py key create`.",
                }
            },
            "schemas": {"Policy": _policy(), "Problem": _problem()},
        },
    }


def summary_of(view: type[Api]) -> str:
    """What a view says that it does, without its address."""
    text = " ".join((view.__doc__ or "").split())
    head, colon, rest = text.partition(": ")
    return rest if colon and head.startswith("`") else text


def _operation(view: type[Api], method: str, route: str, name: str) -> dict[str, Any]:
    takes = view.takes.get(method.upper())
    success = str(view.answers.get(method.upper(), 200))
    found: dict[str, Any] = {
        "operationId": f"{name.removeprefix('api-').replace('-', '_')}_{method}",
        "tags": [route.partition("/")[0]],
        "summary": summary_of(view),
        "parameters": [*_path_parameters(route), *_other_parameters(view, method, is_change=takes is not None)],
        "responses": {
            **dict.fromkeys({success, "200"} if takes else {"200"}, _answer(view.content)),
            **{status: _answer("application/problem+json", why) for status, why in _PROBLEMS.items()},
        },
    }
    if takes is not None and "break_glass" in takes.fields:
        found["responses"]["202"] = _answer("application/json", "It waits for a second person: `request` says which.")
    if method == "get":
        found["responses"]["304"] = {"description": "Nothing is new since the ETag that was sent."}
    if view.is_open:
        found["security"] = []
        found["responses"]["200"] = _answer("application/schema+json" if "schema" in route else "application/json")
    if takes is not None:
        body = _body(takes)
        if view.is_reading:
            body["properties"]["document"] = {"description": "Whatever is to be checked."}
        found["requestBody"] = {"required": bool(takes.needed), "content": {"application/json": {"schema": body}}}
    return found


def _path_parameters(route: str) -> Iterator[dict[str, Any]]:
    for kind, name in _PART.findall(route):
        schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": NAME_CHARS}
        if kind == "number":
            schema = {"type": "integer", "minimum": 0, "maximum": MOST}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _other_parameters(view: type[Api], method: str, *, is_change: bool) -> Iterator[dict[str, Any]]:
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
        text = "Asking again with it is answered with what was done the first time."
        yield {"name": "Idempotency-Key", "in": "header", "required": False, "description": text, "schema": key}
        text = "The ETag, weak or not, of what you looked at: 409 when it is out of date. `*`: whatever it is now."
        match = {"type": "string", "pattern": rf'^(\*|(W/)?"[0-9]{{1,{DIGITS}}}")$'}
        yield {"name": "If-Match", "in": "header", "required": False, "description": text, "schema": match}


def _body(takes: Takes) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(takes.needed),
        "properties": {name: _FIELDS.get(name, _TYPES[kind]) for name, kind in takes.fields.items()},
        "additionalProperties": False,
    }


def _answer(content_type: str, description: str = "What was asked for, or what was done.") -> dict[str, Any]:
    schema: Mapping[str, Any] = {"type": "object"}
    if content_type == "application/problem+json":
        schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {content_type: {"schema": schema}}}


def _policy() -> dict[str, Any]:
    return {name: part for name, part in policy_schema().items() if name != "$schema"}


def _problem() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "RFC 9457: what is wrong and what to do.",
        "required": ["title", "status", "code", "detail"],
        "properties": {
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string", "description": "A word for programs."},
            "detail": {"type": "string", "description": "A sentence for people."},
            "fields": {"type": "object", "additionalProperties": {"type": "string"}},
            "changes": {"type": "array", "items": {"type": "object"}},
        },
    }
