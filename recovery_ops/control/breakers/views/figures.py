"""The figures of one breaker: lanes of what was desired and observed, and counts of failures and refused calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone

from events import queries
from events.models import BreakerState
from events.pages.rendering import render_page
from events.pages.table_files import is_asked, rows_answer
from events.pages.window import PRESETS, Window, window_in
from events.queries.breakers import standing_of
from events.queries.moves import moves_within
from events.queries.transitions import Move, transition_of
from events.timelines import Chart, instance_lanes
from events.timelines.charts import compose
from events.timelines.counts import blocked_band, failures_band
from events.timelines.cursor import as_json
from events.timelines.shares import Shares, probes_table, shares_band
from events.timelines.states import Bar
from events.timelines.views import figure_answer
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.rows import rules_behind
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.model import OperationPolicy
from recovery_ops.rules.policy.scope import ANY, Place, Scope

MOST_LANES = 12


def figure(request: HttpRequest, *, environment: str, name: str) -> HttpResponse:
    """The lanes, or the counts where the address says `part=counts`, as JSON for plotly. 404 as the breaker's page."""
    _require_reported(environment, name)
    now = timezone.now()
    window = window_in(request, environment, now=now)
    is_counts = request.GET.get("part") == "counts"
    chart = _counts(environment, name, window, now) if is_counts else states_of(environment, name, window, now)
    return figure_answer(request, chart, None if is_counts else {"cursor": as_json(chart)})


def tables(request: HttpRequest, *, environment: str, name: str) -> HttpResponse:
    """The same numbers as rows. 404 as the breaker's page."""
    _require_reported(environment, name)
    now = timezone.now()
    window = window_in(request, environment, now=now)
    reported = standing_of(environment, name, since=min(now, window.start))
    moves = moves_within(environment, start=window.start, end=window.end, breaker=name)
    rules = rules_behind(Standing(environment, now=now).policy, name, reported)
    charts = [
        states_of(environment, name, window, now, standing=reported, moves=moves),
        counts_of(environment, name, window, moves=moves, rules=rules),
    ]
    every = [table for chart in charts for table in chart.tables]
    if is_asked(request):
        number = request.GET.get("table", "0")
        if number not in {str(place) for place in range(len(every))}:
            raise Http404(f"There are {len(every)} tables, from 0 on.")
        table = every[int(number)]
        return rows_answer(request, f"{name} {environment} {table.title}", table.columns, table.rows)
    context = {"now": now, "window": window, "presets": PRESETS, "name": name, "charts": charts, "tables": every}
    return render_page(request, "breakers/breaker_tables", context)


def _require_reported(environment: str, name: str) -> None:
    if not (name.isprintable() and queries.is_reported(environment, name)):
        raise Http404(f"No instance in {environment} has reported the breaker {name}.")


def states_of(
    environment: str,
    name: str,
    window: Window,
    now: datetime,
    *,
    standing: Sequence[BreakerState] | None = None,
    moves: Sequence[Move] | None = None,
) -> Chart:
    """What was desired and observed of a breaker over a window. At most seven queries; see `queries.segments`."""
    lanes = queries.segments(
        environment, start=window.start, end=window.end, breaker=name, now=now, standing=standing, moves=moves
    )
    desired = desired_bars(_overrides(environment, name, window), name, start=lanes.start, end=lanes.end)
    return instance_lanes(lanes, name, desired=desired, most_lanes=MOST_LANES, began=window.began)


def _counts(environment: str, name: str, window: Window, now: datetime) -> Chart:
    """`counts_of` with what it takes. Five queries."""
    rules = rules_behind(Standing(environment, now=now).policy, name, standing_of(environment, name, since=now))
    moves = moves_within(environment, start=window.start, end=window.end, breaker=name)
    return counts_of(environment, name, window, moves=moves, rules=rules)


def counts_of(environment: str, name: str, window: Window, *, moves: Sequence[Move], rules: OperationPolicy) -> Chart:
    """How the window of a breaker went: the share that failed beside its limit, with probes; failures; refused calls.

    `moves` are those of the window, `rules` what the live policy says of it. Two queries.
    """
    sums = queries.sums_per_bin(environment, start=window.start, end=window.end, breaker=name, has_successes=True)
    failures, rejections = (one.since(window.began) for one in (sums.failures("category"), sums.rejections()))
    shares = Shares.of(
        failures,
        sums.successes(),
        counting={one.value for one in rules.failures.open_breakers},
        limit=rules.settings.failure_rate_threshold or None,
        moves=[transition_of(move) for move in moves],
    )
    bands = [
        shares_band(shares, label=name),
        failures_band(failures, label="failed attempts", by="category"),
        blocked_band(rejections),
    ]
    more = [probes_table(shares)] if shares.probes else []
    return compose(bands, start=window.start, end=window.end, began=window.began, more=more)


def _overrides(environment: str, name: str, window: Window) -> list[Override]:
    """Those that ruled the breaker everywhere in a part of the window. Index `override_history` for exact names."""
    everywhere = Override.objects.filter(environment=environment, service=ANY, instance=ANY, group=ANY)
    touching = everywhere.filter(starts_at__lt=window.end, expires_at__gt=window.start).order_by("starts_at")
    place = Place(service="", instance="", breaker=name)
    return [one for one in touching if Scope(operation=one.operation).holds(place)]


def desired_bars(overrides: Iterable[Override], name: str, *, start: datetime, end: datetime) -> list[Bar]:
    """What people wanted of the breaker, as bars that tile the window: closed stands for "the rules decide"."""
    bars: list[Bar] = []
    at = start
    for one in overrides:
        begin, until = max(at, one.starts_at), min(end, one.ended_at or one.expires_at)
        if begin >= until:
            continue
        if begin > at:
            bars.append(_auto(at, begin))
        goes_on = until >= end and one.ended_at is None
        why = f"{one.by}: {one.reason}"
        bars.append(
            Bar(lane=name, state=State(one.mode), start=begin, end=None if goes_on else until, why=why, breaker=name)
        )
        at = until
    return [*bars, *_rest(at, end)]


def _rest(at: datetime, end: datetime) -> Sequence[Bar]:
    return [_auto(at, None)] if at < end else []


def _auto(start: datetime, end: datetime | None) -> Bar:
    return Bar(lane="", state=State.CLOSED, start=start, end=end, why="the rules decide", is_auto=True)
