"""Small drawings for quiet pages, as safe SVG: state strips and lanes, sparklines, bullets and heat rows.

They use the classes of `static/app.css` and the patterns of `templates/_sprite.html`, no styles of their own, and lie
on percentages of their width, so that they stretch with their column and line up with the lanes beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from events.moments import Grid
from events.rows import RANK, MajoritySegment, Segment
from events.timelines.counts import heat_step
from events.wording import NOT_YET, bin_text, clock_text, share_text, state_text, state_word
from recovery_ops.rules.enums import State

STRIP_PX = 14
LANE_PX = 24
_RAIL_PX = 4
_STACK_PX = 120
_BAR_PX = 72
_FILL_PX = 14
_MOST_CELLS = 48
"""More cells than this in a tile are too narrow to count."""
_CELLS = 128
"""A strip is about this many pixels wide: what is narrower than one shows as one, the worst of what lies in it."""
_TICK_STEPS_S = (5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_MOST_TICKS = 8
_EDGE = 3.0
"""Nearer than this to an end of an axis, in per cent, half a label would lie outside."""
_LEAST_EMPTY = 0.15
"""Narrower than this share of a lane, the words for it would not fit."""

Drawn = Segment | MajoritySegment
Address = Callable[[datetime, datetime], str]
"""The address at which a span of time is looked at."""


@dataclass(frozen=True, slots=True)
class _Span:
    """A span of the drawing, in shares of its width."""

    state: State | None
    begin: float
    end: float
    words: str
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A mark on the time axis: `x` in per cent of the width."""

    x: str
    words: str


def strip(segments: Sequence[Drawn], *, start: datetime, end: datetime, label: str) -> SafeString:
    """The states of a breaker in a table row: a rail while it is closed, a full bar otherwise."""
    return format_html(
        '<svg class="strip" role="img" aria-label="{}">{}</svg>',
        f"{label}, {_in_words(segments, end)}",
        _bars(_spans(segments, start, end), top_px=0),
    )


def lane(
    segments: Sequence[Drawn],
    *,
    start: datetime,
    end: datetime,
    label: str,
    empty: float = 0.0,
    address: Address | None = None,
) -> SafeString:
    """The same as a lane of a chart, 24 px high, over the grid of `ticks`; for `empty` see `not_yet`.

    With `address` each span is a link. The links are for pointers: a table says the same to everybody.
    """
    spans = _spans(segments, start, end)
    if address is not None:
        length = end - start
        spans = [replace(one, href=address(start + one.begin * length, start + one.end * length)) for one in spans]
    return format_html(
        '<svg height="24" role="{}" aria-label="{}">{}{}{}</svg>',
        "img" if address is None else "group",
        f"{label}, {_in_words(segments, end)}",
        grid(start, end),
        _bars(spans, top_px=(LANE_PX - _FILL_PX) // 2),
        not_yet(empty),
    )


def linked(href: str, words: str, shape: SafeString) -> SafeString:
    """A shape as a link for pointers, which the keyboard passes over; without an address the shape alone."""
    if not href:
        return shape
    return format_html('<a href="{}" tabindex="-1" aria-label="{}">{}</a>', href, words, shape)


def not_yet(share: float) -> SafeString | str:
    """The words over the first `share` of a lane, in which nobody was there yet; nothing where they would not fit."""
    if share < _LEAST_EMPTY:
        return ""
    return format_html('<text x="{}" y="16" text-anchor="middle">{}</text>', _percent(50 * share), NOT_YET)


def heat_row(
    values: Sequence[int],
    *,
    start: datetime,
    bin_s: int,
    unknown: Sequence[bool] = (),
    absent: int = 0,
    label: str,
    hottest: int = 0,
    empty: float = 0.0,
    address: Address | None = None,
) -> SafeString:
    """A cell per bin: six steps of one hue, dotted where nothing is known, none in the first `absent` ones.

    `hottest` is that of all rows together; for `empty` see `not_yet`, for `address` see `lane`.
    """
    top = max([hottest, *values], default=0)
    width = 100 / max(1, len(values))
    cells = []
    for index, value in list(enumerate(values))[absent:]:
        is_unknown = index < len(unknown) and unknown[index]
        begin = start + timedelta(seconds=index * bin_s)
        at = clock_text(begin, today=start)
        words = f"{at}: unknown" if is_unknown else f"{at}: {value:,} per {bin_text(bin_s)}"
        cell = format_html(
            '<rect {} x="{}" width="{}" y="3" height="18" rx="1"><title>{}</title></rect>',
            _UNKNOWN if is_unknown else format_html('class="h{}"', heat_step(value, top)),
            _percent(index * width),
            _percent(width * 0.91),
            words,
        )
        href = "" if address is None else address(begin, begin + timedelta(seconds=bin_s))
        cells.append((linked(href, words, cell),))
    return format_html(
        '<svg height="24" role="{}" aria-label="{}">{}{}</svg>',
        "img" if address is None else "group",
        f"{label}, {sum(values):,} in all",
        format_html_join("", "{}", cells),
        not_yet(min(empty, absent * width / 100)),
    )


def spark(values: Sequence[int | float | None], over: Grid | None = None) -> SafeString:
    """A line with its area, decoration beside a number that says the same. None interrupts it: unknown is not zero.

    With the grid that it is `over`, its values are read with their moments.
    """
    told = " ".join("-" if value is None else f"{round(value, 2):,}" for value in values)
    when = ""
    if over is not None:
        when = format_html('data-start-ms="{}" data-step-ms="{}"', over.start_s * 1000, over.bin_s * 1000)
    top = max((value for value in values if value is not None), default=0) or 1
    step = 100 / max(1, len(values) - 1)
    points = [None if value is None else (index * step, 22 - 20 * value / top) for index, value in enumerate(values)]
    runs = [[point for point in run if point] for is_there, run in groupby(points, key=bool) if is_there]
    return format_html(
        '<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true" data-values="{}" {}>{}'
        "</svg>",
        told,
        when,
        format_html_join(
            "",
            '<polygon class="area" points="{},24 {} {},24"/><polyline class="plot" points="{}"/>',
            [(f"{run[0][0]:.1f}", _points(run), f"{run[-1][0]:.1f}", _points(run)) for run in runs],
        ),
    )


def cells(words: Sequence[str]) -> SafeString | str:
    """A cell per thing in the pattern of its word (a state, or `wait` for plain ink); of very many, their shares."""
    if not words:
        return ""
    runs = [(word, len(list(run))) for word, run in groupby(words)]
    parts = [(word, 1) for word in words] if len(words) <= _MOST_CELLS else runs
    gap, total = 0.8, len(words)
    found, at = [], 0
    for word, count in parts:
        paint = format_html('class="{}"' if word == "wait" else 'fill="url(#p-{})"', word)
        width = max(0.5, 100 * count / total - (gap if len(parts) > 1 else 0))
        found.append((paint, _percent(100 * at / total), _percent(width)))
        at += count
    return format_html(
        '<svg class="cells" aria-hidden="true">{}</svg>',
        format_html_join("", '<rect {} x="{}" width="{}" height="10" rx="1"/>', found),
    )


def stacked(
    rows: Sequence[tuple[str, Sequence[int]]], patterns: Sequence[str], *, label: str, words: Sequence[str]
) -> SafeString:
    """A bar per row (its name, a number for each pattern, the first at the bottom); names stand below some of them.

    `words` are those of the patterns. What each bar holds stands in the page as a table, too.
    """
    top = max((sum(values) for _, values in rows), default=0) or 1
    width = 100 / max(1, len(rows))
    every = -(-len(rows) // _MOST_TICKS)
    bars, names = [], []
    for place, (name, values) in enumerate(rows):
        y = float(_STACK_PX)
        for value, pattern in zip(values, patterns, strict=True):
            height = _STACK_PX * value / top
            y -= height
            if value:
                bars.append((_percent(place * width), f"{y:.1f}", _percent(width * 0.82), f"{height:.1f}", pattern))
        if place % every == 0:
            names.append((_percent((place + 0.41) * width), _STACK_PX + 16, name))
    return format_html(
        '<svg class="stacked" role="img" aria-label="{}">{}{}{}</svg>',
        f"{label}: {sum(sum(values) for _, values in rows):,} in all, {top:,} at most",
        format_html_join("", '<rect x="{}" y="{}" width="{}" height="{}" fill="url(#p-{})"/>', bars),
        format_html_join("", '<text x="{}" y="{}" text-anchor="middle">{}</text>', names),
        format_html_join(
            "",
            '<rect class="catch" x="{}" width="{}" height="{}"><title>{}</title></rect>',
            [
                (_percent(place * width), _percent(width), _STACK_PX, _said(row, words))
                for place, row in enumerate(rows)
            ],
        ),
    )


def _said(row: tuple[str, Sequence[int]], words: Sequence[str]) -> str:
    """`Mon 3: 12 succeeded, 2 failed`: what a bar holds."""
    name, values = row
    told = ", ".join(f"{value:,} {word}" for value, word in zip(values, words, strict=True) if value)
    return f"{name}: {told or 0}"


def histogram(
    bars: Sequence[tuple[int | None, str, str]], *, label: str, marks: Sequence[tuple[float, str, str]] = ()
) -> SafeString:
    """Bars over time (a number, the address of the bar, its words), each a link; where the number is None a dotted rail
    at the foot, so that what is not known never looks like a high count. `marks` are deployments: the share of the
    width at which each stands, its address, its words.

    The links are for pointers: a table says the same to everybody.
    """
    top = max((number for number, _, _ in bars if number), default=0) or 1
    width = 100 / max(1, len(bars))
    drawn = []
    for place, (number, href, words) in enumerate(bars):
        height = _RAIL_PX if number is None else max(2.0 if number else 0.0, _BAR_PX * number / top)
        paint = _UNKNOWN if number is None else mark_safe('class="wait"')  # nosec B308  # a constant
        at = (_percent(place * width), _percent(width))
        bar = (at[0], f"{_BAR_PX - height:.1f}", _percent(width * 0.86), f"{height:.1f}")
        drawn.append((href, words, *at, _BAR_PX, paint, *bar))
    return format_html(
        '<svg class="histogram" height="{}" role="group" aria-label="{}">{}{}</svg>',
        _BAR_PX,
        f"{label}, {top if any(number for number, _, _ in bars) else 0:,} at most",
        format_html_join(
            "",
            '<a href="{}" tabindex="-1"><title>{}</title><rect class="catch" x="{}" width="{}" height="{}"/>'
            '<rect {} x="{}" y="{}" width="{}" height="{}"/></a>',
            drawn,
        ),
        _pins(marks),
    )


def _pins(marks: Sequence[tuple[float, str, str]]) -> SafeString:
    """Deployments as lines over the whole height, each with a hexagon at its top."""
    return format_html_join(
        "",
        '<a href="{}" tabindex="-1"><title>{}</title><line class="cursor" x1="{}" x2="{}" y1="0" y2="{}"/>'
        '<svg class="pinned" x="{}" width="14" height="10"><use href="#g-hexagon"/></svg></a>',
        [(href, words, at, at, _BAR_PX, at) for at, href, words in ((_percent(100 * x), *rest) for x, *rest in marks)],
    )


def bullet(rate: float | None, threshold: float | None = None) -> SafeString:
    """A share as a bar with a tick at its limit; only the track where the share is not known."""
    known = "not known" if rate is None else share_text(rate)
    limit = "" if threshold is None else f", limit {share_text(threshold)}"
    bar = "" if rate is None else _rect("wait", _clamped(rate))
    tick: SafeString | str = ""
    if threshold is not None:
        x = _percent(100 * _clamped(threshold))
        tick = format_html('<line class="cursor" x1="{}" x2="{}" y1="0" y2="12"/>', x, x)
    return format_html(
        '<svg class="bullet" role="img" aria-label="{}">{}{}{}</svg>', known + limit, _rect("track", 1.0), bar, tick
    )


def shares(parts: Sequence[tuple[int, str, str]], *, label: str) -> SafeString:
    """One bar of parts (how many, pattern, words) side by side; its label says them all."""
    total = sum(count for count, _, _ in parts)
    told = ", ".join(f"{count:,} {words}" for count, _, words in parts if count)
    bars, x = [], 0.0
    for count, pattern, words in parts:
        width = 100 * count / max(1, total)
        if count:
            bars.append((_percent(x), _percent(width), pattern, f"{count:,} {words}"))
        x += width
    return format_html(
        '<svg class="shares" role="img" aria-label="{}">{}</svg>',
        f"{label}: {told or 'none'}",
        format_html_join("", '<rect x="{}" width="{}" height="12" fill="url(#p-{})"><title>{}</title></rect>', bars),
    )


def ticks(start: datetime, end: datetime) -> list[Tick]:
    """At most eight round moments of the window; labels have the day where the window is longer than one."""
    length = end - start
    return [Tick(x=_percent(100 * ((at - start) / length)), words=words) for at, words in tick_moments(start, end)]


def tick_moments(start: datetime, end: datetime) -> list[tuple[datetime, str]]:
    """The same as moments: round for whoever reads them, also where their clock was put forward or back on the way."""
    length = (end - start).total_seconds()
    step = next((one for one in _TICK_STEPS_S if length / one <= _MOST_TICKS), _TICK_STEPS_S[-1])
    step *= max(1, -(-int(length / step) // _MOST_TICKS))
    ahead_s = _ahead_s(end)
    first = -(-(int(start.timestamp()) + ahead_s) // step) * step - ahead_s
    even = [datetime.fromtimestamp(at, UTC) for at in range(first - step, int(end.timestamp()) + step, step)]
    # By the least way to what is round on the clock of then; an hour that was left out has no such moment.
    moved = [at + timedelta(seconds=(ahead_s - _ahead_s(at) + step // 2) % step - step // 2) for at in even]
    found = [at for at in dict.fromkeys(moved) if (int(at.timestamp()) + _ahead_s(at)) % step == 0]
    return [(at, _tick_words(at, step)) for at in found if start <= at <= end]


def _ahead_s(moment: datetime) -> int:
    return int((timezone.localtime(moment).utcoffset() or timedelta()).total_seconds())


def grid(start: datetime, end: datetime) -> SafeString:
    """The vertical lines of `ticks`, for a lane."""
    lines = [(tick.x, tick.x) for tick in ticks(start, end)]
    return format_html_join("", '<line class="gridline" x1="{}" x2="{}" y1="0" y2="24"/>', lines)


def axis(start: datetime, end: datetime) -> SafeString:
    """The labels of `ticks`, as the last row of a group of lanes."""
    return _axis([(tick.x, tick.words) for tick in ticks(start, end)])


def _axis(labels: Sequence[tuple[str, str]]) -> SafeString:
    """Words below places in per cent; at an edge beside it, because paper cuts off what lies outside."""
    texts = [(x, _anchor(float(x.removesuffix("%"))), words) for x, words in labels]
    return format_html(
        '<svg class="axis" height="20" aria-hidden="true">{}</svg>',
        format_html_join("", '<text x="{}" y="13" text-anchor="{}">{}</text>', texts),
    )


def _anchor(x: float) -> str:
    if x < _EDGE:
        return "start"
    return "end" if x > 100 - _EDGE else "middle"


_UNKNOWN = mark_safe('fill="url(#p-unknown)"')  # nosec B308  # a constant


def _tick_words(at: datetime, step: int) -> str:
    at = timezone.localtime(at)
    if step >= 86_400:
        return f"{at.day} {at:%b}"
    return f"{at:%H:%M}" if step >= 60 else f"{at:%H:%M:%S}"


def _spans(segments: Sequence[Drawn], start: datetime, end: datetime) -> list[_Span]:
    """The segments as shares of the window; of very many, the worst in each pixel."""
    length = (end - start) / timedelta(seconds=1)
    spans = []
    for segment in segments:
        if isinstance(segment, MajoritySegment) and not segment.is_there:
            continue
        until = segment.end if segment.end is not None else end
        begin_share = max(0.0, (segment.start - start) / timedelta(seconds=1) / length)
        end_share = min(1.0, (until - start) / timedelta(seconds=1) / length)
        if begin_share < end_share:
            last = "so far" if segment.end is None else clock_text(until, today=end)
            words = f"{state_text(segment.state)}: {clock_text(segment.start, today=end)} to {last}"
            spans.append(_Span(segment.state, begin_share, end_share, words))
    return spans if len(spans) <= _CELLS else _coarse(spans)


def _coarse(spans: Iterable[_Span]) -> list[_Span]:
    worst: dict[int, _Span] = {}
    for span in spans:
        for cell in range(int(span.begin * _CELLS), min(_CELLS - 1, int(span.end * _CELLS)) + 1):
            if cell not in worst or RANK[span.state] > RANK[worst[cell].state]:
                worst[cell] = span
    runs = groupby(sorted(worst), key=lambda cell: worst[cell].state)
    found = []
    for state, group in runs:
        cells = list(group)
        words = f"{state_text(state)}, at times" if len(cells) > 1 else worst[cells[0]].words
        found.append(_Span(state, cells[0] / _CELLS, (cells[-1] + 1) / _CELLS, words))
    return found


def _bars(spans: Sequence[_Span], *, top_px: int) -> SafeString:
    """Rails first and trouble over them, never narrower than a pixel of a strip."""
    ordered = sorted(spans, key=lambda span: RANK[span.state] > RANK[State.CLOSED])
    return format_html_join("", "{}", [(linked(span.href, span.words, _bar(span, top_px)),) for span in ordered])


def _bar(span: _Span, top_px: int) -> SafeString:
    is_rail = span.state in (State.CLOSED, State.DISABLED)
    width = max(span.end - span.begin, 0 if span.state is State.CLOSED else 1 / _CELLS)
    x, wide = _percent(100 * min(span.begin, 1 - width)), _percent(100 * width)
    bar = format_html(
        '<rect x="{}" y="{}" width="{}" height="{}" fill="url(#p-{})"><title>{}</title></rect>',
        x,
        top_px + (_FILL_PX - _RAIL_PX) // 2 if is_rail else top_px,
        wide,
        _RAIL_PX if is_rail else _FILL_PX,
        State.CLOSED.value if span.state is State.DISABLED else state_word(span.state),
        span.words,
    )
    if span.state not in (State.FORCED_OPEN, State.DISABLED, State.METRICS_ONLY):
        return bar
    # An outline says that a person holds it.
    return format_html(
        '{}<rect class="edge f-{}" x="{}" y="{}" width="{}" height="{}"/>',
        bar,
        state_word(span.state),
        x,
        top_px + 0.75,
        wide,
        _FILL_PX - 1.5,
    )


def _in_words(segments: Sequence[Drawn], end: datetime) -> str:
    """What a drawing says to those who do not see it: how it ends, and how long it was in each other state."""
    if not segments:
        return "not reported"
    others: dict[str, timedelta] = {}
    segments = [one for one in segments if not isinstance(one, MajoritySegment) or one.is_there]
    if not segments:
        return "not reporting"
    for segment in segments:
        if segment.state is not State.CLOSED:
            length = (segment.end if segment.end is not None else end) - segment.start
            others[state_text(segment.state)] = others.get(state_text(segment.state), timedelta()) + length
    total = max((segments[-1].end or end) - segments[0].start, timedelta(microseconds=1))
    parts = [f"{share_text(length / total)} {word}" for word, length in others.items()]
    return f"{state_text(segments[-1].state)} at the end" + (
        f", {', '.join(parts)}" if parts else ", closed throughout"
    )


def _rect(name: str, share: float) -> SafeString:
    width = _percent(100 * share)
    return format_html('<rect class="{}" y="3" width="{}" height="6" rx="1"/>', name, width)


def _points(run: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in run)


def _clamped(share: float) -> float:
    return max(0.0, min(1.0, share))


def _percent(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".") + "%"


def heat_cells(cells: Sequence[tuple[int | None, str]], *, label: str) -> SafeString:
    """Cells of one width, each with its step of heat (0 to 5, None where nothing is known) and what it says."""
    width = 100 / max(1, len(cells))
    drawn = [
        (_UNKNOWN if step is None else format_html('class="h{}"', step), _percent(place * width), words)
        for place, (step, words) in enumerate(cells)
    ]
    return format_html(
        '<svg height="24" role="img" aria-label="{}">{}</svg>',
        label,
        format_html_join(
            "",
            '<rect {} x="{}" width="{}" y="3" height="18" rx="1"><title>{}</title></rect>',
            [(paint, x, _percent(width * 0.96), words) for paint, x, words in drawn],
        ),
    )


def axis_of(labels: Sequence[tuple[float, str]]) -> SafeString:
    """Words at shares of the width, as the last row of a group of lanes."""
    return _axis([(_percent(100 * share), words) for share, words in labels])
