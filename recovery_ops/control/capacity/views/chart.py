"""The failed attempts of an incident over time, as bars that lead to the failures of each, and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from events.capacity.occurrences import failures_per_bin
from events.capacity.rows import CapacityEventRow
from events.charts import drawing
from events.pages.window import SHORTEST, instant_words
from events.wording import clock_text, count_text, span_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The failed attempts from `start` on, and where they are listed."""

    start: datetime
    count: int
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The bars as a drawing and as rows, oldest first; `width` is that of a bar, in words."""

    drawing: SafeString
    axis: SafeString
    bars: Sequence[Bar]
    width: str
    sentence: str


def chart_of(row: CapacityEventRow, environment: str, now: datetime) -> Chart | None:
    """From the first failure to the last, or until now; None where nothing is kept. A query or two."""
    until = row.last + timedelta(microseconds=1) if row.is_over else max(now, row.last + timedelta(microseconds=1))
    found = failures_per_bin(row, environment, until=until)
    if found is None:
        return None
    width = timedelta(seconds=found.bin_s)
    starts = [found.start + place * width for place in range(len(found.counts))]
    bars = [
        Bar(start=start, count=count, href=_href(row, start, width))
        for start, count in zip(starts, found.counts, strict=True)
    ]
    return Chart(
        drawing=drawing.histogram([(one.count, one.href, _words(one, now)) for one in bars], label="Failed attempts"),
        axis=drawing.axis(found.start, starts[-1] + width),
        bars=bars,
        width=span_text(found.bin_s),
        sentence=_sentence(bars, width, now),
    )


def _href(row: CapacityEventRow, start: datetime, width: timedelta) -> str:
    """The issues of its backend in that time; a range has a minute at least."""
    asked = {"from": instant_words(start), "to": instant_words(start + max(width, SHORTEST))}
    backend = {"provider": row.provider, "model": row.model} if not row.parts else {}
    return f"{reverse('failures')}?{urlencode({**asked, **{name: one for name, one in backend.items() if one}})}"


def _words(bar: Bar, now: datetime) -> str:
    return f"{clock_text(bar.start, today=now)}: {count_text(bar.count, 'failure')}"


def _sentence(bars: Sequence[Bar], width: timedelta, now: datetime) -> str:
    most = max(bars, key=lambda one: one.count)
    span = span_text(int(width.total_seconds()))
    return f"per {span}; maximum {most.count:,} from {clock_text(most.start, today=now)}"
