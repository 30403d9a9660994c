"""A figure, its tables and its sentence; and how bands are stacked into one figure over one time axis.

A band is a group of lanes, or of bars or a line, that shares a heading. Everything here is pure: bands in, plain values
out that are ready for JSON. Colours are `token:--name`, or `token:--name/38` for 38 % of it mixed into the panel;
`static/js/timeline.js` puts the values of the page's theme in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from events.rows import WORST_FIRST
from events.timelines.durations import TimeInState
from events.wording import NOT_YET, share_text, span_text, state_word, zone_word
from recovery_ops.rules.enums import State

MARGIN = {"l": 172, "r": 132, "t": 8, "b": 28}
NARROW_MARGIN = {"l": 136, "r": 16, "t": 8, "b": 28}
"""Below 640 px: labels are shorter there, and the values at the right are left out."""
TOP_AXIS_PX = 28
"""Above the first band of a figure that is taller than a screen: its hours stand at both ends."""
LANE_PX = 24
PLOT_PX = 96
HEADING_PX = 32
UIREVISION = "timeline"
"""Constant, so that new data leaves the reader's zoom alone."""
TRANSPARENT = "rgba(0,0,0,0)"
AT = "<br>%{x|%H:%M:%S}"
"""The end of a hover text about a moment; a hover that gathers all series of a moment names it once, above them."""

_LABEL_CHARS = 23

Value = str | int | float | None
Trace = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """Where a row or a drawn span leads: to its time, to what it is about, to the fact that began it, to a page."""

    start: datetime | None = None
    end: datetime | None = None
    breaker: str = ""
    fact_id: int | None = None
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The same numbers as the figure's, as rows; `trails` has one for each row, or none at all."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    trails: tuple[Trail, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """`figure` is `{"data", "layout"}` for Plotly, `height_px` what the page reserves for it before it is loaded."""

    figure: dict[str, Any]
    tables: tuple[Table, ...]
    caption: str
    captions: tuple[str, ...]
    """The sentence of each band; `caption` is all of them."""
    height_px: int
    bands: tuple[Band, ...]
    start: datetime
    end: datetime
    began: datetime | None = None
    """The first sign of life, before which nothing is drawn."""
    has_top_axis: bool = False
    times: TimeInState | None = None
    """How long its breakers were in each state, all lanes added up; None where it shows no states."""

    @property
    def table(self) -> Table:
        """The table of a chart that has one band."""
        return self.tables[0]

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Each state and how long it lasted: `closed`, `5h 12m 04s, 87 %`; empty words where it never did."""
        if self.times is None:
            return []
        known = [(state_word(state), _lasted(self.times, state)) for state in reversed(WORST_FIRST)]
        return [*known, (state_word(None), span_text(self.times.unknown) if self.times.unknown else "")]

    def band(self, key: str) -> Band | None:
        """The band of this name; None where it was left out."""
        return next((band for band in self.bands if band.key == key and not band.is_part), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One row of a band: its label at the left and what it says now at the right."""

    name: str
    value: str = ""
    href: str = ""
    """The page about what it shows; its label leads there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Traces that share a heading and a vertical axis; with `lanes`, one category per lane, the first on top."""

    title: str
    key: str = ""
    """What it is called in an address."""
    traces: tuple[Trace, ...]
    lanes: tuple[Lane, ...] = ()
    top: float = 0.0
    """The upper end of the scale of a band without lanes."""
    plot_px: int = PLOT_PX
    """How high such a band is drawn."""
    has_scale: bool = True
    label: str = ""
    value: str = ""
    table: Table
    caption: str
    is_named_empty: bool = True
    """Whether the words for the time before the first sign of life may stand in it; not where it has lanes then."""
    is_untold: bool = False
    """Whether what it shows is not told of what was asked for; its sentence says why."""
    is_part: bool = False
    """Its lanes belong to another band of the figure, which has the table and the sentence of them all."""

    @property
    def height_px(self) -> int:
        """How high its plot is, without the heading."""
        return LANE_PX * max(1, len(self.lanes)) if self.lanes or not self.top else self.plot_px


def _lasted(times: TimeInState, state: State) -> str:
    spent = times.by_state.get(state)
    return f"{span_text(spent)}, {share_text(times.share(state))}" if spent else ""


def plain(text: str) -> str:
    """A text that Plotly shows as it is: names come from outside, and it would read `<a href=…>` in them as a link."""
    return text.replace("<", "‹").replace(">", "›")


def short(text: str) -> str:
    """A label that fits its column; the whole name is in the hover and in the table."""
    return text if len(text) <= _LABEL_CHARS else f"{text[: _LABEL_CHARS - 1]}…"


def to_ms(moment: datetime) -> int:
    """Milliseconds since the epoch, which Plotly takes on a date axis in UTC."""
    return round(moment.timestamp() * 1000)


def compose(
    bands: Sequence[Band],
    *,
    start: datetime,
    end: datetime,
    has_headings: bool = True,
    has_top_axis: bool = False,
    hover: str = "closest",
    began: datetime | None = None,
    times: TimeInState | None = None,
    more: Sequence[Table] = (),
) -> Chart:
    """The bands below each other over one time axis, each under its heading; a single one is named by its panel.

    Left of `began`, the first sign of life, stands that nothing was there yet. `more` are tables without a band.
    """
    plot_px = sum(band.height_px + (HEADING_PX if has_headings else 0) for band in bands)
    height_px = plot_px + (top_px := TOP_AXIS_PX if has_top_axis else MARGIN["t"]) + MARGIN["b"]
    layout = _layout(start, end, height_px, top_px) | {"hovermode": hover}
    data: list[Trace] = []
    annotations: list[dict[str, Any]] = []
    below_px, axis = 0, "y"
    for place, band in enumerate(bands, start=1):
        axis = f"y{place}" if place > 1 else "y"
        below_px += HEADING_PX if has_headings else 0
        top = 1 - below_px / plot_px
        below_px += band.height_px
        layout[axis.replace("y", "yaxis")] = _y_axis(band, (max(0.0, 1 - below_px / plot_px), top))
        data += [{**_hovered(trace, hover), "xaxis": "x", "yaxis": axis} for trace in band.traces]
        annotations += _notes(band, axis, top, has_heading=has_headings)
        annotations += _not_yet(band, axis, start, end, began)
    layout["xaxis"]["anchor"] = axis
    layout |= {"annotations": annotations, "meta": _meta(bands)}
    if has_top_axis and bands:
        layout["xaxis2"] = beside(layout["xaxis"])
        annotations.append(_note("zone", zone_word(end), y=1, **_ZONE))
    caption = " ".join(band.caption for band in bands if band.caption and not band.is_part)
    return Chart(
        figure={"data": data, "layout": layout},
        tables=(*(band.table for band in bands if not band.is_part), *more),
        caption=caption,
        captions=tuple(band.caption for band in bands if band.caption and not band.is_part),
        height_px=height_px,
        bands=tuple(bands),
        start=start,
        end=end,
        began=began,
        has_top_axis=has_top_axis,
        times=times,
    )


def _meta(bands: Sequence[Band]) -> dict[str, Any]:
    """For the page's script: the pages that labels lead to, by axis and lane."""
    led = {
        f"y{place}" if place > 1 else "y": {plain(lane.name): lane.href for lane in band.lanes if lane.href}
        for place, band in enumerate(bands, start=1)
    }
    leads = {axis: pages for axis, pages in led.items() if pages}
    return {"leads": leads} if leads else {}


def beside(axis: Trace) -> Trace:
    """The same axis of time once more, at the top: it moves with the other one."""
    kept = {name: value for name, value in axis.items() if not name.startswith("spike") and name != "showspikes"}
    place = {"anchor": "free", "position": 1, "side": "top", "overlaying": "x", "matches": "x", "showgrid": False}
    return {"tickmode": "auto", **kept, **place}


def _hovered(trace: Trace, hover: str) -> Trace:
    if hover == "closest" or "hovertemplate" not in trace:
        return trace
    return {**trace, "hovertemplate": trace["hovertemplate"].replace(AT, "")}


def _layout(start: datetime, end: datetime, height_px: int, top_px: int) -> dict[str, Any]:
    return {
        "height": height_px,
        "margin": {**MARGIN, "t": top_px, "pad": 0},
        "paper_bgcolor": TRANSPARENT,
        "plot_bgcolor": TRANSPARENT,
        "font": {"family": "token:--sans", "size": 12, "color": "token:--ink-3"},
        "showlegend": False,
        "barmode": "stack",
        "bargap": 0.04,
        "dragmode": "zoom",
        "spikedistance": -1,
        "hoverlabel": {
            "bgcolor": "token:--raised",
            "bordercolor": "token:--line",
            "align": "left",
            "font": {"family": "token:--sans", "size": 12, "color": "token:--ink"},
        },
        "uirevision": UIREVISION,
        "template": {"layout": {"annotationdefaults": _NOTE}},
        "xaxis": {
            "type": "date",
            "range": [_axis_text(start), _axis_text(end)],
            "showgrid": True,
            "gridcolor": "token:--line",
            "gridwidth": 1,
            "zeroline": False,
            "showline": False,
            "ticks": "",
            "nticks": 8,
            "tickangle": 0,
            "automargin": False,
            "tickformatstops": [
                {"dtickrange": [None, 59_999], "value": "%H:%M:%S"},
                {"dtickrange": [60_000, 86_399_999], "value": "%H:%M"},
                {"dtickrange": [86_400_000, None], "value": "%-d %b"},
            ],
            "hoverformat": "%H:%M:%S",
            "showspikes": True,
            "spikemode": "across",
            "spikesnap": "cursor",
            "spikecolor": "token:--ink",
            "spikethickness": 1,
            "spikedash": "solid",
        },
    }


def _axis_text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _y_axis(band: Band, domain: tuple[float, float]) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "domain": [round(part, 5) for part in domain],
        "anchor": "x",
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "showticklabels": False,
        "automargin": False,
    }
    if not band.lanes:
        return axis | {"range": [0, band.top or 1]}
    names = [plain(lane.name) for lane in band.lanes]
    return axis | {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": names,
        "range": [len(names) - 0.5, -0.5],
    }


def _notes(band: Band, axis: str, top: float, *, has_heading: bool) -> list[dict[str, Any]]:
    notes = [_note("heading", band.title, y=top, **_HEADING)] if has_heading else []
    for lane in band.lanes:
        place = {"yref": axis, "y": plain(lane.name)}
        notes.append(_note("label", short(plain(lane.name)), **place, **_AT_EDGE))
        if lane.value:
            notes.append(_note("value", plain(lane.value), **place, **_VALUE))
    if band.lanes:
        return notes
    if not band.top:
        return [*notes, _note("empty", plain(band.caption), yref=axis, y=0.5, **_EMPTY)]
    notes.append(_note("label", short(plain(band.label)), yref=axis, y=band.top / 2, **_AT_EDGE))
    if band.has_scale:
        notes.append(_note("scale", f"{band.top:,.0f}", yref=axis, y=band.top, **_SCALE))
    notes.append(_note("value", plain(band.value), yref=axis, y=band.top / 2, **_VALUE))
    return notes


def _not_yet(band: Band, axis: str, start: datetime, end: datetime, began: datetime | None) -> list[dict[str, Any]]:
    """The words in the middle of the empty span, where it is wide enough for them and the band is not empty anyway."""
    if began is None or not start < began or not band.is_named_empty or not (band.lanes or band.top):
        return []
    if (min(began, end) - start) / (end - start) < _LEAST_EMPTY:
        return []
    middle = start + (min(began, end) - start) / 2
    return [_note("absent", NOT_YET, xref="x", x=to_ms(middle), yref=f"{axis} domain", y=0.5, **_ABSENT)]


def _note(name: str, text: str, **place: Any) -> dict[str, Any]:
    """A text beside the plots; what it does not say itself is `_NOTE`'s. `name` tells the page's script which it is."""
    return {"name": name, "text": text, **place}


_NOTE: dict[str, Any] = {
    "showarrow": False,
    "xref": "paper",
    "x": 0,
    "xanchor": "left",
    "yanchor": "middle",
    "align": "left",
    "font": {"size": 13, "color": "token:--ink"},
}
_AT_EDGE: dict[str, Any] = {"xshift": -MARGIN["l"]}
"""It begins at the left edge of the panel; on narrow screens the page's script moves it with the margin."""
_HEADING: dict[str, Any] = _AT_EDGE | {
    "yref": "paper",
    "yanchor": "bottom",
    "yshift": 4,
    "font": {"size": 12, "color": "token:--ink-2"},
}
_ZONE: dict[str, Any] = _AT_EDGE | {
    "yref": "paper",
    "yanchor": "bottom",
    "yshift": -3,
    "font": {"size": 12, "color": "token:--ink-3"},
}
"""Whose clock it is, beside the upper axis."""
_VALUE: dict[str, Any] = {
    "x": 1,
    "xanchor": "right",
    "xshift": MARGIN["r"],
    "font": {"size": 12, "color": "token:--ink-2"},
}
"""It ends at the right edge of the panel."""
_SCALE: dict[str, Any] = {"yanchor": "top", "font": {"size": 11, "color": "token:--ink-3"}}
"""The one label of a scale: its upper end, inside the plot."""
_ABSENT: dict[str, Any] = {"xanchor": "center", "font": {"size": 12, "color": "token:--ink-3"}}
_LEAST_EMPTY = 0.12
"""Narrower than this share of the axis, the words would not fit."""
_EMPTY: dict[str, Any] = {"font": {"size": 12, "color": "token:--ink-3"}}
"""Why a band has no lanes; it keeps the height of one."""
