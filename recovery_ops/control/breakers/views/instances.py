"""The table of one breaker's instances: what each observes, which revision it obeys, and why not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from events.rows import AgentRow, InstanceState
from events.wording import state_text
from recovery_ops.control.core.facets import Facet, facets_of
from recovery_ops.control.desired_state.propagation import note_of
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.rules.enums import ApplyStatus

MOST = 20
_ORDER = (
    ApplyStatus.FAILED,
    ApplyStatus.DRIFTED,
    ApplyStatus.PENDING,
    ApplyStatus.UNREACHABLE,
    ApplyStatus.APPLIED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One instance. `lag_s`: how long after the change it said that it obeys."""

    agent: AgentRow
    state: str | None
    since: datetime | None
    status: ApplyStatus
    lag_s: float | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instances:
    """The rows shown, of how many that match, of how many in all."""

    rows: Sequence[Row]
    matching: int
    total: int
    facets: Sequence[Facet]
    chosen: str
    all_href: str


def instances_of(
    found: Iterable[InstanceState],
    standing: Standing,
    *,
    revision: int,
    made_at: datetime | None,
    asked: Mapping[str, str],
    query: str,
) -> Instances:
    """Those that did not apply first. `asked` holds `show`, a status, and `all`, to see more than the first ones."""
    newest = standing.revision
    rows = [_row(one, standing.status_of(one.agent, revision), revision, made_at, newest) for one in found]
    rows.sort(key=lambda row: (_ORDER.index(row.status), row.agent.service, row.agent.instance))
    chosen = asked.get("show", "")
    counts = {status.value: sum(row.status is status for row in rows) for status in _ORDER}
    counts = {name: number for name, number in counts.items() if number or name == chosen}
    matching = [row for row in rows if chosen not in counts or row.status == chosen]
    rest = [query, f"show={chosen}" if chosen in counts else "", "all=1"]
    return Instances(
        rows=matching if "all" in asked else matching[:MOST],
        matching=len(matching),
        total=len(rows),
        facets=list(facets_of(counts, total=len(rows), chosen=chosen, words={}, query=query)),
        chosen=chosen,
        all_href=f"?{'&'.join(filter(None, rest))}#instances",
    )


def _row(one: InstanceState, status: ApplyStatus, revision: int, made_at: datetime | None, newest: int) -> Row:
    # Of an instance that has gone on to a later revision, only the moment of that one is known.
    is_told = status is ApplyStatus.APPLIED and one.agent.revision == revision
    lag_s = _lag_s(one.agent, made_at) if is_told else None
    return Row(
        agent=one.agent, state=one.state, since=one.since, status=status, lag_s=lag_s, note=_note(one, status, newest)
    )


def _lag_s(agent: AgentRow, made_at: datetime | None) -> float | None:
    """How long it took; None for an instance that began later, because it found the change already there."""
    if made_at is None or agent.applied_at is None or agent.applied_at < made_at:
        return None
    began_at = agent.last_seen - timedelta(seconds=agent.uptime_s)
    return (agent.applied_at - made_at).total_seconds() if began_at < made_at else None


def _note(one: InstanceState, status: ApplyStatus, newest: int) -> str:
    agent = one.agent
    if status is ApplyStatus.UNREACHABLE:
        return f"Last reported {state_text(one.reported_state)}. Applies when it reconnects"
    if status is not ApplyStatus.APPLIED:
        note = note_of(status, agent, newest)
        return note[:1].upper() + note[1:]
    clamped = [said for said in agent.clamped if _is_about(said.rpartition(".")[0], one)]
    return f"Limited by local ceilings: {', '.join(clamped)}" if clamped else ""


def _is_about(clamped: str, one: InstanceState) -> bool:
    """Whether what a ceiling holds back is of this breaker or an override; the rest is on the agent's page."""
    return clamped in ("", one.breaker, one.operation) or clamped.startswith(("ov-", "sh-"))
