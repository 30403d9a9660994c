"""A figure on the reader's clock: plotly shows every moment as UTC, so it is given that clock's time as if it were.

One offset for all of it, that of its end: an axis of time is even, and a clock that is put back would draw an hour
twice. Where the clock changes in the window, every label and every hover says what it showed at that moment instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone

from events.charts.drawing import tick_moments
from events.timelines.charts import AT, beside, to_ms
from events.wording import clock_text

_STEP = timedelta(hours=12)
"""No clock is changed twice within so short a time."""


def as_read(figure: dict[str, Any], start: datetime, end: datetime) -> dict[str, Any]:
    """The figure of a window on the clock of whoever reads it now."""
    if is_clock_changed(start, end):
        figure = _labelled(figure, start, end)
    return on_clock(figure, _ahead(end))


def is_clock_changed(start: datetime, end: datetime) -> bool:
    """Whether the reader's clock is put forward or back within a window."""
    return len({_ahead(at) for at in _moments(start, end)}) > 1


def _moments(start: datetime, end: datetime) -> Iterator[datetime]:
    at = start
    while at < end:
        yield at
        at += _STEP
    yield end


def _ahead(moment: datetime) -> timedelta:
    return timezone.localtime(moment).utcoffset() or timedelta()


def _labelled(figure: dict[str, Any], start: datetime, end: datetime) -> dict[str, Any]:
    """The figure with its labels and its hover as words; a zoom makes its own ticks, so the script is told."""
    layout = figure["layout"]
    found = tick_moments(start, end)
    axis = {
        "tickmode": "array",
        "tickvals": [to_ms(at) for at, _ in found],
        "ticktext": [words for _, words in found],
    }
    changed = {
        "xaxis": layout["xaxis"] | axis,
        "hovermode": "closest",
        "meta": layout["meta"] | {"is_clock_changed": True},
    }
    return {"data": [_with_words(trace, end) for trace in figure["data"]], "layout": layout | changed}


def _with_words(trace: dict[str, Any], end: datetime) -> dict[str, Any]:
    """A trace that counts per moment, whose hover names each by the clock of then; bars that lie say it already."""
    if trace.get("orientation") == "h" or trace.get("meta") == "marks" or "base" in trace:
        return trace
    words = _clock_words(end)
    if "x" in trace:
        text: list[Any] = [words(at) for at in trace["x"]]
    else:
        text = [words(trace["x0"] + place * trace["dx"]) for place in range(len(trace["y"]))]
    if trace["type"] == "heatmap":
        text = [text] * len(trace["y"])
    template = trace["hovertemplate"].replace(AT, "").replace("<extra>", "<br>%{text}<extra>")
    drawn = {"textposition": "none"} if trace["type"] == "bar" else {}
    return {**trace, **drawn, "text": text, "hovertemplate": template}


def _clock_words(end: datetime) -> Callable[[float], str]:
    return lambda at_ms: clock_text(datetime.fromtimestamp(at_ms / 1000, UTC), today=end)


def on_clock(figure: dict[str, Any], ahead: timedelta) -> dict[str, Any]:
    """The figure with every moment so much later, and `layout.meta.ahead_ms`, by which a script finds the true ones."""
    ahead_ms = round(ahead.total_seconds() * 1000)
    layout = figure["layout"]
    axis = layout["xaxis"]
    notes = [
        {**note, "x": note["x"] + ahead_ms} if note.get("xref") == "x" else note
        for note in layout.get("annotations", ())
    ]
    ticks = {"tickvals": _each(axis["tickvals"], ahead_ms)} if "tickvals" in axis else {}
    below = {**axis, **ticks, "range": [_later(text, ahead) for text in axis["range"]]}
    moved = {
        "xaxis": below,
        **({"xaxis2": beside(below)} if "xaxis2" in layout else {}),
        "annotations": notes,
        "meta": {**layout.get("meta", {}), "ahead_ms": ahead_ms},
    }
    return {"data": [_moved(trace, ahead_ms) for trace in figure["data"]], "layout": layout | moved}


def _moved(trace: dict[str, Any], ahead_ms: int) -> dict[str, Any]:
    # A bar that lies begins at its base, and its x is a length; all else stands at its x.
    names = ("base",) if trace.get("orientation") == "h" else ("x", "x0")
    moved = {name: _each(trace[name], ahead_ms) for name in names if name in trace}
    return trace | moved


def _each(moments: Any, ahead_ms: int) -> Any:
    return [one + ahead_ms for one in moments] if isinstance(moments, list) else moments + ahead_ms


def _later(text: str, ahead: timedelta) -> str:
    return (datetime.fromisoformat(text) + ahead).isoformat(sep=" ", timespec="milliseconds")
