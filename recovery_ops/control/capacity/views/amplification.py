"""Amplification: attempts for each call by operation and source, whether background is shed, and the spend caps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from events.pages.rendering import render_page
from events.pages.table_files import csv_answer
from events.pages.window import PRESETS, window_in
from events.queries.amplification import CALLS_LEAST, FACTOR_MOST, PLACE, Amplification, AmplificationRow, amplification
from events.queries.resting_keys import keys_at_rest
from events.wording import count_text, share_beside, share_text
from recovery_ops.control.breakers.views.load_shedding import sentence_of
from recovery_ops.control.capacity.views.spend_caps import spend_panel
from recovery_ops.control.core.pagination import page_of
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.control.notifications.retry_budgets import default_budget
from recovery_ops.rules.incidents.burn_rate import is_over

ROWS_MOST = 200
COLUMNS = (
    *("operation", "source", "partition", "calls", "attempted_calls", "attempts", "attempts_per_call", "failures"),
    *("retries", "spent_attempts", "spent_share", "inner_retries"),
)
"""The columns of the CSV, one row for each operation and source."""


def amplified(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Who spends how many attempts, and whether background work is shed now."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    found = amplification(environment, start=window.start, end=window.end)
    page = page_of(request, found.rows, lambda row: row.place, PLACE, ROWS_MOST)
    shed, document = Standing(environment, now=now).shed, live_policy(environment).document
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "sentence": _sentence(found),
        "findings": list(_findings(found, default_budget(document))),
        "found": found,
        "rows": page.rows,
        "page": page,
        "rule": f"Threshold: more than {FACTOR_MOST:g} attempts per call, with at least {CALLS_LEAST} attempted calls.",
        "keys": keys_at_rest(environment, start=window.start, end=window.end),
        "spend": spend_panel(environment, document, window, now),
        "shed": None if shed is None else sentence_of(shed, now=now),
    }
    return render_page(request, "capacity/amplification", context)


def amplified_csv(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The same rows as CSV, those that spend most first."""
    window = window_in(request, environment, now=timezone.now())
    found = amplification(environment, start=window.start, end=window.end)
    return csv_answer(f"amplification-{window.start:%Y%m%dT%H%M%SZ}", COLUMNS, map(_cells, found.rows))


def _cells(row: AmplificationRow) -> list[str | int]:
    partition = "foreground" if row.is_foreground else "background"
    factor = "" if row.factor is None else f"{row.factor:.3f}"
    counts: list[str | int] = [row.calls, row.attempted, row.attempts, factor, row.failures, row.retries, row.extra]
    return [row.operation, row.source, partition, *counts, f"{row.spent_share:.4f}", row.inner_retries]


@dataclass(frozen=True, slots=True)
class _Finding:
    """What somebody should look at: its code, and a sentence."""

    name: str
    text: str


def _findings(found: Amplification, budget: float) -> Iterator[_Finding]:
    """Operations above the threshold, clients that retry by themselves, the budget, retries of background work."""
    for row in found.findings[:5]:
        whose = row.source or "an unnamed source"
        yield _Finding(
            "place",
            f"{row.operation} for {whose} ({'foreground' if row.is_foreground else 'background'}) makes "
            f"{row.factor:.2f} attempts per call: {row.extra:,} extra attempts, "
            f"{share_text(row.spent_share)} of all.",
        )
    if len(found.findings) > 5:
        more = count_text(len(found.findings) - 5, "more does", "more do")
        yield _Finding("more", f"{more} more in the table.")
    for row in found.retried_below[:5]:
        count = count_text(row.inner_retries, "more retry", "more retries")
        yield _Finding(
            "inner_retries",
            f"{row.operation}: the client made {count} by itself, inside attempts that failed. They are not in the "
            "table. Switch off the retries of the client.",
        )
    share = found.retry_share
    if budget and share is not None and is_over(share / budget) and found.attempted >= CALLS_LEAST:
        yield _Finding(
            "budget",
            f"Retries are {share_beside(share, budget)} of the calls in this range; the budget is "
            f"{share_text(budget)} over 30 days.",
        )
    if found.background_capacity_retries:
        count = count_text(found.background_capacity_retries, "retry", "retries")
        yield _Finding("background", f"Background work made {count} after a capacity failure; the rule is none.")


def _sentence(found: Amplification) -> str:
    if found.factor is None:
        none = f"{count_text(found.calls, 'call')} in this range, none attempted."
        return none if found.calls else "No calls were counted in this range."
    share = found.background_share
    whose = "" if share is None else f"; {share_text(share)} of extra attempts by background work"
    refused = max(0, found.calls - found.attempted)
    beside = f" ({refused:,} more not attempted)" if refused else ""
    called = count_text(found.attempted, "call")
    return f"{found.attempts:,} attempts for {called}{beside}, {found.factor:.2f} per call{whose}."
