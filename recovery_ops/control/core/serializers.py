"""What the API answers with: rows and summaries as JSON objects, moments as ISO 8601 in UTC, words as in the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.differences import Part
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.audit import AuditEntry

Document = dict[str, Any]


def difference_document(one: Part) -> Document:
    """One value that differs between two policies; null where it is not there. `words` is for people."""
    return {"path": one.path, "before": one.before, "after": one.after, "words": one.words}


_RESULTS: dict[type, tuple[str, Callable[[Any], Document]]] = {}


def register_result(kind: type, name: str, document: Callable[[Any], Document]) -> None:
    """Say under which name, and as which document, a result of a command shows an object of this kind."""
    _RESULTS[kind] = name, document


def result_document(done: CommandResult[Any]) -> Document:
    """The result of a command, or of its dry run."""
    answer: Document = {
        "revision": done.revision,
        "was_already": done.was_already,
        "dry_run": done.is_dry_run,
        "needs_second": done.needs_approval,
        "impact": None if done.impact is None else _RESULTS[type(done.impact)][1](done.impact),
    }
    if type(done.object) in _RESULTS:
        name, document = _RESULTS[type(done.object)]
        answer[name] = document(done.object)
    if done.cancelled:
        answer["called_off"] = [_RESULTS[type(one)][1](one) for one in done.cancelled]
    return answer


def audit_entry_document(entry: AuditEntry) -> Document:
    """One row of the audit log."""
    actor = {"kind": entry.actor_kind, "name": entry.actor_name, "id": entry.actor_id}
    return {
        "number": entry.number,
        "at": utc_text(entry.at),
        "actor": actor,
        "verb": entry.verb,
        "object": entry.object,
        "reason": entry.reason,
        "before": entry.before,
        "after": entry.after,
        "revision": entry.revision,
        "result": entry.result,
        "code": entry.code,
        "channel": entry.channel,
        "request_id": entry.request_id,
        "hash": entry.hash,
    }


def problem_document(
    status: int,
    code: str,
    detail: str,
    *,
    fields: Mapping[str, str] | None = None,
    changes: Iterable[AuditEntry] = (),
) -> Document:
    """RFC 9457: `code` for programs, `detail` for people; `fields` and `changes` where there are any."""
    problem: Document = {"title": _TITLES.get(status, "Refused"), "status": status, "code": code, "detail": detail}
    if fields:
        problem["fields"] = dict(fields)
    changed = [audit_entry_document(entry) for entry in changes]
    return problem | ({"changes": changed} if changed else {})


_TITLES = {
    400: "Bad request",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    406: "Not acceptable",
    413: "Too large",
    429: "Too many requests",
    405: "Method not allowed",
    409: "Conflict",
    415: "Unsupported media type",
    500: "Internal error",
    503: "Away",
}


def approval_request_document(one: ApprovalRequest, *, now: datetime | None = None) -> Document:
    """What was asked for where two have to want it, and what became of it."""
    return {
        "number": one.number,
        "state": one.state if now is None else one.state_at(now),
        "act": one.act,
        "about": one.about,
        "arguments": dict(one.arguments),
        "by": one.by,
        "reason": one.reason,
        "asked_at": utc_text(one.asked_at),
        "expires_at": utc_text(one.expires_at),
        "decided_by": one.decided_by,
        "decided_at": utc_text(one.decided_at),
        "decision_reason": one.decision_reason,
        "revision": one.revision,
    }


def utc_text(at: datetime | None) -> str | None:
    """As ISO 8601 with milliseconds."""
    return None if at is None else at.isoformat(timespec="milliseconds")


register_result(ApprovalRequest, "request", approval_request_document)
