"""Lanes that are pinned are taken out of their bands and stand above all of them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from events.timelines.charts import Band, Trace, plain
from events.timelines.choosing import Choice

_BY_ROW = ("y", "z", "customdata")
"""What a heatmap has one of for each of its lanes; its `x` is one for each bin."""


def arranged(bands: Sequence[Band], choice: Choice) -> list[Band]:
    """The bands in the order of the choice, and above them what is pinned of them.

    A band of which some lanes are pinned keeps its table and its sentence, which speak of all of them; one of which
    all are stands above as it is.
    """
    pinned: list[Band] = []
    others: list[Band] = []
    for band in choice.in_order(bands, lambda band: band.key):
        names = {lane.name for lane in band.lanes} & choice.pinned(band.key)
        if not names:
            others.append(band)
            continue
        left = [lane.name for lane in band.lanes if lane.name not in names]
        pinned.append(replace(_only(band, names), title=f"Pinned: {band.title}", is_part=bool(left)))
        others += [_only(band, left)] if left else []
    return [*pinned, *others]


def _only(band: Band, names: Collection[str]) -> Band:
    """A band with some of its lanes."""
    kept = {plain(name) for name in names}
    traces = tuple(trace for whole in band.traces for trace in _of_lanes(whole, kept))
    return replace(band, lanes=tuple(lane for lane in band.lanes if lane.name in names), traces=traces)


def _of_lanes(trace: Trace, names: Collection[str]) -> Iterator[Trace]:
    """What a trace draws in these lanes; nothing where it draws nothing there."""
    places = [place for place, name in enumerate(trace["y"]) if name in names]
    if not places:
        return
    length = len(trace["y"])
    is_heat = trace["type"] == "heatmap"

    def kept(name: str, value: Any) -> Any:
        is_each = isinstance(value, list) and len(value) == length and (name in _BY_ROW or not is_heat)
        return [value[place] for place in places] if is_each else value

    yield {name: kept(name, value) for name, value in trace.items()}
