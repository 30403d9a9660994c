"""How many failures there were over a range, as bars that lead to the range of each: by pointer, by table, by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpRequest
from django.utils.safestring import SafeString

from events import drawing
from events.failures.rows import Sample
from events.moments import to_us
from events.window import PARAMETERS, SHORTEST, Window
from events.wording import clock_text, count_text
from recovery_ops.control.views.paging import from_the_start

MOST_BARS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One bar. `count` is None where it is not known; `href` narrows the range to it."""

    start: datetime
    end: datetime
    count: int | None
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """The bars as a drawing, the same as rows, newest first, and in one sentence."""

    drawing: SafeString
    axis: SafeString
    rows: list[Span]
    sentence: str
    start_ms: int
    end_ms: int


def histogram_of(request: HttpRequest, sample: Sample, window: Window) -> Histogram:
    """At most 48 bars, none shorter than the shortest range. No query."""
    number = max(1, min(MOST_BARS, int(window.length / SHORTEST)))
    length = window.length / number
    counts = counts_of(sample, window, number)
    spans = [
        Span(start=start, end=start + length, count=count, href=_href(request, start, start + length))
        for start, count in ((window.start + place * length, count) for place, count in enumerate(counts))
    ]
    bars = [(span.count, span.href, _words(span, window)) for span in spans]
    return Histogram(
        drawing=drawing.histogram(bars, label="Failures over time"),
        axis=drawing.axis(window.start, window.end),
        rows=[span for span in reversed(spans) if span.count],
        sentence=_sentence(spans, window),
        start_ms=to_us(window.start) // 1000,
        end_ms=to_us(window.end) // 1000,
    )


def counts_of(sample: Sample, window: Window, number: int) -> list[int | None]:
    """Failures in each of so many equal parts of the window; None where they were not read, or nobody was there.

    Who told of a failure before anybody was known to be there sent old facts: what was told is known.
    """
    start_us, length_us = to_us(window.start), max(1, to_us(window.end) - to_us(window.start))
    counts = [0] * number
    for one in sample.seen:
        counts[max(0, min(number - 1, (one.at_us - start_us) * number // length_us))] += 1
    known_from = max(sample.since, window.began or window.start)
    unknown = max(0, min(number, (to_us(known_from) - start_us) * number // length_us))
    return [count if count or place >= unknown else None for place, count in enumerate(counts)]


def _href(request: HttpRequest, start: datetime, end: datetime) -> str:
    query = from_the_start(request)
    for name in PARAMETERS:
        query.pop(name, None)
    query["from"], query["to"] = (one.isoformat(timespec="seconds").replace("+00:00", "Z") for one in (start, _up(end)))
    return f"?{query.urlencode(safe=':')}"


def _up(moment: datetime) -> datetime:
    """The whole second that is not before it: an address has whole seconds, and a minute has to stay one."""
    return moment if not moment.microsecond else moment.replace(microsecond=0) + timedelta(seconds=1)


def _words(span: Span, window: Window) -> str:
    begin, end = (clock_text(one, today=window.end) for one in (span.start, span.end))
    told = "not known" if span.count is None else count_text(span.count, "failure")
    return f"{begin} to {end}: {told}"


def _sentence(spans: list[Span], window: Window) -> str:
    known = [span for span in spans if span.count is not None]
    most = max(known, key=lambda span: span.count or 0, default=None)
    if most is None or not most.count:
        return "No failure of these in this range."
    total = sum(span.count or 0 for span in known)
    begin, until = (clock_text(one, today=window.end) for one in (most.start, most.end))
    return f"{count_text(total, 'failure')}, most of them from {begin} to {until}: {most.count:,}."
