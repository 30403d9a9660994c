"""The headline of the overview: the worst problem with its subject, state, start and impact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import Max, Subquery

from events.capacity.asking import events_going_on
from events.capacity.models import CapacityEvent
from events.capacity.rows import CapacityEventRow, Owner
from events.models import Agent, Fact
from events.moments import from_us, to_us
from events.queries.overview import overview_numbers
from events.queries.overview_rows import CapacityNow, OverviewNumbers
from events.queries.readings import MOVED
from events.rows import BreakerRow
from events.wording import category_text, clock_text, count_text, listing, rate_text, span_text, state_text
from recovery_ops.rules.enums import State

_REMEMBERED = timedelta(days=30)
_MOST_NAMED = 2
"""So many of one kind are named; beside an outage, or where there are more, one is, and the number of the others."""


class Topic(StrEnum):
    """The kind of problem of a clause."""

    WELL = "well"
    NEVER_REPORTED = "never_reported"
    ALL_SILENT = "all_silent"
    ALL_GONE = "all_gone"
    OUTAGE = "outage"
    SHORT = "short"
    BLOCKING = "blocking"
    FAILING = "failing"
    CARRIED = "carried"
    HELD = "held"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Clause:
    """One problem, or that there is none."""

    topic: Topic
    words: str


def sentence(
    environment: str,
    now: datetime,
    *,
    numbers: OverviewNumbers | None = None,
    outages: Sequence[CapacityEventRow] | None = None,
) -> str:
    """The worst clause as a sentence; `numbers` and `outages` as for `clauses`."""
    return f"{clauses(environment, now, numbers=numbers, outages=outages)[0].words}."


def clauses(
    environment: str,
    now: datetime,
    *,
    numbers: OverviewNumbers | None = None,
    outages: Sequence[CapacityEventRow] | None = None,
) -> list[Clause]:
    """All problems, worst first; one clause where there is none or where no agent reports.

    Pass the `numbers` and the `outages` that are going on where the caller has them: then there is no query, except
    for the time of the last event where no agent reports.
    """
    known = numbers if numbers is not None else overview_numbers(environment, now=now)
    events = outages if outages is not None else events_going_on(environment, now=now)
    if not known.agents_reporting:
        return [_no_agent(environment, known, now)]
    found = {
        Topic.OUTAGE if events else Topic.SHORT: _capacity(known, events, now),
        Topic.BLOCKING: _blocking(known, events, now),
        Topic.FAILING: _failing(known, events),
        Topic.CARRIED: _carried(known),
        Topic.HELD: _held(known),
        Topic.SILENT: _silent(known, now),
    }
    wrong = [Clause(topic, words) for topic, several in found.items() for words in several]
    return wrong or [Clause(Topic.WELL, _all_good(known))]


def worst_incident(incidents: Sequence[CapacityEventRow]) -> CapacityEventRow:
    """The one of the headline; there must be one."""
    return max(incidents, key=lambda row: (row.peak_per_min, row.failures))


def last_trouble(environment: str, *, now: datetime) -> datetime | None:
    """Time of the last opening of a breaker or failure of a capacity incident; None: none for 30 days. One query.

    Indexes `fact_by_event`, `capacity_by_last`.
    """
    since_us = to_us(now - _REMEMBERED)
    moved = Fact.objects.filter(environment=environment, event=MOVED, at_us__gt=since_us)
    opened = moved.filter(state=State.OPEN.value).order_by("-at_us")
    found = CapacityEvent.objects.filter(environment=environment, merged_into=None, last_us__gt=since_us)
    short = found.order_by("-last_us")
    agents = Agent.objects.filter(environment=environment).order_by()
    newest = agents.values_list(Subquery(opened.values("at_us")[:1]), Subquery(short.values("last_us")[:1])).first()
    known = [at_us for at_us in newest or () if at_us is not None]
    return from_us(max(known)) if known else None


def _no_agent(environment: str, known: OverviewNumbers, now: datetime) -> Clause:
    if known.silent:
        since = clock_text(max(agent.last_seen for agent in known.silent), today=now)
        who = "The only agent" if len(known.silent) == 1 else f"All {len(known.silent)} agents"
        return Clause(Topic.ALL_SILENT, f"{who} stopped reporting at {since}; breaker states are unknown")
    last_us = Agent.objects.filter(environment=environment).aggregate(last=Max("last_seen_us"))["last"]
    if last_us is None:
        return Clause(Topic.NEVER_REPORTED, "No agent has reported yet")
    since = clock_text(from_us(last_us), today=now)
    return Clause(Topic.ALL_GONE, f"No agent has reported since {since}; the current state is unknown")


def _capacity(known: OverviewNumbers, events: Sequence[CapacityEventRow], now: datetime) -> list[str]:
    """The worst incident that is going on; without one, the error rate."""
    if not events:
        return _short(known.capacity, now)
    worst = worst_incident(events)
    named = {name for row in events for name in row.names}
    others = len(events) - 1 + sum(one.name not in named for one in known.capacity)
    tail = f"; {count_text(others, 'other backend')} affected" if others else ""
    return [f"{_outage(worst, now)}{_impact(worst)}{tail}"]


def _short(capacity: Sequence[CapacityNow], now: datetime) -> list[str]:
    if not capacity:
        return []
    worst = capacity[0]
    others = f"; {count_text(len(capacity) - 1, 'other backend')} affected" if len(capacity) > 1 else ""
    since = clock_text(worst.since, today=now).rpartition(":")[0]  # known to the minute
    return [f"{worst.name} has returned {_code(worst)} since {since}, {rate_text(worst.per_min)}/min{others}"]


def _outage(row: CapacityEventRow, now: datetime) -> str:
    state = {
        Owner.PROVIDER: "overloaded",
        Owner.QUOTA: "rate limited",
        Owner.NETWORK: "unreachable from our network",
        Owner.UNREACHABLE: "unreachable",
    }[row.owner]
    return f"{row.name} {state} since {clock_text(row.started, today=now)}"


def _impact(row: CapacityEventRow) -> str:
    """`, ≥ 14 runs on 9 instances`."""
    if not row.is_read:
        return ""
    instances = count_text(row.instances, "instance")
    runs = f"{count_text(row.runs, 'run')} on " if row.runs else ""
    return f", {'≥ ' if row.is_partial else ''}{runs}{instances}"


def _code(worst: CapacityNow) -> str:
    if not worst.rate_limited_per_min:
        return "529"
    if not worst.overloaded_per_min:
        return "429"
    return "429 and 529"


def _blocking(known: OverviewNumbers, events: Sequence[CapacityEventRow], now: datetime) -> list[str]:
    by_rule = [row for row in known.breakers_blocking if row.worst in (State.OPEN, State.HALF_OPEN)]
    if not by_rule:
        return []
    worst = by_rule[0]
    if len(by_rule) > 1 or known.capacity or events:
        return [listing([_breaker(row) for row in by_rule], most=_MOST_NAMED if not events else 1)]
    since = f" since {clock_text(worst.since, today=now)}" if worst.since is not None else ""
    why = f", last failure: {category_text(worst.last_category)}" if worst.last_category is not None else ""
    return [f"{_breaker(worst)}{since}{why}"]


def _breaker(row: BreakerRow) -> str:
    count = row.counts[row.worst] if row.worst is not None else row.unknown
    return f"{row.name} {state_text(row.worst)} on {count} of {count_text(row.instances, 'instance')}"


def _failing(known: OverviewNumbers, events: Sequence[CapacityEventRow]) -> list[str]:
    """Failures that no incident and no breaker explains."""
    if events or known.capacity or known.breakers_blocking or not known.failures_per_min:
        return []
    family = next(iter(known.failures_by_family), None)
    kind = f", mostly {family.value.replace('_', ' ')}" if family is not None else ""
    return [f"{rate_text(known.failures_per_min)} failed attempts/min{kind}, no breaker open"]


def _carried(known: OverviewNumbers) -> list[str]:
    """Fallbacks in use and unavailable operations: by name while they are few, else one and the number of others."""
    served = dict.fromkeys(
        f"{row.operation} served by fallback {row.to_name}" for row in known.degraded if row.to_name and row.operation
    )
    withdrawn = dict.fromkeys(row.operation for row in known.degraded if not row.to_name and row.operation)
    if len(served) + len(withdrawn) > _MOST_NAMED:
        return [listing([*served, *(f"{name} unavailable" for name in withdrawn)], most=1)]
    parts = [listing(list(served))] if served else []
    if withdrawn:
        names = list(withdrawn)
        parts.append(f"{listing(names)} unavailable")
    return parts


def _held(known: OverviewNumbers) -> list[str]:
    held = known.breakers_held
    if not held:
        return []
    if len(held) == 1:
        return [f"{held[0].name} overridden: {state_text(held[0].worst)}"]
    return [f"{len(held)} breakers overridden: {listing([f'{row.name} {state_text(row.worst)}' for row in held])}"]


def _silent(known: OverviewNumbers, now: datetime) -> list[str]:
    if not known.silent:
        return []
    first = known.silent[0]
    if len(known.silent) == 1:
        return [f"{first.instance} stopped reporting {span_text(now - first.last_seen)} ago"]
    return [f"{len(known.silent)} of {count_text(known.agents, 'instance')} stopped reporting"]


def _all_good(known: OverviewNumbers) -> str:
    agents = f"{known.agents_reporting} of {count_text(known.agents, 'instance')} reporting"
    if not known.breakers:
        return f"No problems: {agents}, no breaker used yet"
    calls = f", {rate_text(known.calls_per_min)} calls/min" if known.calls_per_min else ""
    dark = f", {known.breakers_dark} unknown" if known.breakers_dark else ""
    return f"No problems: {agents}, {count_text(known.breakers, 'breaker')}{dark}{calls}"
