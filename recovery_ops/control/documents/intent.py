"""What people impose on the fleet, as the API tells it: overrides, shed load, resets, ramps and probes."""

from __future__ import annotations

from datetime import datetime
from itertools import zip_longest
from typing import Any

from recovery_ops.control.models import BreakerProbe, HeldAct, LoadShed, Override, Reset, ResetRamp
from recovery_ops.rules.scope import ANY
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
        "starts_at": moment(one.starts_at),
        "expires_at": moment(one.expires_at),
        "revision": one.revision,
        "ramp_s": one.ramp_s,
        "rule": one.rule,
        "spares": one.spares,
        "ended_at": moment(one.ended_at),
        "ended_by": one.ended_by,
        "end_reason": one.end_reason,
        "end_revision": one.end_revision,
    }


def of_shed(one: LoadShed) -> Document:
    """Load that is shed, or was."""
    return {
        "id": one.pk,
        "least": one.least,
        "by": one.by,
        "reason": one.reason,
        "starts_at": moment(one.starts_at),
        "expires_at": moment(one.expires_at),
        "revision": one.revision,
        "ended_at": moment(one.ended_at),
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
        "at": moment(one.at),
        "revision": one.revision,
        "ramp_s": one.ramp_s,
    }


def of_ramp(one: ResetRamp) -> Document:
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
        "started_at": moment(one.started_at),
        "step_at": moment(one.step_at),
        "ended_at": moment(one.ended_at),
        "ended_by": one.ended_by,
        "end_reason": one.end_reason,
    }


def of_held(one: HeldAct, *, now: datetime | None = None) -> Document:
    """What was asked for where two have to want it, and what became of it."""
    return {
        "number": one.number,
        "state": one.state if now is None else one.state_at(now),
        "act": one.act,
        "about": one.about,
        "arguments": dict(one.arguments),
        "by": one.by,
        "reason": one.reason,
        "asked_at": moment(one.asked_at),
        "expires_at": moment(one.expires_at),
        "decided_by": one.decided_by,
        "decided_at": moment(one.decided_at),
        "decision_reason": one.decision_reason,
        "revision": one.revision,
    }


def of_probe(one: BreakerProbe) -> Document:
    """A probe."""
    return {
        "scope": scope_document(one.scope),
        "by": one.by,
        "reason": one.reason,
        "at": moment(one.at),
        "revision": one.revision,
    }


def moment(at: datetime | None) -> str | None:
    """As ISO 8601 with milliseconds."""
    return None if at is None else at.isoformat(timespec="milliseconds")
