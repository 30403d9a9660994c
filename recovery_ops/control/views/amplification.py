"""Amplification: attempts for each call by operation and source, who spends them, and whether background is shed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from events.amplification import CALLS_LEAST, FACTOR_MOST, PLACE, Amplification, AmplificationRow, amplification
from events.exports import csv_answer
from events.pages import render_page
from events.window import PRESETS, window_in
from events.wording import count_text, share_beside, share_text
from recovery_ops.control.desired import live_policy
from recovery_ops.control.desired_standing import Standing
from recovery_ops.control.notify.budgets import default_budget
from recovery_ops.control.views.paging import page_of
from recovery_ops.control.views.shedding import sentence_of
from recovery_ops.rules.burning import is_over

ROWS_MOST = 200
COLUMNS = (
    *("operation", "source", "partition", "calls", "attempted_calls", "attempts", "attempts_per_call", "failures"),
    *("retries", "spent_attempts", "spent_share"),
)
"""The columns of the CSV, one row for each operation and source."""


def amplified(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Who spends how many attempts, and whether background work is shed now."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    found = amplification(environment, start=window.start, end=window.end)
    page = page_of(request, found.rows, lambda row: row.place, PLACE, ROWS_MOST)
    shed = Standing(environment, now=now).shed
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "sentence": _sentence(found),
        "findings": list(_findings(found, default_budget(live_policy(environment).document))),
        "found": found,
        "rows": page.rows,
        "page": page,
        "rule": f"A finding: more than {FACTOR_MOST:g} attempts for each of at least {CALLS_LEAST} attempted calls.",
        "shed": None if shed is None else sentence_of(shed, now=now),
    }
    return render_page(request, "control/amplification", context)


def amplified_csv(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The same rows as CSV, those that spend most first."""
    window = window_in(request, environment, now=timezone.now())
    found = amplification(environment, start=window.start, end=window.end)
    return csv_answer(f"amplification-{window.start:%Y%m%dT%H%M%SZ}", COLUMNS, map(_cells, found.rows))


def _cells(row: AmplificationRow) -> list[str | int]:
    partition = "foreground" if row.is_foreground else "background"
    factor = "" if row.factor is None else f"{row.factor:.3f}"
    counts: list[str | int] = [row.calls, row.attempted, row.attempts, factor, row.failures, row.retries, row.extra]
    return [row.operation, row.source, partition, *counts, f"{row.spent_share:.4f}"]


@dataclass(frozen=True, slots=True)
class _Finding:
    """What somebody should look at: its code, and a sentence."""

    name: str
    text: str


def _findings(found: Amplification, budget: float) -> Iterator[_Finding]:
    """A place that spends too much, more of them, the budget that is spent, background that should not retry."""
    for row in found.findings[:5]:
        whose = row.source or "nobody named"
        yield _Finding(
            "place",
            f"{row.operation} for {whose} ({'foreground' if row.is_foreground else 'background'}) makes "
            f"{row.factor:.2f} attempts for each call: it spends {row.extra:,}, "
            f"{share_text(row.spent_share)} of what all spend.",
        )
    if len(found.findings) > 5:
        more = count_text(len(found.findings) - 5, "more does", "more do")
        yield _Finding("more", f"{more} the same; they stand in the table.")
    share = found.retry_share
    if budget and share is not None and is_over(share / budget) and found.attempted >= CALLS_LEAST:
        yield _Finding(
            "budget",
            f"Retries are {share_beside(share, budget)} of the calls in this range; the budget is "
            f"{share_text(budget)} over 30 days.",
        )
    if found.background_capacity_retries:
        count = count_text(found.background_capacity_retries, "retry", "retries")
        yield _Finding(
            "background", f"Background work made {count} after a capacity failure: by the rules it makes none."
        )


def _sentence(found: Amplification) -> str:
    if found.factor is None:
        none = f"{count_text(found.calls, 'call was', 'calls were')} refused, none was attempted in this range."
        return none if found.calls else "No calls were counted in this range."
    share = found.background_share
    whose = "" if share is None else f"; {share_text(share)} of what retries and stand-ins spent was background work"
    refused = max(0, found.calls - found.attempted)
    beside = f" ({refused:,} more were refused before any)" if refused else ""
    called = count_text(found.attempted, "call")
    return f"{found.attempts:,} attempts for {called}{beside}, {found.factor:.2f} for each{whose}."
