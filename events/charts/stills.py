"""A figure as rows of SVG: what a page shows until plotly has loaded, and where it never does.

Drawn from the same bands, in the same places and with the same patterns, so that nothing moves when plotly takes over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from events.charts import drawing
from events.timelines.charts import LANE_PX, PLOT_PX, TRANSPARENT, Band, Chart, Trace, plain, to_ms
from events.wording import NOT_YET, zone_word

_NEAR = 0.2
"""Bars of one kind that are closer than this (per cent of the width) cannot be told apart, and are one."""
_LEAST_WIDTH = 0.3
_LEAST_EMPTY = 12.0
"""In per cent of the width; narrower, the words for the time before the first sign of life would not fit."""
_SERIES = "token:--series-"
_PAPER = 1000
"""The width of what is not drawn in per cent: lines, which stretch with the column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: a heading without a drawing, or a lane or plot with what it says now at its right."""

    label: str
    value: str = ""
    href: str = ""
    drawing: SafeString | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Still:
    """All rows, top to bottom, and the labels of the time axis."""

    rows: Sequence[Row]
    axis: SafeString
    zone: str = ""
    """Whose clock it is, where the axis stands above the rows as well."""
    inks: Sequence[tuple[str, str]] = ()
    """What stacked columns are told apart by: what each stands for, and the class of its ink."""

    @property
    def is_linked(self) -> bool:
        """Whether a key gets into it; where none does, it has to be scrolled by itself."""
        return any(row.href for row in self.rows)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where moments lie, in per cent of the width."""

    start_ms: int
    end_ms: int
    empty: float
    """How much of it lies before the first sign of life."""

    def at(self, moment_ms: float) -> float:
        share = 100 * (moment_ms - self.start_ms) / (self.end_ms - self.start_ms)
        return max(0.0, min(100.0, share))


def still_of(chart: Chart) -> Still:
    """The rows of a figure over one time axis."""
    start_ms, end_ms = to_ms(chart.start), to_ms(chart.end)
    scale = _Scale(start_ms, end_ms, 0.0)
    if chart.began is not None:
        scale = _Scale(start_ms, end_ms, scale.at(to_ms(chart.began)))
    lines = [(tick.x, tick.x) for tick in drawing.ticks(chart.start, chart.end)]
    grid = format_html_join("", '<line class="gridline" x1="{}" x2="{}" y1="0" y2="100%"/>', lines)
    rows = [row for band in chart.bands for row in _rows(band, scale, grid)]
    zone = zone_word(chart.end) if chart.has_top_axis else ""
    inks = list(dict.fromkeys(named for band in chart.bands if not band.lanes for named in _inks(band)))
    return Still(rows=rows, axis=drawing.axis(chart.start, chart.end), zone=zone, inks=inks)


def _inks(band: Band) -> Iterator[tuple[str, str]]:
    """But for what the row itself is named after."""
    for trace in band.traces:
        if trace["type"] == "bar" and "base" not in trace and trace["name"] != band.label and (ink := _ink(trace)):
            yield trace["name"].replace("_", " "), ink


def _ink(trace: Trace) -> str:
    """The class of its colour, `s1` to `s4`; empty for what has a pattern."""
    colour = str(trace["marker"]["color"])
    return f"s{colour.removeprefix(_SERIES)}" if colour.startswith(_SERIES) else ""


def _rows(band: Band, scale: _Scale, grid: SafeString) -> Iterator[Row]:
    yield Row(label=band.title)
    if band.lanes:
        yield from _lanes(band, scale, grid)
    elif band.top:
        words = _not_yet(scale, band.plot_px // 2) if band.is_named_empty else ""
        scale_end = format_html('<text x="2" y="12">{}</text>', f"{band.top:,.0f}") if band.has_scale else ""
        body = format_html_join("", "{}", ((part,) for part in _plot(band, scale)))
        yield Row(label=band.label, value=band.value, drawing=_svg(band.plot_px, grid, body, words, scale_end))
    else:
        said = format_html('<text x="0" y="16">{}</text>', band.caption)
        yield Row(label="", drawing=_svg(LANE_PX, grid, said))


def _lanes(band: Band, scale: _Scale, grid: SafeString) -> Iterator[Row]:
    drawn: dict[str, list[SafeString]] = {}
    for trace in band.traces:
        for name, part in _DRAWN_BY[trace["type"]](trace, scale):
            drawn.setdefault(name, []).append(part)
    middle = (len(band.lanes) - 1) // 2
    for place, lane in enumerate(band.lanes):
        words = _not_yet(scale, 16) if band.is_named_empty and place == middle else ""
        body = format_html_join("", "{}", ((part,) for part in drawn.get(plain(lane.name), [])))
        yield Row(label=lane.name, value=lane.value, href=lane.href, drawing=_svg(LANE_PX, grid, body, words))


def _svg(height_px: int, *parts: SafeString | str) -> SafeString:
    body = format_html_join("", "{}", ((part,) for part in parts))
    return format_html('<svg height="{}" aria-hidden="true">{}</svg>', height_px, body)


def _not_yet(scale: _Scale, y: int) -> SafeString | str:
    if scale.empty < _LEAST_EMPTY:
        return ""
    return format_html('<text x="{}" y="{}" text-anchor="middle">{}</text>', _percent(scale.empty / 2), y, NOT_YET)


def _bars(trace: Trace, scale: _Scale) -> Iterator[tuple[str, SafeString]]:
    """The bars of a trace that lies in lanes, by lane."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for name, base, length in zip(trace["y"], trace["base"], trace["x"], strict=True):
        spans.setdefault(name, []).append((scale.at(base), scale.at(base + length)))
    height = LANE_PX * trace["width"]
    top = LANE_PX * (0.5 + trace["offset"]) if "offset" in trace else (LANE_PX - height) / 2
    paint = _paint(trace)
    for name, found in spans.items():
        for begin, end in _merged(found):
            width = max(end - begin, _LEAST_WIDTH)
            place = (_percent(min(begin, 100 - width)), _percent(width), _px(top), _px(height))
            yield name, format_html('<rect {} x="{}" width="{}" y="{}" height="{}"/>', paint, *place)


_PATHS = {
    "square": "M-4.5 7.5h9v9h-9z",
    "diamond": "M0 6 6 12 0 18-6 12z",
    "circle": "M-4.500 12a4.500 4.500 0 1 0 9 0a4.500 4.500 0 1 0-9 0z",
    "hexagon": "M-4.800 9.200 0 6.500 4.800 9.200v5.600L0 17.500-4.800 14.800z",
    "triangle-up": "M0 6.500 6 17.500H-6z",
}
"""The glyphs of marks, around the point where they stand; the word beside each says what it is."""


def _marks(trace: Trace, scale: _Scale) -> Iterator[tuple[str, SafeString]]:
    """The marks of a trace, each with its word at its side where there is room."""
    path = _PATHS[trace["marker"]["symbol"]]
    for at, name, text, side in zip(trace["x"], trace["y"], trace["text"], trace["textposition"], strict=True):
        x = _percent(scale.at(at))
        place = ("-10", "end") if side == "middle left" else ("10", "start")
        words = format_html('<text dx="{}" y="16" text-anchor="{}">{}</text>', *place, text.strip()) if text else ""
        yield (
            name,
            format_html('<svg x="{}" overflow="visible"><path class="pin" d="{}"/>{}</svg>', x, path, words),
        )


def _dots(trace: Trace, band: Band, scale: _Scale) -> Iterator[SafeString]:
    """The marks of a trace that lies in a plot, each as high as its value."""
    path = _PATHS[trace["marker"]["symbol"]]
    for at, value in zip(trace["x"], trace["y"], strict=True):
        y = _px(band.plot_px * (1 - value / band.top) - LANE_PX / 2)
        x = _percent(scale.at(at))
        yield format_html('<svg x="{}" y="{}" overflow="visible"><path class="pin" d="{}"/></svg>', x, y, path)


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    whole: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if whole and begin - whole[-1][1] < _NEAR:
            whole[-1] = (whole[-1][0], max(whole[-1][1], end))
        else:
            whole.append((begin, end))
    return whole


def _paint(trace: Trace) -> SafeString:
    """Its pattern of the sprite; an outline where a person holds a breaker whose calls flow."""
    name = trace["name"]
    if name == "auto":
        return format_html('class="{}"', "track")
    if trace["marker"]["color"] == TRANSPARENT:
        return format_html('class="edge f-{}"', name)
    return format_html('fill="url(#p-{})"', name)


def _cells(trace: Trace, scale: _Scale) -> Iterator[tuple[str, SafeString]]:
    """The cells of a heat row: one track for all that is known, and a cell for each bin that is warmer than none."""
    starts, bin_ms = trace["x"], trace["xperiod"]
    for name, steps in zip(trace["y"], trace["z"], strict=True):
        known = [
            (scale.at(at), scale.at(at + bin_ms)) for at, step in zip(starts, steps, strict=True) if step is not None
        ]
        for begin, end in _merged(known):
            yield name, _cell(0, begin, end)
        for at, step in zip(starts, steps, strict=True):
            if step:
                yield name, _cell(step, scale.at(at), scale.at(at + bin_ms * 0.92))


_DRAWN_BY = {"bar": _bars, "heatmap": _cells, "scatter": _marks}


def _cell(step: int, begin: float, end: float) -> SafeString:
    text = '<rect class="h{}" x="{}" width="{}" y="3" height="18"/>'
    return format_html(text, step, _percent(begin), _percent(end - begin))


def _plot(band: Band, scale: _Scale) -> Iterator[SafeString]:
    below: dict[int, float] = {}
    for trace in band.traces:
        if trace.get("mode") == "markers":
            yield from _dots(trace, band, scale)
        elif trace["type"] == "scatter":
            yield _line(trace, band, scale)
        elif "base" in trace:
            yield from _gaps(trace, band, scale)
        else:
            yield from _columns(trace, band.top, scale, below)


def _columns(trace: Trace, top: float, scale: _Scale, below: dict[int, float]) -> Iterator[SafeString]:
    """Columns on top of those that were drawn before, whose heights are in `below`."""
    ink = _ink(trace)
    paint = format_html('class="{}"', ink) if ink else format_html('fill="url(#p-{})"', "unknown")
    for place, value in enumerate(trace["y"]):
        if not value:
            continue
        begin = trace["x0"] + place * trace["dx"] + trace["offset"]
        height = PLOT_PX * value / top
        below[place] = below.get(place, 0.0) + height
        left, right = scale.at(begin), scale.at(begin + trace["width"])
        where = (_percent(left), _percent(right - left), _px(PLOT_PX - below[place]), _px(height))
        yield format_html('<rect {} x="{}" width="{}" y="{}" height="{}"/>', paint, *where)


def _gaps(trace: Trace, band: Band, scale: _Scale) -> Iterator[SafeString]:
    """A rail at the foot, so that what is not known never looks like a high count."""
    for middle, width, value in zip(trace["x"], trace["width"], trace["y"], strict=True):
        begin, end = scale.at(middle - width / 2), scale.at(middle + width / 2)
        height = band.plot_px * value / band.top
        text = '<rect fill="url(#p-unknown)" x="{}" width="{}" y="{}" height="{}"/>'
        yield format_html(text, _percent(begin), _percent(end - begin), _px(band.plot_px - height), _px(height))


def _line(trace: Trace, band: Band, scale: _Scale) -> SafeString:
    """A step line, with its area where it has one; what is not known interrupts it."""
    height_px = band.plot_px
    runs: list[list[tuple[float, float]]] = [[]]
    for at, value in zip(trace["x"], trace["y"], strict=True):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((scale.at(at) * _PAPER / 100, height_px - (height_px - 2) * value / band.top))
    drawn = [(_points(run), f"{run[0][0]:.1f}", f"{run[-1][0]:.1f}") for run in runs if run]
    if "fill" not in trace:
        look = "limit" if "dash" in trace["line"] else "plot"
        lines = format_html_join("", '<polyline class="{}" points="{}"/>', ((look, points) for points, _, _ in drawn))
        text = '<svg viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>'
        return format_html(text, _PAPER, height_px, lines)
    return format_html(
        '<svg viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>',
        _PAPER,
        height_px,
        format_html_join(
            "",
            '<polygon class="area" points="{},{} {} {},{}"/><polyline class="plot" points="{}"/>',
            ((first, height_px, points, last, height_px, points) for points, first, last in drawn),
        ),
    )


def _points(run: Sequence[tuple[float, float]]) -> str:
    """The corners of a line; in a level stretch only its ends."""
    kept = [
        point
        for place, point in enumerate(run)
        if place in (0, len(run) - 1) or not run[place - 1][1] == point[1] == run[place + 1][1]
    ]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in kept)


def _percent(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".") + "%"


def _px(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
