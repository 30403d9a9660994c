"""The figures of the console: one band each, or all of them stacked over one time axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from events.rows import Bins, CapacityBins, DegradationRow, Fleet, Lanes
from events.timelines.charts import Band, Chart, Lane, Table, compose
from events.timelines.choosing import EVERYTHING, Choice
from events.timelines.counts import By, Earlier, capacity_band, failures_band, rejections_band
from events.timelines.durations import TimeInState, time_in_state
from events.timelines.fallbacks import fallbacks_band
from events.timelines.majority import majority
from events.timelines.marks import Mark, marks_band
from events.timelines.pinning import arranged
from events.timelines.questions import MOST_LANES, Question, questions_band
from events.timelines.reporters import reporters_band
from events.timelines.states import (
    Bar,
    PageOf,
    bars_of,
    breakers_band,
    fleet_times,
    majority_bars,
    no_page,
    standing,
    state_band,
    times_table,
)
from events.wording import count_text, state_text

LANES_MOST = 40
NOTHING_UNTOLD: Mapping[str, str] = MappingProxyType({})
DESIRED = "Desired"
OBSERVED = "Observed, majority"


def breaker_lanes(lanes: Fleet | Lanes) -> Chart:
    """A lane per breaker: what most of the fleet was in (`fleet_lanes`, or what exact `segments` add up to)."""
    fleet = _fleet(lanes)
    times = fleet_times(fleet)
    return compose(
        [breakers_band(fleet)],
        start=lanes.start,
        end=lanes.end,
        has_headings=False,
        times=sum(times.values(), TimeInState()),
        more=[times_table(times, "Breaker")],
    )


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
        (Lane(name=name, value=state_text(instances[name][-1].state)), bars_of(name, instances[name])) for name in shown
    ]
    title = f"{count_text(len(instances), 'instance')}"
    if len(shown) < len(instances):
        title = f"{len(shown)} of {count_text(len(instances), 'instance')}, most state changes first"
    caption = _instances_caption(breaker, lanes)
    whole = state_band("Desired and observed", rows, end=lanes.end, caption=caption, is_named_empty=False)
    observed = time_in_state(fleet, end=lanes.end)
    times = {name: time_in_state(segments, end=lanes.end) for name, segments in instances.items()}
    return compose(
        [whole, state_band(title, each, end=lanes.end, caption="")],
        start=lanes.start,
        end=lanes.end,
        began=began,
        times=observed,
        more=[
            times_table({OBSERVED: observed}, "Observed"),
            times_table(times, "Instance", title="Time in state by instance"),
        ],
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
    choice: Choice = EVERYTHING,
    marks: Sequence[Mark] | None = None,
    questions: Sequence[Question] | None = None,
    earlier: tuple[Earlier, Earlier, Earlier] | None = None,
    untold: Mapping[str, str] = NOTHING_UNTOLD,
    notes: Mapping[str, str] = NOTHING_UNTOLD,
    page_of: PageOf = no_page,
) -> Chart:
    """Everything that went on in one window, band under band, so that one glance down a moment tells the story.

    Before `began`, the environment's first sign of life, nothing is drawn, because nothing could be known. `marks` are
    what people did, `questions` what was put to them, `earlier` what to compare with. What `choice` leaves out is not
    drawn; a band of lanes none of which has what is looked for in its name is left out whole. What it pins stands on
    top, the bands below in its order. Of a band in `untold` only the words why are; `notes` stand beside others.
    `page_of` says where the label of a breaker leads.
    """
    start, end = lanes.start, lanes.end
    fleet = choice.fleet(_fleet(lanes))
    then = earlier or (None, None, None)
    bands = [
        capacity_band(choice.capacity(capacity.since(began)), earlier=then[2]),
        breakers_band(fleet, page_of),
        failures_band(failures.since(began), by=by, earlier=then[0]),
        rejections_band(rejections.since(began), earlier=then[1]),
        fallbacks_band([row for row in degradations if choice.holds("fallbacks", row.operation)], start=start, end=end),
    ]
    if questions is not None:
        bands.append(questions_band(_matching(questions, choice), start=start, end=end))
    if isinstance(lanes, Fleet):
        bands.append(reporters_band(lanes.presences, start=start, end=end))
    if marks is not None:
        bands.append(marks_band(_without_lanes(marks, questions, choice), start=start, end=end))
    return compose(
        arranged([_told(band, untold, notes) for band in bands if _is_shown(band, choice)], choice),
        start=start,
        end=end,
        has_top_axis=True,
        began=began,
        **_times_of(fleet, choice),
    )


def _times_of(fleet: Fleet, choice: Choice) -> dict[str, Any]:
    """How long breakers were in each state, where they are drawn."""
    if not choice.has_band("breakers") and not choice.pinned("breakers"):
        return {}
    times = fleet_times(fleet)
    return {"times": sum(times.values(), TimeInState()), "more": [times_table(times, "Breaker")]}


def _matching(questions: Sequence[Question], choice: Choice) -> list[Question]:
    return [one for one in questions if choice.match.casefold() in f"{one.name} {one.what}".casefold()]


def _told(band: Band, untold: Mapping[str, str], notes: Mapping[str, str]) -> Band:
    """The band; empty, with the words why, where what it shows is not told."""
    if band.key not in untold:
        return replace(band, caption=f"{band.caption} {notes.get(band.key, '')}".rstrip())
    table = Table(title=band.title, columns=("From",), rows=())
    return replace(band, traces=(), lanes=(), top=0.0, value="", table=table, caption=untold[band.key], is_untold=True)


def _without_lanes(marks: Sequence[Mark], questions: Sequence[Question] | None, choice: Choice) -> list[Mark]:
    told = _has_lanes(questions, choice)
    return [one for one in marks if one.href not in told]


def _has_lanes(questions: Sequence[Question] | None, choice: Choice) -> set[str]:
    """The pages of questions whose lanes tell more than their marks would: all of them, or none."""
    is_whole = questions is not None and choice.has_band("escalations") and not choice.match
    return {one.href for one in questions or ()} if is_whole and len(questions or ()) <= MOST_LANES else set()


def _is_shown(band: Band, choice: Choice) -> bool:
    """A band without a lane that has what is looked for would say that there was none."""
    has_band = choice.has_band(band.key)
    is_left_empty = (bool(choice.match) or not has_band) and band.key in _WITH_LANES and not band.lanes
    return (has_band or bool(choice.pinned(band.key))) and not is_left_empty


_WITH_LANES = {"capacity", "breakers", "fallbacks", "escalations"}
