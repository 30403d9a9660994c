"""Breakers that are stuck: found from what is stored, and told on the pages, by the API and to people."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from events.queries import breakers
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.breakers.services import ramps as ramps_services
from recovery_ops.control.breakers.services.ramps import keep_ramps
from recovery_ops.control.breakers.stuck import stuck_among
from recovery_ops.control.notifications.detectors import stuck_breakers
from recovery_ops.control.notifications.triggers import Look
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.notifications.grouping import Phase
from recovery_ops.rules.policy.model import BUILT_IN
from tests.support.actions import asked
from tests.support.api_client import Program
from tests.support.engines import engine
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.ramps import opened_fleet, reset, seen
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, counted, failed, heartbeat, moved

__all__ = ["engine"]  # the fixture
IDLE, UNCOUNTED = "stuck open_without_traffic search_web", "stuck failures_not_counted fetch"
"""The subjects of what people are told."""


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
    assert left_out(finding.sentence, f"{minutes}m {seconds:02d}s") == []


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
    several = stuck_among(breakers("dev", now=NOW), BUILT_IN, now=NOW)
    [idle], [uncounted] = several["search_web"], several["fetch"]
    assert left_out(idle.sentence, "1", "40 min", "16 min") == []
    assert left_out(uncounted.sentence, "30", "32", "30 invalid_request") == []
    page = client.get("/breakers")
    keys = ["stuck-search_web-open_without_traffic", "stuck-fetch-failures_not_counted"]
    for key, finding in zip(keys, (idle, uncounted), strict=True):
        assert finding.sentence in Shown(page).one("key", key).text
        assert finding.advice in Shown(page).one("key", key).text
    shown = Shown(client.get("/breakers?show=stuck")).values("key")
    assert sorted(one for one in shown if one.startswith("breaker-")) == ["breaker-fetch", "breaker-search_web"]
    notice = Shown(client.get("/breakers/search_web")).one("stuck", idle.kind)
    assert idle.sentence in notice.text
    assert idle.advice in notice.text
    overview = Shown(client.get("/"))
    for name, finding in (("search_web", idle), ("fetch", uncounted)):
        assert finding.sentence in overview.one("key", f"stuck-{name}").text


@pytest.mark.django_db
@pytest.mark.usefixtures("now")
def test_a_program_reads_the_same() -> None:
    idle_fleet()
    _, found = Program("read").get("breakers")
    said = {row["name"]: [one["kind"] for one in row["stuck"]] for row in found["breakers"]}
    assert said == {"search_web": ["open_without_traffic"], "fetch": ["failures_not_counted"]}
    _, found = Program("read").get("breakers/fetch")
    [told] = found["breaker"]["stuck"]
    [finding] = stuck_among(breakers("dev", now=NOW), BUILT_IN, now=NOW)["fetch"]
    assert (told["kind"], told["advice"]) == ("failures_not_counted", finding.advice)


@pytest.mark.django_db
def test_people_are_told_once_when_it_is_so_and_once_when_it_is_over() -> None:
    idle_fleet()
    look = Look(environment="dev", now=NOW, asked={"breaker_stuck"})
    told = {one.subject: one.phase for one in stuck_breakers.found(look)}
    assert told == {IDLE: Phase.BEGAN, UNCOUNTED: Phase.BEGAN}
    again = Look(environment="dev", now=NOW, asked={"breaker_stuck"}, open=set(told))
    assert list(stuck_breakers.found(again)) == []
    Story().tell(moved(State.CLOSED, before=State.OPEN), at=2, instance="r-0").store()
    [over] = stuck_breakers.found(again)
    assert (over.subject, over.phase, over.operation) == (IDLE, Phase.ENDED, "search_web")
    assert list(stuck_breakers.found(Look(environment="dev", now=NOW))) == []


@pytest.mark.django_db
def test_a_halted_reset_stands_in_the_list_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    opened_fleet()
    reset()
    later = NOW + timedelta(seconds=601)
    seen(601)
    keep_ramps(now=later)
    monkeypatch.setattr(timezone, "now", lambda: later)
    halted = Shown(signed_in().get("/")).one("key", "ramp-1")
    ramp = ResetRamp.objects.get()
    assert (ramp.state, ramp.end_reason in halted.text) == ("halted", True)
    assert "search_web" in halted.text
    ramps_services.cancel(**asked(number=1))
    assert Shown(signed_in().get("/")).having("key", "ramp-1") == []
