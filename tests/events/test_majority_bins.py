"""A fleet that changes its mind more often than a figure can show: drawn in bins, of which none hides the worst."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from events.rows import RANK, Fleet, MajoritySegment
from events.timelines.majority import MOST_SEGMENTS, in_bins
from events.timelines.states import breakers_band
from events.wording import bin_text
from recovery_ops.rules.enums import State
from tests.support.stories import NOW, ago

STATES = (State.CLOSED, State.OPEN, State.HALF_OPEN, None)


def fleet_of(lanes: dict[str, list[State | None]]) -> Fleet:
    """A day; each lane changes in equal steps."""
    fleet = Fleet(start=ago(86_400), end=NOW)
    for name, states in lanes.items():
        step = timedelta(days=1) / len(states)
        fleet[name] = [
            MajoritySegment(
                breaker=name,
                state=state,
                start=fleet.start + at * step,
                end=NOW if at == len(states) - 1 else fleet.start + (at + 1) * step,
                most=1,
                last=1 if state is not None else 0,
                known=1 if state is not None else 0,
                unknown=0 if state is not None else 1,
                worst=state,
                worst_count=1 if state is not None else 0,
            )
            for at, state in enumerate(states)
        ]
    return fleet


@given(
    st.lists(st.sampled_from(STATES), min_size=700, max_size=900),
    st.integers(min_value=3, max_value=8),
)
def test_bins_tile_the_range_and_show_the_worst_that_was_in_them(states: list[State | None], count: int) -> None:
    fleet = fleet_of({f"b-{number}": states[number:] for number in range(count)})
    binned = in_bins(fleet)
    assert binned.bin_s >= 60
    assert sum(map(len, binned.values())) <= MOST_SEGMENTS
    for name, lane in binned.items():
        assert (lane[0].start, lane[-1].end) == (fleet.start, fleet.end)
        assert all(one.end == after.start and one.state != after.state for one, after in pairwise(lane))
        for exact in fleet[name]:
            drawn = [one for one in lane if one.start < exact.end and exact.start < one.end]
            assert all(RANK[one.state] >= RANK[exact.state] for one in drawn), "what was bad is not drawn as better"


def test_what_can_be_shown_is_shown_as_it_was() -> None:
    fleet = fleet_of({"b": [State.CLOSED, State.OPEN] * 20})
    assert in_bins(fleet) is fleet


def test_the_figure_says_so_and_still_tells_exactly_what_stands_at_the_end() -> None:
    """An instance that flaps was drawn by thirty thousand bars, which took a browser seconds and a page seven."""
    flapping: list[State | None] = [State.OPEN, State.CLOSED] * (MOST_SEGMENTS // 2 + 1)
    fleet = fleet_of({"b": flapping})
    band = breakers_band(fleet)
    length = bin_text(in_bins(fleet).bin_s)
    assert length in band.caption
    assert length not in breakers_band(fleet_of({"b": [State.OPEN, State.CLOSED]})).caption
    assert [lane.value for lane in band.lanes] == ["closed 1/1"]
    assert len(band.table.rows) <= MOST_SEGMENTS
