"""A page for a screen on the wall: what is wrong now, in letters that are read from afar, with nothing to press."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from events import queries
from events.capacity.asking import events_going_on
from events.pages import render_page
from recovery_ops.control.escalations import asking
from recovery_ops.control.views import sentences
from recovery_ops.control.views.now import items_now
from recovery_ops.control.views.standing import Standing
from recovery_ops.control.views.tiles import tiles

MOST = 5


def wallboard(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The figures of the overview and its worst items. Silence of everybody is said as such."""
    now = timezone.now()
    numbers = queries.overview_numbers(environment, now=now)
    outages = events_going_on(environment, now=now)
    waiting = asking.rows_of(environment, "open", by=None, now=now)
    items = items_now(numbers, Standing(environment, now=now), escalations=waiting, outages=outages)
    told = queries.sentence(environment, now, numbers=numbers, outages=outages)
    context = {
        "now": now,
        "sentence": f"{told}{sentences.asked(waiting, now)}",
        "tiles": tiles(numbers, waiting, now),
        "items": items[:MOST],
        "others": max(0, len(items) - MOST),
        "calm": sentences.calm(numbers),
        "is_known": bool(numbers.agents),
    }
    return render_page(request, "control/wallboard", context)
