"""The report: how soon questions were taken and resolved, by whom, and what agents dealt with themselves, by week."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString

from events import drawing
from events.exports import csv_answer
from events.pages import render_page
from events.wording import count_text, share_text, span_text
from recovery_ops.control.capacity.views.week import DAYS
from recovery_ops.control.escalations.durations import Times
from recovery_ops.control.escalations.selectors.report import (
    Kept,
    Load,
    Report,
    Span,
    report_of,
    week_with,
    weeks_before,
)
from recovery_ops.control.escalations.terms import terms_now
from recovery_ops.control.escalations.views.report_charts import boxes_of, endings_of, group_lanes, hours_of, runs_of

CHOICES = (4, 8, 13, 26)
_DEFAULT = 4
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number over all weeks, and its course."""

    title: str
    figure: str
    detail: str
    spark: SafeString | str = ""


def report(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The last weeks: figures, the weeks, who did how much, what was noise."""
    now = timezone.now()
    asked = _asked(request, now)
    found = report_of(environment, start=asked.start, end=asked.end, now=now)
    context = {
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
        "figures": list(_figures(found)),
        "sentence": _sentence(found, asked),
        "newest_first": list(reversed(found.weeks)),
        "terms": _terms(environment),
        "hours": hours_of(found.total),
        "endings": endings_of(found.weeks),
        "boxes": boxes_of(found.weeks),
        "runs": runs_of(found.weeks),
    }
    return render_page(request, "escalations/report", context)


def report_csv(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The weeks as CSV, the oldest first; or with `of` the load of each person, or the noise, by week.

    What did not happen is an empty field.
    """
    now = timezone.now()
    asked = _asked(request, now)
    found = report_of(environment, start=asked.start, end=asked.end, now=now)
    of = request.GET.get("of", "")
    columns, cells = TABLES.get(of, TABLES[""])
    span = "week" if asked.weeks == 1 else f"{asked.weeks}-weeks"
    name = "-".join(["report", *([of] if of in TABLES and of else []), f"{found.weeks[0].week}-{span}"])
    return csv_answer(name, columns, (row for week in found.weeks for row in cells(week)))


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
    """The weeks that are asked for: the last ones, or the one that begins with a Monday."""

    start: datetime
    end: datetime
    weeks: int
    monday: date | None = None

    @property
    def query(self) -> str:
        """As an address says it."""
        return f"weeks={self.weeks}" if self.monday is None else f"week={self.monday}"


def _asked(request: HttpRequest, now: datetime) -> Asked:
    """What is no week, or one to come, is the last weeks."""
    with suppress(ValueError):
        span = week_with(date.fromisoformat(request.GET.get("week", "")), now)
        if span is not None:
            return Asked(start=span[0], end=span[1], weeks=1, monday=span[0].date())
    given = request.GET.get("weeks", "")
    weeks = int(given) if given in {str(one) for one in CHOICES} else _DEFAULT
    start, end = weeks_before(now, weeks)
    return Asked(start=start, end=end, weeks=weeks)


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


def _figures(found: Report) -> Sequence[Figure]:
    weeks, total = found.weeks, found.total
    return [
        Figure(
            title="Escalations",
            figure=f"{total.opened:,}",
            detail=f"{total.by_default:,} by default action",
            spark=_course([week.opened for week in weeks]),
        ),
        _time("MTTA, p50", total.acknowledging, [week.acknowledging.median_s for week in weeks]),
        _time("MTTR, p50", total.resolving, [week.resolving.median_s for week in weeks]),
        _in_time("Ack SLA met", total.acknowledged_in_time, [week.acknowledged_in_time.share for week in weeks]),
        _in_time("Resolve SLA met", total.resolved_in_time, [week.resolved_in_time.share for week in weeks]),
        Figure(
            title="Auto-recovered",
            figure="–" if total.recovered_share is None else share_text(total.recovered_share),
            detail=_recovered(total),
            spark=_course([week.recovered_share for week in weeks]),
        ),
    ]


def _time(title: str, times: Times, course: Sequence[float | None]) -> Figure:
    if times.mean_s is None or times.median_s is None or times.p90_s is None:
        return Figure(title=title, figure="–", detail="no data")
    detail = f"p90 {span_text(times.p90_s)}, mean {span_text(times.mean_s)}"
    return Figure(title=title, figure=span_text(times.median_s), detail=detail, spark=_course(course))


def _recovered(total: Span) -> str:
    if not total.troubled:
        return "no runs with failures"
    return f"{total.alone:,} of {count_text(total.troubled, 'run')} with failures; {total.lost:,} failed"


def _in_time(title: str, kept: Kept, course: Sequence[float | None]) -> Figure:
    figure = "–" if kept.share is None else share_text(kept.share)
    detail = f"{kept.kept:,} of {kept.of:,} due" if kept.of else "none due"
    return Figure(title=title, figure=figure, detail=detail, spark=_course(course))


def _course(values: Sequence[float | None]) -> SafeString | str:
    return drawing.spark(values) if len([value for value in values if value is not None]) > 1 else ""


def _sentence(found: Report, of: Asked) -> str:
    total, since = found.total, f"Since {found.weeks[0].week.day} {found.weeks[0].week:%B}"
    if of.monday is not None:
        since = f"In the week from {of.monday.day} {of.monday:%B %Y}"
    if not total.opened:
        asked = "no escalations"
    else:
        taken = total.acknowledged_in_time
        share = "" if taken.share is None else f"; ack SLA met for {share_text(taken.share)} of {taken.of:,} due"
        asked = f"{count_text(total.opened, 'escalation')}{share}"
    missing = " Partial: the oldest escalations are not included." if found.is_partial else ""
    return f"{since}, {asked}.{missing}"
