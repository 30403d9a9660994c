"""The breakers of an environment as lists show them: the choices there are, and which breakers each of them shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from events import queries
from events.queries.breakers import counts_among
from events.rows import AgentRow, BreakerRow
from recovery_ops.control.breakers.stuck import stuck_among
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.rules.enums import ApplyStatus, State
from recovery_ops.rules.fleet.stuck_breakers import Finding

SOON = timedelta(hours=1)
STATES = (State.FORCED_OPEN, State.OPEN, State.HALF_OPEN, State.DISABLED, State.METRICS_ONLY, State.CLOSED)
SHOWS = {
    "blocking": "open or half-open",
    "unknown": "unknown",
    "held": "overridden",
    "drifted": "drifted",
    "late": "pending",
    "incomplete": "partly unknown",
    "expiring": "override expires within 1 h",
    "stuck": "stuck",
    "troubled": "failing or rejecting",
}
"""Labels of the choices beside the states."""
ASK = "a breaker state, such as open, or one of: " + ", ".join(SHOWS)
"""Description of the parameter `show`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """All breakers with their providers. `off`: instances of each that drifted or refused, and those that are late."""

    rows: Sequence[BreakerRow]
    off: Mapping[str, tuple[int, int]]
    stuck: Mapping[str, Sequence[Finding]]
    shown_by: Mapping[str, Collection[str]]
    """The names of the breakers that each choice shows."""


def list_of(standing: Standing) -> Listed:
    """The list as it stands. As many queries however many breakers there are."""
    environment, now = standing.environment, standing.now
    off, providers = _off(environment, queries.fleet(environment, now=now), standing)
    rows = [replace(row, providers=providers.get(row.name, ())) for row in queries.breakers(environment, now=now)]
    stuck = stuck_among(rows, standing.policy, now=now)
    return Listed(rows=rows, off=off, stuck=stuck, shown_by=_shown_by(rows, standing, off) | {"stuck": set(stuck)})


def _off(
    environment: str, agents: Iterable[AgentRow], standing: Standing
) -> tuple[Mapping[str, tuple[int, int]], Mapping[str, tuple[str, ...]]]:
    """Of each breaker: instances that drifted or refused, and those that have not applied the newest state yet; and
    the providers behind it. One query.
    """
    drifted, late = [], []
    for agent in agents:
        status = standing.status_of(agent, standing.revision) if agent.is_follower else ApplyStatus.APPLIED
        if status in (ApplyStatus.DRIFTED, ApplyStatus.FAILED):
            drifted.append(agent.id)
        elif status is ApplyStatus.PENDING:
            late.append(agent.id)
    return counts_among(environment, drifted, late, now=standing.now)


def _shown_by(
    rows: Sequence[BreakerRow], standing: Standing, off: Mapping[str, tuple[int, int]]
) -> dict[str, Collection[str]]:
    soon = (standing.now + SOON).timestamp()
    held = {row.name: found for row in rows if (found := standing.override_of(row.name)) is not None}
    return {
        **{state.value: {row.name for row in rows if row.worst is state} for state in STATES},
        "blocking": {row.name for row in rows if not row.is_flowing},
        "unknown": {row.name for row in rows if row.worst is None},
        "troubled": {row.name for row in rows if row.trouble is not None},
        "held": set(held),
        "drifted": {row.name for row in rows if off.get(row.name, (0, 0))[0]},
        "late": {row.name for row in rows if off.get(row.name, (0, 0))[1]},
        "incomplete": {row.name for row in rows if row.unknown},
        "expiring": {name for name, one in held.items() if one.expires_at < soon},
    }
