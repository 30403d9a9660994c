"""Lists without rows say which of four kinds of nothing it is, because only one of them is good news."""

from __future__ import annotations

import re

import pytest
from django.db import connection

from events.pages.empties import Why
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.events import Escalated
from recovery_ops.rules.roles import Role
from tests.support.actions import trip
from tests.support.channels import channel
from tests.support.deliveries import message
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, counted, failed, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

RANGED = ("/failures", "/runs", "/capacity", "/degradations")


def why(path: str) -> str:
    found = re.search(r'data-why="([^"]+)"', signed_in(Role.VIEWER).get(path).content.decode())
    return found.group(1) if found else ""


def alive(*, since: float, last: float) -> None:
    """An instance that beat, and called, from `since` to `last` seconds ago."""
    Story().tell(heartbeat(), counted(40), at=since).tell(heartbeat(), counted(40), at=last).store()


@pytest.mark.parametrize("path", [*RANGED, "/breakers", "/agents"])
def test_before_anybody_reported_it_was_never_set_up(path: str) -> None:
    assert why(path) == Why.NEVER
    assert Shown(signed_in(Role.VIEWER).get(path)).within("why", Why.NEVER).links == ["/"], "connect an agent"


@pytest.mark.parametrize("path", RANGED)
def test_nothing_while_agents_reported_all_through_is_good(path: str) -> None:
    alive(since=3000, last=1)
    assert why(f"{path}?range=15m") == Why.GOOD


@pytest.mark.parametrize("path", ["/failures", "/degradations"])
def test_nothing_while_nobody_called_is_not_known(path: str) -> None:
    Story().tell(heartbeat(), at=3000).tell(heartbeat(), at=1).store()
    assert why(f"{path}?range=15m") == Why.UNKNOWN
    alive(since=60, last=2)
    assert "80" in Shown(signed_in(Role.VIEWER).get(f"{path}?range=15m")).one("why", Why.GOOD).text


@pytest.mark.parametrize("path", RANGED)
def test_nothing_since_the_last_agent_fell_silent_is_not_known(path: str) -> None:
    alive(since=3000, last=600)
    assert why(f"{path}?range=15m") == Why.UNKNOWN
    told = Shown(signed_in(Role.VIEWER).get(f"{path}?range=15m")).one("why", Why.UNKNOWN).text
    assert re.search(r"\d\d:\d\d:\d\d UTC", told), "when it did"


def test_nothing_where_nobody_lived_is_not_known() -> None:
    alive(since=80_000, last=70_000)
    assert why("/failures?range=1h") == Why.UNKNOWN
    empty = signed_in(Role.VIEWER).get("/failures?range=1h").context["empty"]
    alive(since=3000, last=1)
    good = signed_in(Role.VIEWER).get("/failures?range=15m").context["empty"]
    assert (empty.why, good.why) == (Why.UNKNOWN, Why.GOOD)
    assert (empty.href, empty.title != good.title) == ("/agents", True)


def test_agents_that_fell_silent_long_ago_are_not_agents_that_never_were() -> None:
    alive(since=300_000, last=200_000)
    assert why("/agents") == Why.UNKNOWN


def test_agents_without_breakers_have_not_set_any_up() -> None:
    Story().tell(heartbeat(), at=3000).tell(heartbeat(), at=1).store()
    assert why("/breakers") == Why.NEVER
    Story().tell(moved(State.CLOSED), at=5).store()
    assert why("/breakers") == ""


def test_what_keeps_out_most_is_named_and_let_go_with_one_click() -> None:
    story = Story().tell(heartbeat(), at=3000)
    story.tell(*[failed(Category.TIMEOUT, "crm.update", fingerprint=f"t-{n}") for n in range(4)], at=500)
    story.tell(failed(Category.BUG, "search_web", fingerprint="b"), at=400).tell(heartbeat(), at=1).store()
    client = signed_in(Role.VIEWER)
    path = "/failures?range=1h&category=timeout&operation=search_web"
    page = client.get(path)
    assert why(path) == Why.NO_MATCH
    empty = page.context["empty"]
    assert (empty.total, empty.left) == (5, 4)
    [link] = Shown(page).within("why", Why.NO_MATCH).links
    assert ("category=timeout" in link, "operation" in link) == (True, False)
    assert len(client.get(f"/failures{link}").context["rows"]) == 4


def ask(*, resolved: bool = False) -> None:
    Story().tell(
        Escalated(operation="charge_card", queue="billing", reason="question", message="May I?"), at=60
    ).store()
    open_escalations("dev", NOW)
    if resolved:
        Escalation.objects.update(resolved_at=NOW, resolved_by="ana", resolution="approved")


def test_an_empty_queue_is_never_set_up_good_or_not_known() -> None:
    assert why("/escalations") == Why.NEVER
    alive(since=3000, last=600)
    assert why("/escalations") == Why.UNKNOWN
    alive(since=60, last=1)
    ask(resolved=True)
    assert why("/escalations") == Why.GOOD
    assert f"{Escalation.objects.get()}" in Shown(signed_in(Role.VIEWER).get("/escalations")).one("why").text


def test_of_a_queue_that_is_not_empty_a_tab_or_a_filter_without_rows_says_so() -> None:
    alive(since=60, last=1)
    ask()
    assert why("/escalations?queue=payments") == Why.NO_MATCH
    assert signed_in(Role.VIEWER).get("/escalations?queue=payments").context["empty"].total == 1
    assert [why(f"/escalations?tab={tab}") for tab in ("mine", "snoozed", "resolved")] == [Why.NO_MATCH] * 3
    Escalation.objects.update(acknowledged_at=NOW, acknowledged_by="ana")
    assert why("/escalations?tab=unacknowledged") == Why.GOOD


def test_an_empty_audit_log_is_new_asked_for_what_is_older_or_emptied() -> None:
    assert why("/audit") == Why.NEVER
    trip(ahead=True)
    assert why("/audit") == ""
    assert why("/audit?before=1") == Why.NO_MATCH
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM control_auditentry")
    assert why("/audit") == Why.UNKNOWN
    assert not signed_in(Role.VIEWER).get("/audit?before=1").context["badge"].problem


def test_empty_messages_and_unknown_causes_say_which_kind_they_are() -> None:
    assert why("/settings/notifications/log") == Why.NEVER
    to = channel()
    message(to)
    assert why("/settings/notifications/log?state=failed") == Why.NO_MATCH
    assert why("/failures/unclassified") == Why.NEVER
    alive(since=3000, last=600)
    assert why("/failures/unclassified") == Why.UNKNOWN
    alive(since=60, last=1)
    assert why("/failures/unclassified") == Why.GOOD
