"""How many failures there were over a range, as bars that lead to the range of each: by pointer, by table, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpRequest
from django.utils.safestring import SafeString

from events.charts import drawing
from events.deployments.asking import Deployment
from events.failures.rows import Sample
from events.moments import US_PER_S, Grid, from_us, to_us
from events.pages.window import PARAMETERS, SHORTEST, Window
from events.wording import clock_text, count_text
from recovery_ops.control.core.pagination import from_the_start
from recovery_ops.control.dashboard.marks import version_href


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


def histogram_of(
    request: HttpRequest, sample: Sample, window: Window, deployed: Sequence[Deployment] = ()
) -> Histogram:
    """A bar for each bin of the sample's grid, the first and the last as far as they lie in the window; and what was
    deployed. No query.
    """
    grid = sample.grid
    counts = counts_of(sample, window)
    spans = [_span(request, window, grid, place, count) for place, count in enumerate(counts)]
    bars = [(span.count, span.href, _words(span, window)) for span in spans]
    return Histogram(
        drawing=drawing.histogram(
            bars, label="Failures over time", marks=[_pin(one, grid, window) for one in deployed]
        ),
        axis=drawing.axis(grid.start, from_us(grid.end_s * US_PER_S)),
        rows=[span for span in reversed(spans) if span.count],
        sentence=_sentence(spans, window),
        start_ms=grid.start_s * 1000,
        end_ms=grid.end_s * 1000,
    )


def counts_of(sample: Sample, window: Window) -> list[int | None]:
    """Failures in each bin; None where nobody was there.

    Who told of a failure before anybody was known to be there sent old facts: what was told is known.
    """
    grid = sample.grid
    known_from = max(window.start, window.began or window.start)
    unknown = (to_us(known_from) // US_PER_S - grid.start_s) // grid.bin_s
    return [count if count or place >= unknown else None for place, count in enumerate(sample.bins())]


def _pin(told: Deployment, grid: Grid, window: Window) -> tuple[float, str, str]:
    """Where a deployment stands in the drawing, its address, its words."""
    share = (to_us(told.at) - grid.start_s * US_PER_S) / ((grid.end_s - grid.start_s) * US_PER_S)
    return share, version_href(told), f"{clock_text(told.at, today=window.end)}: {told.word} deployed"


def _span(request: HttpRequest, window: Window, grid: Grid, place: int, count: int | None) -> Span:
    """A bar, cut to the window where what is left is no shorter than the shortest range."""
    start, end = (from_us((grid.start_s + one * grid.bin_s) * US_PER_S) for one in (place, place + 1))
    begin, until = max(start, window.start), min(end, window.end)
    if until - begin < SHORTEST:
        begin, until = start, end
    return Span(start=begin, end=until, count=count, href=_href(request, begin, until))


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
    told = "no data" if span.count is None else count_text(span.count, "failure")
    return f"{begin} to {end}: {told}"


def _sentence(spans: list[Span], window: Window) -> str:
    known = [span for span in spans if span.count is not None]
    most = max(known, key=lambda span: span.count or 0, default=None)
    if most is None or not most.count:
        return "No matching failures in this range."
    total = sum(span.count or 0 for span in known)
    begin, until = (clock_text(one, today=window.end) for one in (most.start, most.end))
    return f"{count_text(total, 'failure')}; peak {begin}–{until}: {most.count:,}."
