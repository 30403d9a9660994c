"""A band of what was answered with less than the real thing: a lane per operation, a bar while anybody was reduced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.utils import timezone

from events.rows import DegradationRow
from events.timelines.charts import Band, Lane, Table, Trace, Trail, plain, to_ms
from events.wording import clock_text, count_text, listing, span_text

FILL = 10 / 24
PATTERNS = {"fallback": "", "model": "\\", "withdrawn": "+"}
WORDS = {"fallback": "answered by", "model": "answered by the model", "withdrawn": "withdrawn"}
COLUMNS = ("Operation", "Kind", "Stands in", "Instances", "Start", "End", "Duration", "Calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """A span in which at least one instance answered an operation in one reduced way. `end` None: so far."""

    operation: str
    kind: str
    to_name: str
    start: datetime
    end: datetime | None
    instances: int
    """The most at once."""
    calls: int


def reduced_spans(rows: Iterable[DegradationRow], *, start: datetime, end: datetime) -> list[Reduced]:
    """The intervals of all instances put together per operation, kind and stand-in, cut to the window."""
    in_window = [row for row in rows if row.started < end and (row.ended is None or row.ended > start)]
    in_window.sort(key=lambda row: (row.operation, row.kind, row.to_name, row.started))
    found: list[Reduced] = []
    for (operation, kind, to_name), group in groupby(in_window, key=lambda row: (row.operation, row.kind, row.to_name)):
        found += _united(operation, kind, to_name, list(group), start, end)
    return found


def _united(
    operation: str, kind: str, to_name: str, rows: Sequence[DegradationRow], start: datetime, end: datetime
) -> list[Reduced]:
    def closed(run: list[DegradationRow]) -> Reduced:
        ends = [row.ended for row in run if row.ended is not None]
        is_open = len(ends) < len(run) or max(ends) > end
        return Reduced(
            operation=operation,
            kind=kind,
            to_name=to_name,
            start=max(start, run[0].started),
            end=None if is_open else max(ends),
            instances=_most_at_once(run, end),
            calls=sum(row.calls for row in run),
        )

    runs: list[list[DegradationRow]] = []
    until = start
    for row in rows:
        if runs and row.started <= until:
            runs[-1].append(row)
        else:
            runs.append([row])
            until = row.started
        until = max(until, row.ended or end)
    return [closed(run) for run in runs]


def _most_at_once(rows: Sequence[DegradationRow], end: datetime) -> int:
    steps = sorted([(row.started, 1) for row in rows] + [(row.ended or end, -1) for row in rows])
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
    title = "Fallbacks and reduced service"
    return Band(
        key="fallbacks",
        title=title,
        lanes=lanes,
        traces=tuple(trace for kind in sorted({span.kind for span in spans}) for trace in _traces(kind, spans, end)),
        table=_table(title, spans, end),
        caption=_caption(spans),
    )


def _standing(spans: Sequence[Reduced], end: datetime) -> str:
    going_on = sum(span.instances for span in spans if span.end is None)
    if going_on:
        return f"{going_on} now"
    whole_at = max((span.end for span in spans if span.end is not None), default=None)
    return "–" if whole_at is None else f"whole {timezone.localtime(whole_at):%H:%M}"


def _traces(kind: str, spans: Sequence[Reduced], end: datetime) -> list[Trace]:
    mine = [span for span in spans if span.kind == kind]
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
            "x": [max(1, to_ms(span.end or end) - to_ms(span.start)) for span in mine],
            "width": FILL,
            "marker": marker,
            "customdata": [_said(span, end) for span in mine],
            "hovertemplate": "<b>%{y}</b> %{customdata[3]}<br>%{customdata[0]} – %{customdata[1]}, %{customdata[2]}"
            "<extra></extra>",
        }
    ]


def _said(span: Reduced, end: datetime) -> list[str]:
    until = "so far" if span.end is None else clock_text(span.end, today=end)
    words = " ".join(part for part in (WORDS.get(span.kind, span.kind), span.to_name) if part)
    whom = f"{plain(words)} on {count_text(span.instances, 'instance')}"
    return [clock_text(span.start, today=end), until, span_text((span.end or end) - span.start), whom]


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
                "so far" if span.end is None else clock_text(span.end, today=end),
                span_text((span.end or end) - span.start),
                span.calls or "–",
            )
            for span in spans
        ),
        trails=tuple(Trail(start=span.start, end=span.end or end, breaker=span.operation) for span in spans),
    )


def _caption(spans: Sequence[Reduced]) -> str:
    if not spans:
        return "Every operation gave the real thing."
    now = sorted({span.operation for span in spans if span.end is None})
    if now:
        return f"{listing(now, most=3)} {_is(now)} reduced at the end of the range."
    names = sorted({span.operation for span in spans})
    return f"{listing(names, most=3)} {_is(names)} whole again after having been reduced."


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
