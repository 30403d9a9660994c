"""An outage beside an earlier one of the same backend: two lines over each other that begin together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from events.capacity.course import courses
from events.capacity.rows import CapacityEventRow
from events.wording import span_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """`rows`: how long after the beginning, and the failed attempts of each in that span; None where one was over.

    `missing` are those of which nothing is kept any more.
    """

    other: CapacityEventRow
    drawing: SafeString
    rows: Sequence[tuple[str, int | None, int | None]]
    span: str
    peak: int
    missing: Sequence[str]


def compared(
    row: CapacityEventRow, similar: Sequence[CapacityEventRow], asked: str, environment: str
) -> Compared | None:
    """This event beside the one of `similar` that is asked for by its number (`CE-3` or `3`). At most two queries."""
    other = next((one for one in similar if asked.upper().removeprefix("CE-") == str(one.id)), None)
    if other is None:
        return None
    this, that = courses(environment, row, other)
    lines = [this.counts or [], that.counts or []]
    span_s = this.minutes * 60
    rows = [
        (span_text(index * span_s) if index else "its beginning", mine, theirs)
        for index, (mine, theirs) in enumerate(zip_longest(*lines))
    ]
    return Compared(
        other=other,
        drawing=_drawing(
            lines,
            [f"{after}: {_said(row, mine)}, {_said(other, theirs)}" for after, mine, theirs in rows],
            label=f"Failed attempts of {row.number} and {other.number} from their beginnings on",
        ),
        rows=rows,
        span=span_text(span_s),
        peak=max((count for line in lines for count in line), default=0),
        missing=[one.number for one, course in ((row, this), (other, that)) if course.counts is None],
    )


def _said(row: CapacityEventRow, count: int | None) -> str:
    return f"{row.number} {'ended' if count is None else f'{count:,}'}"


def _drawing(lines: Sequence[Sequence[int]], words: Sequence[str], *, label: str) -> SafeString:
    top = max((count for line in lines for count in line), default=0) or 1
    step = 100 / max(1, max(map(len, lines)) - 1)

    def points(line: Sequence[int]) -> str:
        # A single point is drawn as a short level line.
        drawn = [(index * step, 46 - 44 * count / top) for index, count in enumerate(line)]
        drawn += [(min(100.0, x + 1), y) for x, y in drawn[-1:] if len(drawn) == 1]
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in drawn)

    return format_html(
        '<svg class="spark compared" viewBox="0 0 100 48" preserveAspectRatio="none" role="img" aria-label="{}">{}{}'
        "</svg>",
        label,
        format_html_join(
            "", '<polyline class="plot" data-line="{}" points="{}"/>', [(n, points(one)) for n, one in enumerate(lines)]
        ),
        format_html_join(
            "",
            '<rect class="catch" x="{}" width="{}" height="48"><title>{}</title></rect>',
            [(f"{(place - 0.5) * step:.2f}", f"{step:.2f}", said) for place, said in enumerate(words)],
        ),
    )
