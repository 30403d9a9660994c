"""The figures of the console: one band each, or all of them stacked over one time axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from events.majority import majority
from events.rows import Bins, CapacityBins, DegradationRow, Fleet, Lanes
from events.timelines.charts import Chart, Lane, compose
from events.timelines.counts import By, capacity_band, failures_band, rejections_band
from events.timelines.fallbacks import fallbacks_band
from events.timelines.states import Bar, bars_of, breakers_band, majority_bars, standing, state_band
from events.wording import count_text, state_word

LANES_MOST = 40
DESIRED = "Desired"
OBSERVED = "Observed, majority"


def breaker_lanes(lanes: Fleet | Lanes) -> Chart:
    """A lane per breaker: what most of the fleet was in (`fleet_lanes`, or what exact `segments` add up to)."""
    return compose([breakers_band(_fleet(lanes))], start=lanes.start, end=lanes.end, has_headings=False)


def _fleet(lanes: Fleet | Lanes) -> Fleet:
    return majority(lanes) if isinstance(lanes, Lanes) else lanes


def instance_lanes(
    lanes: Lanes,
    breaker: str,
    *,
    desired: Sequence[Bar] = (),
    most_lanes: int = LANES_MOST,
    began: datetime | None = None,
) -> Chart:
    """The lanes of one breaker: what people want, what most of the fleet was in, and the instances that moved most.

    `desired` covers the window, oldest first; its `why` says who and why. Beyond `most_lanes` instances are left out,
    and the heading and the caption say so.
    """
    instances = lanes.get(breaker, {})
    fleet = majority(lanes).get(breaker, [])
    rows: list[tuple[Lane, Sequence[Bar]]] = []
    if desired:
        wanted = [replace(one, lane=DESIRED) for one in desired]
        rows.append((Lane(name=DESIRED, value=wanted[-1].word), wanted))
    if fleet:
        rows.append((Lane(name=OBSERVED, value=standing(fleet)), majority_bars(OBSERVED, fleet, lanes.end)))
    shown = sorted(instances, key=lambda name: (-len(instances[name]), name))[:most_lanes]
    each: list[tuple[Lane, Sequence[Bar]]] = [
        (Lane(name=name, value=state_word(instances[name][-1].state)), bars_of(name, instances[name])) for name in shown
    ]
    title = f"{count_text(len(instances), 'instance')}"
    if len(shown) < len(instances):
        title = f"{len(shown)} of {count_text(len(instances), 'instance')}, those that moved most"
    caption = _instances_caption(breaker, lanes)
    whole = state_band("Desired and observed", rows, end=lanes.end, caption=caption, is_named_empty=False)
    return compose(
        [whole, state_band(title, each, end=lanes.end, caption="")], start=lanes.start, end=lanes.end, began=began
    )


def _instances_caption(breaker: str, lanes: Lanes) -> str:
    instances = lanes.get(breaker, {})
    if not instances:
        return f"No instance reported {breaker} in this range."
    moves = sum(len(segments) - 1 for segments in instances.values())
    where = count_text(len(instances), "instance")
    if not moves:
        return f"{breaker} did not change its state on any of {where}."
    return f"{breaker} changed its state {count_text(moves, 'time')} on {where}."


def failure_bars(
    bins: Bins, *, start: datetime, end: datetime, by: By = "family", label: str = "all operations"
) -> Chart:
    """Failures per bin, stacked by family or by category."""
    band = failures_band(bins, label=label, by=by)
    return compose([band], start=start, end=end, has_headings=False, hover="x unified")


def rejections_line(bins: Bins, *, start: datetime, end: datetime, label: str = "calls not made") -> Chart:
    """Calls that a breaker, a gate or an override refused, per bin."""
    band = rejections_band(bins, label=label)
    return compose([band], start=start, end=end, has_headings=False, hover="x unified")


def capacity_heat(bins: CapacityBins, *, start: datetime, end: datetime) -> Chart:
    """429 and 529 per bin, a heat row per provider and model."""
    return compose([capacity_band(bins)], start=start, end=end, has_headings=False)


def fallback_lanes(rows: Iterable[DegradationRow], *, start: datetime, end: datetime) -> Chart:
    """A lane per operation that was answered with less than the real thing."""
    return compose([fallbacks_band(rows, start=start, end=end)], start=start, end=end, has_headings=False)


def timeline(
    lanes: Fleet | Lanes,
    *,
    capacity: CapacityBins,
    failures: Bins,
    rejections: Bins,
    degradations: Iterable[DegradationRow],
    by: By = "family",
    began: datetime | None = None,
) -> Chart:
    """Everything that went on in one window, band under band, so that one glance down a moment tells the story.

    Before `began`, the environment's first sign of life, nothing is drawn, because nothing could be known.
    """
    start, end = lanes.start, lanes.end
    bands = (
        capacity_band(capacity.since(began)),
        breakers_band(_fleet(lanes)),
        failures_band(failures.since(began), by=by),
        rejections_band(rejections.since(began)),
        fallbacks_band(degradations, start=start, end=end),
    )
    return compose(bands, start=start, end=end, began=began)
