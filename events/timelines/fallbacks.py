"""A band of what was answered with less than the real thing: a lane per operation, a bar while anybody was reduced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from django.conf import settings
from django.utils import timezone

from events.rows import DegradationRow
from events.timelines.charts import Band, Lane, Table, Trace, Trail, plain, to_ms
from events.timelines.states import FULL, UNKNOWN_MARKER
from events.wording import clock_text, count_text, listing, span_text, state_word

FILL = 10 / 24
PATTERNS = {"fallback": "", "model": "\\", "withdrawn": "+"}
WORDS = {"fallback": "fallback", "model": "fallback model", "withdrawn": "withdrawn"}
COLUMNS = ("Operation", "Kind", "Fallback", "Instances", "Start", "End", "Duration", "Calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """A span in which at least one instance answered an operation in one reduced way. `end` None: so far.

    Of one that has no end and nobody who would tell of it, `heard` is when the last of them was heard of, and
    `dark_until` is until when it is not known whether it goes on.
    """

    operation: str
    kind: str
    to_name: str
    start: datetime
    end: datetime | None
    instances: int
    """The most at once."""
    calls: int
    heard: datetime | None = None
    dark_until: datetime | None = None

    @property
    def goes_on(self) -> bool:
        """Whether an instance that reports still is in it at the end of the window."""
        return self.end is None and self.heard is None

    def known_until(self, end: datetime) -> datetime:
        """Where its bar ends, in a window that ends at `end`; its beginning, where it was lost before the window."""
        return max(self.start, self.end or self.heard or end)


def reduced_spans(rows: Iterable[DegradationRow], *, start: datetime, end: datetime) -> list[Reduced]:
    """The intervals of all instances put together per operation, kind and stand-in, cut to the window."""
    in_window = [row for row in rows if row.started < end and (row.ended is None or row.ended > start)]
    in_window.sort(key=lambda row: (row.operation, row.kind, row.to_name, row.started))
    found: list[Reduced] = []
    for (operation, kind, to_name), group in groupby(in_window, key=lambda row: (row.operation, row.kind, row.to_name)):
        found += _united(operation, kind, to_name, list(group), start, end)
    return found


def _known_until(row: DegradationRow, end: datetime) -> datetime:
    """How far an interval is known to go: of an instance that fell silent in it, as far as it was heard of."""
    if row.ended is not None:
        return row.ended
    lives = row.heard >= end - timedelta(seconds=settings.UNREACHABLE_AFTER_S)
    return end if lives else max(row.started, row.heard)


def _united(
    operation: str, kind: str, to_name: str, rows: Sequence[DegradationRow], start: datetime, end: datetime
) -> list[Reduced]:
    def closed(run: list[DegradationRow], following: datetime) -> Reduced:
        last = max(run, key=lambda row: (_known_until(row, end), row.ended is not None))
        until = _known_until(last, end)
        is_lost = last.ended is None and until < end
        return Reduced(
            operation=operation,
            kind=kind,
            to_name=to_name,
            start=max(start, run[0].started),
            end=None if last.ended is None or until > end else until,
            instances=_most_at_once(run, end),
            calls=sum(row.calls for row in run),
            heard=until if is_lost else None,
            dark_until=following if is_lost else None,
        )

    runs: list[list[DegradationRow]] = []
    until = start
    for row in rows:
        if runs and row.started <= until:
            runs[-1].append(row)
        else:
            runs.append([row])
            until = row.started
        until = max(until, _known_until(row, end))
    begins = [max(start, run[0].started) for run in runs]
    return [closed(run, following) for run, following in zip(runs, [*begins[1:], end], strict=True)]


def _most_at_once(rows: Sequence[DegradationRow], end: datetime) -> int:
    steps = sorted([(row.started, 1) for row in rows] + [(_known_until(row, end), -1) for row in rows])
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def fallbacks_band(rows: Iterable[DegradationRow], *, start: datetime, end: datetime) -> Band:
    """A lane per operation that was reduced in the window."""
    spans = reduced_spans(rows, start=start, end=end)
    names = sorted({span.operation for span in spans})
    lanes = tuple(
        Lane(name=name, value=_standing([one for one in spans if one.operation == name], end)) for name in names
    )
    title = "Fallbacks and degradations"
    return Band(
        key="fallbacks",
        title=title,
        lanes=lanes,
        traces=(
            *(trace for kind in sorted({span.kind for span in spans}) for trace in _traces(kind, spans, end)),
            *_dark(spans, end),
        ),
        table=_table(title, spans, end),
        caption=_caption(spans, end),
    )


def _standing(spans: Sequence[Reduced], end: datetime) -> str:
    going_on = sum(span.instances for span in spans if span.goes_on)
    if going_on:
        return f"{going_on} now"
    if any(span.dark_until == end for span in spans):
        return state_word(None)
    whole_at = max((span.end for span in spans if span.end is not None), default=None)
    return "–" if whole_at is None else f"recovered {timezone.localtime(whole_at):%H:%M}"


def _traces(kind: str, spans: Sequence[Reduced], end: datetime) -> list[Trace]:
    mine = [span for span in spans if span.kind == kind and (span.heard is None or span.heard > span.start)]
    marker: dict[str, object] = {"color": "token:--half-open", "line": {"width": 0}}
    if PATTERNS.get(kind):
        marker["pattern"] = {
            "shape": PATTERNS[kind],
            "fgcolor": "token:--panel",
            "fgopacity": 1,
            "fillmode": "overlay",
            "size": 8,
            "solidity": 0.15,
        }
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": kind,
            "y": [plain(span.operation) for span in mine],
            "base": [to_ms(span.start) for span in mine],
            "x": [max(1, to_ms(span.known_until(end)) - to_ms(span.start)) for span in mine],
            "width": FILL,
            "marker": marker,
            "customdata": [_said(span, end) for span in mine],
            "hovertemplate": "%{y} %{customdata[3]}<br>%{customdata[0]} – %{customdata[1]}, %{customdata[2]}"
            "<extra></extra>",
        }
    ]


def _dark(spans: Sequence[Reduced], end: datetime) -> list[Trace]:
    """Where nobody told whether it went on, which is not the same as that it did."""
    gaps = [(span, span.known_until(end), span.dark_until) for span in spans if span.dark_until is not None]
    mine = [(span, heard, until) for span, heard, until in gaps if heard < until]
    if not mine:
        return []
    why = "the instances stopped reporting"
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": state_word(None),
            "y": [plain(span.operation) for span, _, _ in mine],
            "base": [to_ms(heard) for _, heard, _ in mine],
            "x": [max(1, to_ms(until) - to_ms(heard)) for _, heard, until in mine],
            "width": FULL,
            "marker": UNKNOWN_MARKER,
            "customdata": [
                [clock_text(heard, today=end), clock_text(until, today=end), span_text(until - heard), why]
                for _, heard, until in mine
            ],
            "hovertemplate": "%{y} %{customdata[3]}<br>%{customdata[0]} – %{customdata[1]}, %{customdata[2]}"
            "<extra></extra>",
        }
    ]


def _until_words(span: Reduced, end: datetime) -> str:
    if span.heard is not None:
        return f"unknown, last seen {clock_text(span.heard, today=end)}"
    return "so far" if span.end is None else clock_text(span.end, today=end)


def _said(span: Reduced, end: datetime) -> list[str]:
    words = " ".join(part for part in (WORDS.get(span.kind, span.kind), span.to_name) if part)
    whom = f"{plain(words)} on {count_text(span.instances, 'instance')}"
    lasted = span_text(span.known_until(end) - span.start)
    return [clock_text(span.start, today=end), _until_words(span, end), lasted, whom]


def _table(title: str, spans: Sequence[Reduced], end: datetime) -> Table:
    return Table(
        title=title,
        columns=COLUMNS,
        rows=tuple(
            (
                span.operation,
                span.kind,
                span.to_name or "–",
                span.instances,
                clock_text(span.start, today=end),
                _until_words(span, end),
                span_text(span.known_until(end) - span.start),
                _calls(span),
            )
            for span in spans
        ),
        trails=tuple(Trail(start=span.start, end=span.known_until(end), breaker=span.operation) for span in spans),
    )


def _calls(span: Reduced) -> int | str:
    """The answers that instances reported when they ended it: at least so many while one has not."""
    if not span.calls:
        return "–"
    return span.calls if span.end is not None else f"≥ {span.calls:,}"


def _caption(spans: Sequence[Reduced], end: datetime) -> str:
    if not spans:
        return "No operation was degraded."
    now = sorted({span.operation for span in spans if span.goes_on})
    lost = sorted({span.operation for span in spans if span.dark_until == end} - set(now))
    told = [f"{listing(now, most=3)} {_is(now)} degraded at the end of the range."] if now else []
    if lost:
        whose = "its instance" if len(lost) == 1 else "their instances"
        told.append(f"{listing(lost, most=3)}: unknown, {whose} stopped reporting.")
    if told:
        return " ".join(told)
    names = sorted({span.operation for span in spans})
    return f"{listing(names, most=3)} recovered."


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
