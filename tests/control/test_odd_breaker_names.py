"""A breaker whose name ends in a word of an address has its page, as every other."""

from __future__ import annotations

import pytest

from recovery_ops.control.roles import Role
from recovery_ops.rules.words import State
from tests.support.pages import signed_in, text_of
from tests.support.stories import Story, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


@pytest.mark.parametrize("word", ["trip", "reset", "watch", "figure", "simulate", "tables"])
def test_a_name_that_ends_in_a_word_of_an_address_has_its_page(word: str) -> None:
    Story().tell(heartbeat(), moved(State.OPEN, breaker=f"inf/ops/{word}"), at=5).store()
    client = signed_in(Role.OPERATOR)
    page = client.get(f"/breakers/inf/ops/{word}")
    assert page.status_code == 200
    assert f"inf/ops/{word}" in text_of(page)
    assert client.get(f"/breakers/inf/ops/{word}/trip").status_code == 200
    assert client.get(f"/breakers/nobody/{word}").status_code == 404


def test_where_both_are_the_act_is_meant() -> None:
    Story().tell(heartbeat(), moved(State.OPEN, breaker="inf"), moved(State.OPEN, breaker="inf/trip"), at=5).store()
    assert "Trip inf" in text_of(signed_in(Role.OPERATOR).get("/breakers/inf/trip"))
