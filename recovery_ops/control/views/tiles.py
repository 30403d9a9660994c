"""The figures at the top of the overview: each a number, its unit, a word on it, and a link to where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse
from django.utils.safestring import SafeString

from events.drawing import spark
from events.rows import OverviewNumbers
from events.wording import count_text, listing, rate_text, share_text, state_word


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One figure. `spark` is how it went over the last hours; empty where that is not known."""

    title: str
    figure: str
    unit: str
    detail: str
    href: str
    spark: SafeString | str = ""


def tiles(numbers: OverviewNumbers) -> list[Tile]:
    """Only what is really counted: a number that nobody reports has no tile."""
    return [
        _breakers(numbers),
        _capacity(numbers),
        _failures(numbers),
        _refused(numbers),
        _carried(numbers),
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
    )


def _capacity(numbers: OverviewNumbers) -> Tile:
    detail = "no 429, no 529"
    if numbers.capacity:
        overloaded = rate_text(sum(one.overloaded_per_min for one in numbers.capacity))
        limited = rate_text(sum(one.rate_limited_per_min for one in numbers.capacity))
        detail = f"{overloaded} × 529, {limited} × 429, worst {numbers.capacity[0].name}"
    return Tile(
        title="Capacity errors",
        figure=rate_text(numbers.capacity_per_min),
        unit="per min",
        detail=detail,
        href=reverse("timelines"),
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
        href=reverse("timelines"),
        spark=_spark(numbers, "failures"),
    )


def _refused(numbers: OverviewNumbers) -> Tile:
    offered = max(numbers.calls_per_min, numbers.rejected_per_min)
    share = numbers.rejected_per_min / offered if offered else 0.0
    return Tile(
        title="Calls refused",
        figure=rate_text(numbers.rejected_per_min),
        unit="per min",
        detail=f"{share_text(share)} of {rate_text(offered)} per minute" if offered else "no calls counted",
        href=reverse("breakers"),
        spark=_spark(numbers, "rejections"),
    )


def _carried(numbers: OverviewNumbers) -> Tile:
    operations = sorted({row.operation or row.from_name for row in numbers.degraded})
    detail = (
        f"{listing(operations)} {'is' if len(operations) == 1 else 'are'} reduced"
        if operations
        else "nothing is reduced"
    )
    return Tile(
        title="Answered by a fallback",
        figure=rate_text(numbers.fallbacks_per_min),
        unit="per min",
        detail=detail,
        href=reverse("timelines"),
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
    )


def _spark(numbers: OverviewNumbers, name: str) -> SafeString | str:
    values = numbers.sparks.get(name, [])
    return spark(values) if any(values) else spark([0, 0])
