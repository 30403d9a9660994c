"""The report of some weeks, one week or one month: MTTA, MTTR and load of escalations, and what agents recovered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from events.charts import drawing
from events.pages.rendering import render_page
from events.pages.table_files import csv_answer, rows_answer
from events.recoveries.asking import recoveries, today_of
from events.wording import count_text, share_text, span_text
from recovery_ops.control.capacity.views.week import DAYS
from recovery_ops.control.dashboard.views.recovered import incidents_and_deeds, recovery_parts
from recovery_ops.control.dashboard.views.tiles import Tile
from recovery_ops.control.escalations.durations import Times
from recovery_ops.control.escalations.selectors.report import (
    Kept,
    Load,
    Report,
    Span,
    month_with,
    report_of,
    week_with,
    weeks_before,
)
from recovery_ops.control.escalations.terms import terms_now
from recovery_ops.control.escalations.views import report_figures
from recovery_ops.control.escalations.views.report_charts import boxes_of, endings_of, group_lanes, hours_of, runs_of
from recovery_ops.control.escalations.views.report_figures import lines_of

CHOICES = (4, 8, 13, 26)
_DEFAULT = 4
_FIRST_MONTH = date(2020, 1, 1)
_DEFINED = "#definitions-list"
ISSUE_COLUMNS = ("operation", "category", "failed attempts", "runs it met", "of them lost")
COLUMNS = (
    *("week", "asked", "mtta_s", "mtta_p10_s", "mtta_median_s", "mtta_p90_s"),
    *("mttr_s", "mttr_p10_s", "mttr_median_s", "mttr_p90_s"),
    *("taken_in_time", "taken_due", "resolved_in_time", "resolved_due", "answered_by_default"),
    *("failed_attempts", "given_up_calls", "recovered_share"),
    *("runs_recovered_alone", "runs_helped", "runs_lost"),
)
"""The columns of the CSV, one row a week."""
_TENTHS = ("mtta_p10_s", "mtta_median_s", "mtta_p90_s", "mttr_p10_s", "mttr_median_s", "mttr_p90_s")
LOAD_COLUMNS = (
    *("week", "who", "taken", "decided", "resolved", "comments", "out_of_hours", "held_s"),
    *_TENTHS,
)
GROUP_COLUMNS = (
    *("week", "of", "asked", *_TENTHS),
    *("resolved_in_time_share", "answered_by_default"),
)
HOUR_COLUMNS = ("week", "weekday", "hour", "asked")
NOISE_COLUMNS = ("week", "rank", "whose", "what", "asked", "facts", "undecided", "mttr_median_s")


def report(request: HttpRequest, *, environment: str) -> HttpResponse:
    """A range: figures, outcomes of runs, weeks, load, noise, issues, incidents and actions."""
    now = timezone.now()
    asked = _asked(request, now)
    found = report_of(environment, start=asked.start, end=asked.end, now=now)
    parts = recovery_parts(environment, start=asked.start, end=asked.end, now=now)
    context = {
        **parts,
        "now": now,
        "report": found,
        "groups": [
            ("queues", "By queue", "Queue", found.total.queues, group_lanes(found.total.queues)),
            ("causes", "By reason", "Reason", found.total.causes, group_lanes(found.total.causes)),
            ("shifts", "By shift", "Shift", found.total.shifts, group_lanes(found.total.shifts)),
        ],
        "asked": asked,
        "is_so_far": asked.end == now,
        "choices": CHOICES,
        "tiles": [*_figures(found), *parts["tiles"]],
        "sentence": f"{_sentence(found, asked)} {parts['sentence_of_runs']}",
        "newest_first": list(reversed(found.weeks)),
        "terms": _terms(environment),
        "hours": hours_of(found.total),
        "endings": endings_of(found.weeks),
        "boxes": boxes_of(found.weeks),
        "runs": runs_of(found.weeks),
    }
    return render_page(request, "escalations/report", context)


def report_csv(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The weeks as CSV, the oldest first; or with `of` one of `TABLES`, the issues, or `all` figures.

    What did not happen is an empty field.
    """
    now = timezone.now()
    asked = _asked(request, now)
    of = request.GET.get("of", "")
    if of in ("issues", "all"):
        first, last = today_of(asked.start), today_of(asked.end - timedelta.resolution)
        runs = recoveries(environment, first=first, last=last)
        if of == "issues":
            cells = ((one.operation, one.category, one.failures, one.runs, one.lost) for one in runs.causes)
            return rows_answer(request, f"report issues {environment} {asked.name}", ISSUE_COLUMNS, cells)
        found = report_of(environment, start=asked.start, end=asked.end, now=now)
        incidents, deeds = incidents_and_deeds(environment, start=asked.start, end=asked.end, now=now)
        lines = lines_of(found, runs, incidents, deeds, now)
        return rows_answer(request, f"report {environment} {asked.name}", report_figures.COLUMNS, lines)
    found = report_of(environment, start=asked.start, end=asked.end, now=now)
    columns, table = TABLES.get(of, TABLES[""])
    name = "-".join(["report", *([of] if of in TABLES and of else []), asked.name])
    return csv_answer(name, columns, (row for week in found.weeks for row in table(week)))


def _terms(environment: str) -> str:
    """What in time means: `taken within 15m, resolved within 5m to 30m by kind`."""
    rows = terms_now(environment).values()
    told = []
    for word, lengths in (
        ("acknowledged", {one.acknowledge_in_s for one in rows}),
        ("resolved", {one.resolve_in_s for one in rows}),
    ):
        least, most = span_text(min(lengths)), span_text(max(lengths))
        told.append(f"{word} within {least if len(lengths) == 1 else f'{least} to {most} by kind'}")
    return ", ".join(told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The range: the last weeks, the week of a Monday, or a month. `problem` says what was no range."""

    start: datetime
    end: datetime
    weeks: int = 0
    monday: date | None = None
    month: date | None = None
    problem: str = ""

    @property
    def query(self) -> str:
        """As an address says it."""
        if self.month is not None:
            return f"month={self.month:%Y-%m}"
        return f"weeks={self.weeks}" if self.monday is None else f"week={self.monday}"

    @property
    def name(self) -> str:
        """As a file's name says it."""
        if self.month is not None:
            return f"{self.month:%Y-%m}"
        return f"{self.start:%Y-%m-%d}-{'week' if self.weeks == 1 else f'{self.weeks}-weeks'}"

    @property
    def words(self) -> str:
        """`last 4 weeks`, `week from 2 November 2026`, `November 2026`."""
        if self.month is not None:
            return f"{self.month:%B %Y}"
        if self.monday is not None:
            return f"week from {self.monday.day} {self.monday:%B %Y}"
        return f"last {self.weeks} weeks"

    @property
    def earlier(self) -> str:
        """The month before, as an address says it; of weeks the month before that of the start's."""
        return f"{(self.month or self.start.date()).replace(day=1) - timedelta(days=1):%Y-%m}"

    @property
    def later(self) -> str:
        """The month after, where it has begun."""
        after = (self.start + timedelta(days=31)).replace(day=1)
        return f"{after:%Y-%m}" if self.month is not None and self.end >= after else ""

    @property
    def last_day(self) -> date:
        return (self.end - timedelta.resolution).date()


def _asked(request: HttpRequest, now: datetime) -> Asked:
    """What is no range, or one to come, is the last weeks."""
    problem, month, week = "", request.GET.get("month", ""), request.GET.get("week", "")
    if month:
        with suppress(ValueError):
            span = month_with(date.fromisoformat(f"{month}-01"), now)
            if span is not None and span[0].date() >= _FIRST_MONTH:
                return Asked(start=span[0], end=span[1], month=span[0].date())
        problem = f"There is no report of {month!r}; use a month such as 2026-01."
    if week:
        with suppress(ValueError):
            span = week_with(date.fromisoformat(week), now)
            if span is not None:
                return Asked(start=span[0], end=span[1], weeks=1, monday=span[0].date())
        problem = f"There is no report of {week!r}; use a day such as 2026-01-31."
    given = request.GET.get("weeks", "")
    weeks = int(given) if given in {str(one) for one in CHOICES} else _DEFAULT
    start, end = weeks_before(now, weeks)
    return Asked(start=start, end=end, weeks=weeks, problem=problem)


def _cells(week: Span) -> list[list[str | int | float]]:
    cells: list[str | int | float] = [
        week.week.isoformat(),
        week.opened,
        *_seconds(week.acknowledging),
        *_seconds(week.resolving),
        week.acknowledged_in_time.kept,
        week.acknowledged_in_time.of,
        week.resolved_in_time.kept,
        week.resolved_in_time.of,
        week.by_default,
        week.failures,
        week.given_up,
        "" if week.recovered_share is None else f"{week.recovered_share:.4f}",
        *("" if count is None else count for count in (week.alone, week.helped, week.lost)),
    ]
    return [cells]


def _loads(week: Span) -> list[list[str | int | float]]:
    return [
        [
            *(week.week.isoformat(), one.name, one.taken, one.decided, one.resolved, one.comments),
            *(one.out_of_hours, f"{one.held_s:.0f}"),
            *(*_seconds(one.acknowledging)[1:], *_seconds(one.resolving)[1:]),
        ]
        for one in week.people
    ]


def _noises(week: Span) -> list[list[str | int | float]]:
    return [
        [
            *(week.week.isoformat(), rank, one.whose, one.matter),
            *(one.asked, one.facts, one.undecided, _seconds(one.resolving)[2]),
        ]
        for rank, one in enumerate(week.noisy, 1)
    ]


def _groups(week: Span, found: Sequence[Load]) -> list[list[str | int | float]]:
    return [
        [
            *(week.week.isoformat(), one.name, one.asked),
            *(*_seconds(one.acknowledging)[1:], *_seconds(one.resolving)[1:]),
            "" if one.resolved_in_time.share is None else f"{one.resolved_in_time.share:.4f}",
            one.by_default,
        ]
        for one in found
    ]


def _hours(week: Span) -> list[list[str | int | float]]:
    return [
        [week.week.isoformat(), name, hour, count]
        for name, counts in zip(DAYS, week.by_hour, strict=True)
        for hour, count in enumerate(counts)
    ]


def _seconds(times: Times) -> list[str]:
    return ["" if one is None else f"{one:.0f}" for one in (times.mean_s, times.p10_s, times.median_s, times.p90_s)]


TABLES: Mapping[str, tuple[Sequence[str], Callable[[Span], list[list[str | int | float]]]]] = {
    "": (COLUMNS, _cells),
    "people": (LOAD_COLUMNS, _loads),
    "noisy": (NOISE_COLUMNS, _noises),
    "queues": (GROUP_COLUMNS, lambda week: _groups(week, week.queues)),
    "causes": (GROUP_COLUMNS, lambda week: _groups(week, week.causes)),
    "shifts": (GROUP_COLUMNS, lambda week: _groups(week, week.shifts)),
    "hours": (HOUR_COLUMNS, _hours),
}
"""What `of` may say: the columns, and the rows of a week."""


def _figures(found: Report) -> Sequence[Tile]:
    """The figures of escalations."""
    weeks, total = found.weeks, found.total
    return [
        Tile(
            name="opened",
            title="Escalations",
            figure=f"{total.opened:,}",
            unit="",
            detail=f"{total.by_default:,} by default action",
            href=reverse("escalations"),
            told={"asked": total.opened, "defaulted": total.by_default},
            spark=_course([week.opened for week in weeks]),
        ),
        _time("mtta", "MTTA, p50", total.acknowledging, [week.acknowledging.median_s for week in weeks]),
        _time("mttr", "MTTR, p50", total.resolving, [week.resolving.median_s for week in weeks]),
        _in_time("ack", "Ack SLA met", total.acknowledged_in_time, [one.acknowledged_in_time.share for one in weeks]),
        _in_time("resolve", "Resolve SLA met", total.resolved_in_time, [one.resolved_in_time.share for one in weeks]),
    ]


def _time(name: str, title: str, times: Times, course: Sequence[float | None]) -> Tile:
    figure, detail, told = "–", "no data", {"of": times.count}
    if times.mean_s is not None and times.median_s is not None and times.p90_s is not None:
        figure = span_text(times.median_s)
        detail = f"p90 {span_text(times.p90_s)}, mean {span_text(times.mean_s)}, of {times.count:,}"
        told["median"] = round(times.median_s)
    spark = _course(course)
    return Tile(name=name, title=title, figure=figure, unit="", detail=detail, href=_DEFINED, told=told, spark=spark)


def _in_time(name: str, title: str, kept: Kept, course: Sequence[float | None]) -> Tile:
    figure = "–" if kept.share is None else share_text(kept.share)
    detail = f"{kept.kept:,} of {kept.of:,} due" if kept.of else "none due"
    told, spark = {"kept": kept.kept, "of": kept.of}, _course(course)
    return Tile(name=name, title=title, figure=figure, unit="", detail=detail, href=_DEFINED, told=told, spark=spark)


def _course(values: Sequence[float | None]) -> SafeString | str:
    return drawing.spark(values) if len([value for value in values if value is not None]) > 1 else ""


def _sentence(found: Report, of: Asked) -> str:
    total, when = found.total, f"{of.words[:1].upper()}{of.words[1:]}"
    if not total.opened:
        asked = "no escalations"
    else:
        taken = total.acknowledged_in_time
        share = "" if taken.share is None else f"; ack SLA met for {share_text(taken.share)} of {taken.of:,} due"
        asked = f"{count_text(total.opened, 'escalation')}{share}"
    missing = " Partial: the oldest escalations are not included." if found.is_partial else ""
    return f"{when}: {asked}.{missing}"
