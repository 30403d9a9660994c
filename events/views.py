"""The timelines: everything that happened in one window over one axis, as a figure, as tables and as one sentence.

Who may look at an environment is not for this app to know: `recovery_ops.control` mounts these views behind its door
and hands them the `environment`.
"""

from __future__ import annotations

from datetime import datetime

import orjson
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from events import queries
from events.pages import render_page, with_tag
from events.timelines import Chart, timeline
from events.window import PRESETS, Window, window_of


def timelines(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The page: the sentence and the tables here, the figure by script; `view=table` unfolds the tables."""
    now = timezone.now()
    window = window_of(request, now=now)
    breaker = request.GET.get("breaker", "")
    chart = chart_of(environment, window, breaker=breaker, now=now)
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "breaker": breaker,
        "chart": chart,
        "sentence": chart.captions[1],  # the breakers'
        "breakers": list(dict.fromkeys(str(row[0]) for row in chart.tables[1].rows)),
        "is_table": request.GET.get("view") == "table",
    }
    return render_page(request, "events/timelines", context)


def figure(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The same as JSON for plotly: `figure`, `caption`, `height_px`."""
    now = timezone.now()
    window = window_of(request, now=now)
    chart = chart_of(environment, window, breaker=request.GET.get("breaker", ""), now=now)
    return figure_answer(request, chart)


def figure_answer(request: HttpRequest, chart: Chart) -> HttpResponse:
    """A chart as JSON, or 304 for whoever has it."""
    body = orjson.dumps({"figure": chart.figure, "caption": chart.caption, "height_px": chart.height_px})
    answer = HttpResponse(body, content_type="application/json")
    answer["Cache-Control"] = "private, no-cache"
    return with_tag(request, answer)


def chart_of(environment: str, window: Window, *, breaker: str, now: datetime) -> Chart:
    """Everything in the window, or only what concerns one breaker. At most eleven queries."""
    start, end = window.start, window.end
    lanes = queries.fleet_lanes(environment, start=start, end=end, breaker=breaker or None, now=now)
    sums = queries.sums_per_bin(environment, start=start, end=end, breaker=breaker or None)
    reduced = queries.degradations(environment, start=start, end=end)
    return timeline(
        lanes,
        capacity=sums.capacity(),
        failures=sums.failures("category" if breaker else "family"),
        rejections=sums.rejections(),
        degradations=[row for row in reduced if breaker in ("", row.operation, row.from_name)],
        by="category" if breaker else "family",
    )
