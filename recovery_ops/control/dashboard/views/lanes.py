"""The lanes of the last hours on the overview: who was short of capacity, and which breakers were not closed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from django.urls import reverse
from django.utils.safestring import SafeString

from events import queries
from events.charts import drawing
from events.pages.scoped import ANYBODY, Backend
from events.pages.window import Window
from events.rows import CapacityBins, MajoritySegment
from events.timelines.counts import unknown_words
from events.timelines.majority import worst_first
from events.timelines.states import standing
from events.wording import bin_text, clock_text, count_text, listing
from recovery_ops.rules.enums import State

MOST_CAPACITY = 6
MOST_BREAKERS = 8
MOST_SPELLS = 40
"""Of the table of when breakers were not closed, the newest."""
_LEAST_RANGE = timedelta(minutes=5)
Lanes = Mapping[str, Sequence[MajoritySegment]]
"""Breaker → what most of the fleet was in, without gaps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One lane: its label, a drawing, what it says at the end. Without a drawing it is a heading."""

    label: str
    drawing: SafeString | str = ""
    value: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatLine:
    """What was counted of each backend in one bin; `counts` None: nobody lived to report."""

    at: datetime
    href: str
    counts: Sequence[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A span in which most of the fleet had a breaker in another state than closed. `end` None: to the end."""

    breaker: str
    state: State | None
    start: datetime
    end: datetime | None
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AtEnd:
    """In what the breakers of the whole fleet were at the end, each by its worst state."""

    breakers: int
    not_closed: Sequence[str]
    unknown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """What the lanes say as tables and in a sentence; each line leads to Timelines at its range.

    `more` spells before those that are listed are left out. `short` counts 429 and 529; None: nobody lived to report.
    """

    sentence: str
    short: int | None
    at_end: AtEnd | None
    bin_words: str
    backends: Sequence[str] = ()
    heat: Sequence[HeatLine] = ()
    spells: Sequence[Spell] = ()
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """Lanes over one axis."""

    rows: Sequence[Row]
    axis: SafeString
    bin_s: int
    twin: Twin | None = None


def strip_of(environment: str, window: Window, backend: Backend = ANYBODY) -> Strip:
    """Read and draw the lanes of a window, of backends those that are asked for. At most ten queries."""
    bins = queries.capacity_per_bin(environment, start=window.start, end=window.end, of_calls=backend.said)
    # All lanes lie over whole bins, or the cells would not line up with the bars.
    start, end = bins.start, bins.start + timedelta(seconds=bins.bin_s * bins.length)
    fleet = queries.fleet_lanes(environment, start=start, end=window.end, now=window.end, wants_causes=False)
    empty = empty_share(window.began, start, end)
    known, worst = bins.since(window.began), _worst_first(fleet)
    rows = [*capacity_rows(known, empty), *_breaker_rows(worst, start, end, empty)]
    return Strip(rows=rows, axis=drawing.axis(start, end), bin_s=bins.bin_s, twin=twin_of(known, worst, fleet))


@lru_cache(maxsize=1024)
def timelines_at(start: datetime, end: datetime) -> str:
    """Timelines at a range; with what is around it where it is short."""
    around = max(timedelta(), _LEAST_RANGE - (end - start)) / 2
    return f"{reverse('timelines')}?{Window(start=start - around, end=end + around).absolute_query}"


def twin_of(bins: CapacityBins, drawn: Lanes | None = None, fleet: Lanes | None = None) -> Twin:
    """The same lanes as tables: bins in which anything was counted or not known, and when the breakers that are drawn
    were not closed; the sentence is about the whole fleet.
    """
    series = dict(list(bins.series.items())[:MOST_CAPACITY])
    spells = sorted((one for name, lane in (drawn or {}).items() for one in _spells(name, lane)), key=_newest_first)
    at_end = _at_end(fleet or {})
    short = _short(bins)
    return Twin(
        sentence=" ".join(filter(None, (_heat_words(bins, short), _breaker_words(at_end)))),
        short=short,
        at_end=at_end,
        bin_words=bin_text(bins.bin_s),
        backends=tuple(series),
        heat=list(_heat_lines(bins, series)) if series else (),
        spells=spells[:MOST_SPELLS],
        more=max(0, len(spells) - MOST_SPELLS),
    )


def _heat_lines(bins: CapacityBins, series: Mapping[str, Sequence[int]]) -> Iterator[HeatLine]:
    for place, at in enumerate(bins.starts()):
        if place < bins.absent:
            continue
        counts = [values[place] for values in series.values()]
        if bins.unknown[place] or any(counts):
            href = timelines_at(at, at + timedelta(seconds=bins.bin_s))
            yield HeatLine(at=at, href=href, counts=None if bins.unknown[place] else counts)


def _spells(name: str, segments: Sequence[MajoritySegment]) -> Iterator[Spell]:
    for place, one in enumerate(segments):
        if one.is_there and one.state is not State.CLOSED:
            end = None if place == len(segments) - 1 else one.end
            href = timelines_at(one.start, one.end)
            yield Spell(breaker=name, state=one.state, start=one.start, end=end, href=href)


def _newest_first(one: Spell) -> tuple[float, str]:
    return (-one.start.timestamp(), one.breaker)


def _short(bins: CapacityBins) -> int | None:
    """Of every backend, also of those that are not drawn."""
    return sum(bins.total()) or (None if all(bins.unknown) else 0)


def _heat_words(bins: CapacityBins, total: int | None) -> str:
    per_bin = bins.total()
    if total is None:
        return "429 and 529 unknown: no instance was reporting."
    if not total:
        return f"No 429 or 529{unknown_words(bins)}."
    worst = max(range(len(per_bin)), key=lambda place: per_bin[place])
    most_of = max(bins.series, key=lambda name: bins.series[name][worst])
    at = clock_text(bins.start + timedelta(seconds=worst * bins.bin_s), today=bins.start)
    return f"{total:,} × 429 or 529, most from {at} on: {per_bin[worst]:,} per {bin_text(bins.bin_s)}, {most_of} ahead."


def _at_end(fleet: Lanes) -> AtEnd | None:
    lasts = {name: segments[-1] for name, segments in fleet.items() if segments[-1].is_there}
    if not lasts:
        return None
    return AtEnd(
        breakers=len(lasts),
        not_closed=[name for name, last in lasts.items() if last.worst not in (State.CLOSED, None)],
        unknown=sum(last.worst is None for last in lasts.values()),
    )


def _breaker_words(at_end: AtEnd | None) -> str:
    if at_end is None:
        return ""
    open_at_end, unknown = at_end.not_closed, at_end.unknown
    if not open_at_end and not unknown:
        return f"At the end {count_text(at_end.breakers, 'breaker is', 'breakers are')} closed."
    verb = "is" if len(open_at_end) == 1 else "are"
    told = [f"{listing(open_at_end, most=2)} {verb} not closed"] if open_at_end else []
    told += (
        [f"{unknown} unknown" if told else f"{unknown} {'is' if unknown == 1 else 'are'} unknown"] if unknown else []
    )
    return f"At the end {' and '.join(told)}, of {count_text(at_end.breakers, 'breaker')}."


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
            address=timelines_at,
        )
        yield Row(label=name, drawing=picture, value=f"{sum(values):,} in all")


def _breaker_rows(fleet: Lanes, start: datetime, end: datetime, empty: float) -> Iterator[Row]:
    if not fleet:
        return
    yield Row(label="Breakers, majority of the fleet")
    for place, (name, segments) in enumerate(fleet.items()):
        yield Row(
            label=name,
            drawing=drawing.lane(
                segments, start=start, end=end, label=name, empty=0.0 if place else empty, address=timelines_at
            ),
            value=standing(segments),
            href=reverse("breaker", args=[name]),
        )


def _worst_first(fleet: Lanes) -> Lanes:
    """The breakers that were in most trouble; closed ones only while there is room."""
    return {name: fleet[name] for name in worst_first(fleet)[:MOST_BREAKERS]}
