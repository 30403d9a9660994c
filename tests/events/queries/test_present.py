"""When anybody lived to report: the same from instances that a figure has read as from the store."""

from __future__ import annotations

from typing import Any

import pytest

from events.moments import Grid
from events.queries import fleet_lanes
from events.queries.fleet import present_spans, reporting_spans
from tests.support.stories import NOW, Story, ago, heartbeat

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("hours", [1, 6, 30])
def test_instances_that_were_read_tell_what_the_store_tells(hours: int) -> None:
    story = Story()
    for instance, beats in {
        "fell silent for good": range(9_000, 7_200, -15),
        "was away": (*range(5_400, 4_800, -15), *range(3_000, 2_400, -15)),
        "came late": range(1_200, 900, -15),
        "long gone": range(100_000, 99_000, -15),
        "once": (20_000,),
    }.items():
        for at in beats:
            story.tell(heartbeat(), at=at, instance=instance)
    story.tell(heartbeat(status="stopped"), at=600, instance="stopped").tell(heartbeat(), at=700, instance="stopped")
    story.store()
    window: dict[str, Any] = {"start": ago(3_600 * hours), "end": NOW}
    fleet = fleet_lanes("dev", **window, now=NOW)
    grid = Grid.over(window["start"], window["end"], 60)
    known = grid.outside(reporting_spans("dev", **window))
    assert grid.outside(present_spans(fleet.presences, start=fleet.start, end=fleet.end)) == known
    assert True in known
    assert False in known
