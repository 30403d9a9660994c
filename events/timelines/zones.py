"""A figure on the reader's clock: plotly shows every moment as UTC, so it is given that clock's time as if it were."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any


def on_clock(figure: dict[str, Any], ahead: timedelta) -> dict[str, Any]:
    """The figure with every moment so much later, and `layout.meta.ahead_ms`, by which a script finds the true ones.

    One offset for all of it, that of its end: a clock that is put back would draw an hour twice.
    """
    ahead_ms = round(ahead.total_seconds() * 1000)
    layout = figure["layout"]
    axis = layout["xaxis"]
    notes = [
        {**note, "x": note["x"] + ahead_ms} if note.get("xref") == "x" else note
        for note in layout.get("annotations", ())
    ]
    moved = {
        "xaxis": {**axis, "range": [_later(text, ahead) for text in axis["range"]]},
        "annotations": notes,
        "meta": {"ahead_ms": ahead_ms},
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
