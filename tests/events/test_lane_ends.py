"""What a lane of most of a fleet says at its end."""

from __future__ import annotations

from events.timelines import breaker_lanes
from recovery_ops.rules.enums import State
from tests.support.timelines import drawn, lanes_of


def test_the_fleet_lane_says_what_its_bar_shows_and_the_worst_beside_it() -> None:
    fleet: dict[str, list[tuple[float, State | None]]] = {f"a-{number}": [(0.0, State.CLOSED)] for number in range(8)}
    one = fleet | {"b-0": [(0, State.CLOSED), (0.5, State.OPEN)]}
    tries = fleet | {"b-0": [(0, State.CLOSED), (0.5, State.HALF_OPEN)]}
    chart = breaker_lanes(lanes_of({"search_web": one, "crm.update": tries, "calm": fleet}))
    values = {note["y"]: note["text"] for note in chart.figure["layout"]["annotations"] if note["name"] == "value"}
    assert values == {
        "search_web": "open 1/9, most closed",
        "crm.update": "half 1/9, most closed",
        "calm": "closed 8/8",
    }
    assert [state for name, state, *_ in drawn(chart) if name == "search_web"] == ["closed"]
    assert "search_web (open 1/9, most closed)" in chart.caption
