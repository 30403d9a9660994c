"""The lanes of the overview and the heat of Capacity lead to Timelines, and say in tables what they draw."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from recovery_ops.control.dashboard.views.lanes import AtEnd
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.roles import Role
from tests.support.pages import signed_in, text_of
from tests.support.sentences import left_out
from tests.support.stories import Story, ago, failed, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


@pytest.fixture(autouse=True)
def storm() -> None:
    story = Story().tell(heartbeat(), at=3000).tell(moved(State.OPEN), at=900).tell(heartbeat(), at=5)
    for at in (1210, 1205):
        story.tell(failed(Category.OVERLOADED, status_code=529, provider="helios", model="large"), at=at)
    story.store()


def at_end(page: Any) -> AtEnd:
    """In what the breakers of the fleet were, by the twin of the lanes."""
    found: AtEnd = page.context["lanes"].twin.at_end
    return found


@pytest.mark.parametrize(("path", "has_breakers"), [("/overview/strip", True), ("/capacity", False)])
def test_what_is_drawn_leads_to_its_range_and_stands_in_a_table(path: str, has_breakers: bool) -> None:
    client = signed_in(Role.VIEWER)
    page = client.get(f"{path}?range=1h")
    drawn, _, table = page.content.decode().partition("Data table")
    links = re.findall(r'<a href="([^"]+)"([^>]*)><rect', drawn)
    assert len(links) > 20
    assert all('tabindex="-1"' in attributes for _, attributes in links), "a table has them for the keyboard"
    hot = re.search(r'<a href="([^"]+)"[^>]*aria-label="14:06[^"]*: 2 per ', drawn)
    assert hot is not None
    assert hot[1] in table
    assert left_out(page.context["lanes"].twin.sentence, "14:06:00") == []
    shown = text_of(client.get(unescape(hot[1])))
    assert "14:04:00 – 14:09:00 UTC" in shown
    spell = re.search(r'<a href="([^"]+)"[^>]*aria-label="open: 14:', drawn)
    assert (spell is not None) is has_breakers
    if spell is not None:
        assert spell[1] in table
        assert at_end(page) == AtEnd(breakers=1, not_closed=["search_web"], unknown=0)
        assert "search_web" in page.context["lanes"].twin.sentence


def test_the_sentence_is_about_every_backend_also_those_that_are_not_drawn() -> None:
    story = Story()
    for number in range(7):
        for at in range(600, 603 + number):
            story.tell(failed(Category.OVERLOADED, status_code=529, provider="atlas", model=f"m-{number}"), at=at)
    story.store()
    twin = signed_in(Role.VIEWER).get("/overview/strip?range=1h").context["lanes"].twin
    assert twin.short == 44
    assert left_out(twin.sentence, "44") == []


def test_a_breaker_that_nobody_has_any_more_is_neither_open_nor_counted() -> None:
    story = Story().tell(moved(State.OPEN, breaker="crm"), at=800)
    story.tell(moved(State.OPEN, breaker="gone"), at=1500, instance="r-9").tell(
        heartbeat("stopped"), at=1400, instance="r-9"
    )
    story.store()
    page = signed_in(Role.VIEWER).get("/overview/strip?range=1h")
    assert at_end(page) == AtEnd(breakers=2, not_closed=["crm", "search_web"], unknown=0)


def test_a_breaker_whose_instances_are_all_silent_at_the_end_is_unknown_and_not_open() -> None:
    story = Story().tell(moved(State.CLOSED, breaker="crm"), at=800, received=800, instance="r-9")
    story.tell(heartbeat(), at=790, received=790, instance="r-9").store()
    page = signed_in(Role.VIEWER).get("/overview/strip?range=1h")
    assert at_end(page) == AtEnd(breakers=2, not_closed=["search_web"], unknown=1)


def test_where_nobody_reported_no_error_is_not_said_to_be_none() -> None:
    story = Story().tell(moved(State.OPEN), at=8_000, received=8_000, instance="r-8")
    story.tell(heartbeat(), at=7_990, received=7_990, instance="r-8").store()
    client = signed_in(Role.VIEWER)
    silent, reported = (
        client.get("/overview/strip", {"from": ago(start_s).isoformat(), "to": ago(end_s).isoformat()})
        .context["lanes"]
        .twin
        for start_s, end_s in ((6_000, 4_000), (600, 0))
    )
    assert (silent.short, reported.short) == (None, 0)
    assert silent.sentence.partition(".")[0] != reported.sentence.partition(".")[0]


def test_the_sentence_does_not_call_closed_what_is_open_somewhere() -> None:
    story = Story()
    for number in range(3):
        story.tell(heartbeat(), moved(State.CLOSED, before=State.OPEN), at=700, instance=f"x-{number}")
        story.tell(heartbeat(), at=5, instance=f"x-{number}")
    story.store()
    page = signed_in(Role.VIEWER).get("/overview/strip?range=1h")
    assert at_end(page) == AtEnd(breakers=1, not_closed=["search_web"], unknown=0)
    assert "search_web" in page.context["lanes"].twin.sentence
    assert "open 1/4, most closed" in text_of(page)
