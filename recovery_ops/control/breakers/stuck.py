"""The breakers of an environment that are stuck, out of the rows that pages and the API have read anyway."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from events.rows import BreakerRow
from recovery_ops.rules.enums import State
from recovery_ops.rules.fleet.stuck_breakers import Finding, Seen, findings
from recovery_ops.rules.policy.failure_effects import Effects
from recovery_ops.rules.policy.model import Policy
from recovery_ops.rules.policy.scope import Place

CALLED_LATELY_S = 300.0
"""Calls are known to five minutes: what was called in the last span that is over, or since, is called."""


def findings_of(row: BreakerRow, policy: Policy, *, now: datetime) -> tuple[Finding, ...]:
    """In which ways one breaker is stuck."""
    operation = row.operations[0] if row.operations else row.name
    place = Place(service="", instance="", operation=operation, breaker=row.name)
    return findings(_seen(row, policy.failures, now), policy.stuck_breakers, policy.for_operation(place).settings)


def stuck_among(rows: Iterable[BreakerRow], policy: Policy, *, now: datetime) -> dict[str, tuple[Finding, ...]]:
    """Those that are stuck, by name."""
    found = {row.name: findings_of(row, policy, now=now) for row in rows}
    return {name: several for name, several in found.items() if several}


def _seen(row: BreakerRow, effects: Effects, now: datetime) -> Seen:
    quarter = row.quarter
    if quarter is None:
        return Seen()
    last = quarter.start if quarter.last_call_at is None else quarter.last_call_at
    idle_s = (now - last).total_seconds()
    return Seen(
        half_open=row.counts.get(State.HALF_OPEN, 0),
        half_open_for_s=_lasts_s(row, State.HALF_OPEN, now),
        open=row.counts.get(State.OPEN, 0),
        open_for_s=_lasts_s(row, State.OPEN, now),
        closed=row.counts.get(State.CLOSED, 0),
        idle_s=idle_s if idle_s >= CALLED_LATELY_S else None,
        window_s=(now - quarter.start).total_seconds(),
        attempts=quarter.attempts,
        failures=quarter.failures,
        effects=effects,
    )


def _lasts_s(row: BreakerRow, state: State, now: datetime) -> float:
    since = row.since_by.get(state)
    return 0.0 if since is None else (now - since).total_seconds()
