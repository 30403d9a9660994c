"""The outages behind a run: drawn behind its ladder, told in its list, and none that it had nothing to do with."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events import keys
from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from events.capacity.rows import OWNER_WORDS, Owner
from events.runs import ladder
from events.runs.behind import OutageTold, with_outages
from events.runs.rows import RunStory
from events.runs.selectors import run_of
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import RunFinished, RunStarted
from recovery_ops.rules.roles import Role
from tests.support.capacity import storm
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, ago, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def ran(*, since: float, until: float, run: str = "mine", **called: Any) -> None:
    """A run that failed once in the middle, at what `called` says."""
    given: dict[str, Any] = {"operation": "model:large", "provider": "helios", "model": "large"} | called
    story = Story().tell(RunStarted(name="due diligence"), at=since, run=run)
    story.tell(failed(Category.OVERLOADED, **given), at=(since + until) / 2, run=run)
    story.tell(RunFinished(status=RunStatus.SUCCEEDED, duration_s=since - until), at=until, run=run).store()


def outage(**more: Any) -> int:
    storm(Story(), since=400, until=300, **more).store()
    look("dev", NOW)
    return CapacityEvent.objects.latest("pk").pk


def known(run: str = "mine") -> RunStory:
    told = run_of("dev", run)
    assert told is not None
    return with_outages(told, "dev", NOW)


def bands(story: RunStory) -> list[tuple[float, float]]:
    """Where each lies, in per cent of the width."""
    svg = ET.fromstring(ladder.drawn(story, NOW))
    found = [group.findall("rect")[0] for group in svg.findall("g") if group.attrib["class"] == "shade"]
    return [(float(one.attrib["x"].rstrip("%")), float(one.attrib["width"].rstrip("%"))) for one in found]


def told_of_outages() -> list[OutageTold]:
    """The lines about outages in the story of the run, as they stand on its page."""
    page = signed_in(Role.VIEWER).get("/runs/mine")
    steps = [step for step, _, _ in page.context["steps"]]
    shown = [key for key in Shown(page).values("key") if key.startswith("step-")]
    assert shown == [f"step-{step.fact_id}" for step in steps]
    return [step for step in steps if isinstance(step, OutageTold)]


def test_the_band_is_as_long_as_the_outage_and_the_list_says_the_same() -> None:
    number = outage()
    ran(since=500, until=100)
    story = known()
    assert [(one.event, one.start, one.end) for one in story.behind] == [(number, ago(400), ago(300))]
    assert bands(story) == [(25, 25)]
    began, over = told_of_outages()
    assert (began.event, began.at, began.mark) == (number, ago(400), "half_open")
    assert began.detail == OWNER_WORDS[Owner.PROVIDER]
    assert (over.event, over.at, over.mark) == (number, ago(300), "closed")
    client = signed_in(Role.VIEWER)
    page = client.get("/runs/mine")
    for line, offset in ((began, "+1m 40s"), (over, "+3m 20s")):
        said = Shown(page).one("key", f"step-{line.fact_id}").text
        assert left_out(said, offset, "helios / large", f"CE-{number}") == []
    for kind in ("csv", "md"):
        told = client.get(f"/runs/mine?format={kind}").content.decode()
        assert f"helios / large (CE-{number})" in told
    assert Shown(page).values("behind") == ["1"], "in the legend"
    assert f"/capacity/{number}" in Shown(page).links
    assert f"CE-{number} helios / large</text>" in page.content.decode()


def test_by_operation_the_outage_has_a_lane_that_leads_to_it_and_lies_behind_each_other_lane() -> None:
    number = outage()
    ran(since=500, until=100)
    first, *others = ladder.by_operation(known(), NOW).rows
    assert (first.label, first.value, first.href) == (f"CE-{number} helios / large", "over", f"/capacity/{number}")
    for row in (first, *others):
        [band] = ET.fromstring(row.drawing).findall(".//rect[@class='h4']" if row is first else "g/rect")
        assert (band.attrib["x"], band.attrib["width"]) == ("25%", "25%")
    page = signed_in(Role.VIEWER).get("/runs/mine?tab=timeline")
    assert f'<a href="/capacity/{number}">CE-{number} helios / large</a>' in page.content.decode()
    assert Shown(page).values("behind") == ["1"], "in the legend"


def test_an_outage_that_was_there_before_begins_with_the_run() -> None:
    outage()
    ran(since=350, until=320)
    assert bands(known()) == [(0, 100)]
    [told] = told_of_outages()
    assert (told.at, told.mark) == (ago(350), "half_open")
    assert known().behind[0].start < told.at


@pytest.mark.parametrize(
    ("since", "until", "called"),
    [
        (500, 450, {}),
        (290, 100, {}),
        (500, 100, {"model": "small"}),
        (500, 100, {"provider": "atlas"}),
        (500, 100, {"provider": "", "model": ""}),
    ],
    ids=["over before it", "begun after it", "another model", "another provider", "nobody said which"],
)
def test_what_a_run_did_not_call_or_came_too_late_for_is_not_behind_it(
    since: float, until: float, called: dict[str, str]
) -> None:
    outage()
    ran(since=since, until=until, **called)
    assert known().behind == ()
    assert told_of_outages() == []
    assert Shown(signed_in(Role.VIEWER).get("/runs/mine")).values("behind") == []


def test_an_operation_of_no_known_backend_is_one_by_its_name() -> None:
    number = outage(provider="", model="")
    ran(since=500, until=100, provider="", model="")
    ran(since=500, until=100, run="other", operation="search_web", provider="", model="")
    assert [one.event for one in known().behind] == [number]
    assert known("other").behind == ()


def test_programs_are_told_which_line_is_of_an_outage() -> None:
    number = outage()
    ran(since=500, until=100)
    keys.forget_keys()
    key = keys.create_key("a", ["read"], "dev")[1]
    steps = signed_in().get("/api/v1/runs/mine", headers={"authorization": f"Bearer {key}"}).json()["steps"]
    assert [step["capacity_event"] for step in steps] == [None, number, None, number, None]


def test_the_outages_behind_a_run_are_asked_for_once() -> None:
    outage()
    ran(since=500, until=100)
    told = run_of("dev", "mine")
    assert told is not None
    with CaptureQueriesContext(connection) as queries:
        with_outages(told, "dev", NOW)
    assert len(queries) <= 1


def test_what_came_after_the_last_word_of_a_lost_run_is_not_behind_it() -> None:
    since = 3 * 86_400
    given: dict[str, Any] = {"operation": "model:large", "provider": "helios", "model": "large"}
    story = Story().tell(RunStarted(name="due diligence"), at=since, run="mine")
    story.tell(failed(Category.OVERLOADED, **given), at=since - 5, run="mine").store()
    outage()
    told = run_of("dev", "mine")
    assert told is not None
    assert with_outages(told, "dev", NOW, is_lost=True).behind == ()
    assert len(with_outages(told, "dev", NOW).behind) == 1
    assert told_of_outages() == []
