"""The figures at the top of the overview: each a number, its unit, a word on it, and a link to where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import dropwhile

from django.urls import reverse
from django.utils.safestring import SafeString

from events.drawing import cells, spark
from events.rows import OverviewNumbers
from events.wording import count_text, listing, rate_text, span_text, state_word
from recovery_ops.control.escalations.asking import EscalationRow
from recovery_ops.rules.words import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One figure. `spark` is how it went over the last hours; empty where that is not known."""

    title: str
    figure: str
    unit: str
    detail: str
    href: str
    spark: SafeString | str = ""


def tiles(numbers: OverviewNumbers, escalations: Sequence[EscalationRow], now: datetime) -> list[Tile]:
    """Only what is really counted: a number that nobody reports has no tile."""
    return [
        _breakers(numbers),
        _capacity(numbers),
        _failures(numbers),
        _carried(numbers),
        _escalations(escalations, now),
        _agents(numbers),
    ]


def _breakers(numbers: OverviewNumbers) -> Tile:
    blocking = numbers.breakers_blocking
    return Tile(
        title="Breakers not flowing",
        figure=str(len(blocking)),
        unit=f"of {numbers.breakers}",
        detail=listing([f"{row.name} {state_word(row.worst)}" for row in blocking]) or "all let calls through",
        href=reverse("breakers"),
        spark=_states(numbers),
    )


def _states(numbers: OverviewNumbers) -> SafeString | str:
    """A cell per breaker, the worst first: those that block, those that a person holds, and the rest."""
    troubled = [*numbers.breakers_blocking]
    troubled += [row for row in numbers.breakers_held if row not in troubled]
    states = [row.worst for row in troubled] + [State.CLOSED] * (numbers.breakers - len(troubled))
    return cells([state_word(one) for one in states])


def _capacity(numbers: OverviewNumbers) -> Tile:
    detail = "no 429, no 529"
    if numbers.capacity:
        overloaded = sum(one.overloaded_per_min for one in numbers.capacity)
        limited = sum(one.rate_limited_per_min for one in numbers.capacity)
        kinds = [f"{rate_text(rate)} × {code}" for code, rate in ((529, overloaded), (429, limited)) if rate]
        detail = f"{', '.join(kinds)}, worst {numbers.capacity[0].name}"
    return Tile(
        title="Capacity errors",
        figure=rate_text(numbers.capacity_per_min),
        unit="per min",
        detail=detail,
        href=reverse("capacity"),
        spark=_spark(numbers, "capacity"),
    )


def _failures(numbers: OverviewNumbers) -> Tile:
    kinds = list(numbers.failures_by_family.items())
    detail = ", ".join(f"{rate_text(per_min)} {family.replace('_', ' ')}" for family, per_min in kinds[:2])
    return Tile(
        title="Failures",
        figure=rate_text(numbers.failures_per_min),
        unit="per min",
        detail=detail or f"in {rate_text(numbers.calls_per_min)} calls per minute",
        href=reverse("failures"),
        spark=_spark(numbers, "failures"),
    )


def _escalations(rows: Sequence[EscalationRow], now: datetime) -> Tile:
    """How many questions nobody has taken, and what is due next."""
    detail = "nobody is asked anything"
    if rows:
        first = rows[0]
        distance = span_text(int(abs((first.due - now).total_seconds())))
        detail = f"{first.one} is {distance} late" if first.is_breached else f"{first.one} is due in {distance}"
        if first.one.is_defaulted:
            detail = "no deadline runs"
    return Tile(
        title="Escalations",
        figure=str(sum(row.one.acknowledged_at is None for row in rows)),
        unit=f"not taken of {len(rows)}",
        detail=detail,
        href=reverse("escalations"),
        spark=cells(["open" if row.is_breached else "half_open" for row in rows]),
    )


def _carried(numbers: OverviewNumbers) -> Tile:
    operations = sorted({row.operation or row.from_name for row in numbers.degraded})
    refused = f"{rate_text(numbers.rejected_per_min)} refused" if numbers.rejected_per_min else "no call is refused"
    reduced = f"{listing(operations)} {'is' if len(operations) == 1 else 'are'} reduced" if operations else ""
    detail = ", ".join(part for part in (reduced, refused) if part)
    return Tile(
        title="Answered by a fallback",
        figure=rate_text(numbers.fallbacks_per_min),
        unit="per min",
        detail=detail,
        href=reverse("degradations"),
        spark=_spark(numbers, "fallbacks"),
    )


def _agents(numbers: OverviewNumbers) -> Tile:
    silent = [agent.instance for agent in numbers.silent]
    runs = count_text(numbers.runs_in_flight, "run")
    return Tile(
        title="Agents reporting",
        figure=str(numbers.agents_reporting),
        unit=f"of {numbers.agents}",
        detail=f"{listing(silent, most=1)} silent" if silent else f"{runs} in flight",
        href=reverse("agents"),
        spark=cells(["wait"] * numbers.agents_reporting + ["unknown"] * (numbers.agents - numbers.agents_reporting)),
    )


def _spark(numbers: OverviewNumbers, name: str) -> SafeString | str:
    """How it went since anybody could know; two points are the least that make a line."""
    values = list(dropwhile(lambda value: value is None, numbers.sparks.get(name, [])))
    return spark(values) if len(values) > 1 else ""
