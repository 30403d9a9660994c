"""The page of one move of a breaker: what it was decided by, the failures before it, and what was counted around it."""

from __future__ import annotations

from datetime import timedelta

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone

from events import queries
from events.charts.stills import still_of
from events.pages.rendering import render_page
from events.pages.window import Window, window_in
from events.queries.evidence import MOST, evidence_of
from events.rows import Transition
from events.timelines.charts import compose
from events.timelines.counts import failures_band, rejections_band
from events.wording import cause_sentence

_AROUND = timedelta(minutes=10)
_HIGHEST = 2**63 - 1


def move(request: HttpRequest, *, environment: str, fact_id: int) -> HttpResponse:
    """404 for what is no move of this environment. At most five queries."""
    now = timezone.now()
    found = evidence_of(environment, fact_id) if fact_id <= _HIGHEST else None
    if found is None:
        raise Http404(f"No breaker of {environment} moved by a fact {fact_id}; facts are dropped when they are old.")
    one = found.move
    began = window_in(request, environment, now=now).began
    around = Window(start=one.at - _AROUND, end=min(now, one.at + _AROUND), began=began)
    sums = queries.sums_per_bin(environment, start=around.start, end=around.end, breaker=one.breaker)
    bands = [
        failures_band(sums.failures("category").since(began), label=one.breaker, by="category"),
        rejections_band(sums.rejections().since(began)),
    ]
    chart = compose(bands, start=around.start, end=around.end, began=began)
    context = {
        "now": now,
        "found": found,
        "move": one,
        "why": cause_sentence(one, state=one.state),
        "facts": _facts(one, found.wait_s),
        "is_cut": len(found.failures) == MOST,
        "around": around,
        "chart": chart,
        "still": still_of(chart),
    }
    return render_page(request, "events/move", context)


def _facts(one: Transition, wait_s: float | None) -> list[tuple[str, object]]:
    """What the fact says it was decided by, as far as it does."""
    said: list[tuple[str, object]] = [
        ("Calls in the window", one.calls),
        ("Failures among them", one.failures),
        ("Last failure", one.last_category),
        ("Waits", None if wait_s is None else f"{wait_s:g} s"),
        ("Override", one.override_id),
        ("Revision", one.revision),
    ]
    return [(word, value) for word, value in said if value not in (None, "")]
