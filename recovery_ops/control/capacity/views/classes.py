"""Failures for want of capacity by class, bin by bin, over what breakers and people did in the same time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from events.capacity.moves import BreakerMoves
from events.capacity.rows import CapacityEventRow
from events.charts import drawing
from events.pages.window import Window
from events.queries.sums import Sums
from events.rows import Bins
from events.timelines import Kind, Mark
from events.timelines.marks import gathered
from events.wording import bin_text, clock_text, count_text, listing
from recovery_ops.control.dashboard.views.lanes import Row, Strip, empty_share
from recovery_ops.rules.enums import Category

_OUR_QUOTA = (Category.RATE_LIMITED, Category.RATE_LIMIT_WINDOW, Category.QUOTA_EXHAUSTED)
CLASSES: tuple[tuple[tuple[Category, ...], str, str, str], ...] = (
    (_OUR_QUOTA, "429", "our own quota", "half_open"),
    ((Category.OVERLOADED,), "529", "provider overloaded", "open"),
    ((Category.SERVER_ERROR,), "5xx", "another error of the server", "taken"),
    ((Category.TIMEOUT,), "timeout", "no answer in time", "pending"),
)
"""Each class with its code, what it means and the pattern that it is drawn in, the lowest in a bar first."""
_STACK_PX, _RAIL_PX, _LANE_PX = 72, 4, 24
_LEAST_SHARE = 0.4
"""A breaker that was open for less would not be seen, in per cent of the width."""
_GLYPHS = {Kind.POLICY: "square", Kind.OVERRIDE: "diamond"}
_LANES = {Kind.POLICY: "Policy", Kind.OVERRIDE: "Overrides"}
_TOLD_MOST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ByClass:
    """The figure: lanes over one axis, the same as a table, and what else happened as another."""

    lanes: Strip
    sentence: str
    table: Sequence[tuple[datetime, Sequence[int] | None, int]]
    """Each bin with its numbers by class and their sum; without numbers where nobody lived to report."""
    happened: Sequence[Mark]


def by_class(sums: Sums, events: Iterable[CapacityEventRow], window: Window, acts: Iterable[Mark]) -> ByClass | None:
    """None where nothing failed so; `acts` are what people did in the window."""
    found = sums.failures("category")
    bins = found.since(window.began)
    values = [_added(bins, categories) for categories, *_ in CLASSES]
    if not any(map(sum, values)):
        return None
    start, end = bins.start, bins.start + timedelta(seconds=bins.bin_s * bins.length)
    marks = sorted((one for one in acts if one.kind in _LANES), key=lambda one: one.at)
    moves = [move for row in events for move in row.moves]
    rows = [
        Row(label="Failures by class"),
        Row(
            label=f"per {bin_text(bins.bin_s)}",
            drawing=_bars(bins, values, empty_share(window.began, start, end)),
            value=f"{sum(map(sum, values)):,} in all",
        ),
        *_under("Breakers that outages opened", _breakers(moves, start, end)),
        *_under("What people and the policy did", _acts(marks, start, end)),
    ]
    totals = [sum(column) for column in zip(*values, strict=True)]
    return ByClass(
        lanes=Strip(rows=rows, axis=drawing.axis(start, end), bin_s=bins.bin_s),
        sentence=_sentence(bins, values, totals),
        table=_table(bins, values, totals),
        happened=[*marks],
    )


def _under(heading: str, lanes: Iterable[Row]) -> list[Row]:
    """The lanes with their heading; nothing where there is none."""
    found = [*lanes]
    return [Row(label=heading), *found] if found else []


def _added(bins: Bins, categories: Iterable[Category]) -> list[int]:
    told = [bins.series[one.value] for one in categories if one.value in bins.series]
    return [sum(column) for column in zip([0] * bins.length, *told, strict=True)]


def _bars(bins: Bins, values: Sequence[Sequence[int]], empty: float) -> SafeString:
    """A bar per bin, a piece per class; a dotted rail where nobody lived to report."""
    totals = [sum(column) for column in zip(*values, strict=True)]
    top, width = max(totals), 100 / bins.length
    pieces: list[tuple[str, str, str, str, str, str]] = []
    for place, at in enumerate(bins.starts()):
        if place < bins.absent:
            continue
        x, wide = _percent(place * width), _percent(width * 0.91)
        when = clock_text(at, today=bins.start)
        if bins.unknown[place]:
            pieces.append(("unknown", x, wide, _px(_STACK_PX - _RAIL_PX), _px(_RAIL_PX), f"{when}: unknown"))
            continue
        y = float(_STACK_PX)
        for (_, code, _, pattern), counts in zip(CLASSES, values, strict=True):
            if counts[place]:
                height = _STACK_PX * counts[place] / top
                y -= height
                pieces.append((pattern, x, wide, _px(y), _px(height), f"{when}: {counts[place]:,} × {code}"))
    return format_html(
        '<svg height="{}" role="img" aria-label="{}">{}{}</svg>',
        _STACK_PX,
        f"Failures by class, {sum(totals):,} in all, {top:,} at most",
        format_html_join(
            "",
            '<rect fill="url(#p-{})" x="{}" width="{}" y="{}" height="{}"><title>{}</title></rect>',
            pieces,
        ),
        drawing.not_yet(empty),
    )


def _breakers(moves: Sequence[BreakerMoves], start: datetime, end: datetime) -> Iterator[Row]:
    """A lane of when any of the breakers was open, from its first opening until it was closed in all."""
    inside = [one for one in moves if one.opened_at <= end and (one.closed_at is None or one.closed_at >= start)]
    if not inside:
        return
    length = end - start
    spans = []
    for one in sorted(inside, key=lambda one: one.opened_at):
        begin, until = max(one.opened_at, start), min(one.closed_at or end, end)
        share = max(_LEAST_SHARE, 100 * ((until - begin) / length))
        last = (
            "not closed in all yet"
            if one.closed_at is None
            else f"closed in all {clock_text(one.closed_at, today=end)}"
        )
        words = f"{one.breaker}: opened {clock_text(one.opened_at, today=end)}, {last}"
        spans.append((_percent(min(100 * ((begin - start) / length), 100 - share)), _percent(share), words))
    names = sorted({one.breaker for one in inside})
    yield Row(
        label="Open",
        drawing=format_html(
            '<svg height="{}" role="img" aria-label="{}">{}</svg>',
            _LANE_PX,
            f"Breakers that opened: {listing(names, most=_TOLD_MOST)}",
            format_html_join(
                "",
                '<rect fill="url(#p-open)" x="{}" width="{}" y="5" height="14"><title>{}</title></rect>',
                spans,
            ),
        ),
        value=count_text(len(names), "breaker"),
    )


def _acts(marks: Sequence[Mark], start: datetime, end: datetime) -> Iterator[Row]:
    """A lane per kind with a glyph for each act; acts too close to be told apart are one glyph that names them."""
    for kind, name in _LANES.items():
        mine = [one for one in marks if one.kind is kind and start <= one.at <= end]
        if not mine:
            continue
        glyphs = [
            (_percent(100 * ((group[0].at - start) / (end - start))), _GLYPHS[kind], _words(group, end))
            for group in gathered(mine, start=start, end=end)
        ]
        yield Row(
            label=name,
            drawing=format_html(
                '<svg height="{}" role="img" aria-label="{}">{}</svg>',
                _LANE_PX,
                f"{name}: {count_text(len(mine), 'act')}",
                format_html_join(
                    "",
                    '<svg x="{}" overflow="visible"><use href="#g-{}" x="-7" y="7" width="14" height="10"/>'
                    "<title>{}</title></svg>",
                    glyphs,
                ),
            ),
            value=f"last {timezone.localtime(mine[-1].at):%H:%M}",
        )


def _words(group: Sequence[Mark], end: datetime) -> str:
    told = [f"{clock_text(one.at, today=end)} {one.word}" for one in group]
    return listing(told, most=_TOLD_MOST)


def _sentence(bins: Bins, values: Sequence[Sequence[int]], totals: Sequence[int]) -> str:
    kinds = [f"{sum(counts):,} × {code}" for (_, code, *_), counts in zip(CLASSES, values, strict=True) if any(counts)]
    worst = max(range(bins.length), key=totals.__getitem__)
    at = clock_text(bins.starts()[worst], today=bins.start)
    return f"{listing(kinds, most=len(CLASSES))}. Most, {totals[worst]:,}, in the {bin_text(bins.bin_s)} from {at}."


def _table(
    bins: Bins, values: Sequence[Sequence[int]], totals: Sequence[int]
) -> list[tuple[datetime, Sequence[int] | None, int]]:
    columns = list(zip(*values, strict=True))
    return [
        (at, None if bins.unknown[place] else columns[place], totals[place])
        for place, at in enumerate(bins.starts())
        if place >= bins.absent
    ]


def _percent(number: float) -> str:
    return f"{number:.2f}%"


def _px(number: float) -> str:
    return f"{number:.1f}"
