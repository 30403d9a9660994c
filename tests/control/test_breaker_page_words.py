"""What an operator reads before and after a lever: which rule wins and why, who drifted, what one trip would hit."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from recovery_ops.control import actions, desired
from recovery_ops.control.roles import Role
from recovery_ops.rules.facts import DegradationStarted, DesiredStateApplied, DesiredStateRejected
from recovery_ops.rules.scope import Scope
from recovery_ops.rules.words import State
from tests.support.actions import asked
from tests.support.pages import REASON, edited, held, signed_in, text_of, troubled_fleet
from tests.support.stories import NOW, Story, counted, heartbeat, moved

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


def explained(client: Client) -> str:
    """Where the link beside the sentence leads, and what it says there."""
    link = re.search(r'href="(/explain\?[^"]*)">Which rule wins\?', client.get(PAGE).content.decode())
    assert link is not None
    return said(client, unescape(link[1]))


# -- which rule wins --------------------------------------------------------------------------------------------------
def test_where_nothing_was_said_the_page_says_that_code_and_defaults_hold(client: Client) -> None:
    page = said(client)
    assert "No rule of the policy speaks of it: the agent’s code holds, and the defaults." in page
    assert "The override of" not in page
    assert "None speaks of this place" in explained(client)


def test_an_override_says_why_it_wins(client: Client) -> None:
    held(client)
    assert "The override of search_web wins because nothing else speaks of this place." in said(client)
    actions.trip(**asked(scope=Scope()))
    told = "The override of search_web wins because it is the most specific: it speaks of an operation."
    page = said(client)
    assert told in page
    assert "it is the most specific: it speaks of an operation" in explained(client)
    assert 'value="search_web"' in client.get("/explain?operation=search_web&breaker=search_web").content.decode()


def test_of_two_patterns_the_one_with_more_letters_wins(client: Client) -> None:
    for name in ("search_*", "search_we*"):
        actions.trip(**asked(scope=Scope(operation=name), ahead=True))
    page = said(client)
    assert "The override of search_we* wins because" in page
    assert "of those that speak of an operation it has more letters beside the stars" in page


def test_a_rule_of_the_policy_says_why_it_wins(client: Client) -> None:
    edited(client, max_retries="5")
    page = said(client)
    assert re.search(r"Of the policy, rule \S+ \(search_web\) wins because nothing else speaks of this place\.", page)


def test_an_override_of_a_part_says_whether_it_wins_there(client: Client) -> None:
    held(client)
    actions.observe(**asked(scope=Scope(operation="search_web", instance="r-1")))
    actions.disable(**asked(scope=Scope(operation="*", group="payments"), ahead=True))
    page = said(client)
    assert "It rules 1 of 3 instances, because it is the most specific: it speaks of an instance." in page
    assert "No instance that has the breaker is in its part." in page
    assert "The override of search_web rules 2 of 3 instances: those in which no narrower one wins." in page


def test_a_part_by_a_pattern_says_so_too_and_one_that_is_beaten_everywhere_names_by_what(client: Client) -> None:
    beaten = Scope(operation="search_*", service="research")
    actions.trip(**asked(scope=beaten))
    winner = actions.observe(**asked(scope=Scope(operation="search_*", instance="r-*"))).object
    page = said(client)
    assert (
        "It rules 3 of 3 instances, because it is the most specific: it speaks of an instance with a wildcard" in page
    )
    assert f"It rules no instance: {winner.pk} is more specific: it speaks of an instance" in page


def test_what_is_planned_is_no_longer_called_out_of_force(client: Client) -> None:
    actions.trip(**asked(scope=Scope(operation="search_web"), starts_in_s=3600.0))
    assert "has not begun" in explained(client)


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
    page = client.get(PAGE).content.decode()
    drifted = re.search(r"<dt>[^<]*[Dd]rifted[^<]*</dt><dd>(.*?)</dd>", page, re.S)
    assert drifted is not None, "the word stands beside the names"
    assert "<code>research/r-2</code>" in drifted[1] or "<code>r-2</code>" in drifted[1]
    assert "reports revision 1 with other contents" in drifted[1]
    assert "r-0" not in drifted[1]
    words = text_of(client.get(PAGE))
    assert "1/3 applied" in words
    assert "1 drifted" in words


def test_who_refused_is_named_with_the_reason(client: Client) -> None:
    held(client)
    refused = DesiredStateRejected(revision=1, config_hash="x", reason="no such knob", kept_revision=0)
    Story().tell(refused, at=0, instance="r-2").store()
    failed = re.search(r"<dt>[^<]*[Ff]ailed[^<]*</dt><dd>(.*?)</dd>", client.get(PAGE).content.decode(), re.S)
    assert failed is not None
    assert "r-2" in failed[1]
    assert "no such knob" in failed[1]


# -- what one trip would hit ------------------------------------------------------------------------------------------
def numbers(page: str) -> dict[str, str]:
    """The figures of the impact, word by word."""
    block = re.search(r'<dl class="impact".*?</dl>', page, re.S)
    assert block is not None
    found = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", block[0], re.S)
    return {unescape(word): unescape(number) for word, number in found}


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
    page = signed_in().get("/breakers/helios/trip", headers=headers).content.decode()
    found = numbers(page)
    assert found["instances"] == "2"
    assert found["runs in flight"] == "4"
    assert float(found["calls per minute"]) == pytest.approx(70, rel=0.3)
    answers = dict(re.findall(r"<dt><code>(.*?)</code></dt><dd>(.*?)</dd>", page, re.S))
    assert "cache" in answers["ask"]
    assert "<strong>" not in answers["ask"]
    assert "<strong>" in answers["rank"], "what would fail stands out"
    assert "fails: no fallback was seen" in answers["rank"]


def test_the_impact_stands_there_again_after_a_mistake() -> None:
    shared_backend()
    client = signed_in()
    form: dict[str, Any] = {"scope": "all", "reason": "short", "expires_in_s": "3600", "seen": "0", "key": "k-1"}
    again = client.post("/breakers/helios/trip", form)
    assert again.status_code == 422
    assert numbers(again.content.decode())["runs in flight"] == "4"
    assert client.post("/breakers/helios/trip", form | {"reason": REASON}).status_code == 303


# -- why it is open, and the others ------------------------------------------------------------------------------------
def test_the_rule_that_opened_it_is_told_with_its_numbers(client: Client) -> None:
    story = Story().tell(heartbeat(), at=5, instance="r-9")
    story.tell(moved(State.OPEN, wait_s=90.0), at=3, instance="r-9").store()
    told = "13 of 20 calls failed (65 %, limit 50 %); last failure: overloaded (529). r-9 , 14:26:15"
    page = said(client)
    assert told in page
    assert "a probe after 1m 30s" in page
    assert "Opened because" not in said(client, "/breakers/calm")


def test_keys_open_dialogs_and_lead_to_the_breakers_beside_it(client: Client) -> None:
    Story().tell(heartbeat(), at=5).tell(moved(State.CLOSED, breaker="z<1>"), at=3).store()
    page = client.get(PAGE).content.decode()
    pressed = {key: href for href, key in re.findall(r'href="([^"]*)"[^>]*data-press="(.)"', page)}
    assert (pressed["f"], pressed["c"]) == (f"{PAGE}/trip", f"{PAGE}/disable")
    assert pressed["]"] == "/breakers/z%3C1%3E"
    held(client)
    page = client.get(PAGE).content.decode()
    assert re.search(r'href="/breakers/search_web/release[^"]*" data-dialog data-press="u"', page)
    last = client.get("/breakers/z%3C1%3E").content.decode()
    assert f'href="{PAGE}" data-press="["' in last
    assert 'data-press="]"' not in last
