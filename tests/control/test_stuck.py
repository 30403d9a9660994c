"""Breakers that are stuck: found from what is stored, and told on the pages, by the API and to people."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from events.queries import breakers
from recovery_ops.control import actions
from recovery_ops.control.actions import keep_ramps
from recovery_ops.control.notify.finding import stuck
from recovery_ops.control.notify.triggers import Look
from recovery_ops.control.stuck import stuck_among
from recovery_ops.rules.policy import BUILT_IN
from recovery_ops.rules.telling import Phase
from recovery_ops.rules.words import Category, State
from tests.support.actions import asked
from tests.support.api_client import Program
from tests.support.engines import engine
from tests.support.pages import signed_in, text_of
from tests.support.ramps import opened_fleet, reset, seen
from tests.support.stories import NOW, Story, counted, failed, heartbeat, moved

__all__ = ["engine"]  # the fixture
IDLE = "Open on 1 instance for 40 min, and nobody has called it for 16 min or longer"


def idle_fleet() -> None:
    """search_web has been open for 40 min and nobody calls it; fetch fails all the time, by our own fault."""
    story = Story()
    story.tell(heartbeat(), at=3000, instance="r-0")
    story.tell(counted(30), moved(State.OPEN), at=2400, instance="r-0")
    story.tell(moved(State.CLOSED, breaker="fetch"), at=2000, instance="r-0")
    wrong = failed(Category.INVALID_REQUEST, "fetch", retryable=False, status_code=400)
    story.tell(*[wrong] * 30, counted(32, "fetch", successes=2), at=120, instance="r-0")
    story.tell(heartbeat(), at=5, instance="r-0")
    story.store()


def kinds() -> dict[str, list[str]]:
    found = stuck_among(breakers("dev", now=NOW), BUILT_IN, now=NOW)
    return {name: [one.kind.value for one in several] for name, several in found.items()}


def test_what_is_stuck_is_found_in_states_and_sums(engine: str) -> None:
    idle_fleet()
    assert kinds() == {"search_web": ["open_without_traffic"], "fetch": ["failures_not_counted"]}


def test_failures_that_are_not_counted_are_told_of_the_time_in_which_there_were_calls(db: None) -> None:
    idle_fleet()
    [finding] = stuck_among(breakers("dev", now=NOW), BUILT_IN, now=NOW)["fetch"]
    start = int(NOW.timestamp() - 120) // 300 * 300
    minutes, seconds = divmod(int(NOW.timestamp()) - start, 60)
    assert f"in the last {minutes}m {seconds:02d}s, " in finding.sentence


def test_a_call_that_was_refused_is_traffic(db: None) -> None:
    idle_fleet()
    Story().tell(counted(3, attempts=0, successes=0, rejected=3), at=60, instance="r-0").store()
    assert kinds() == {"fetch": ["failures_not_counted"]}


def test_half_open_for_too_long_is_found(db: None) -> None:
    story = Story().tell(heartbeat(), moved(State.OPEN), at=900)
    story.tell(moved(State.HALF_OPEN, before=State.OPEN), at=400).tell(heartbeat(), counted(20), at=5).store()
    assert kinds() == {"search_web": ["half_open_too_long"]}


def test_a_quiet_breaker_that_is_closed_is_not_stuck(db: None) -> None:
    Story().tell(heartbeat(), moved(State.CLOSED), at=3000).tell(heartbeat(), at=5).store()
    assert kinds() == {}


@pytest.mark.django_db
@pytest.mark.usefixtures("now")
def test_the_pages_say_so_and_what_to_do() -> None:
    idle_fleet()
    client = signed_in()
    page = text_of(client.get("/breakers"))
    assert IDLE in page
    assert "30 of 32 attempts failed in" in page
    assert "none of these failures counts for the breaker: 30 invalid_request." in page
    assert "2 breakers of 2" in text_of(client.get("/breakers?show=stuck"))
    assert IDLE in text_of(client.get("/breakers/search_web"))
    assert "Reset it if the service is well." in text_of(client.get("/breakers/search_web"))
    overview = text_of(client.get("/"))
    assert "search_web stays open, and nobody calls it" in overview
    assert "fetch fails, and its breaker does not open" in overview


@pytest.mark.django_db
@pytest.mark.usefixtures("now")
def test_a_program_reads_the_same() -> None:
    idle_fleet()
    _, found = Program("read").get("breakers")
    said = {row["name"]: [one["kind"] for one in row["stuck"]] for row in found["breakers"]}
    assert said == {"search_web": ["open_without_traffic"], "fetch": ["failures_not_counted"]}
    _, found = Program("read").get("breakers/fetch")
    assert found["breaker"]["stuck"][0]["advice"].startswith("Look at the failures")


@pytest.mark.django_db
def test_people_are_told_once_when_it_is_so_and_once_when_it_is_over() -> None:
    idle_fleet()
    look = Look(environment="dev", now=NOW, asked={"breaker_stuck"})
    told = {one.subject: one.phase for one in stuck.found(look)}
    assert told == {
        "stuck open_without_traffic search_web": Phase.BEGAN,
        "stuck failures_not_counted fetch": Phase.BEGAN,
    }
    again = Look(environment="dev", now=NOW, asked={"breaker_stuck"}, open=set(told))
    assert list(stuck.found(again)) == []
    Story().tell(moved(State.CLOSED, before=State.OPEN), at=2, instance="r-0").store()
    [over] = stuck.found(again)
    assert (over.subject, over.phase, over.operation) == (
        "stuck open_without_traffic search_web",
        Phase.ENDED,
        "search_web",
    )
    assert list(stuck.found(Look(environment="dev", now=NOW))) == []


@pytest.mark.django_db
def test_a_halted_reset_stands_in_the_list_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    opened_fleet()
    reset()
    later = NOW + timedelta(seconds=601)
    seen(601)
    keep_ramps(now=later)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert "Reset 1 of search_web is halted No evidence in 10 min" in text_of(signed_in().get("/"))
    actions.cancel(**asked(number=1))
    assert "is halted" not in text_of(signed_in().get("/"))
