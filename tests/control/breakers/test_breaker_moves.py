"""The page of a breaker that moved more often than its lanes are drawn of, one by one."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from recovery_ops.rules.enums import State
from recovery_ops.rules.roles import Role
from tests.support.pages import signed_in, text_of
from tests.support.stories import Story, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
MOST = 16


@pytest.mark.parametrize("moves", [3, 2_004])
def test_it_asks_no_more_than_any_other_page(moves: int) -> None:
    story = Story()
    for number in range(3):
        instance = f"a-{number}"
        story.tell(heartbeat(), at=4, instance=instance)
        story.tell(moved(State.OPEN), at=90_000, instance=instance)
    for number in range(moves):
        state = State.CLOSED if number // 3 % 2 else State.OPEN
        story.tell(moved(state), at=3_500 - number, instance=f"a-{number % 3}")
    story.store()
    client = signed_in(Role.OPERATOR)
    client.get("/breakers/search_web?range=1h")
    with CaptureQueriesContext(connection) as asked:
        answer = client.get("/breakers/search_web?range=1h")
    assert answer.status_code == 200
    assert "search_web" in text_of(answer)
    assert len(asked) <= MOST, [one["sql"].partition(" FROM ")[2][:110] for one in asked.captured_queries]
