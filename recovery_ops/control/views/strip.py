"""The lanes of the last hours on the overview: who was short of capacity, and which breakers were not closed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.urls import reverse
from django.utils.safestring import SafeString

from events import drawing, queries
from events.rows import RANK, CapacityBins, Fleet, MajoritySegment
from events.window import Window
from events.wording import state_word
from recovery_ops.rules.words import State

MOST_CAPACITY = 6
MOST_BREAKERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One lane: its label, a drawing, what it says at the end. Without a drawing it is a heading."""

    label: str
    drawing: SafeString | str = ""
    value: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """Lanes over one axis."""

    rows: Sequence[Row]
    axis: SafeString
    bin_s: int


def strip_of(environment: str, window: Window) -> Strip:
    """Read and draw the lanes of a window. At most ten queries."""
    bins = queries.capacity_per_bin(environment, start=window.start, end=window.end)
    # All lanes lie over whole bins, or the cells would not line up with the bars.
    start, end = bins.start, bins.start + timedelta(seconds=bins.bin_s * bins.length)
    fleet = queries.fleet_lanes(environment, start=start, end=window.end, now=window.end, wants_causes=False)
    empty = empty_share(window.began, start, end)
    rows = [*capacity_rows(bins.since(window.began), empty), *_breaker_rows(fleet, start, end, empty)]
    return Strip(rows=rows, axis=drawing.axis(start, end), bin_s=bins.bin_s)


def empty_share(began: datetime | None, start: datetime, end: datetime) -> float:
    """How much of the axis lies before anybody's first sign of life."""
    return 0.0 if began is None else max(0.0, min(1.0, (began - start) / (end - start)))


def capacity_rows(bins: CapacityBins, empty: float) -> Iterator[Row]:
    series = list(bins.series.items())[:MOST_CAPACITY]
    if not series:
        return
    yield Row(label="429 and 529, by provider and model")
    hottest = max(max(values) for _, values in series)
    for place, (name, values) in enumerate(series):
        picture = drawing.heat_row(
            values,
            start=bins.start,
            bin_s=bins.bin_s,
            unknown=bins.unknown,
            absent=bins.absent,
            label=name,
            hottest=hottest,
            empty=0.0 if place else empty,
        )
        yield Row(label=name, drawing=picture, value=f"{sum(values):,} in all")


def _breaker_rows(fleet: Fleet, start: datetime, end: datetime, empty: float) -> Iterator[Row]:
    """The breakers that were in most trouble, the worst at the end first; closed ones only while there is room."""
    if not fleet:
        return
    yield Row(label="Breakers, majority of the fleet")
    worst_first = sorted(fleet, key=lambda name: (*_trouble(fleet[name]), name))
    for place, name in enumerate(worst_first[:MOST_BREAKERS]):
        segments = fleet[name]
        last = segments[-1]
        standing = f"{last.worst_count} of {last.instances}" if last.worst else state_word(None)
        yield Row(
            label=name,
            drawing=drawing.lane(segments, start=start, end=end, label=name, empty=0.0 if place else empty),
            value=standing,
            href=reverse("breaker", args=[name]),
        )


def _trouble(segments: Sequence[MajoritySegment]) -> tuple[int, float]:
    """Sorts the worst at the end first, then the longest not closed."""
    there = (one for one in segments if one.is_there and one.state is not State.CLOSED)
    hurt = sum((one.end - one.start).total_seconds() for one in there)
    return (-RANK[segments[-1].worst], -hurt)
