"""The sentence that opens the overview: what is wrong since when, whom it reaches, what carries it, who holds what."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Count, Max, Q, QuerySet

from events.models import Agent, Fact
from events.moments import from_us, to_us
from events.queries.overview import overview_numbers
from events.queries.sums import FACTS_READ, FAILED
from events.rows import BreakerRow, CapacityNow, OverviewNumbers
from events.wording import category_text, clock_text, count_text, listing, rate_text, span_text, state_word
from recovery_ops.rules.words import CAPACITY, State

TOUCHED_OVER = timedelta(minutes=5)


def sentence(environment: str, now: datetime, *, numbers: OverviewNumbers | None = None) -> str:
    """Plain words, worst first; honest when nothing is wrong and when nothing is known.

    Pass the `numbers` that the page has anyway: then it takes at most two queries more, on `fact_by_event`.
    """
    known = numbers if numbers is not None else overview_numbers(environment, now=now)
    if not known.agents_reporting:
        return _nobody(environment, known, now)
    clauses = [
        *_capacity(environment, known, now),
        *_blocking(known, now),
        *_failing(known),
        *_carried(known),
        *_held(known),
        *_silent(known, now),
    ]
    return _joined(clauses) if clauses else _all_good(known)


def _joined(clauses: list[str]) -> str:
    words = "; ".join(clauses[:4])
    return f"{words}."


def _nobody(environment: str, known: OverviewNumbers, now: datetime) -> str:
    if known.silent:
        since = clock_text(max(agent.last_seen for agent in known.silent), today=now)
        who = "The only agent has" if len(known.silent) == 1 else f"All {len(known.silent)} agents have"
        return f"{who} been silent since {since}; what the breakers do is not known."
    last_us = Agent.objects.filter(environment=environment).aggregate(last=Max("last_seen_us"))["last"]
    if last_us is None:
        return "No agent has reported yet."
    return f"No agent has reported since {clock_text(from_us(last_us), today=now)}; what happens now is not known."


def _capacity(environment: str, known: OverviewNumbers, now: datetime) -> list[str]:
    if not known.capacity:
        return []
    worst = known.capacity[0]
    short = Fact.objects.filter(environment=environment, event=FAILED, category__in=[one.value for one in CAPACITY])
    of_it = short.filter(_answers(worst.name), at_us__gte=to_us(worst.since))
    first_us = of_it.order_by("at_us").values_list("at_us", flat=True).first()
    since = clock_text(from_us(first_us) if first_us is not None else worst.since, today=now)
    others = f", {count_text(len(known.capacity) - 1, 'other')} too" if len(known.capacity) > 1 else ""
    return [f"{worst.name} has been answering {_code(worst)} since {since}{_reached(short, known, now)}{others}"]


def _reached(short: QuerySet[Fact], known: OverviewNumbers, now: datetime) -> str:
    """How many runs and instances met it lately; of a flood, the newest part."""
    newest = short.filter(at_us__gte=to_us(now - TOUCHED_OVER), at_us__lte=to_us(now)).order_by("-at_us")[:FACTS_READ]
    runs = Count("run", distinct=True, filter=~Q(run=""))
    reached = newest.aggregate(runs=runs, agents=Count("agent", distinct=True))
    if not reached["agents"]:
        return ""
    instances = f"{min(reached['agents'], known.agents)} of {count_text(known.agents, 'instance')}"
    return f", to {count_text(reached['runs'], 'run')} on {instances}" if reached["runs"] else f", to {instances}"


def _answers(name: str) -> Q:
    """The facts of one `capacity_name`."""
    provider, _, model = name.partition(" / ")
    return Q(provider=provider, model=model) | Q(provider="", model=name) | Q(provider="", model="", operation=name)


def _code(worst: CapacityNow) -> str:
    if not worst.rate_limited_per_min:
        return "529"
    if not worst.overloaded_per_min:
        return "429"
    return "429 and 529"


def _blocking(known: OverviewNumbers, now: datetime) -> list[str]:
    by_rule = [row for row in known.breakers_blocking if row.worst in (State.OPEN, State.HALF_OPEN)]
    if not by_rule:
        return []
    worst = by_rule[0]
    if len(by_rule) > 1 or known.capacity:
        return [f"{listing([_standing(row) for row in by_rule])}"]
    since = f" since {clock_text(worst.since, today=now)}" if worst.since is not None else ""
    why = f", last failure: {category_text(worst.last_category)}" if worst.last_category is not None else ""
    return [f"{_standing(worst)}{since}{why}"]


def _standing(row: BreakerRow) -> str:
    count = row.counts[row.worst] if row.worst is not None else row.unknown
    return f"{row.name} is {state_word(row.worst)} on {count} of {row.instances}"


def _failing(known: OverviewNumbers) -> list[str]:
    """Failures alone: said only when nothing worse explains them."""
    if known.capacity or known.breakers_blocking or not known.failures_per_min:
        return []
    family = next(iter(known.failures_by_family), None)
    kind = f", mostly {family.value.replace('_', ' ')}" if family is not None else ""
    return [f"{rate_text(known.failures_per_min)} attempts a minute fail{kind}, and no breaker is open"]


def _carried(known: OverviewNumbers) -> list[str]:
    stands_in = dict.fromkeys(
        f"{row.to_name} stands in for {row.operation}" for row in known.degraded if row.to_name and row.operation
    )
    withdrawn = dict.fromkeys(row.operation for row in known.degraded if not row.to_name and row.operation)
    clauses = [listing(list(stands_in))] if stands_in else []
    if withdrawn:
        names = list(withdrawn)
        clauses.append(f"{listing(names)} {'is' if len(names) == 1 else 'are'} withdrawn")
    return clauses


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
        return f"Nothing is wrong: {who}, and no breaker has been used yet."
    calls = f", {rate_text(known.calls_per_min)} calls a minute" if known.calls_per_min else ""
    return f"Nothing is wrong: {who}, {count_text(known.breakers, 'breaker')} let calls through{calls}."
