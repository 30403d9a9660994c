"""What people impose on the fleet, as the API tells it: overrides, shed load, resets, ramps and probes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from events.rows import BreakerRow
from recovery_ops.control.breakers.impact import Impact
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import BreakerProbe, Override, Reset
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.core.serializers import Document, register_result, utc_text
from recovery_ops.rules.enums import State
from recovery_ops.rules.fleet.breaker_quorum import needed_of
from recovery_ops.rules.fleet.stuck_breakers import Finding as Stuck
from recovery_ops.rules.policy.fleet_settings import QuorumRule, bounds_document
from recovery_ops.rules.policy.scope import ANY
from recovery_ops.wire import scope_document


def override_document(one: Override) -> Document:
    """An override, live or ended."""
    return {
        "id": one.pk,
        "mode": one.mode,
        "scope": scope_document(one.scope),
        "by": one.by,
        "reason": one.reason,
        "starts_at": utc_text(one.starts_at),
        "expires_at": utc_text(one.expires_at),
        "revision": one.revision,
        "ramp_s": one.ramp_s,
        "rule": one.rule,
        "spares": one.spares,
        "ended_at": utc_text(one.ended_at),
        "ended_by": one.ended_by,
        "end_reason": one.end_reason,
        "end_revision": one.end_revision,
    }


def load_shed_document(one: LoadShed) -> Document:
    """Load that is shed, or was."""
    return {
        "id": one.pk,
        "least": one.least,
        "by": one.by,
        "reason": one.reason,
        "starts_at": utc_text(one.starts_at),
        "expires_at": utc_text(one.expires_at),
        "revision": one.revision,
        "ended_at": utc_text(one.ended_at),
        "ended_by": one.ended_by,
        "end_reason": one.end_reason,
        "end_revision": one.end_revision,
    }


def reset_document(one: Reset) -> Document:
    """A reset."""
    return {
        "scope": scope_document(one.scope),
        "by": one.by,
        "reason": one.reason,
        "at": utc_text(one.at),
        "revision": one.revision,
        "ramp_s": one.ramp_s,
    }


def ramp_document(one: ResetRamp) -> Document:
    """A reset of many that goes in steps, and how far it has come. `turn` is what If-Match names."""
    return {
        "number": one.number,
        "state": one.state,
        "turn": one.turn,
        "breakers": list(one.breakers),
        "scope": {part: value for part in ("service", "instance", "group") if (value := getattr(one, part)) != ANY},
        "total": one.total,
        "reset": one.done_count,
        "steps": [
            {"count": count, "at": done and done["at"], "revision": done and done["revision"]}
            for (count, _), done in zip_longest(one.plan, one.steps)
        ],
        "limits": dict(one.bounds),
        "go": one.health,
        "said": one.said,
        "halted_by": list(one.culprits),
        "by": one.by,
        "reason": one.reason,
        "started_at": utc_text(one.started_at),
        "step_at": utc_text(one.step_at),
        "ended_at": utc_text(one.ended_at),
        "ended_by": one.ended_by,
        "end_reason": one.end_reason,
    }


def probe_document(one: BreakerProbe) -> Document:
    """A probe."""
    return {
        "scope": scope_document(one.scope),
        "by": one.by,
        "reason": one.reason,
        "at": utc_text(one.at),
        "revision": one.revision,
    }


def impact_document(impact: Impact) -> Document:
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


def quorum_document(rule: QuorumRule | None, row: BreakerRow) -> Document | None:
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


def breaker_document(row: BreakerRow, overrides: Iterable[Override], stuck: Iterable[Stuck] = ()) -> Document:
    """A breaker across the fleet: what it is (`counts` by state), what is wanted of it, and how it is stuck.

    `next_probe` is when the first instance that is open lets a call through, null where none said; `in_flight` is null
    where nobody counted within 15 s; `providers` are those of the last day. `trouble` is `failing` or `rejecting`.
    """
    return {
        "stuck": [{"kind": one.kind.value, "sentence": one.sentence, "advice": one.advice} for one in stuck],
        "name": row.name,
        "operations": list(row.operations),
        "services": list(row.services),
        "groups": list(row.groups),
        "providers": list(row.providers),
        "worst": None if row.worst is None else row.worst.value,
        "last_worst": None if row.last_worst is None else row.last_worst.value,
        "trouble": None if row.trouble is None else row.trouble.value,
        "counts": {state.value: count for state, count in row.counts.items()},
        "unknown": row.unknown,
        "instances": row.instances,
        "since": utc_text(row.since),
        "failure_rate": row.failure_rate,
        "threshold": row.threshold,
        "calls_per_min": _rounded(row.calls_per_min),
        "failures_per_min": _rounded(row.failures_per_min),
        "rejected_per_min": _rounded(row.rejected_per_min),
        "in_flight": row.in_flight,
        "next_probe": utc_text(row.next_probe),
        "last_category": None if row.last_category is None else row.last_category.value,
        "overrides": [override_document(one) for one in overrides],
    }


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 2)


register_result(Impact, "impact", impact_document)
register_result(Override, "override", override_document)
register_result(LoadShed, "shed", load_shed_document)
register_result(ResetRamp, "ramp", ramp_document)
register_result(BreakerProbe, "probe", probe_document)
register_result(Reset, "reset", reset_document)
