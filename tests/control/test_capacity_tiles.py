"""The line of figures over the capacity events."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.capacity.asking import events_going_on, waits_asked_for
from events.capacity.detection import look
from events.capacity.reach import read_reach
from events.recoveries.summing import sum_days
from events.window import Window
from recovery_ops.control.views.capacity_tiles import _waiting
from recovery_ops.rules.facts import RunFinished
from recovery_ops.rules.words import Category, RunStatus
from tests.support.capacity import storm
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, ago, counted, failed, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

HELIOS = {"provider": "helios", "model": "large"}


def tiles(path: str = "/capacity?range=15m") -> dict[str, str]:
    """Each figure with its words, by its title."""
    page = signed_in().get(path).content.decode()
    found = re.findall(r'<a class="tile" href="[^"]*"><h2>(.*?)</h2>(.*?)</a>', page, re.DOTALL)
    return {title: " ".join(unescape(re.sub(r"<[^>]+>", " ", rest)).split()) for title, rest in found}


def test_rates_by_class_are_those_of_the_range() -> None:
    story = Story().tell(heartbeat(), at=900).tell(heartbeat(), at=0)
    story.tell(*[failed(Category.OVERLOADED, **HELIOS, status_code=529) for _ in range(30)], at=300)
    story.tell(*[failed(Category.RATE_LIMITED, **HELIOS, status_code=429) for _ in range(15)], at=290)
    story.tell(
        *[failed(Category.TIMEOUT) for _ in range(3)], *[failed(Category.SERVER_ERROR) for _ in range(5)], at=280
    )
    story.store()
    found = tiles()
    assert list(found) == ["429", "529", "5xx and timeouts", "Runs waiting", "Retry-After", "Recovered alone"]
    assert found["429"] == "1.0 per min 15 in this range; our own quota"
    assert found["529"] == "2.0 per min 30 in this range; provider overloaded, or a 503 that says so"
    assert found["5xx and timeouts"] == "0.5 per min 8 in this range; 5 × 5xx, 3 × timeout"
    assert found["Runs waiting"] == "0 now no event goes on"
    assert found["Retry-After"] == "– none was said in this range"
    assert found["Recovered alone"] == "– 0 of 0 runs in trouble, on this day"


def test_the_wait_that_was_asked_for_is_that_of_nineteen_in_twenty() -> None:
    story = Story().tell(heartbeat(), counted(5), at=400)
    for number in range(1, 21):
        story.tell(failed(Category.RATE_LIMITED, retry_after_s=float(number)), at=300)
    story.tell(failed(Category.TIMEOUT, retry_after_s=900.0), failed(Category.OVERLOADED), at=200).store()
    assert tiles()["Retry-After"] == "19 s p95 of the newest 20 that said one; the longest 20 s"
    assert sorted(waits_asked_for("dev", start=ago(900), end=NOW)) == [float(number) for number in range(1, 21)]
    assert waits_asked_for("dev", start=ago(250), end=NOW) == []


def test_recovered_runs_are_those_of_the_days_of_the_range() -> None:
    story = Story().tell(heartbeat(), at=900)
    for run, status in (("a", RunStatus.SUCCEEDED), ("b", RunStatus.SUCCEEDED), ("c", RunStatus.FAILED)):
        story.tell(failed(Category.OVERLOADED), at=300, run=run)
        story.tell(RunFinished(status=status, duration_s=5.0), at=200, run=run)
    story.store()
    sum_days("dev", NOW)
    assert tiles()["Recovered alone"] == "67 % of runs 2 of 3 runs in trouble, on this day"


def test_what_was_told_of_a_time_before_its_sender_was_heard_of_is_known() -> None:
    story = Story().tell(heartbeat(), at=30, received=30)
    for minute in range(10):
        story.tell(failed(Category.OVERLOADED, **HELIOS), at=60 * minute + 40, received=30)
    story.store()
    assert tiles()["529"].startswith("0.9 per min 10 in this range")


def test_before_anybody_reported_there_is_no_figure() -> None:
    assert tiles() == {}


def test_whether_runs_wait_is_not_known_where_nobody_reports() -> None:
    Story().tell(heartbeat(), at=600, received=600).store()
    assert tiles()["Runs waiting"] == "– now nobody reports"


def test_with_an_outage_that_goes_on_the_page_still_asks_little() -> None:
    storm(Story(), since=300, until=0).tell(heartbeat(), at=5).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    client = signed_in()
    client.get("/capacity")
    with CaptureQueriesContext(connection) as queries:
        assert client.get("/capacity").status_code == 200
    assert len(queries) <= 15
    assert tiles()["Runs waiting"] == "0 now in 1 event that goes on"


def test_runs_that_wait_for_one_of_several_outages_are_called_the_least() -> None:
    storm(Story(), since=300, until=0).tell(heartbeat(), at=5).store()
    look("dev", NOW)
    one = replace(events_going_on("dev", now=NOW)[0], waiting=3)
    window = Window(start=ago(3600), end=NOW)
    assert _waiting([one], window, is_dark=False).detail == "in 1 event that goes on"
    told = _waiting([one, replace(one, waiting=1)], window, is_dark=False)
    assert (told.figure, told.detail) == ("3", "at least: the most in one of 2 events that go on")
