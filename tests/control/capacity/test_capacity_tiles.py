"""The line of figures over the capacity events."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.capacity.asking import events_going_on, waits_asked_for
from events.capacity.detection import look
from events.capacity.reach import read_reach
from events.pages.window import Window
from events.recoveries.summing import sum_days
from recovery_ops.control.capacity.views.tiles import _waiting
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import RunFinished
from tests.support.capacity import storm
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, ago, counted, failed, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

HELIOS = {"provider": "helios", "model": "large"}


def tiles(path: str = "/capacity?range=15m") -> dict[str, dict[str, str]]:
    """Each figure with the numbers behind its words, by its name."""
    left_out = ("unknown", "total", "before")  # of the overview's tiles
    tiles = Shown(signed_in().get(path)).having("tile")
    found = [{name: value for name, value in tile.data.items() if name not in left_out} for tile in tiles]
    return {one.pop("tile"): one for one in found}


def test_rates_by_class_are_those_of_the_range() -> None:
    story = Story().tell(heartbeat(), at=900).tell(heartbeat(), at=0)
    story.tell(*[failed(Category.OVERLOADED, **HELIOS, status_code=529) for _ in range(30)], at=300)
    story.tell(*[failed(Category.RATE_LIMITED, **HELIOS, status_code=429) for _ in range(15)], at=290)
    story.tell(
        *[failed(Category.TIMEOUT) for _ in range(3)], *[failed(Category.SERVER_ERROR) for _ in range(5)], at=280
    )
    story.store()
    found = tiles()
    assert found == {
        "429": {"figure": "1.0", "failures": "15"},
        "529": {"figure": "2.0", "failures": "30"},
        "5xx": {"figure": "0.5", "errors": "5", "timeouts": "3"},
        "waiting": {"figure": "0", "events": "0", "least": "0"},
        "retry_after": {"figure": "–", "answers": "0"},
        "recovered": {"figure": "–", "recovered": "0", "troubled": "0", "days": "1"},
    }


def test_the_wait_that_was_asked_for_is_that_of_nineteen_in_twenty() -> None:
    story = Story().tell(heartbeat(), counted(5), at=400)
    for number in range(1, 21):
        story.tell(failed(Category.RATE_LIMITED, retry_after_s=float(number)), at=300)
    story.tell(failed(Category.TIMEOUT, retry_after_s=900.0), failed(Category.OVERLOADED), at=200).store()
    assert tiles()["retry_after"] == {"figure": "19 s", "answers": "20", "longest": "20.0"}
    assert sorted(waits_asked_for("dev", start=ago(900), end=NOW)) == [float(number) for number in range(1, 21)]
    assert waits_asked_for("dev", start=ago(250), end=NOW) == []


def test_recovered_runs_are_those_of_the_days_of_the_range() -> None:
    story = Story().tell(heartbeat(), at=900)
    for run, status in (("a", RunStatus.SUCCEEDED), ("b", RunStatus.SUCCEEDED), ("c", RunStatus.FAILED)):
        story.tell(failed(Category.OVERLOADED), at=300, run=run)
        story.tell(RunFinished(status=status, duration_s=5.0), at=200, run=run)
    story.store()
    sum_days("dev", NOW)
    assert tiles()["recovered"] == {"figure": "67 %", "recovered": "2", "troubled": "3", "days": "1"}


def test_what_was_told_of_a_time_before_its_sender_was_heard_of_is_known() -> None:
    story = Story().tell(heartbeat(), at=30, received=30)
    for minute in range(10):
        story.tell(failed(Category.OVERLOADED, **HELIOS), at=60 * minute + 40, received=30)
    story.store()
    assert tiles()["529"] == {"figure": "0.9", "failures": "10"}


def test_before_anybody_reported_there_is_no_figure() -> None:
    assert tiles() == {}


def test_whether_runs_wait_is_not_known_where_nobody_reports() -> None:
    Story().tell(heartbeat(), at=600, received=600).store()
    assert tiles()["waiting"]["figure"] == "–"


def test_with_an_outage_that_goes_on_the_page_still_asks_little() -> None:
    storm(Story(), since=300, until=0).tell(heartbeat(), at=5).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    client = signed_in()
    client.get("/capacity")
    with CaptureQueriesContext(connection) as queries:
        assert client.get("/capacity").status_code == 200
    assert len(queries) <= 15
    assert tiles()["waiting"] == {"figure": "0", "events": "1", "least": "0"}


def test_runs_that_wait_for_one_of_several_outages_are_called_the_least() -> None:
    storm(Story(), since=300, until=0).tell(heartbeat(), at=5).store()
    look("dev", NOW)
    one = replace(events_going_on("dev", now=NOW)[0], waiting=3)
    window = Window(start=ago(3600), end=NOW)
    exact = _waiting([one], window, is_dark=False)
    assert (exact.figure, exact.told) == ("3", {"events": 1, "least": 0})
    told = _waiting([one, replace(one, waiting=1)], window, is_dark=False)
    assert (told.figure, told.told) == ("3", {"events": 2, "least": 1})
