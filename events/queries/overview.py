"""The numbers of the overview: what blocks, what is short of capacity, who reports, and how the last hours went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise, takewhile
from typing import Any

from django.db.models import F, Q, Sum

from events.models import Degradation, MinuteSum
from events.moments import MINUTE_S, US_PER_S, Grid, from_us, to_us
from events.queries.breakers import breakers
from events.queries.fleet import STOPPED, fleet, living_spans
from events.queries.readings import category_or_none
from events.queries.sums import capacity_name
from events.queries.trouble import degradation_row
from events.rows import AgentRow, BreakerRow, CapacityNow, DegradationRow, OverviewNumbers
from recovery_ops.rules.words import FAMILY_OF, OVERRIDES, Category, Family

SPARKS_OVER = timedelta(hours=6)
SPARK_S = 300
SPARKS = ("failures", "capacity", "rejections", "fallbacks")
LOOKED_BACK_MINUTES = 60
LONGEST_MINUTES = 24 * 60
"""A shortage that lasts for longer is dated to a day ago."""
QUIET_MINUTES = 5
"""A shortage that paused for this long and came back is a new one."""
_MEASURES = ("failures", "rate_limited", "overloaded", "fallbacks", "rejections", "calls")

_Row = Mapping[str, Any]


def overview_numbers(environment: str, *, now: datetime) -> OverviewNumbers:
    """Everything the overview's tiles say. Eight queries; indexes as in the questions that it puts together."""
    rows = breakers(environment, now=now)
    everyone = fleet(environment, now=now, include_stopped=True)
    agents = [agent for agent in everyone if agent.status != STOPPED]
    lately = _lately(environment, now)
    minutes = 1.0 + to_us(now) / US_PER_S % MINUTE_S / MINUTE_S
    minute = to_us(now) // US_PER_S // MINUTE_S
    fresh = [row for row in lately if row["minute"] >= minute - 1]
    capacity = _capacity(environment, lately, minute, minutes)
    return OverviewNumbers(
        breakers=len(rows),
        breakers_blocking=tuple(row for row in rows if not row.is_flowing),
        breakers_held=tuple(row for row in rows if _is_held(row)),
        capacity=capacity,
        capacity_per_min=sum(one.per_min for one in capacity),
        failures_per_min=_total(fresh, "failures") / minutes,
        failures_by_family=_by_family(fresh, minutes),
        calls_per_min=_total(fresh, "calls") / minutes,
        rejected_per_min=_total(fresh, "rejections") / minutes,
        fallbacks_per_min=_total(fresh, "fallbacks") / minutes,
        degraded=_degraded(environment, agents),
        runs_in_flight=sum(agent.runs_in_flight for agent in agents if agent.is_reachable),
        agents_reporting=sum(agent.is_reachable for agent in agents),
        agents=len(agents),
        silent=tuple(sorted((one for one in agents if not one.is_reachable), key=lambda one: one.last_seen)),
        fleet=tuple(agents),
        spark_s=SPARK_S,
        sparks=_sparks(environment, now, everyone),
    )


def _is_held(row: BreakerRow) -> bool:
    return any(row.counts.get(state) for state in OVERRIDES)


def _lately(environment: str, now: datetime) -> Sequence[_Row]:
    """The last hour by minute and kind; index `minute_sum_once`."""
    minute = to_us(now) // US_PER_S // MINUTE_S
    sums = MinuteSum.objects.filter(
        environment=environment, minute__gt=minute - LOOKED_BACK_MINUTES, minute__lte=minute
    )
    grouped = sums.values("minute", "category", "provider", "model", "operation")
    return list(grouped.annotate(**{measure: Sum(measure) for measure in _MEASURES}).order_by())


def _total(rows: Iterable[_Row], measure: str) -> int:
    return sum(row[measure] for row in rows)


def _by_family(rows: Iterable[_Row], minutes: float) -> dict[Family, float]:
    counts: dict[Family, float] = {}
    for row in rows:
        if row["failures"]:
            family = FAMILY_OF[category_or_none(row["category"]) or Category.UNKNOWN]
            counts[family] = counts.get(family, 0.0) + row["failures"] / minutes
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _capacity(environment: str, rows: Sequence[_Row], minute: int, minutes: float) -> tuple[CapacityNow, ...]:
    """Who is short of capacity now, the worst first, and since which minute without a longer pause."""
    fresh: dict[str, list[_Row]] = {}
    for row in rows:
        if row["minute"] >= minute - 1 and (row["rate_limited"] or row["overloaded"]):
            fresh.setdefault(_name(row), []).append(row)
    began = _began_at(environment, rows, minute, set(fresh))
    found = [
        CapacityNow(
            name=name,
            rate_limited_per_min=_total(errors, "rate_limited") / minutes,
            overloaded_per_min=_total(errors, "overloaded") / minutes,
            since=from_us(began[name] * MINUTE_S * US_PER_S),
        )
        for name, errors in fresh.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.per_min, one.name)))


def _name(row: _Row) -> str:
    return capacity_name(row["provider"], row["model"], row["operation"])


def _began_at(environment: str, rows: Iterable[_Row], minute: int, names: set[str]) -> dict[str, int]:
    """The minute in which each shortage began; those that reach past the last hour cost one query more."""
    began = {name: _began(minutes) for name, minutes in _short(rows).items() if name in names}
    edge = minute - LOOKED_BACK_MINUTES + QUIET_MINUTES
    if any(first <= edge for first in began.values()):
        day = MinuteSum.objects.filter(environment=environment, minute__gt=minute - LONGEST_MINUTES, minute__lte=minute)
        columns = ("minute", "provider", "model", "operation", "rate_limited", "overloaded")
        short = day.filter(Q(rate_limited__gt=0) | Q(overloaded__gt=0)).values(*columns)
        began |= {name: _began(minutes) for name, minutes in _short(short).items() if name in names}
    return began


def _short(rows: Iterable[_Row]) -> dict[str, set[int]]:
    """The minutes in which each backend was short of capacity."""
    minutes: dict[str, set[int]] = {}
    for row in rows:
        if row["rate_limited"] or row["overloaded"]:
            minutes.setdefault(_name(row), set()).add(row["minute"])
    return minutes


def _began(minutes: set[int]) -> int:
    """The first minute of the run that reaches the newest, over pauses shorter than `QUIET_MINUTES`."""
    newest_first = sorted(minutes, reverse=True)
    steps = pairwise(newest_first)
    unbroken = takewhile(lambda step: step[0] - step[1] <= QUIET_MINUTES, steps)
    return min([newest_first[0], *(earlier for _, earlier in unbroken)])


def _degraded(environment: str, agents: Iterable[AgentRow]) -> tuple[DegradationRow, ...]:
    """What is reduced now; one that died in the middle of it never said so, and says nothing any more."""
    reachable = {(agent.service, agent.instance) for agent in agents if agent.is_reachable}
    open_ones = Degradation.objects.filter(environment=environment, ended_us__isnull=True).select_related("agent")
    rows = [degradation_row(one) for one in open_ones.order_by("started_us", "id")]
    return tuple(row for row in rows if (row.service, row.instance) in reachable)


def _sparks(environment: str, now: datetime, everyone: Iterable[AgentRow]) -> dict[str, list[int | None]]:
    """Totals per bin of the last hours, None where nobody lived to report; index `minute_sum_once`."""
    start, width = now - SPARKS_OVER, SPARK_S // MINUTE_S
    grid = Grid.over(start, now, SPARK_S)
    first = grid.start_s // MINUTE_S
    sums = MinuteSum.objects.filter(environment=environment, minute__gte=first, minute__lt=first + width * grid.length)
    grouped = sums.values(bin=(F("minute") - first) / width).annotate(
        failures=Sum("failures"),
        capacity=Sum(F("rate_limited") + F("overloaded")),
        rejections=Sum("rejections"),
        fallbacks=Sum("fallbacks"),
    )
    unknown = grid.outside(living_spans(everyone))
    sparks: dict[str, list[int | None]] = {name: [None if gap else 0 for gap in unknown] for name in SPARKS}
    for index, *counts in grouped.order_by().values_list("bin", *SPARKS):
        for name, count in zip(SPARKS, counts, strict=True):
            sparks[name][index] = count
    return sparks
