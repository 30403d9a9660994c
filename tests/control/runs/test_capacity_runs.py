"""The runs that an outage reached: on its page, behind its row of the list, in files and for programs."""

from __future__ import annotations

import re
from html import unescape

import pytest

from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from recovery_ops.rules.enums import Category, DelaySource, Rung, RunStatus, StopReason
from recovery_ops.rules.events import Exhausted, FallbackActivated, RetryScheduled, RunFinished
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.capacity import storm
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.query_counts import asked_of
from tests.support.stories import NOW, Story, failed
from tests.support.told import untold

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


QUERIES_MOST = 23


def outage() -> CapacityEvent:
    """Of helios / large, which reached run-0 to run-2; of what failed in run-7 something else was the cause."""
    story = storm(Story(), since=300, until=100)
    story.tell(failed(Category.TIMEOUT, operation="search_web"), at=200, run="run-7", instance="a-1")
    story.tell(failed(Category.INVALID_REQUEST, operation="model:large", provider="helios"), at=200, run="run-8")
    storm(story, since=200, until=190, provider="atlas", model="small")
    story.tell(
        RetryScheduled(
            operation="model:large",
            attempt=2,
            delay_s=12.0,
            delay_source=DelaySource.RETRY_AFTER,
            category=Category.OVERLOADED,
        ),
        at=99,
        run="run-0",
        instance="a-1",
    )
    story.tell(FallbackActivated(operation="model:large", fallback="small", level=1), at=90, run="run-1")
    gave_up = Exhausted(operation="model:large", reason=StopReason.ATTEMPTS, attempts=3, rungs=(Rung.RETRY,))
    story.tell(gave_up, at=90, run="run-2")
    story.tell(RunFinished(status=RunStatus.FAILED, duration_s=9.0), at=80, run="run-2").store()
    look("dev", NOW)
    read_reach("dev", NOW)
    return CapacityEvent.objects.get(provider="helios", model="large")


def runs_in(page: str) -> list[str]:
    return sorted(set(re.findall(r'href="/runs/(run-\d)["?]', page)))


def test_its_page_has_its_runs_with_what_each_did_and_leads_to_all_of_them_and_to_no_others() -> None:
    event = outage()
    client = signed_in(Role.VIEWER)
    page = client.get(f"/capacity/{event.pk}")
    html = page.content.decode()
    assert asked_of(client, f"/capacity/{event.pk}") <= QUERIES_MOST
    assert runs_in(html) == ["run-0", "run-1", "run-2"]
    rows = {run: Shown(page).one("key", f"reached-{run}").text for run in runs_in(html)}
    assert untold(rows["run-0"], "12 s") == []
    assert untold(rows["run-1"], "small", "model:large") == []
    assert "gave up" in rows["run-2"]
    hrefs = {unescape(one) for one in re.findall(r'href="(/runs\?[^"]+)"', html)}
    [href] = [one for one in hrefs if "&status=" not in one]
    assert f"outage=CE-{event.pk}" in href
    assert runs_in(client.get(href).content.decode()) == ["run-0", "run-1", "run-2"]
    assert untold(text_of(client.get(href)), f"CE-{event.pk}") == []
    listed = client.get("/capacity").content.decode()
    assert href in unescape(listed), "the list leads to the same"


def test_one_key_leads_to_its_breaker_and_another_to_the_form_that_asks_a_person() -> None:
    event = outage()
    CapacityEvent.objects.filter(pk=event.pk).update(breakers={"model:large": 2, "other": 1})
    page = Shown(signed_in(Role.OPERATOR).get(f"/capacity/{event.pk}"))
    assert page.one("press", "b").attributes["href"] == "/breakers/model:large/trip"
    assert page.one("press", "e").attributes["href"] == f"/capacity/{event.pk}/ask"
    seen = Shown(signed_in(Role.VIEWER).get(f"/capacity/{event.pk}"))
    assert seen.one("press", "b").attributes["href"] == "/breakers/model:large"
    assert seen.having("press", "e") == []


def test_programs_and_files_are_narrowed_alike_and_an_unknown_outage_reached_nobody() -> None:
    event = outage()
    rows = signed_in().get(f"/runs?outage={event.pk}&range=1h&format=json").json()["rows"]
    assert sorted(row["run"] for row in rows) == ["run-0", "run-1", "run-2"]
    told = Program("read").get(f"runs?outage=CE-{event.pk}")[1]["runs"]
    assert sorted(row["run"] for row in told) == ["run-0", "run-1", "run-2"]
    for unknown in ("987654", "moon", "9" * 40):
        page = signed_in().get("/runs", {"outage": unknown, "range": "1h"})
        assert (page.status_code, runs_in(page.content.decode())) == (200, []), unknown


def test_an_event_of_which_the_facts_are_gone_says_so_and_keeps_their_number() -> None:
    event = outage()
    CapacityEvent.objects.filter(pk=event.pk).update(started_us=1_000_000, last_us=2_000_000)
    page = signed_in().get(f"/capacity/{event.pk}")
    assert page.context["row"].runs == 3
    assert Shown(page).values("empty") == ["expired", "expired"], "of the runs and of the failures"


def test_a_wait_that_goes_on_counts_as_far_as_it_went_on_every_screen_and_in_every_file() -> None:
    story = storm(Story(), since=300, until=100)
    wait = RetryScheduled(
        operation="model:large",
        attempt=2,
        delay_s=600.0,
        delay_source=DelaySource.RETRY_AFTER,
        category=Category.OVERLOADED,
    )
    story.tell(wait, at=99, run="run-0", instance="a-1").store()
    look("dev", NOW)
    read_reach("dev", NOW)
    client, event = signed_in(Role.VIEWER), CapacityEvent.objects.get(provider="helios")
    assert untold(Shown(client.get(f"/capacity/{event.pk}")).one("key", "reached-run-0").text, "1m 39s") == []
    assert "10m 00s" not in text_of(client.get("/runs?range=1h"))
    rows = client.get("/runs?range=1h&format=json").json()["rows"]
    assert {row["run"]: row["waited s"] for row in rows}["run-0"] == 99.0
    assert Program("read").get("runs/run-0")[1]["run"]["waited_s"] == 99.0
    assert runs_in(client.get("/runs?range=1h&waited_s=98").content.decode()) == ["run-0"]
    assert runs_in(client.get("/runs?range=1h&waited_s=100").content.decode()) == []
