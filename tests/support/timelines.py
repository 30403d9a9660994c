"""Lanes of timelines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from events.rows import Bins, CapacityBins, DegradationRow, Lanes, Segment, Transition
from events.timelines import (
    Bar,
    Chart,
    breaker_lanes,
    capacity_heat,
    failure_bars,
    fallback_lanes,
    instance_lanes,
    rejections_line,
    timeline,
)
from recovery_ops.rules.enums import Category, State, Trigger

NOW = datetime(2026, 11, 21, 14, 26, 18, tzinfo=UTC)


START = NOW - timedelta(hours=1)


def cause(instance: str, breaker: str, state: State, at: datetime) -> Transition:
    return Transition(
        fact_id=7,
        at=at,
        service="research",
        instance=instance,
        breaker=breaker,
        state=state,
        previous_state=State.CLOSED,
        trigger=Trigger.FAILURE_RATE,
        calls=20,
        failures=13,
        failure_rate=0.65,
        threshold=0.5,
        last_category=Category.OVERLOADED,
        override_id="",
        revision=None,
    )


def lanes_of(
    spans: dict[str, dict[str, list[tuple[float, State | None]]]], *, start: datetime = START, end: datetime = NOW
) -> Lanes:
    """Lanes from (share of the window at which it begins, state)."""
    lanes = Lanes(start=start, end=end)
    for breaker, instances in spans.items():
        for instance, steps in instances.items():
            moments = [start + (end - start) * share for share, _ in steps]
            ends: list[datetime | None] = [*moments[1:], None]
            lanes.setdefault(breaker, {})[instance] = [
                Segment(
                    service="research",
                    instance=instance,
                    breaker=breaker,
                    state=state,
                    start=begin,
                    end=until,
                    cause=cause(instance, breaker, state, begin) if state is not None and begin > start else None,
                )
                for (_, state), begin, until in zip(steps, moments, ends, strict=True)
            ]
    return lanes


ALL_STATES = lanes_of(
    {
        "search_web": {
            "a-0": [(0, State.CLOSED), (0.5, State.OPEN), (0.6, State.HALF_OPEN), (0.7, State.CLOSED)],
            "a-1": [(0, State.CLOSED), (0.55, State.OPEN), (0.9, State.FORCED_OPEN)],
            "a-2": [(0, State.CLOSED), (0.4, None)],
        },
        "crm.update": {"a-0": [(0, State.DISABLED)]},
        "vector.query": {"a-0": [(0, State.METRICS_ONLY), (0.5, State.FORCED_OPEN)]},
    }
)


def bins(series: dict[str, list[int]], unknown: list[bool] | None = None) -> Bins:
    length = len(next(iter(series.values()), [0] * 5))
    return Bins(start=START, bin_s=60, series=series, unknown=unknown or [False] * length)


def capacity(unknown: list[bool] | None = None) -> CapacityBins:
    limited, overloaded = {"helios / large": [0, 2, 0, 9, 1]}, {"helios / large": [0, 0, 30, 200, 5]}
    both = {"helios / large": [0, 2, 30, 209, 6], "helios / embed": [0] * 5}
    zeros = {"helios / embed": [0] * 5}
    return CapacityBins(
        start=START,
        bin_s=60,
        series=both,
        unknown=unknown or [False] * 5,
        rate_limited=limited | zeros,
        overloaded=overloaded | zeros,
    )


def reduced(operation: str, *, since: float, until: float | None, kind: str = "fallback") -> DegradationRow:
    """An interval between so many minutes ago."""
    return DegradationRow(
        operation=operation,
        kind=kind,
        from_name=operation,
        to_name="" if kind == "withdrawn" else "search_cache",
        reason="open",
        category=None,
        service="research",
        instance="a-0",
        heard=NOW,
        started=NOW - timedelta(minutes=since),
        ended=None if until is None else NOW - timedelta(minutes=until),
        calls=0 if until is None else 4,
    )


def everything() -> Chart:
    counts = bins({"transient": [1, 0, 7, 3, 2], "semantic": [0, 0, 1, 0, 0]}, [True, False, False, False, False])
    return timeline(
        ALL_STATES,
        capacity=capacity([True, False, False, False, False]),
        failures=counts,
        rejections=counts,
        degradations=[
            reduced("search_web", since=30, until=None),
            reduced("fetch_page", since=20, until=10, kind="model"),
            reduced("embed", since=20, until=10, kind="withdrawn"),
        ],
    )


CHARTS = {
    "breakers": breaker_lanes(ALL_STATES),
    "instances": instance_lanes(
        ALL_STATES,
        "search_web",
        desired=[Bar(lane="", state=State.CLOSED, start=START, end=None, why="auto")],
    ),
    "failures": failure_bars(bins({"transient": [1, 2, 3]}), start=START, end=NOW),
    "rejections": rejections_line(bins({"search_web": [1, 2, 3]}), start=START, end=NOW),
    "capacity": capacity_heat(capacity(), start=START, end=NOW),
    "fallbacks": fallback_lanes([reduced("search_web", since=30, until=None)], start=START, end=NOW),
    "timeline": everything(),
    "nothing": timeline(
        Lanes(start=START, end=NOW),
        capacity=CapacityBins(start=START, bin_s=60, series={}, unknown=[True] * 60),
        failures=bins({}),
        rejections=bins({}),
        degradations=[],
    ),
}


def painted(value: Any) -> Any:
    """The figure with colours in the places of tokens."""
    if isinstance(value, str):
        return "sans-serif" if value == "token:--sans" else "#123456" if value.startswith("token:") else value
    if isinstance(value, dict):
        return {key: painted(part) for key, part in value.items()}
    return [painted(part) for part in value] if isinstance(value, list | tuple) else value


def drawn(chart: Chart, axis: str | None = None) -> list[tuple[str, str, int, int]]:
    """Every state bar of a figure as (lane, label, from, until) in milliseconds, rails of overrides once."""
    found = []
    for trace in chart.figure["data"]:
        is_bar = trace["type"] == "bar" and trace.get("orientation") == "h" and trace.get("hoverinfo") != "skip"
        if is_bar and axis in (None, trace["yaxis"]):
            bars = zip(trace["y"], trace["base"], trace["x"], strict=True)
            found += [(lane, trace.get("meta", trace["name"]), base, base + length) for lane, base, length in bars]
    return sorted(found, key=lambda bar: (bar[0], bar[2]))
