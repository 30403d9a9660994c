"""The list of breakers: what narrows and sorts it, which columns it shows, and what is done to the chosen ones."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from recovery_ops.control.roles import Role
from recovery_ops.rules.facts import DesiredStateApplied
from recovery_ops.rules.words import State
from tests.control.visiting import held, signed_in, text_of, troubled_fleet
from tests.events.seeding import Story, counted, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def listed(path: str = "/breakers") -> list[str]:
    """The breakers that a page shows, in its order."""
    return re.findall(r'data-key="breaker-([^"]+)"', signed_in().get(path).content.decode())


def two_services() -> None:
    story = Story()
    for service, name, calls in (
        ("research", "search_web", 90),
        ("billing", "charge_card", 30),
        ("billing", "crm", 60),
    ):
        given: dict[str, Any] = {"service": service, "instance": f"{service}-0"}
        story.tell(heartbeat(), moved(State.CLOSED, breaker=name), counted(calls, name), at=30, **given)
    story.store()


def test_words_and_a_service_narrow_the_list_and_say_what_they_keep_out() -> None:
    two_services()
    assert listed("/breakers?q=CARD") == ["charge_card"]
    assert sorted(listed("/breakers?service=billing")) == ["charge_card", "crm"]
    page = signed_in().get("/breakers?service=research&q=card")
    assert "0 of 3 breakers" in text_of(page)
    assert "kept out by “card”: without it there would be 1 breaker" in text_of(page)
    [link] = re.findall(r'data-why.*?href="([^"]+)"', page.content.decode(), re.DOTALL)
    assert listed(f"/breakers{unescape(link)}") == ["search_web"]


def test_a_chip_keeps_the_words_and_counts_what_they_leave() -> None:
    two_services()
    page = signed_in().get("/breakers?q=c&service=billing").content.decode()
    [chips] = re.findall(r'<nav class="filters" aria-label="Show breakers">(.*?)</nav>', page, re.DOTALL)
    assert "All 2" in chips
    assert 'href="?show=closed&amp;q=c&amp;service=billing"' in chips


def test_a_column_sorts_both_ways_and_stays_in_the_address() -> None:
    two_services()
    assert listed("/breakers?sort=-calls") == ["search_web", "crm", "charge_card"]
    assert listed("/breakers?sort=calls") == ["charge_card", "crm", "search_web"]
    page = signed_in().get("/breakers?sort=-calls").content.decode()
    assert 'aria-sort="descending"><a href="?sort=calls"' in page
    assert listed("/breakers?sort=moon") == listed()


def test_columns_that_are_not_chosen_are_left_out() -> None:
    two_services()
    page = signed_in().get("/breakers?column=state&column=calls").content.decode()
    assert 'data-hide="4 5 6 8 9"' in page  # one more than their place: the boxes come first
    assert (
        'data-hide="3 4 5 7 8"'
        in signed_in(Role.VIEWER, "eva").get("/breakers?column=state&column=calls").content.decode()
    )
    assert 'data-hide=""' in signed_in().get("/breakers").content.decode()


def test_who_obeys_another_state_shows_and_can_be_looked_for() -> None:
    troubled_fleet()
    client = signed_in()
    held(client)
    Story().tell(DesiredStateApplied(revision=9, config_hash="of nobody"), at=1, instance="r-0").store()
    assert sorted(listed("/breakers?show=drifted")) == ["calm", "search_web"]
    assert sorted(listed("/breakers?show=held")) == ["search_web"]
    said = text_of(client.get("/breakers?show=late"))
    assert "drifted on 1 of 3" in said
    assert "not applied on 1 of 3" in said


def test_what_is_chosen_is_taken_along_and_back() -> None:
    two_services()
    client = signed_in()
    page = client.get("/bulk?name=crm&verb=release&back=%2Fbreakers%3Fservice%3Dbilling").content.decode()
    assert 'value="crm" checked' in page
    assert 'value="release" checked' in page
    assert 'href="/breakers?service=billing&amp;chosen=crm"' in page
    back = client.get("/breakers?service=billing&chosen=crm").content.decode()
    assert re.findall(r'name="name" value="([^"]+)" checked', back) == ["crm"]
    assert 'href="//evil' not in client.get("/bulk?name=crm&back=//evil").content.decode()


def test_a_viewer_is_offered_nothing_to_choose() -> None:
    two_services()
    page = signed_in(Role.VIEWER).get("/breakers").content.decode()
    assert 'name="name"' not in page
    assert "Return to auto" not in page
