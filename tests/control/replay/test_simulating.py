"""Other limits of a breaker, tried on its last day: on the page, by the API, on the command line."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.models import Fact
from recovery_ops.control.replay import breaker_trial as trial
from recovery_ops.rules.enums import Category, State, Trigger
from recovery_ops.rules.events import BreakerRejected
from recovery_ops.wire import names
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.sentences import left_out
from tests.support.stories import Story, failed, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

PAGE = "/breakers/search_web/simulate"
API = f"/api/v1{PAGE}"


def failing(*, at: float, instance: str = "r-0", well_before: int = 1, **rest: Any) -> Story:
    """Ten failures within a minute, each after so many calls that went well: the rules' own limits never open it."""
    story = Story()
    for number in range(10):
        fact = failed(Category.TIMEOUT, duration_s=0.5, successes_since_failure=well_before, **rest)
        story.tell(fact, at=at - number * 6, instance=instance)
    return story


def simulated(**limits: float) -> Any:
    """What the API says of these limits."""
    return signed_in().get(API, {name: str(value) for name, value in limits.items()}).json()


def test_a_lower_share_would_have_opened_it_and_today_s_limit_did_not() -> None:
    failing(at=3600, well_before=2).tell(heartbeat(), at=5, instance="r-0").store()
    found = simulated(failure_rate_threshold=0.3)
    assert found["limits"] == {
        "failure_rate_threshold": 0.3,
        "minimum_number_of_calls": 10,
        "consecutive_failures": 5,
        "sliding_window_size": 20,
    }
    assert (found["failures"], found["instances"], found["today"]["openings"]) == (10, 1, 0)
    assert found["simulated"]["openings"] == 1
    [opened] = found["simulated"]["newest"]
    assert (opened["instance"], opened["trigger"], opened["calls"], opened["failures"]) == (
        "r-0",
        "failure_rate",
        12,
        4,
    )
    # Four failures and eight successes are in the window at the fourth failure, 18 s after the first.
    assert opened["at"].startswith("2026-11-21T13:26:36")
    # Within the cooldown of a minute six more failed, after two calls each that went well.
    assert (found["simulated"]["refused_failures"], found["simulated"]["refused_successes"]) == (6, 12)


def test_more_calls_before_a_rate_is_judged_open_it_later_and_a_row_of_failures_is_a_limit_of_its_own() -> None:
    failing(at=3600, well_before=2).store()
    later = simulated(failure_rate_threshold=0.3, minimum_number_of_calls=18)["simulated"]["newest"]
    assert [one["calls"] for one in later] == [18]
    assert simulated(consecutive_failures=1)["simulated"]["newest"][-1]["trigger"] == "consecutive_failures"
    assert simulated(failure_rate_threshold=0)["simulated"]["openings"] == 0


def test_each_instance_has_a_breaker_of_its_own() -> None:
    failing(at=3600).store()
    failing(at=1800, instance="r-1").store()
    found = simulated(failure_rate_threshold=0.2)
    assert (found["simulated"]["instances"], found["instances"]) == (2, 2)


def test_a_failure_that_does_not_count_opens_nothing() -> None:
    failing(at=3600).store()
    Story().tell(*[failed(Category.NOT_FOUND) for _ in range(30)], at=600, instance="r-9").store()
    found = simulated(consecutive_failures=1)["simulated"]["newest"]
    assert {one["instance"] for one in found} == {"r-0"}


def test_what_was_refused_then_and_would_be_made_is_counted_and_not_made_up() -> None:
    story = Story().tell(*[failed(Category.TIMEOUT) for _ in range(6)], at=3600)
    story.tell(moved(State.OPEN, trigger=Trigger.CONSECUTIVE_FAILURES, wait_s=60.0, calls=5, failures=5), at=3599)
    refused = BreakerRejected(
        operation="search_web", breaker="search_web", state=State.OPEN, count=7, window_s=1.0, reason="breaker"
    )
    by_a_person = BreakerRejected(
        operation="search_web", breaker="search_web", state=State.FORCED_OPEN, count=50, window_s=1.0, reason="override"
    )
    story.tell(refused, by_a_person, at=3590).store()
    never = simulated(consecutive_failures=0, failure_rate_threshold=0)
    assert (never["simulated"]["openings"], never["simulated"]["not_known"]) == (0, 7)
    assert (never["today"]["openings"], never["today"]["not_known"]) == (1, 0)
    assert never["recorded"]["openings"] == 1
    page = signed_in().get(f"{PAGE}?consecutive_failures=0&failure_rate_threshold=0")
    shown = Shown(page)
    assert (shown.values("openings"), shown.values("not-known")) == (["0"], ["7"])
    assert left_out(page.context["told"][-1], "7") == []
    assert shown.values("empty") == ["openings"]


def test_the_page_says_it_in_words_and_a_lane_for_each() -> None:
    failing(at=3600, well_before=2).store()
    page = signed_in().get(f"{PAGE}?failure_rate_threshold=0.3")
    tried = page.context["trial"]
    assert (len(tried.other.openings), len(tried.today.openings), len(tried.recorded)) == (1, 0, 0)
    assert (tried.other.instances, tried.instances) == (1, 1)
    would, usually, refused = page.context["told"]
    assert left_out(would, "5", "30 %", "20", "10", "1", "13:26:36") == []
    assert left_out(usually, "0") == []
    assert left_out(refused, "18", "12", "67 %") == []
    assert Shown(page).values("openings") == ["1"]
    assert Shown(page).values("empty") == []
    rows = page.context["lanes"].rows
    assert [row.value for row in rows] == ["0", "0", "1"], "as recorded, by today's limits, by these"
    assert all(row.drawing in page.content.decode() for row in rows)
    assert Shown(page).fields["failure_rate_threshold"] == "0.3"
    assert "0.5" in text_of(page)


def test_without_limits_the_page_is_the_form_and_asks_for_no_fact() -> None:
    failing(at=3600).store()
    client = signed_in()
    client.get(PAGE)
    with CaptureQueriesContext(connection) as queries:
        page = client.get(PAGE)
    assert not any("events_fact" in one["sql"] for one in queries)
    assert 'value="0.5"' in page.content.decode()
    assert Shown(page).values("openings") == []


def test_what_is_no_limit_is_said_at_its_field() -> None:
    failing(at=3600).store()
    page = Shown(signed_in().get(f"{PAGE}?failure_rate_threshold=30&minimum_number_of_calls=few"))
    wrong = {one.attributes["name"] for one in page.root.all() if one.attributes.get("aria-invalid") == "true"}
    assert wrong == {"failure_rate_threshold", "minimum_number_of_calls"}
    assert {f"{name}-error" for name in wrong} <= page.ids
    assert page.values("openings") == []
    answer = signed_in().get(API, {"failure_rate_threshold": "nan", "consecutive_failures": "1.5"})
    assert answer.status_code == 400
    assert set(answer.json()["fields"]) == {"failure_rate_threshold", "consecutive_failures"}


def test_a_breaker_of_nobody_is_not_there() -> None:
    assert signed_in().get("/breakers/nobody/simulate").status_code == 404
    assert signed_in().get("/api/v1/breakers/nobody/simulate").json()["code"] == "unknown_breaker"


def test_of_more_than_is_read_the_newest_are_tried_and_the_page_says_since_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing(at=3600).store()
    failing(at=1800).store()
    monkeypatch.setattr(trial, "READ_MOST", 10)
    found = simulated(failure_rate_threshold=0.2)
    assert (found["is_cut"], found["failures"]) == (True, 10)
    page = signed_in().get(f"{PAGE}?failure_rate_threshold=0.2")
    assert page.context["trial"].is_cut
    assert "13:27:12" in page.context["told"][-1]


def test_numbers_that_nobody_can_have_counted_break_nothing() -> None:
    failing(at=3600).store()
    values: tuple[Any, ...] = ("x", [1], 1e300, -3, None, {})
    for one, value in zip(Fact.objects.filter(event="failure_classified"), values, strict=False):
        one.attributes |= {
            names.ATTRIBUTES["attempt"]: value,
            names.ATTRIBUTES["successes_since_failure"]: value,
            names.ATTRIBUTES["instead_of"]: [value],
            names.ATTRIBUTES["status_code"]: value,
        }
        one.save()
    assert simulated(consecutive_failures=1)["simulated"]["openings"] >= 1
    assert signed_in().get(f"{PAGE}?consecutive_failures=1").status_code == 200


def test_more_that_went_well_than_any_window_holds_are_not_counted_one_by_one() -> None:
    failing(at=3600, well_before=100_000_000).store()
    found = simulated(failure_rate_threshold=0.5)
    assert found["simulated"]["openings"] == 0
