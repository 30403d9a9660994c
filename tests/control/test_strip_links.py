"""The lanes of the overview and the heat of Capacity lead to Timelines, and say in tables what they draw."""

from __future__ import annotations

import re
from html import unescape

import pytest

from recovery_ops.control.roles import Role
from recovery_ops.rules.words import Category, State
from tests.control.visiting import signed_in, text_of
from tests.events.seeding import Story, failed, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


@pytest.fixture(autouse=True)
def storm() -> None:
    story = Story().tell(heartbeat(), at=3000).tell(moved(State.OPEN), at=900).tell(heartbeat(), at=5)
    for at in (1210, 1205):
        story.tell(failed(Category.OVERLOADED, status_code=529, provider="helios", model="large"), at=at)
    story.store()


@pytest.mark.parametrize(("path", "has_breakers"), [("/overview/strip", True), ("/capacity", False)])
def test_what_is_drawn_leads_to_its_range_and_stands_in_a_table(path: str, has_breakers: bool) -> None:
    client = signed_in(Role.VIEWER)
    page = client.get(f"{path}?range=1h")
    drawn, _, table = page.content.decode().partition("As a table")
    links = re.findall(r'<a href="([^"]+)"([^>]*)><rect', drawn)
    assert len(links) > 20
    assert all('tabindex="-1"' in attributes for _, attributes in links), "a table has them for the keyboard"
    hot = re.search(r'<a href="([^"]+)"[^>]*aria-label="14:06[^"]*: 2 per ', drawn)
    assert hot is not None
    assert hot[1] in table
    assert "most from 14:06" in text_of(page)
    shown = text_of(client.get(unescape(hot[1])))
    assert "14:04:00 – 14:09:00 UTC" in shown
    spell = re.search(r'<a href="([^"]+)"[^>]*aria-label="open: 14:', drawn)
    assert (spell is not None) is has_breakers
    if spell is not None:
        assert spell[1] in table
        assert "At the end search_web not closed, of 1 breaker." in text_of(page)
