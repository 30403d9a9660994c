"""A breaker whose name ends in a word of an address has its page, as every other."""

from __future__ import annotations

from urllib.parse import quote, urljoin

import pytest

from recovery_ops.rules.enums import State
from recovery_ops.rules.roles import Role
from recovery_ops.rules.url_names import part_of
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.stories import Story, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


@pytest.mark.parametrize("word", ["trip", "reset", "figure", "simulate", "tables"])
def test_a_name_that_ends_in_a_word_of_an_address_has_its_page(word: str) -> None:
    Story().tell(heartbeat(), moved(State.OPEN, breaker=f"inf/ops/{word}"), at=5).store()
    client = signed_in(Role.OPERATOR)
    page = client.get(f"/breakers/inf/ops/{word}")
    assert page.status_code == 200
    assert f"inf/ops/{word}" in text_of(page)
    assert client.get(f"/breakers/inf/ops/{word}/trip").status_code == 200
    assert client.get(f"/breakers/nobody/{word}").status_code == 404


@pytest.mark.parametrize(
    "name", [".", "..", "a/../b", "a/./b", "../..", "a//b", "a/", "/a", "~", "~..", "...", "?a#b%2F"]
)
def test_name_of_dots_has_a_page_that_a_browser_reaches(name: str) -> None:
    Story().tell(heartbeat(), moved(State.OPEN, breaker=name), at=5).store()
    client = signed_in(Role.OPERATOR)
    [row] = Shown(client.get("/breakers")).having("key", f"breaker-{name}")
    [address, *_] = Shown(row).links
    page = client.get(urljoin("http://testserver/breakers", address))  # without steps, as in a browser
    assert page.status_code == 200
    assert [one.children[0].text for one in Shown(page).root.all() if one.tag == "h1"] == [name]
    for link in (one for one in Shown(page).links if one.startswith("/breakers/")):
        assert client.get(urljoin("http://testserver/breakers", link)).status_code == 200, link


@pytest.mark.parametrize("name", [".", "..", "a/../b", "~.."])
def test_name_of_dots_is_reached_by_programs(name: str) -> None:
    Story().tell(heartbeat(), moved(State.OPEN, breaker=name), at=5).store()
    address = f"/api/v1/breakers/{quote(part_of(name), safe='')}"
    assert signed_in().get(address).json()["breaker"]["name"] == name


def test_where_both_are_the_act_is_meant() -> None:
    Story().tell(heartbeat(), moved(State.OPEN, breaker="inf"), moved(State.OPEN, breaker="inf/trip"), at=5).store()
    assert "Trip inf" in text_of(signed_in(Role.OPERATOR).get("/breakers/inf/trip"))
