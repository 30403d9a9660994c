"""The page of one incident: what it was, whose, what it reached, what was done, and what was like it before."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from events.capacity.arranging import arrangements_of
from events.capacity.asking import capacity_event, similar_before, struck_beside
from events.capacity.occurrences import failures_in
from events.capacity.rows import OWNER_CHIPS, CapacityEventRow
from events.pages.narrowing import one_of
from events.pages.rendering import fragment_of, render_page
from events.queries.resting_keys import keys_in
from events.wording import listing
from recovery_ops.control.capacity.status_text import customer_words
from recovery_ops.control.capacity.views.chart import chart_of
from recovery_ops.control.capacity.views.comparison import compared
from recovery_ops.control.capacity.views.impact import breakers_now, codes_of, facts_of, reached, telling
from recovery_ops.control.capacity.views.remaining import remaining_of
from recovery_ops.control.capacity.views.runs import OutcomeCount, runs_href, runs_reached
from recovery_ops.control.capacity.views.timeline import timeline_of
from recovery_ops.control.core.cursors import cut
from recovery_ops.control.core.pagination import page, place_asked
from recovery_ops.control.escalations.selectors.by_incident import said_of

_FAILURES = 20
_OLDEST = "oldest"
_AROUND = timedelta(minutes=5)
"""What a link to the timelines shows before and after an event: where it came from, and what followed."""


def incident(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """One event: what it was, whose, what it reached, what was done by itself; what was like it before."""
    now = timezone.now()
    row = capacity_event(environment, number, now=now)
    if row is None:
        raise Http404(f"There is no capacity event CE-{number} in {environment}.")
    if row.merged_into is not None:
        if not fragment_of(request):  # a message that its answer does not show would stand on a later page
            messages.info(request, f"CE-{number} was merged into this event.")
        return redirect("capacity-event", number=row.merged_into)
    runs = runs_reached(row, environment, now)
    total = sum(one.count for one in runs.outcomes)
    questions, notes = said_of(environment, row)
    similar = similar_before(row, environment, now=now)
    arrangements = arrangements_of(environment, [row.id, *(one.id for one in row.parts)], with_ended=True)
    oldest = next(iter(failures_in(row, environment, limit=1, is_oldest_first=True)), None)
    timeline = timeline_of(
        *(row, environment), now=now, oldest=oldest, questions=questions, notes=notes, arrangements=arrangements
    )
    context = {
        "now": now,
        "row": row,
        "lasted": row.lasted(now),
        "owner_chip": OWNER_CHIPS[row.owner],
        "sentence": telling(row, now),
        "customer_words": customer_words(row, now),
        "facts": [
            *facts_of(row, now=now, oldest=oldest, outcomes=_in_words(runs.outcomes)),
            *breakers_now(row, environment, now),
        ],
        "beside": listing(struck_beside(row, environment), most=4),
        "categories": [(one.value, count, _share(count, row)) for one, count in row.categories.items()],
        "operations": [(name, count, _share(count, row)) for name, count in row.operations.items()],
        "chart": chart_of(row, environment, now),
        "timeline": timeline,
        "remaining": remaining_of(row, environment, questions, runs.outcomes),
        "questions": questions,
        "notes": notes,
        "breaker": max(row.breakers, key=lambda name: (row.breakers[name], name), default=""),
        "runs": runs.rows,
        "outcomes": runs.outcomes,
        "runs_total": total,
        "is_further_back": runs.is_further_back,
        "runs_href": runs_href(row),
        **_failures(request, row, environment),
        "similar": [_line(one, now) for one in similar],
        "compared": compared(row, similar, request.GET.get("with", ""), environment),
        "timelines_href": _timelines_href(row),
        "parts": [_line(one, now) for one in row.parts],
        "arrangements": arrangements,
    }
    return render_page(request, "capacity/capacity_event", context)


def _failures(request: HttpRequest, row: CapacityEventRow, environment: str) -> dict[str, object]:
    """A page of its failures, the newest first, or the oldest where `order` asks so."""
    is_oldest_first = one_of(request.GET, "order", (_OLDEST,)) == _OLDEST
    place = place_asked(request, (int, int))
    after = None if place is None else (int(place[0]), int(place[1]))
    read = failures_in(row, environment, limit=_FAILURES + 1, is_oldest_first=is_oldest_first, after=after)
    shown, cursor = cut(read, lambda one: one.place, _FAILURES)
    return {"failures": page(request, shown, after, cursor), "keys": keys_in(shown), "is_oldest_first": is_oldest_first}


def _line(row: CapacityEventRow, now: datetime) -> tuple[CapacityEventRow, str, str, timedelta]:
    """An event with its codes, what it reached and how long it lasted, or lasts so far."""
    return row, codes_of(row), reached(row), row.lasted(now)


def _in_words(outcomes: Iterable[OutcomeCount]) -> str:
    """`54 degraded, 7 failed`."""
    return ", ".join(f"{one.count:,} {one.word}" for one in outcomes)


def _share(count: int, row: CapacityEventRow) -> float:
    return count / row.failures if row.failures else 0.0


def _timelines_href(row: CapacityEventRow) -> str:
    start, end = row.started - _AROUND, row.last + _AROUND
    return f"{reverse('timelines')}?from={start:%Y-%m-%dT%H:%M:%SZ}&to={end:%Y-%m-%dT%H:%M:%SZ}"
