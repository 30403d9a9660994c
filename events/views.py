"""The timelines: everything that happened in one window over one axis, as a figure, as tables and as one sentence.

Who may look at an environment is not for this app to know: `recovery_ops.control` mounts these views behind its door
and hands them the `environment`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import orjson
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone

from events import queries
from events.exports import MARKDOWN, is_asked, markdown_answer, rows_answer
from events.pages import has_drawn, render_page, with_tag
from events.stills import still_of
from events.timelines import Chart, timeline
from events.timelines.zones import on_clock
from events.window import PRESETS, Window, window_in


def timelines(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The page, its figure as rows that plotly replaces when it is there; `view=table` unfolds the tables."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    breaker = request.GET.get("breaker", "")
    chart = chart_of(environment, window, breaker=breaker, now=now)
    if is_asked(request) or is_asked(request, MARKDOWN):
        return _file(request, environment, chart, window)
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "breaker": breaker,
        "chart": chart,
        "still": None if has_drawn(request) else still_of(chart),
        "sentence": chart.captions[1],  # the breakers'
        "breakers": list(dict.fromkeys(str(row[0]) for row in chart.tables[1].rows)),
        "is_table": request.GET.get("view") == "table",
    }
    return render_page(request, "events/timelines", context)


def _file(request: HttpRequest, environment: str, chart: Chart, window: Window) -> HttpResponse:
    """Everything as Markdown, or the table of `table=` (a number; without one, what the breakers did) as CSV."""
    name = f"timelines {environment} {window.start:%Y%m%d %H%M} {window.end:%H%M}"
    if is_asked(request, MARKDOWN):
        title = f"Timelines of {environment}, {window.words}"
        return markdown_answer(request, name, title, chart.captions, chart.tables)
    number = request.GET.get("table", "1")
    if number not in {str(place) for place in range(len(chart.tables))}:
        raise Http404(f"There are {len(chart.tables)} tables, from 0 on.")
    table = chart.tables[int(number)]
    return rows_answer(request, f"{name} {table.title}", table.columns, table.rows)


def figure(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The same as JSON for plotly: `figure`, `caption`, `height_px`."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    chart = chart_of(environment, window, breaker=request.GET.get("breaker", ""), now=now)
    return figure_answer(request, chart)


def figure_answer(request: HttpRequest, chart: Chart) -> HttpResponse:
    """A chart as JSON on the reader's clock, or 304 for whoever has it."""
    ahead = timezone.localtime(chart.end).utcoffset() or timedelta()
    body = orjson.dumps(
        {"figure": on_clock(chart.figure, ahead), "caption": chart.caption, "height_px": chart.height_px}
    )
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
        began=window.began,
    )
