"""What each instance does right now: the run it is at, how its attempts go, and the tokens it spends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet, Subquery
from django.db.models.functions import Coalesce

from events.models import Fact
from events.moments import US_PER_S, from_us, to_us
from events.queries.readings import number_or_none, whole_or_none
from events.rows import AgentRow
from recovery_ops.rules.events import CallsCounted, RunFinished, RunStarted
from recovery_ops.wire import names

COUNTED_WITHIN, BEGUN_WITHIN = timedelta(minutes=15), timedelta(hours=24)
READ = 2_000
"""So many of the newest facts of a kind, of all instances, are read; of a large fleet they reach back less far."""
SILENT_FOR = timedelta(seconds=30)
"""Counts are told about each ten seconds: whoever told none for less may have made calls."""
_COUNTED, _STARTED, _FINISHED = (names.EVENTS[kind].name for kind in (CallsCounted, RunStarted, RunFinished))
_WITHIN = {_COUNTED: COUNTED_WITHIN, _STARTED: BEGUN_WITHIN, _FINISHED: BEGUN_WITHIN}
_A = {
    name: names.attribute_of(CallsCounted, name)
    for name in ("calls", "attempts", "successes", "input_tokens", "output_tokens", "interval_s")
}
_S_PER_MIN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What one instance does. None stands for what it did not tell.

    `current_run` is the newest run that it told the beginning of and whose end nobody told; empty where it is at none.
    `calls`, `attempts` and `successes` are what it counted since `Workloads.since`; `tokens_per_min` are those in and
    out by that time, or by its own life where that is shorter, but by no less than a count of it is about.
    """

    current_run: str | None = None
    calls: int | None = None
    attempts: int | None = None
    successes: int | None = None
    tokens_per_min: float | None = None

    @property
    def success_rate(self) -> float | None:
        """How many of its attempts went well; None where it made none, or did not tell."""
        return min(1.0, (self.successes or 0) / self.attempts) if self.attempts else None


@dataclass(frozen=True, slots=True)
class Workloads:
    """Those of a fleet by the ids of its instances. Every count since `since` is in it.

    `is_cut`: there were too many counts to read back `COUNTED_WITHIN`.
    """

    since: datetime
    is_cut: bool
    by_agent: Mapping[int, Workload]


@dataclass(slots=True)
class _Counts:
    calls: int = 0
    attempts: int = 0
    successes: int = 0
    tokens: int | None = None
    """None until a count tells any: an instance that does not count tokens spends an unknown number."""
    interval_s: float = 0.0
    """The longest that one of the counts is about."""

    def add(self, said: Mapping[str, Any]) -> None:
        """Add what one fact counted."""
        self.calls += whole_or_none(said.get(_A["calls"])) or 0
        self.attempts += whole_or_none(said.get(_A["attempts"])) or 0
        self.successes += whole_or_none(said.get(_A["successes"])) or 0
        self.interval_s = max(self.interval_s, number_or_none(said.get(_A["interval_s"])) or 0.0)
        told = [whole_or_none(said.get(_A[name])) for name in ("input_tokens", "output_tokens")]
        if any(one is not None for one in told):
            self.tokens = (self.tokens or 0) + sum(one or 0 for one in told)


@dataclass(slots=True)
class _Read:
    counts: dict[int, _Counts] = field(default_factory=dict)
    started: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    """By instance the runs it began, with when, the newest first."""
    finished: dict[str, int] = field(default_factory=dict)
    """Runs that ended, and when."""
    counted_since_us: int = 0
    runs_since_us: int = 0
    """From then on every beginning and every end of a run was read."""


def workloads(environment: str, agents: Iterable[AgentRow], *, now: datetime) -> Workloads:
    """What these instances do. One query; index `fact_by_event`.

    Of all instances the newest `READ` counts of the last quarter of an hour are read, and as many beginnings and ends
    of runs of the last day: what lies before is not known, and no figure is of a part of a moment.
    """
    read = _read(environment, now)
    since = from_us(read.counted_since_us)
    is_cut = read.counted_since_us > to_us(now - COUNTED_WITHIN)
    return Workloads(since, is_cut, {agent.id: _workload(agent, read, now) for agent in agents})


def _workload(agent: AgentRow, read: _Read, now: datetime) -> Workload:
    run = _current_run(agent, read, now)
    counts = read.counts.get(agent.id)
    window_s = (to_us(now) - max(read.counted_since_us, to_us(agent.first_seen))) / US_PER_S
    if counts is None:
        # Who tells heartbeats counts its calls: a silence that is long enough means that there were none.
        is_heard = agent.heartbeat_age_s is not None and agent.is_reachable
        is_idle = is_heard and window_s >= SILENT_FOR.total_seconds()
        if is_idle:
            return Workload(current_run=run, calls=0, attempts=0, successes=0, tokens_per_min=0.0)
        return Workload(current_run=run)
    minutes = max(window_s, counts.interval_s) / _S_PER_MIN
    return Workload(
        current_run=run,
        calls=counts.calls,
        attempts=counts.attempts,
        successes=counts.successes,
        tokens_per_min=None if counts.tokens is None or minutes <= 0 else counts.tokens / minutes,
    )


def _current_run(agent: AgentRow, read: _Read, now: datetime) -> str | None:
    """The newest of its runs that goes on. What began before the process did, or is denied by it since, does not."""
    beaten_us = born_us = None
    if agent.heartbeat_age_s is not None:
        beaten_us = to_us(now) - int(agent.heartbeat_age_s * US_PER_S)
        born_us = beaten_us - int(agent.uptime_s * US_PER_S)
    ended_since = 0
    for at_us, run in read.started.get(agent.id, ()):
        if at_us < read.runs_since_us or (born_us is not None and at_us < born_us):
            break
        is_denied = agent.runs_in_flight == 0 and beaten_us is not None and at_us < beaten_us
        if run not in read.finished and not is_denied:
            return run
        ended_since += beaten_us is not None and read.finished.get(run, 0) >= beaten_us
    # It said that it was at one, of which nobody told an end since, or it speaks of none at all: which is not known.
    return None if beaten_us is None or agent.runs_in_flight > ended_since else ""


def _read(environment: str, now: datetime) -> _Read:
    since = {event: to_us(now - within) for event, within in _WITHIN.items()}
    first, *rest = (_newest(environment, event, since_us) for event, since_us in since.items())
    found: dict[str, list[tuple[int, int, str, Any]]] = {event: [] for event in since}
    for event, agent_id, at_us, run, said in first.union(*rest, all=True):
        found[event].append((agent_id, at_us, run, said))
    for event, rows in found.items():
        if len(rows) >= READ:
            since[event] = min(at_us for _, at_us, _, _ in rows)
    read = _Read(
        counted_since_us=since[_COUNTED],
        runs_since_us=max(since[_STARTED], since[_FINISHED]),
        finished={run: at_us for _, at_us, run, _ in found[_FINISHED]},
    )
    for agent_id, _, _, said in found[_COUNTED]:
        read.counts.setdefault(agent_id, _Counts()).add(said)
    for agent_id, at_us, run, _ in sorted(found[_STARTED], key=lambda row: row[1], reverse=True):
        read.started.setdefault(agent_id, []).append((at_us, run))
    return read


def _newest(environment: str, event: str, since_us: int) -> QuerySet[Fact, Any]:
    """The newest `READ` facts of a kind, and those of the same moment as the last of them."""
    ours = Fact.objects.filter(environment=environment, event=event)
    last = ours.filter(at_us__gte=since_us).order_by("-at_us").values("at_us")[READ - 1 : READ]
    # In this order: of two bounds SQLite seeks by the first, and PostgreSQL plans by the one that is a number.
    newest = ours.filter(at_us__gte=Coalesce(Subquery(last), since_us)).filter(at_us__gte=since_us)
    return newest.order_by().values_list("event", "agent_id", "at_us", "run", "attributes")
