"""Degradations: what capability is reduced, since when, to what, and how many runs got the weaker answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from events.degradations.asking import degradations_in
from events.degradations.rows import PLACE, Degradations, Reduction, Standing
from events.pages.empties import Empty, none_in
from events.pages.rendering import render_page
from events.pages.table_files import csv_answer
from events.pages.window import PRESETS, Window, window_in
from events.wording import clock_text, count_text, listing, span_text
from recovery_ops.control.core.pagination import page_of
from recovery_ops.control.runs.views.run import dollars

MARKS = {Standing.REDUCED: "half_open", Standing.NOT_KNOWN: "unknown", Standing.WHOLE: "closed"}
ROWS_MOST = 50
COLUMNS = (
    *("operation", "standing", "kind", "from", "to", "started", "ended", "duration_s", "category", "reason"),
    *("services", "instances", "weaker_answers", "runs", "is_at_least", "warning", "data_age_s"),
)
"""The columns of the CSV, one row for each reduction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One reduction with its mark and the words that the page shows."""

    one: Reduction
    mark: str
    quality: str
    where: str
    lasted: timedelta


def degradations(request: HttpRequest, *, environment: str) -> HttpResponse:
    """What was reduced in the window, what goes on first."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    found = degradations_in(environment, start=window.start, end=window.end, now=now)
    page = page_of(request, found.rows, lambda row: row.place, PLACE, ROWS_MOST)
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "page": page,
        "rows": [
            Row(one=one, mark=MARKS[one.standing], quality=_quality(one), where=_where(one), lasted=one.lasted(now))
            for one in page.rows
        ],
        "total": len(found.rows),
        "empty": None if found.rows else _empty(environment, window, now),
        "capabilities": [(one, MARKS[one.standing]) for one in found.capabilities(now)],
        "unaccounted": found.unaccounted,
        "costs": _costs(found),
        "sentence": _sentence(found),
    }
    return render_page(request, "capacity/degradations", context)


def _empty(environment: str, window: Window, now: datetime) -> Empty:
    text = f"No fallback and no unavailable operation in {window.words}."
    return none_in(environment, window, now=now, title="No degradations", text=text)


def degradations_csv(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The same as CSV; moments in ISO 8601 (UTC), an empty end where it goes on."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    found = degradations_in(environment, start=window.start, end=window.end, now=now)
    rows = (_cells(one, one.lasted(now)) for one in found.rows)
    return csv_answer(f"degradations-{window.start:%Y%m%dT%H%M%SZ}", COLUMNS, rows)


def _cells(one: Reduction, lasted: timedelta) -> list[str | int]:
    return [
        one.operation,
        one.standing.value,
        one.kind,
        one.from_name,
        one.to_name,
        one.started.isoformat(),
        one.ended.isoformat() if one.ended else "",
        f"{lasted.total_seconds():.3f}",
        one.category.value if one.category else "",
        one.reason,
        " ".join(one.services),
        " ".join(one.instances),
        one.answers,
        len(one.runs),
        "yes" if one.is_partial else "no",
        one.warning,
        "" if one.data_age_s is None else f"{one.data_age_s:g}",
    ]


def _quality(one: Reduction) -> str:
    """What the weaker answer says of itself."""
    age = "" if one.data_age_s is None else f"data up to {span_text(one.data_age_s)} old"
    told = "; ".join(part for part in (one.warning, age) if part)
    return told or ("no answer at all" if one.kind == "withdrawn" else "not said")


def _where(one: Reduction) -> str:
    return f"{count_text(len(one.instances), 'instance')} of {listing(one.services)}"


def _costs(found: Degradations) -> str:
    weaker, others = found.with_weaker, found.without_weaker
    least = "Counts are lower bounds. " if found.is_partial else ""
    if any(row.kind == "withdrawn" for row in found.rows):
        least += "Runs of unavailable operations exclude calls that a breaker rejected. "
    if weaker.mean_usd is None or others.mean_usd is None:
        return f"{least}Cost of degraded runs: unknown, not reported by runs."
    degraded = f"{dollars(weaker.mean_usd)} ({count_text(weaker.runs, 'run')})"
    other = f"{dollars(others.mean_usd)} ({count_text(others.runs, 'run')})"
    return f"{least}Average cost of degraded runs: {degraded}; of other runs: {other}."


def _sentence(found: Degradations) -> str:
    now = [row for row in found.reduced if row.standing is Standing.REDUCED]
    if now:
        names = sorted({row.operation for row in now})
        since = min(row.started for row in now)
        runs = len({run for row in now for run in row.runs})
        least = "≥ " if any(row.is_partial for row in now) else ""
        what = "unavailable" if all(row.kind == "withdrawn" for row in now) else "degraded"
        affected = f"{least}{count_text(runs, 'run')} affected"
        return f"{listing(names, most=3)} {what} since {clock_text(since, today=since)}; {affected}."
    lost = sorted({row.operation for row in found.reduced})
    if lost:
        return f"{listing(lost, most=3)}: recovery unknown, instances stopped reporting."
    ended = [row.ended for row in found.rows if row.ended is not None]
    if not ended:
        return "No degradations."
    return f"No degraded operation. Last recovery at {max(ended):%H:%M:%S} UTC."
