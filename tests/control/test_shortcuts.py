"""Shortcuts of one's own: kept in a cookie, shown on the page of them, and never two acts on one key."""

from __future__ import annotations

import re

import pytest

from recovery_ops.control.shortcuts import ACTS, TwoOfOne, moves_of, typed
from tests.support.pages import signed_in, text_of


def fields(**own: str) -> dict[str, str]:
    return {f"key_{usual}": own.get(usual, usual) for usual in ACTS}


def test_what_is_typed_is_what_the_cookie_says() -> None:
    assert moves_of(typed(fields(j="n", n="q"))) == {"j": "n", "n": "q"}
    assert moves_of(typed(fields(j="k", k="j"))) == {"j": "k", "k": "j"}
    assert typed(fields()) == ""


def test_no_key_does_two_things() -> None:
    with pytest.raises(TwoOfOne, match="k"):
        typed(fields(j="k"))
    assert moves_of("jk") == {}


@pytest.mark.parametrize("said", ["j", "jnn", "Qn", "j<", 'j"', "jé", "--", "jn-?"])
def test_a_cookie_that_says_nonsense_moves_nothing(said: str) -> None:
    assert moves_of(said) == {}


@pytest.mark.django_db
def test_keys_are_moved_without_script_and_back() -> None:
    client = signed_in()
    client.post("/look", fields(j="q") | {"next": "/settings/you"})
    page = client.get("/settings/you").content.decode()
    assert 'data-moved="jq"' in page
    assert re.search(r'name="key_j" value="q"', page)
    client.post("/look", {"key_j": "j", "next": "/settings/you"})
    assert "data-moved" not in client.get("/settings/you").content.decode()


@pytest.mark.django_db
def test_two_acts_on_one_key_change_nothing_and_say_so() -> None:
    client = signed_in()
    assert client.post("/look", fields(j="k") | {"next": "/settings/you"}).headers["Location"] == "/settings/you"
    page = client.get("/settings/you")
    assert "k would do two things" in text_of(page)
    assert "data-moved" not in page.content.decode()
