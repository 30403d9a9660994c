"""How long things took, drawn small: a box from one of ten to nine of ten with its median, upright or in a lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from events.wording import span_text

_HEIGHT_PX = 120
_MOST_NAMES = 8
_BAR_PX = 8
_ROUND_S = (10, 20, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800)
_TICKS_S = (1, 10, 60, 300, 900, 3600, 4 * 3600, 86_400, 7 * 86_400)
_LEAST_PX = 2.0
_GUTTER = 20.0
"""Per cent of the width in which the scale is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What lies between the fastest and the slowest tenth of `count` durations, in seconds."""

    count: int
    p10_s: float
    median_s: float
    p90_s: float

    @property
    def words(self) -> str:
        """`5m 00s to 20m 00s, median 12m 30s, of 8`."""
        return (
            f"{span_text(self.p10_s)} to {span_text(self.p90_s)}, median {span_text(self.median_s)}, of {self.count:,}"
        )


def upright(rows: Sequence[tuple[str, Box | None]], *, label: str) -> SafeString:
    """A box per row over a scale of time, its name below some of them; None leaves its place empty.

    What each box says stands in the page as a table, too.
    """
    top_s = limit_of([box for _, box in rows])
    width = (100 - _GUTTER) / max(1, len(rows))
    every = -(-len(rows) // _MOST_NAMES)
    boxes = [
        _upright(box, _GUTTER + place * width, width, top_s) for place, (_, box) in enumerate(rows) if box is not None
    ]
    names = [
        (_percent(_GUTTER + (place + 0.5) * width), _HEIGHT_PX + 16, name)
        for place, (name, _) in enumerate(rows)
        if place % every == 0
    ]
    count = sum(box.count for _, box in rows if box is not None)
    return format_html(
        '<svg class="stacked" role="img" aria-label="{}">{}{}{}</svg>',
        f"{label}: {count:,} in all, the scale ends at {span_text(top_s)}",
        _scale(top_s),
        format_html_join("", "{}", ((one,) for one in boxes)),
        format_html_join("", '<text x="{}" y="{}" text-anchor="middle">{}</text>', names),
    )


@dataclass(frozen=True, slots=True)
class Scale:
    """From a short span to a long one, in seconds, by their ratio: who took minutes and who took hours fit on one."""

    least_s: float
    most_s: float

    @staticmethod
    def of(boxes: Sequence[Box]) -> Scale:
        """One on which every box lies from its median on, and the shortest a little way in."""
        least_s = max(1.0, min(box.median_s for box in boxes) / 2)
        return Scale(least_s, max(2 * least_s, limit_of(boxes)))

    def share(self, seconds: float) -> float:
        """Where a span lies, from 0 to 1."""
        return min(1.0, max(0.0, log(max(seconds, self.least_s) / self.least_s) / log(self.most_s / self.least_s)))

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Round spans on it, where each lies and what it is called."""
        inside = (one for one in _TICKS_S if self.least_s * 1.2 < one < self.most_s * 0.8)
        return [(self.share(one), span_text(one)) for one in inside]


def lying(boxes: Sequence[tuple[str, Box | None]], *, scale: Scale, label: str) -> SafeString:
    """A lane with up to two bars, each from its median to nine of ten; the first is the lighter."""
    bars = []
    for place, (word, box) in enumerate(boxes):
        if box is not None:
            begin, until = (100 * scale.share(one) for one in (box.median_s, box.p90_s))
            top = 3 + place * _BAR_PX + place * 2
            bar = (f"n{2 + place}", _percent(begin), _percent(max(0.3, until - begin)), top, _BAR_PX)
            bars.append((*bar, _percent(begin), _percent(begin), top - 1, top + _BAR_PX + 1, f"{word}: {box.words}"))
    said = "; ".join(f"{word} {box.words}" for word, box in boxes if box is not None)
    grid = [(_percent(100 * x), _percent(100 * x)) for x, _ in scale.ticks]
    return format_html(
        '<svg height="24" role="img" aria-label="{}">{}{}</svg>',
        f"{label}: {said or 'it did not happen'}",
        format_html_join("", '<line class="gridline" x1="{}" x2="{}" y1="0" y2="24"/>', grid),
        format_html_join(
            "",
            '<g><rect class="{}" x="{}" width="{}" y="{}" height="{}"/>'
            '<line class="median" x1="{}" x2="{}" y1="{}" y2="{}"/><title>{}</title></g>',
            bars,
        ),
    )


def limit_of(boxes: Sequence[Box | None]) -> float:
    """A round span in which every box lies."""
    top_s = max((box.p90_s for box in boxes if box is not None), default=0.0)
    return next((float(one) for one in _ROUND_S if one >= top_s), top_s)


def _upright(box: Box, x: float, width: float, top_s: float) -> SafeString:
    high, low, middle = (_y(one, top_s) for one in (box.p90_s, box.p10_s, box.median_s))
    return format_html(
        '<g><title>{}</title><rect class="n2" x="{}" width="{}" y="{}" height="{}" rx="1"/>'
        '<line class="median" x1="{}" x2="{}" y1="{}" y2="{}"/></g>',
        box.words,
        *(_percent(x + width * 0.22), _percent(width * 0.56), f"{min(high, _HEIGHT_PX - _LEAST_PX):.1f}"),
        f"{max(_LEAST_PX, low - high):.1f}",
        *(_percent(x + width * 0.16), _percent(x + width * 0.84), f"{middle:.1f}", f"{middle:.1f}"),
    )


def _scale(top_s: float) -> SafeString:
    lines = [(_y(share * top_s, top_s) + 0.5, span_text(share * top_s)) for share in (1.0, 0.5)]
    heights = [(y, y) for y in (*(y for y, _ in lines), _HEIGHT_PX - 0.5)]
    return format_html(
        "{}{}",
        format_html_join("", '<line class="gridline" x2="100%" y1="{}" y2="{}"/>', heights),
        format_html_join("", '<text x="0" y="{}">{}</text>', ((y + 12, words) for y, words in lines)),
    )


def _y(seconds: float, top_s: float) -> float:
    return _HEIGHT_PX * (1 - min(1.0, seconds / top_s)) if top_s else float(_HEIGHT_PX)


def _percent(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".") + "%"
