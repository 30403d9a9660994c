"""What the API answers with: rows and summaries as JSON objects, moments as ISO 8601 in UTC, words as in the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from events.rows import AgentRow, BreakerRow, InstanceState
from recovery_ops.control.actions import Done
from recovery_ops.control.desired import ApplySummary, LivePolicy
from recovery_ops.control.impact import Impact
from recovery_ops.control.models import AuditEntry, Override, PolicyRelease, Reset
from recovery_ops.rules.words import ApplyStatus
from recovery_ops.wire import scope_document

Document = dict[str, Any]


def of_override(one: Override) -> Document:
    """An override, live or ended."""
    return {
        "id": one.pk,
        "mode": one.mode,
        "scope": scope_document(one.scope),
        "by": one.by,
        "reason": one.reason,
        "starts_at": _moment(one.starts_at),
        "expires_at": _moment(one.expires_at),
        "revision": one.revision,
        "ramp_s": one.ramp_s,
        "ended_at": _moment(one.ended_at),
        "ended_by": one.ended_by,
        "end_reason": one.end_reason,
        "end_revision": one.end_revision,
    }


def of_reset(one: Reset) -> Document:
    """A reset."""
    return {
        "scope": scope_document(one.scope),
        "by": one.by,
        "reason": one.reason,
        "at": _moment(one.at),
        "revision": one.revision,
        "ramp_s": one.ramp_s,
    }


def of_release(one: PolicyRelease) -> Document:
    """A version of the policy, without its document."""
    return {
        "version": one.version,
        "summary": one.summary,
        "by": one.by,
        "reason": one.reason,
        "created_at": _moment(one.created_at),
        "revision": one.revision,
    }


def of_policy(live: LivePolicy) -> Document:
    """Which policy is in force and who released it; `release` is null for the built-in one."""
    return {"version": live.version, "release": None if live.release is None else of_release(live.release)}


def of_done(done: Done[Any]) -> Document:
    """What an action did, or would do."""
    return {
        "revision": done.revision,
        "was_already": done.was_already,
        "dry_run": done.is_dry_run,
        **_changed(done.object),
        "impact": None if done.impact is None else of_impact(done.impact),
    }


def _changed(row: Override | Reset | PolicyRelease) -> Document:
    if isinstance(row, Override):
        return {"override": of_override(row)}
    return {"reset": of_reset(row)} if isinstance(row, Reset) else {"policy": of_release(row)}


def of_impact(impact: Impact) -> Document:
    """What a change touches; a rate that nobody measured is null."""
    return {
        "breakers": list(impact.breakers),
        "instances": impact.instances,
        "unreachable": impact.unreachable,
        "in_scope": impact.in_scope,
        "states": {state.value: count for state, count in impact.states.items()},
        "calls_per_min": _rounded(impact.calls_per_min),
        "rejected_per_min": _rounded(impact.rejected_per_min),
        "fallbacks_per_min": _rounded(impact.fallbacks_per_min),
        "fallbacks": list(impact.fallbacks),
        "is_withdrawn": impact.is_withdrawn,
        "consequence": impact.consequence,
    }


def of_breaker(row: BreakerRow, overrides: Iterable[Override]) -> Document:
    """A breaker across the fleet: what it is (`counts` by state), and what is wanted of it (`overrides`)."""
    return {
        "name": row.name,
        "operations": list(row.operations),
        "services": list(row.services),
        "worst": None if row.worst is None else row.worst.value,
        "counts": {state.value: count for state, count in row.counts.items()},
        "unknown": row.unknown,
        "instances": row.instances,
        "since": _moment(row.since),
        "failure_rate": row.failure_rate,
        "threshold": row.threshold,
        "calls_per_min": _rounded(row.calls_per_min),
        "failures_per_min": _rounded(row.failures_per_min),
        "rejected_per_min": _rounded(row.rejected_per_min),
        "last_category": None if row.last_category is None else row.last_category.value,
        "overrides": [of_override(one) for one in overrides],
    }


def of_instance(one: InstanceState) -> Document:
    """One breaker in one instance; `state` is null while the instance cannot be reached."""
    return {
        "service": one.agent.service,
        "instance": one.agent.instance,
        "state": None if one.state is None else one.state.value,
        "reported_state": one.reported_state.value,
        "since": _moment(one.since),
        "trigger": None if one.trigger is None else one.trigger.value,
        "override_id": one.override_id,
        "revision": one.revision,
        "last_seen": _moment(one.agent.last_seen),
    }


def of_agent(row: AgentRow) -> Document:
    """One instance: what it is, whether it can be reached, and what it obeys."""
    return {
        "service": row.service,
        "instance": row.instance,
        "version": row.version,
        "group": row.group,
        "status": row.status,
        "last_seen": _moment(row.last_seen),
        "is_reachable": row.is_reachable,
        "revision": row.revision,
        "config_hash": row.config_hash,
        "applied_at": _moment(row.applied_at),
        "rejected_revision": row.rejected_revision,
        "rejected_reason": row.rejected_reason,
        "clamped": list(row.clamped),
        "breakers_open": row.breakers_open,
        "runs_in_flight": row.runs_in_flight,
        "outbox_pending": row.outbox_pending,
        "outbox_dropped": row.outbox_dropped,
    }


def of_applying(summary: ApplySummary) -> Document:
    """Who obeys a revision, by name: `counts`, and those that do not with why."""
    names = {
        status.value: [f"{row.service}/{row.instance}" for row in rows] for status, rows in summary.by_status.items()
    }
    counts = {status: len(rows) for status, rows in names.items()}
    failed = {f"{row.service}/{row.instance}": row.rejected_reason for row in summary.by_status[ApplyStatus.FAILED]}
    return {
        "revision": summary.revision,
        "made_at": _moment(summary.made_at),
        "total": summary.total,
        "counts": counts,
        **names,
        "reasons": failed,
    }


def of_entry(entry: AuditEntry) -> Document:
    """One row of the audit log."""
    actor = {"kind": entry.actor_kind, "name": entry.actor_name, "id": entry.actor_id}
    return {
        "number": entry.number,
        "at": _moment(entry.at),
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


def of_problem(
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
    changed = [of_entry(entry) for entry in changes]
    return problem | ({"changes": changed} if changed else {})


_TITLES = {
    400: "Bad request",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    415: "Unsupported media type",
    500: "Internal error",
    503: "Away",
}


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds")


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 2)
