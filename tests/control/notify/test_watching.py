"""Watching a breaker: one person is told by e-mail when it moves, until they stop; nobody else is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from events import keys
from recovery_ops.control.actions.watching import unwatch, watch, watch_of
from recovery_ops.control.models import AuditEntry, Channel, Delivery, NotificationRule
from recovery_ops.control.notify.telling import tell
from recovery_ops.control.refusals import Refused
from recovery_ops.control.roles import Role
from tests.support.actions import asked
from tests.support.api_client import Program
from tests.support.channels import channel
from tests.support.pages import signed_in, troubled_fleet
from tests.support.stories import NOW, ago

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def mailed() -> Channel:
    return channel(kind="people", name="mail", address="", secret="")


@pytest.fixture
def ana() -> Client:
    client = signed_in(Role.RESPONDER)
    User.objects.filter(username="ana").update(email="ana@example.org")
    troubled_fleet()
    mailed()
    return client


def test_who_watches_is_told_alone_when_it_moves_and_no_more_once_they_stop(ana: Client) -> None:
    assert not ana.get("/breakers/search_web").context["is_watched"]
    answer = ana.post("/breakers/search_web/watch")
    assert (answer.status_code, answer["Location"]) == (303, "/breakers/search_web")
    NotificationRule.objects.update(since=ago(600))
    for s in (0, 30):
        tell("dev", NOW + timedelta(seconds=s))
    sent = list(Delivery.objects.all())
    assert {(one.person, one.channel.kind) for one in sent} == {("ana", "people")}
    assert any("search_web" in one.title for one in sent)
    assert not any("model" in one.title for one in sent), "others move, too, and are not watched"
    assert ana.get("/breakers/search_web").context["is_watched"]
    assert ana.post("/breakers/search_web/watch").status_code == 303
    assert watch_of("dev", "search_web", "ana") is None
    verbs = AuditEntry.objects.filter(verb__startswith="watch.").order_by("number").values_list("verb", "object")
    assert list(verbs) == [("watch.begin", "search_web"), ("watch.end", "search_web")]


def test_to_watch_twice_is_to_watch_once_and_others_watch_for_themselves(ana: Client) -> None:
    ana.post("/api/v1/breakers/search_web/watch", {"reason": "on call tonight"}, "application/json")
    again = ana.post("/api/v1/breakers/search_web/watch", {"reason": "on call tonight"}, "application/json").json()
    assert (again["was_already"], again["is_watched"]) == (True, True)
    assert NotificationRule.objects.count() == 1
    bob = signed_in(Role.RESPONDER, "bob")
    assert not bob.get("/breakers/search_web").context["is_watched"]
    ended = bob.post(
        "/api/v1/breakers/search_web/unwatch", {"reason": "it is not mine any more"}, "application/json"
    ).json()
    assert (ended["was_already"], ended["is_watched"]) == (True, False)
    assert watch_of("dev", "search_web", "ana") is not None


@pytest.mark.parametrize("gone", ["address", "channel"])
def test_who_could_not_be_reached_is_told_so_at_once(ana: Client, gone: str) -> None:
    if gone == "address":
        User.objects.filter(username="ana").update(email="")
    else:
        Channel.objects.update(is_on=False)
    assert ana.post("/breakers/search_web/watch").status_code == 409
    said = ana.post("/api/v1/breakers/search_web/watch", {"reason": "on call tonight"}, "application/json").json()
    assert (said["status"], said["code"]) == (409, f"no_{gone}")
    assert not NotificationRule.objects.exists()


def test_a_key_and_a_viewer_watch_nothing_and_nobody_watches_what_is_not_there(ana: Client) -> None:
    keys.forget_keys()
    assert Program().post("breakers/search_web/watch", {"reason": "a program asks"})[0] == 403
    assert signed_in(Role.VIEWER, "eva").get("/breakers/search_web/watch").status_code == 403
    assert ana.get("/breakers/nothing/watch").status_code == 404
    given: Any = asked(name="search_web")
    for act in (watch, unwatch):
        with pytest.raises(Refused) as refused:
            act(**given)
        assert refused.value.status == 403, "the cast has no account"


def test_a_row_of_the_list_offers_what_can_be_done_to_it(ana: Client) -> None:
    rows = ana.get("/breakers").content.decode()
    assert 'href="/breakers/search_web/watch"' in rows
    assert 'href="/breakers/search_web/probe"' not in rows, "a responder rules no breaker"
    operator = signed_in(Role.OPERATOR, "olga").get("/breakers").content.decode()
    assert 'href="/breakers/search_web/probe"' in operator
