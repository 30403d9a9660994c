"""What the API answers with: rows and summaries as JSON objects, moments as ISO 8601 in UTC, words as in the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from events.queries.workload import Workload
from events.rows import AgentRow, BreakerRow, InstanceState
from recovery_ops.control.actions import Done, is_review_needed
from recovery_ops.control.desired import ApplySummary, LivePolicy
from recovery_ops.control.differences import Part
from recovery_ops.control.documents.intent import moment, of_held, of_override, of_probe, of_ramp, of_reset, of_shed
from recovery_ops.control.impact import Impact
from recovery_ops.control.models import (
    AuditEntry,
    BreakerProbe,
    BreakGlassReview,
    EnvironmentRules,
    Feedback,
    GoldenCase,
    GoldenResult,
    HeldAct,
    LoadShed,
    Override,
    PolicyProposal,
    PolicyRelease,
    PolicyRollout,
    ProposalNote,
    Replay,
    Reset,
    ResetRamp,
    UnknownCause,
)
from recovery_ops.rules.fleet_bounds import QuorumRule, bounds_document
from recovery_ops.rules.lint import Finding
from recovery_ops.rules.quorum import needed_of
from recovery_ops.rules.stuck import Finding as Stuck
from recovery_ops.rules.words import ApplyStatus, State

Document = dict[str, Any]


def of_release(one: PolicyRelease) -> Document:
    """A version of the policy, without its document."""
    return {
        "version": one.version,
        "summary": one.summary,
        "by": one.by,
        "reason": one.reason,
        "created_at": moment(one.created_at),
        "revision": one.revision,
        "proposal": None if one.proposal is None else one.proposal.number,
        "returns_to": one.returns_to,
        "is_break_glass": one.is_break_glass,
    }


def of_proposal(one: PolicyProposal) -> Document:
    """A proposal, without its document. `step` is what If-Match names."""
    return {
        "number": one.number,
        "title": one.title,
        "state": one.state,
        "base_version": one.base_version,
        "edition": one.edition,
        "step": one.step,
        "by": one.by,
        "created_at": moment(one.created_at),
        "changed_at": moment(one.changed_at),
        "approved_by": one.approved_by,
        "approved_at": moment(one.approved_at),
        "go_live_at": moment(one.go_live_at),
        "cohort": one.cohort,
    }


def of_golden(one: GoldenCase) -> Document:
    """A run that proposals are tried on, without its facts."""
    return {
        "number": one.number,
        "name": one.name,
        "must": one.must,
        "run": one.run,
        "service": one.service,
        "instance": one.instance,
        "by": one.by,
        "created_at": moment(one.created_at),
        "retired_at": moment(one.retired_at),
    }


def of_golden_result(one: GoldenResult) -> Document:
    """What a proposal does to a golden run."""
    named = {"number": one.case.number, "name": one.case.name, "must": one.case.must}
    return named | {"is_same": one.is_same, "difference": one.difference}


def of_feedback(one: Feedback) -> Document:
    """What somebody found badly handled."""
    return {
        "number": one.number,
        "operation": one.operation,
        "service": one.service,
        "run": one.run,
        "fingerprint": one.fingerprint,
        "want": one.want,
        "reason": one.reason,
        "by": one.by,
        "at": moment(one.at),
        "state": one.state,
        "proposal": None if one.proposal is None else one.proposal.number,
    }


def of_unknown_cause(one: UnknownCause) -> Document:
    """What somebody said of a cause that nobody could name."""
    return {
        "fingerprint": one.fingerprint,
        "state": one.state,
        "reason": one.reason,
        "by": one.by,
        "at": moment(one.at),
        "proposal": None if one.proposal is None else one.proposal.number,
    }


def of_rollout(one: PolicyRollout) -> Document:
    """A proposal that some instances obey first; `said` and `figures` are what the health gate said and saw last."""
    return {
        "number": one.number,
        "proposal": one.proposal.number,
        "state": one.state,
        "step": one.step,
        "version": one.version,
        "base_version": one.base_version,
        "share": one.share,
        "service": one.service,
        "group": one.group,
        "least_calls": one.least_calls,
        "by": one.by,
        "reason": one.reason,
        "revision": one.revision,
        "started_at": moment(one.started_at),
        "ends_at": moment(one.ends_at),
        "health": one.health,
        "said": one.said,
        "figures": one.figures,
        "judged_at": moment(one.judged_at),
        "ended_at": moment(one.ended_at),
        "ended_by": one.ended_by,
        "end_reason": one.end_reason,
        "end_revision": one.end_revision,
        "is_break_glass": one.is_break_glass,
    }


def of_note(one: ProposalNote) -> Document:
    """One thing that was done to a proposal, or said about it."""
    return {
        "step": one.step,
        "edition": one.edition,
        "verb": one.verb,
        "state": one.state,
        "by": one.by,
        "at": moment(one.at),
        "text": one.text,
    }


def of_finding(one: Finding) -> Document:
    """What a careful colleague would ask about a policy."""
    return {"level": one.level.value, "path": one.path, "code": one.code, "message": one.message}


def of_part(one: Part) -> Document:
    """One value that differs between two policies; null where it is not there. `words` is for people."""
    return {"path": one.path, "before": one.before, "after": one.after, "words": one.words}


def of_policy(live: LivePolicy) -> Document:
    """Which policy is in force and who released it; `release` is null for the built-in one."""
    return {"version": live.version, "release": None if live.release is None else of_release(live.release)}


def of_done(done: Done[Any]) -> Document:
    """What an action did, or would do."""
    return {
        "revision": done.revision,
        "was_already": done.was_already,
        "dry_run": done.is_dry_run,
        "needs_second": done.needs_second,
        **_changed(done.object),
        **({"called_off": [_told(one) for one in done.called_off]} if done.called_off else {}),
        "impact": None if done.impact is None else of_impact(done.impact),
    }


def of_replay(one: Replay) -> Document:
    """A replay and how far it has come, without its documents and its result."""
    return {
        "number": one.number,
        "state": one.state,
        "proposal": None if one.proposal is None else one.proposal.number,
        "edition": one.edition,
        "old_version": one.old_version,
        "start": moment(one.start_at),
        "end": moment(one.end_at),
        "service": one.service,
        "operation": one.operation,
        "by": one.by,
        "asked_at": moment(one.asked_at),
        "started_at": moment(one.started_at),
        "finished_at": moment(one.finished_at),
        "read_facts": one.read_facts,
        "done_facts": one.done_facts,
        "total_facts": one.total_facts,
        "problem": one.problem,
    }


def _told(row: Override | LoadShed) -> Document:
    return of_override(row) if isinstance(row, Override) else of_shed(row)


def _changed(row: object) -> Document:
    if isinstance(row, Override):
        return {"override": of_override(row)}
    if isinstance(row, LoadShed):
        return {"shed": of_shed(row)}
    if isinstance(row, PolicyProposal):
        return {"proposal": of_proposal(row)}
    if isinstance(row, UnknownCause):
        return {"cause": of_unknown_cause(row)}
    if isinstance(row, EnvironmentRules):
        needed = is_review_needed(row.environment)
        return {"rules": {"is_review_needed": needed, "is_second_needed": row.is_second_needed}}
    if isinstance(row, HeldAct):
        return {"request": of_held(row)}
    if isinstance(row, BreakGlassReview):
        return {"review": {"version": row.release.version, "by": row.by, "at": moment(row.at), "reason": row.reason}}
    if isinstance(row, ResetRamp):
        return {"ramp": of_ramp(row)}
    if isinstance(row, BreakerProbe):
        return {"probe": of_probe(row)}
    if isinstance(row, Replay):
        return {"replay": of_replay(row)}
    if isinstance(row, GoldenCase):
        return {"golden": of_golden(row)}
    if isinstance(row, Feedback):
        return {"feedback": of_feedback(row)}
    if isinstance(row, PolicyRollout):
        return {"rollout": of_rollout(row)}
    if isinstance(row, PolicyRelease):
        return {"policy": of_release(row)}
    return {"reset": of_reset(row)} if isinstance(row, Reset) else {}


def of_impact(impact: Impact) -> Document:
    """What a change touches; a rate that nobody measured is null."""
    return {
        "breakers": list(impact.breakers),
        "instances": impact.instances,
        "unreachable": impact.unreachable,
        "in_scope": impact.in_scope,
        "states": {state.value: count for state, count in impact.states.items()},
        "not_closed": impact.not_closed,
        "runs_in_flight": impact.runs_in_flight,
        "calls_per_min": _rounded(impact.calls_per_min),
        "rejected_per_min": _rounded(impact.rejected_per_min),
        "fallbacks_per_min": _rounded(impact.fallbacks_per_min),
        "fallbacks": list(impact.fallbacks),
        "is_withdrawn": impact.is_withdrawn,
        "consequence": impact.consequence,
        "operations": [
            {
                "operation": one.operation,
                "calls_per_min": _rounded(one.calls_per_min),
                "fallbacks": list(one.fallbacks),
                "is_withdrawn": one.is_withdrawn,
                "is_covered": one.is_covered,
                "sentence": one.sentence,
            }
            for one in impact.operations
        ],
    }


def of_quorum(rule: QuorumRule | None, row: BreakerRow) -> Document | None:
    """The quorum rule of a breaker and how far it is from it; null where no rule of the policy speaks of it."""
    if rule is None:
        return None
    reporting = sum(row.counts.values())
    return {
        **bounds_document(rule),
        "opened": row.counts.get(State.OPEN, 0) + row.counts.get(State.HALF_OPEN, 0),
        "reporting": reporting,
        "needed": needed_of(rule, reporting),
    }


def of_breaker(row: BreakerRow, overrides: Iterable[Override], stuck: Iterable[Stuck] = ()) -> Document:
    """A breaker across the fleet: what it is (`counts` by state), what is wanted of it, and how it is stuck.

    `next_probe` is when the first instance that is open lets a call through, null where none said; `in_flight` is null
    where nobody counted within 15 s; `providers` are those of the last day.
    """
    return {
        "stuck": [{"kind": one.kind.value, "sentence": one.sentence, "advice": one.advice} for one in stuck],
        "name": row.name,
        "operations": list(row.operations),
        "services": list(row.services),
        "groups": list(row.groups),
        "providers": list(row.providers),
        "worst": None if row.worst is None else row.worst.value,
        "counts": {state.value: count for state, count in row.counts.items()},
        "unknown": row.unknown,
        "instances": row.instances,
        "since": moment(row.since),
        "failure_rate": row.failure_rate,
        "threshold": row.threshold,
        "calls_per_min": _rounded(row.calls_per_min),
        "failures_per_min": _rounded(row.failures_per_min),
        "rejected_per_min": _rounded(row.rejected_per_min),
        "in_flight": row.in_flight,
        "next_probe": moment(row.next_probe),
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
        "since": moment(one.since),
        "trigger": None if one.trigger is None else one.trigger.value,
        "override_id": one.override_id,
        "revision": one.revision,
        "last_seen": moment(one.agent.last_seen),
    }


def of_agent(row: AgentRow, labels: Sequence[str] = ()) -> Document:
    """One instance: what it is, what people call it, whether it can be reached, and what it obeys."""
    return {
        "service": row.service,
        "instance": row.instance,
        "version": row.version,
        "group": row.group,
        "labels": list(labels),
        "status": row.status,
        "last_seen": moment(row.last_seen),
        "is_reachable": row.is_reachable,
        "revision": row.revision,
        "config_hash": row.config_hash,
        "applied_at": moment(row.applied_at),
        "rejected_revision": row.rejected_revision,
        "rejected_reason": row.rejected_reason,
        "clamped": list(row.clamped),
        "breakers_open": row.breakers_open,
        "runs_in_flight": row.runs_in_flight,
        "takes_new_work": row.takes_new_work,
        "takes_retries": row.takes_retries,
        "outbox_pending": row.outbox_pending,
        "outbox_dropped": row.outbox_dropped,
        "region": row.region,
        "retired_at": moment(row.retired_at),
    }


def of_workload(work: Workload) -> Document:
    """What an instance does; null for what it did not tell."""
    return {
        "current_run": work.current_run,
        "calls": work.calls,
        "attempts": work.attempts,
        "successes": work.successes,
        "tokens_per_min": None if work.tokens_per_min is None else round(work.tokens_per_min, 1),
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
        "made_at": moment(summary.made_at),
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
        "at": moment(entry.at),
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
    406: "Not acceptable",
    413: "Too large",
    429: "Too many requests",
    405: "Method not allowed",
    409: "Conflict",
    415: "Unsupported media type",
    500: "Internal error",
    503: "Away",
}


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 2)
