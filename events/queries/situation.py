"""The sentence that opens the overview: what is wrong since when, whom it reaches, what carries it, who holds what."""

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
from events.overview_rows import CapacityNow, OverviewNumbers
from events.queries.overview import overview_numbers
from events.queries.readings import MOVED
from events.rows import BreakerRow
from events.wording import category_text, clock_text, count_text, listing, rate_text, span_text, state_word
from recovery_ops.rules.words import State

_REMEMBERED = timedelta(days=30)
_MOST_NAMED = 2
"""So many of one kind are named; beside an outage, or where there are more, one is, and the number of the others."""


_MOST_CLAUSES = 4


class Topic(StrEnum):
    """What a clause is about."""

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
    """One thing that is so, in words that are a part of a sentence."""

    topic: Topic
    words: str


def sentence(
    environment: str,
    now: datetime,
    *,
    numbers: OverviewNumbers | None = None,
    outages: Sequence[CapacityEventRow] | None = None,
) -> str:
    """The worst clauses in one sentence; `numbers` and `outages` as for them."""
    found = clauses(environment, now, numbers=numbers, outages=outages)
    return f"{'; '.join(one.words for one in found[:_MOST_CLAUSES])}."


def clauses(
    environment: str,
    now: datetime,
    *,
    numbers: OverviewNumbers | None = None,
    outages: Sequence[CapacityEventRow] | None = None,
) -> list[Clause]:
    """Plain words, worst first; honest when nothing is wrong and when nothing is known.

    Pass the `numbers` and the `outages` that go on, where the page has them anyway: then nothing is asked, but when
    the last agent was heard where none is.
    """
    known = numbers if numbers is not None else overview_numbers(environment, now=now)
    events = outages if outages is not None else events_going_on(environment, now=now)
    if not known.agents_reporting:
        return [_nobody(environment, known, now)]
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


def last_trouble(environment: str, *, now: datetime) -> datetime | None:
    """When a breaker opened last, or a capacity event had its newest failure; None where neither was for 30 days. One
    query; indexes `fact_by_event`, `capacity_by_last`.
    """
    since_us = to_us(now - _REMEMBERED)
    moved = Fact.objects.filter(environment=environment, event=MOVED, at_us__gt=since_us)
    opened = moved.filter(state=State.OPEN.value).order_by("-at_us")
    found = CapacityEvent.objects.filter(environment=environment, merged_into=None, last_us__gt=since_us)
    short = found.order_by("-last_us")
    told = Agent.objects.filter(environment=environment).order_by()
    newest = told.values_list(Subquery(opened.values("at_us")[:1]), Subquery(short.values("last_us")[:1])).first()
    known = [at_us for at_us in newest or () if at_us is not None]
    return from_us(max(known)) if known else None


def _nobody(environment: str, known: OverviewNumbers, now: datetime) -> Clause:
    if known.silent:
        since = clock_text(max(agent.last_seen for agent in known.silent), today=now)
        who = "The only agent has" if len(known.silent) == 1 else f"All {len(known.silent)} agents have"
        return Clause(Topic.ALL_SILENT, f"{who} been silent since {since}; what the breakers do is not known")
    last_us = Agent.objects.filter(environment=environment).aggregate(last=Max("last_seen_us"))["last"]
    if last_us is None:
        return Clause(Topic.NEVER_REPORTED, "No agent has reported yet")
    since = clock_text(from_us(last_us), today=now)
    return Clause(Topic.ALL_GONE, f"No agent has reported since {since}; what happens now is not known")


def _capacity(known: OverviewNumbers, events: Sequence[CapacityEventRow], now: datetime) -> list[str]:
    """The worst outage that goes on, as one thing; what is too little for one is told by its rate."""
    if not events:
        return _short(known.capacity, now)
    worst = max(events, key=lambda row: (row.peak_per_min, row.failures))
    named = {name for row in events for name in row.names}
    others = len(events) - 1 + sum(one.name not in named for one in known.capacity)
    tail = f", {count_text(others, 'other')} too" if others else ""
    return [f"{_outage(worst, now)}{_reached(worst)}, {_whose(worst)}{tail}"]


def _short(capacity: Sequence[CapacityNow], now: datetime) -> list[str]:
    if not capacity:
        return []
    worst = capacity[0]
    others = f", {count_text(len(capacity) - 1, 'other')} too" if len(capacity) > 1 else ""
    since = clock_text(worst.since, today=now).rpartition(":")[0]  # known to the minute
    return [
        f"{worst.name} has been answering {_code(worst)} since {since}, {rate_text(worst.per_min)} a minute{others}"
    ]


def _outage(row: CapacityEventRow, now: datetime) -> str:
    since = clock_text(row.started, today=now)
    told = {
        Owner.PROVIDER: "been overloaded",
        Owner.QUOTA: "been refusing us for our rate",
        Owner.NETWORK: "been out of reach",
        Owner.UNREACHABLE: "been out of reach",
    }
    who = f"{' and '.join(row.name.rsplit(', ', 1))} have" if len(row.names) > 1 else f"{row.name} has"
    return f"{who} {told[row.owner]} since {since}"


def _reached(row: CapacityEventRow) -> str:
    """`, 14 runs on 9 instances so far`."""
    if not row.is_read:
        return ""
    least = "at least " if row.is_partial else ""
    instances = count_text(row.instances, "instance")
    runs = f"{count_text(row.runs, 'run')} on {instances}" if row.runs else instances
    return f", {least}{runs} so far"


def _whose(row: CapacityEventRow) -> str:
    told = {
        Owner.PROVIDER: "nothing for us to do",
        Owner.QUOTA: "our quota",
        Owner.NETWORK: "our network",
        Owner.UNREACHABLE: "it or the way to it is down",
    }
    return told[row.owner]


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
        return [listing([_standing(row) for row in by_rule], most=_MOST_NAMED if not events else 1)]
    since = f" since {clock_text(worst.since, today=now)}" if worst.since is not None else ""
    why = f", last failure: {category_text(worst.last_category)}" if worst.last_category is not None else ""
    return [f"{_standing(worst)}{since}{why}"]


def _standing(row: BreakerRow) -> str:
    count = row.counts[row.worst] if row.worst is not None else row.unknown
    return f"{row.name} is {state_word(row.worst)} on {count} of {row.instances}"


def _failing(known: OverviewNumbers, events: Sequence[CapacityEventRow]) -> list[str]:
    """Failures alone: said only when nothing worse explains them."""
    if events or known.capacity or known.breakers_blocking or not known.failures_per_min:
        return []
    family = next(iter(known.failures_by_family), None)
    kind = f", mostly {family.value.replace('_', ' ')}" if family is not None else ""
    return [f"{rate_text(known.failures_per_min)} attempts a minute fail{kind}, and no breaker is open"]


def _carried(known: OverviewNumbers) -> list[str]:
    """What answers with less: each by name while they are few, in a storm one and how many others."""
    stands_in = dict.fromkeys(
        f"{row.to_name} stands in for {row.operation}" for row in known.degraded if row.to_name and row.operation
    )
    withdrawn = dict.fromkeys(row.operation for row in known.degraded if not row.to_name and row.operation)
    if len(stands_in) + len(withdrawn) > _MOST_NAMED:
        return [listing([*stands_in, *(f"{name} is withdrawn" for name in withdrawn)], most=1)]
    told = [listing(list(stands_in))] if stands_in else []
    if withdrawn:
        names = list(withdrawn)
        told.append(f"{listing(names)} {'is' if len(names) == 1 else 'are'} withdrawn")
    return told


def _held(known: OverviewNumbers) -> list[str]:
    held = known.breakers_held
    if not held:
        return []
    if len(held) == 1:
        return [f"a person holds {held[0].name} {state_word(held[0].worst)}"]
    return [f"people hold {len(held)} breakers: {listing([f'{row.name} {state_word(row.worst)}' for row in held])}"]


def _silent(known: OverviewNumbers, now: datetime) -> list[str]:
    if not known.silent:
        return []
    first = known.silent[0]
    if len(known.silent) == 1:
        return [f"{first.instance} has been silent for {span_text(now - first.last_seen)}"]
    return [f"{len(known.silent)} of {count_text(known.agents, 'instance')} are silent"]


def _all_good(known: OverviewNumbers) -> str:
    who = f"{known.agents_reporting} of {count_text(known.agents, 'instance')} report"
    if not known.breakers:
        return f"Nothing is wrong: {who}, and no breaker has been used yet"
    calls = f", {rate_text(known.calls_per_min)} calls a minute" if known.calls_per_min else ""
    flowing = f"{count_text(known.breakers, 'breaker')} let calls through"
    if dark := known.breakers_dark:
        verb = "lets" if known.breakers - dark == 1 else "let"
        flowing = (
            f"{known.breakers - dark} of {known.breakers} breakers {verb} calls through, of {dark} it is not known"
        )
    return f"Nothing is wrong: {who}, {flowing}{calls}"
