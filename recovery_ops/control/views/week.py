"""The heat of a usual week: weekdays from top to bottom, hours from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from events.drawing import UNKNOWN, percent
from events.queries.weekly import HOURS, PER_DAY, WEEKS, CapacityWeek, capacity_week
from events.timelines.counts import heat_step
from events.wording import rate_text
from recovery_ops.control.views.strip import Row

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SPANS = tuple(f"{place * HOURS:02}–{(place + 1) * HOURS:02} h" for place in range(PER_DAY))


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """Lanes by weekday over an axis of hours, the sentence on them, and the same as a table."""

    rows: Sequence[Row]
    axis: SafeString
    words: str
    table: Sequence[tuple[str, Sequence[str]]]
    spans: Sequence[str] = SPANS


def week_of(environment: str, *, now: datetime) -> Week:
    """Read and draw it. Two queries."""
    found = capacity_week(environment, end=now)
    hottest = max((found.per_week(day, span) or 0.0 for day in range(7) for span in range(PER_DAY)), default=0.0)
    return Week(
        rows=[_row(found, day, hottest) for day in range(7)],
        axis=_axis(),
        words=_words(found, hottest),
        table=[
            (name, [_cell_words(found.per_week(day, span)) for span in range(PER_DAY)]) for day, name in enumerate(DAYS)
        ],
    )


def _row(found: CapacityWeek, day: int, hottest: float) -> Row:
    width = 100 / PER_DAY
    cells = []
    for span in range(PER_DAY):
        value = found.per_week(day, span)
        paint = UNKNOWN if value is None else format_html('class="h{}"', heat_step(-int(-value // 1), round(hottest)))
        words = f"{DAYS[day]} {SPANS[span]}: {_cell_words(value)}"
        cells.append((paint, percent(span * width), percent(width * 0.96), words))
    total, is_known = sum(found.counts[day]), any(found.known[day])
    drawing = format_html(
        '<svg height="24" role="img" aria-label="{}">{}</svg>',
        f"{DAYS[day]}, {total:,} in all" if is_known else f"{DAYS[day]}, unknown",
        format_html_join("", '<rect {} x="{}" width="{}" y="3" height="18" rx="1"><title>{}</title></rect>', cells),
    )
    return Row(label=DAYS[day], drawing=drawing, value=f"{total:,} in all" if is_known else "unknown")


def _cell_words(value: float | None) -> str:
    return "unknown" if value is None else f"{rate_text(value)} a week"


def _axis() -> SafeString:
    labels = [(percent(100 * place / PER_DAY), f"{place * HOURS:02}:00") for place in range(1, PER_DAY)]
    return format_html(
        '<svg height="20" aria-hidden="true">{}</svg>',
        format_html_join("", '<text x="{}" y="13" text-anchor="middle">{}</text>', labels),
    )


def _words(found: CapacityWeek, hottest: float) -> str:
    """When it is worst, and how much of the week is known at all."""
    known = sum(weeks > 0 for day in found.known for weeks in day)
    if not hottest:
        return f"No 429 and no 529 in {WEEKS} weeks, as far as it is known: {known} of {7 * PER_DAY} spans."
    day, span = next((day, span) for day in range(7) for span in range(PER_DAY) if found.per_week(day, span) == hottest)
    worst = f"Worst on {DAYS[day]} {SPANS[span]}, with {rate_text(hottest)} in such a span on average"
    return f"{worst}; {known} of {7 * PER_DAY} spans of the week are known."
