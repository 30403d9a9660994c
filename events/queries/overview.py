"""The numbers of the overview: what blocks, what is short of capacity, who reports, and how the last hours went."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import reduce
from itertools import pairwise, takewhile
from operator import or_
from typing import NamedTuple

from django.conf import settings
from django.db.models import Q, QuerySet

from events.models import SpanSum
from events.moments import MINUTE_S, US_PER_S, from_us, to_us
from events.pages.scoped import ANYBODY, Backend
from events.projections.sum_views import VIEWS, View
from events.queries.breakers import breakers
from events.queries.fleet import STOPPED, fleet, living_spans
from events.queries.overview_rows import CapacityNow, OverviewNumbers, Trend
from events.queries.readings import category_or_none
from events.queries.sums import capacity_name
from events.queries.together import Question, read_together
from events.queries.trends import Ranges, trend_of_reporting
from events.queries.trouble import open_degradations
from events.queries.waits import Retry, retries_said, waiting_in
from events.rows import AgentRow, BreakerRow, DegradationRow
from recovery_ops.rules.enums import CAPACITY, FAMILY_OF, OVERRIDES, Category, Family, State

USUAL = timedelta(hours=6)
LOOKED_BACK_MINUTES = 60
RESTORED_FOR = timedelta(minutes=30)
"""How long it is news that a capability is whole again."""
LONGEST_MINUTES = 24 * 60
"""A shortage that lasts for longer is dated to a day ago."""
QUIET_MINUTES = 5
"""A shortage that paused for this long and came back is a new one."""
_MOVE_MINUTES = min(VIEWS[View.MOVE])
LONG_SPAN_MINUTES = 15
"""Of a shortage that began more than an hour ago, a pause has to fill such a span to be seen."""
_SHORT = Q(view=View.BACKEND) & ~Q(rate_limited=0, overloaded=0)
"""Shortages, and what was taken back of them: a server of before keeps both in one row, ours beside it, by category."""
_FLOWS = (State.CLOSED, State.DISABLED, State.METRICS_ONLY)
_BLOCKS = (State.OPEN, State.HALF_OPEN, State.FORCED_OPEN)
_OPENINGS = tuple(f"{left}>{entered}" for left in _FLOWS for entered in _BLOCKS)
_OF_CAPACITY = tuple(sorted(CAPACITY))
_TOLD = Q(category="") | Q(rate_limited__gt=0) | Q(overloaded__gt=0) | Q(retries__gt=0, category__in=_OF_CAPACITY)
"""What tells of shortages by category, and that anybody counted calls at all."""


class _Sum(NamedTuple):
    """What was counted in a span, by what the view of it goes by."""

    view: str
    span: int
    category: str
    provider: str
    model: str
    operation: str
    subject: str
    failures: int
    rate_limited: int
    overloaded: int
    retries: int
    calls: int


def overview_numbers(
    environment: str, *, now: datetime, ranges: Ranges | None = None, backend: Backend = ANYBODY
) -> OverviewNumbers:
    """Everything the overview's tiles say, and how it went (over six hours, where no `ranges` are given). At most seven
    queries; indexes as in the questions that it puts together. How shortages went (`short`) is of this `backend`.
    """
    ranges = ranges if ranges is not None else Ranges(now - USUAL, now)
    rows = breakers(environment, now=now)
    everyone = fleet(environment, now=now, include_stopped=True)
    # Nobody knows whether a sender that only ever sent facts, and sends none now, is missing.
    there = [one for one in everyone if one.status != STOPPED]
    agents = [one for one in there if one.is_follower or one.is_reachable]
    minutes = 1.0 + to_us(now) / US_PER_S % MINUTE_S / MINUTE_S
    minute = to_us(now) // US_PER_S // MINUTE_S
    sums = _sums(environment, now, ranges, backend)
    fresh = [row for row in sums.lately if row.view == View.CATEGORY]
    short = _netted(row for row in sums.lately if row.view == View.BACKEND)
    degraded, restored = _degraded(environment, agents, now)
    capacity = _capacity(environment, short, _netted(sums.day), minute, minutes)
    return OverviewNumbers(
        breakers=len(rows),
        breaker_rows=tuple(rows),
        breakers_blocking=tuple(row for row in rows if not row.is_flowing),
        breakers_held=tuple(row for row in rows if _is_held(row)),
        capacity=capacity,
        capacity_per_min=sum(one.per_min for one in capacity),
        failures_per_min=_total(fresh, "failures") / minutes,
        failures_by_family=_by_family(fresh, minutes),
        calls_per_min=_total(fresh, "calls") / minutes,
        degraded=degraded,
        restored=restored,
        runs_in_flight=sum(agent.runs_in_flight for agent in agents if agent.is_reachable),
        agents_reporting=sum(agent.is_reachable for agent in agents),
        agents=len(agents),
        left_out=len(there) - len(agents),
        silent=tuple(sorted((one for one in agents if not one.is_reachable), key=lambda one: one.last_seen)),
        fleet=tuple(agents),
        reporting=trend_of_reporting(everyone, ranges, now=now, grace_s=settings.UNREACHABLE_AFTER_S),
        waiting=waiting_in(sums.retries, {agent.id for agent in agents if agent.is_reachable}, now=now),
        **_trends(ranges, sums, everyone),
    )


def _is_held(row: BreakerRow) -> bool:
    return any(row.counts.get(state) for state in OVERRIDES)


def _spans(environment: str, view: View, first: int, last: int, minutes: int = 1) -> QuerySet[SpanSum]:
    """The sums of a view from one span to another; index `span_sum_once`."""
    return SpanSum.objects.filter(
        environment=environment, view=view, minutes=minutes, span__gte=first, span__lte=last
    ).order_by()


class _Sums(NamedTuple):
    """What is read of the sums: each part by category, by backend or by move, in spans of its own width."""

    lately: list[_Sum]
    """By category the last two minutes, one of them whole; by backend the last hour's shortages."""
    told: list[_Sum]
    """By category the shortages of a range and the one before, and whether anybody counted calls."""
    day: list[_Sum]
    """By backend the shortages of a day, in long spans."""
    moves: list[_Sum]
    """The moves of a range and the one before by which breakers stopped letting calls flow."""
    retries: list[Retry]
    """The newest words on trying again."""
    of_backend: list[_Sum] | None = None
    """By backend the shortages of a range and the one before, where one is asked for."""


def _sums(environment: str, now: datetime, ranges: Ranges, backend: Backend) -> _Sums:
    """All of it in one query; index `span_sum_once` for each part of sums."""
    minute = to_us(now) // US_PER_S // MINUTE_S
    sums = SpanSum.objects.filter(environment=environment, view__in=(View.CATEGORY, View.BACKEND), minutes=1)
    sums = sums.filter(span__gt=minute - LOOKED_BACK_MINUTES, span__lte=minute)
    lately = sums.filter(Q(view=View.CATEGORY, span__gte=minute - 1) | _SHORT).order_by()
    width = LONG_SPAN_MINUTES
    day = _spans(environment, View.BACKEND, (minute - LONGEST_MINUTES) // width + 1, minute // width, width)
    counts, moves = ranges.in_bins(), ranges.in_bins(least=_MOVE_MINUTES)
    told = _spans(environment, View.CATEGORY, *counts.spans, counts.minutes).filter(_TOLD)
    moved = _spans(environment, View.MOVE, *moves.spans, moves.minutes).filter(category__in=_OPENINGS)
    questions = [Question(found, _Sum) for found in (lately, told, day.filter(_SHORT), moved)]
    questions.append(Question(retries_said(environment, now=now), Retry))
    if backend != ANYBODY:
        own = _spans(environment, View.BACKEND, *counts.spans, counts.minutes).filter(_SHORT, **backend.said)
        questions.append(Question(own, _Sum))
    return _Sums(*read_together(questions))


def _trends(ranges: Ranges, sums: _Sums, everyone: Iterable[AgentRow]) -> dict[str, Trend]:
    """How the counted figures went; not known where nobody lived to count."""
    lived, counts, moves = living_spans(everyone), ranges.in_bins(), ranges.in_bins(least=_MOVE_MINUTES)
    short: dict[int, int] = {}
    waits: dict[int, int] = {}
    unknown, silent = counts.both.outside(lived), moves.both.outside(lived)
    for row in sums.told:
        at = counts.bin_of(row.span)
        unknown[at] = False
        silent[moves.bin_of_second(counts.both.start_s + at * counts.both.bin_s)] = False
        if sums.of_backend is None:
            short[at] = short.get(at, 0) + row.rate_limited + row.overloaded
        if row.category in _OF_CAPACITY:
            waits[at] = waits.get(at, 0) + row.retries
    for row in _netted(sums.of_backend or ()):
        at = counts.bin_of(row.span)
        short[at] = short.get(at, 0) + row.rate_limited + row.overloaded
    opened: dict[int, set[str]] = {}
    for row in sums.moves:
        opened.setdefault(moves.bin_of(row.span), set()).add(row.subject)
    return {
        "short": counts.trend(short, unknown),
        "waits": counts.trend(waits, unknown),
        "opened": moves.trend_of_names(opened, silent),
    }


def _total(rows: Iterable[_Sum], measure: str) -> int:
    return sum(getattr(row, measure) for row in rows)


def _by_family(rows: Iterable[_Sum], minutes: float) -> dict[Family, float]:
    counts: dict[Family, float] = {}
    for row in rows:
        if row.failures:
            family = FAMILY_OF[category_or_none(row.category) or Category.UNKNOWN]
            counts[family] = counts.get(family, 0.0) + row.failures / minutes
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _capacity(
    environment: str, lately: Sequence[_Sum], day: Sequence[_Sum], minute: int, minutes: float
) -> tuple[CapacityNow, ...]:
    """Who is short of capacity now, the worst first, and since which minute without a longer pause."""
    fresh: dict[str, list[_Sum]] = {}
    for row in lately:
        if row.span >= minute - 1:
            fresh.setdefault(_name(row), []).append(row)
    began = _began_at(environment, lately, day, minute, set(fresh))
    found = [
        CapacityNow(
            name=name,
            rate_limited_per_min=_total(errors, "rate_limited") / minutes,
            overloaded_per_min=_total(errors, "overloaded") / minutes,
            since=from_us(began[name] * MINUTE_S * US_PER_S),
            provider=errors[0].provider,
            model=errors[0].model,
        )
        for name, errors in fresh.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.per_min, one.name)))


def _name(row: _Sum) -> str:
    return capacity_name(row.provider, row.model, row.operation)


def _began_at(
    environment: str, rows: Iterable[_Sum], day: Iterable[_Sum], minute: int, names: set[str]
) -> dict[str, int]:
    """The minute in which each shortage began; those that reach past the last hour cost one query more."""
    began = {name: _began(minutes) for name, minutes in _short(rows).items() if name in names}
    edge = minute - LOOKED_BACK_MINUTES + QUIET_MINUTES
    older = {name for name, first in began.items() if first <= edge}
    if older:
        width = LONG_SPAN_MINUTES
        short = _short(day)
        first = {name: _began(spans, 1) for name, spans in short.items() if name in older}
        begun = set(first.values())
        # Said a second time as one range: SQLite need not take an index for what is within one of several.
        within = Q(span__gte=min(begun, default=0) * width, span__lt=(max(begun, default=-1) + 1) * width)
        within &= reduce(or_, (Q(span__gte=span * width, span__lt=(span + 1) * width) for span in begun), Q())
        lately = SpanSum.objects.filter(within, _SHORT, environment=environment, view=View.BACKEND, minutes=1)
        again = _netted(map(_Sum._make, lately.order_by().values_list(*_Sum._fields)))
        for name, minutes in _short(again).items():
            if name in first and (mine := {one for one in minutes if one // width == first[name]}):
                began[name] = _began(mine)
    return began


def _netted(rows: Iterable[_Sum]) -> list[_Sum]:
    """Each backend's shortages in each span, as one row of all categories; what was taken back whole is none."""
    found: dict[tuple[int, str, str, str], _Sum] = {}
    for row in rows:
        whose = row.span, row.provider, row.model, row.operation
        known = found.get(whose)
        found[whose] = row if known is None else _added(known, row)
    return [row for row in found.values() if row.rate_limited > 0 or row.overloaded > 0]


def _added(one: _Sum, other: _Sum) -> _Sum:
    return one._replace(
        rate_limited=one.rate_limited + other.rate_limited, overloaded=one.overloaded + other.overloaded
    )


def _short(rows: Iterable[_Sum]) -> dict[str, set[int]]:
    """The minutes in which each backend was short of capacity."""
    minutes: dict[str, set[int]] = {}
    for row in rows:
        minutes.setdefault(_name(row), set()).add(row.span)
    return minutes


def _began(minutes: set[int], most_step: int = QUIET_MINUTES) -> int:
    """The first minute (or span) of the run that reaches the newest, over no longer steps than these."""
    newest_first = sorted(minutes, reverse=True)
    steps = pairwise(newest_first)
    unbroken = takewhile(lambda step: step[0] - step[1] <= most_step, steps)
    return min([newest_first[0], *(earlier for _, earlier in unbroken)])


def _degraded(
    environment: str, agents: Iterable[AgentRow], now: datetime
) -> tuple[tuple[DegradationRow, ...], tuple[DegradationRow, ...]]:
    """What is reduced now, and what is whole again since lately and reduced nowhere any more.

    One that died in the middle of it never said that it is over, and says nothing any more.
    """
    reachable = {(agent.service, agent.instance) for agent in agents if agent.is_reachable}
    rows = open_degradations(environment, or_ended_since=now - RESTORED_FOR)
    still = tuple(row for row in rows if row.ended is None and (row.service, row.instance) in reachable)
    reduced = {row.operation or row.from_name for row in still}
    whole = (row for row in rows if row.ended is not None and (row.operation or row.from_name) not in reduced)
    return still, tuple(whole)
