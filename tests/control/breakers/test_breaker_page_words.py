"""What an operator reads before and after a lever: which rule wins and why, who drifted, what one trip would hit."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from recovery_ops.control.breakers.precedence import Ground
from recovery_ops.control.breakers.services import overrides as overrides_services
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.desired_state.document import read
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import DegradationStarted, DesiredStateApplied, DesiredStateRejected
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import asked
from tests.support.html import Shown
from tests.support.pages import REASON, edited, held, signed_in, text_of, troubled_fleet
from tests.support.stories import NOW, Story, counted, heartbeat, moved
from tests.support.told import untold

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

PAGE = "/breakers/search_web"


@pytest.fixture
def client() -> Client:
    troubled_fleet()
    return signed_in(Role.EDITOR)


def said(client: Client, path: str = PAGE) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return text_of(answer)


def claims(answer: Any, kind: str) -> list[dict[str, str]]:
    """What a page says of one kind of claim: the override, the rule of the policy, or narrower overrides."""
    return [one.data for one in Shown(answer).having("claim", kind)]


def explained(client: Client) -> list[tuple[str, str, bool]]:
    """Where the link beside the sentence leads: each override there with what decides, and whether it wins."""
    href = Shown(client.get(PAGE)).one("explain").attributes["href"]
    return [(one["name"], one["ground"], "wins" in one) for one in claims(client.get(href), "override")]


# -- which rule wins --------------------------------------------------------------------------------------------------
def test_where_nothing_was_said_the_page_says_that_code_and_defaults_hold(client: Client) -> None:
    page = client.get(PAGE)
    assert claims(page, "rule") == [{"claim": "rule"}], "none"
    assert claims(page, "override") == []
    assert explained(client) == []


def test_an_override_says_why_it_wins(client: Client) -> None:
    one = held(client).pk
    assert claims(client.get(PAGE), "override") == [{"claim": "override", "name": one, "ground": Ground.ALONE}]
    wide = overrides_services.trip(**asked(scope=Scope())).object.pk
    assert claims(client.get(PAGE), "override") == [{"claim": "override", "name": one, "ground": Ground.SPECIFIC}]
    assert explained(client) == [(one, Ground.SPECIFIC, True), (wide, Ground.SPECIFIC, False)]
    assert 'value="search_web"' in client.get("/explain?operation=search_web&breaker=search_web").content.decode()


def test_of_two_patterns_the_one_with_more_letters_wins(client: Client) -> None:
    names = ("search_*", "search_we*")
    _, longer = (overrides_services.trip(**asked(scope=Scope(operation=name), ahead=True)).object for name in names)
    assert claims(client.get(PAGE), "override") == [{"claim": "override", "name": longer.pk, "ground": Ground.LETTERS}]


def test_a_rule_of_the_policy_says_why_it_wins(client: Client) -> None:
    edited(client, max_retries="5")
    [rule] = read("dev").policy.document["rules"]
    assert rule["scope"] == {"operation": "search_web"}
    assert claims(client.get(PAGE), "rule") == [{"claim": "rule", "name": rule["id"], "ground": Ground.ALONE}]


def test_an_override_of_a_part_says_whether_it_wins_there(client: Client) -> None:
    wide = held(client).pk
    part = overrides_services.observe(**asked(scope=Scope(operation="search_web", instance="r-1"))).object.pk
    overrides_services.disable(**asked(scope=Scope(operation="*", group="payments"), ahead=True))
    page = client.get(PAGE)
    narrower = sorted(claims(page, "narrower"), key=len)
    assert narrower == [
        {"claim": "narrower", "ruled": "0"},  # no instance is in its part
        {"claim": "narrower", "name": part, "ground": Ground.SPECIFIC, "ruled": "1"},
    ]
    [override] = claims(page, "override")
    assert (override["name"], override["ruled"]) == (wide, "2"), "those in which no narrower one wins"


def test_a_part_by_a_pattern_says_so_too_and_one_that_is_beaten_everywhere_names_by_what(client: Client) -> None:
    beaten = overrides_services.trip(**asked(scope=Scope(operation="search_*", service="research"))).object.pk
    winner = overrides_services.observe(**asked(scope=Scope(operation="search_*", instance="r-*"))).object.pk
    ground = {"claim": "narrower", "ground": Ground.SPECIFIC}
    narrower = {one["name"]: one for one in claims(client.get(PAGE), "narrower")}
    assert narrower == {
        winner: ground | {"name": winner, "ruled": "3"},
        beaten: ground | {"name": beaten, "ruled": "0", "by": winner},
    }


def test_what_is_planned_is_no_longer_called_out_of_force(client: Client) -> None:
    made = overrides_services.trip(**asked(scope=Scope(operation="search_web"), starts_in_s=3600.0)).object
    assert explained(client) == [(made.pk, Ground.AHEAD, False)]


# -- who drifted ------------------------------------------------------------------------------------------------------
def test_who_runs_something_else_is_named_with_what_it_reports(client: Client) -> None:
    held(client)
    document = desired.document("dev", service="research", instance="r-0", group="", now=NOW)
    story = Story()
    story.tell(DesiredStateApplied(revision=1, config_hash=str(document["config_hash"])), at=0, instance="r-0")
    story.tell(
        DesiredStateApplied(revision=1, config_hash="other"),
        heartbeat(revision=1, config_hash="other"),
        at=0,
        instance="r-2",
    )
    story.store()
    drifted = Shown(client.get(PAGE)).one("missing", "drifted").text
    assert untold(drifted, "r-2", 1) == [], "who, and the revision that it reports"
    assert "r-0" not in drifted
    words = text_of(client.get(PAGE))
    assert "1/3 applied" in words
    assert "1 drifted" in words


def test_who_refused_is_named_with_the_reason(client: Client) -> None:
    held(client)
    refused = DesiredStateRejected(revision=1, config_hash="x", reason="no such setting", kept_revision=0)
    Story().tell(refused, at=0, instance="r-2").store()
    failed = Shown(client.get(PAGE)).one("missing", "failed").text
    assert untold(failed, "r-2", "no such setting") == []


# -- what one trip would hit ------------------------------------------------------------------------------------------
def numbers(answer: Any) -> list[str]:
    """The figures of the impact."""
    [block] = [one for one in Shown(answer).root.all() if one.attributes.get("class") == "impact"]
    return [one.text for one in block.all() if one.tag == "dd"]


def shared_backend() -> None:
    """Two operations call one backend; for one of them something stood in."""
    story = Story()
    for number in range(2):
        story.tell(heartbeat(runs_in_flight=2), moved(State.CLOSED, breaker="helios"), at=5, instance=f"r-{number}")
    story.tell(counted(50, operation="ask", breaker="helios"), at=5, instance="r-0")
    story.tell(counted(20, operation="rank", breaker="helios"), at=5, instance="r-1")
    stood_in = DegradationStarted(operation="ask", kind="fallback", reason="open", from_name="ask", to_name="cache")
    story.tell(stood_in, at=60, instance="r-0").store()


@pytest.mark.parametrize("headers", [{}, {"X-Fragment": "dialog"}], ids=["the page", "the dialog"])
def test_a_trip_says_before_the_click_what_it_would_hit(headers: dict[str, str]) -> None:
    shared_backend()
    answer = signed_in().get("/breakers/helios/trip", headers=headers)
    instances, runs, calls, *_ = numbers(answer)
    assert (instances, runs) == ("2", "4"), "instances that have it, and runs in flight"
    assert float(calls) == pytest.approx(70, rel=0.3), "calls per minute"
    ask, rank = (Shown(answer).one("instead", name) for name in ("ask", "rank"))
    assert (ask.data["covered"], rank.data["covered"]) == ("yes", "no")
    assert "cache" in ask.text
    assert [any(one.tag == "strong" for one in each.all()) for each in (ask, rank)] == [False, True], "it stands out"


def test_the_impact_stands_there_again_after_a_mistake() -> None:
    shared_backend()
    client = signed_in()
    form: dict[str, Any] = {"scope": "all", "reason": "short", "expires_in_s": "3600", "seen": "0", "key": "k-1"}
    again = client.post("/breakers/helios/trip", form)
    assert again.status_code == 422
    assert numbers(again)[:2] == ["2", "4"]
    assert client.post("/breakers/helios/trip", form | {"reason": REASON}).status_code == 303


# -- why it is open, and the others ------------------------------------------------------------------------------------
def test_the_rule_that_opened_it_is_told_with_its_numbers(client: Client) -> None:
    story = Story().tell(heartbeat(), at=5, instance="r-9")
    story.tell(moved(State.OPEN, wait_s=90.0), at=3, instance="r-9").store()
    opened = client.get(PAGE).context["opened"]
    assert untold(opened.words, 13, 20, "65 %", "50 %", 529) == []
    assert (opened.instance, opened.wait_s) == ("r-9", 90.0)
    assert untold(said(client), "r-9", "14:26:15", "1m 30s") == []
    assert client.get("/breakers/calm").context["opened"] is None


def test_keys_open_dialogs_and_lead_to_the_breakers_beside_it(client: Client) -> None:
    Story().tell(heartbeat(), at=5).tell(moved(State.CLOSED, breaker="z<1>"), at=3).store()
    page = client.get(PAGE).content.decode()
    pressed = {key: href for href, key in re.findall(r'href="([^"]*)"[^>]*data-press="(.)"', page)}
    assert (pressed["f"], pressed["c"]) == (f"{PAGE}/trip", f"{PAGE}/disable")
    assert pressed["]"] == "/breakers/z%3C1%3E"
    held(client)
    release = Shown(client.get(PAGE)).one("press", "u")
    assert release.attributes["href"].startswith("/breakers/search_web/release")
    assert "dialog" in release.data
    last = client.get("/breakers/z%3C1%3E").content.decode()
    assert f'href="{PAGE}" data-press="["' in last
    assert 'data-press="]"' not in last
