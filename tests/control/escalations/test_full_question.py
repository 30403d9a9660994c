"""What the page of a question asks of the store where the question has everything: no more than any other page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.capacity import storm
from tests.support.pages import signed_in, text_of, troubled_fleet
from tests.support.query_counts import asked_question
from tests.support.stories import NOW, Story, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

MOST_QUERIES = 15


@pytest.fixture
def question() -> str:
    """A question of runs that met its class of failures, about an outage that was over long before it was asked."""
    troubled_fleet(3)
    storm(Story(), since=9_000, until=8_900).store()
    look("dev", NOW - timedelta(seconds=8_800))
    look("dev", NOW)
    page = asked_question()
    told = Story()
    for number in range(6):
        told.tell(failed(Category.TIMEOUT, "search_web", fingerprint="f1"), at=900 + number, run=f"run-{number}")
    told.store()
    event = CapacityEvent.objects.order_by("pk").values_list("pk", flat=True)[0]
    Escalation.objects.update(capacity_event=event, runs=[f"run-{number}" for number in range(6)])
    return page


@pytest.mark.parametrize("listed", ["", "list=tab%3Dopen%26owner%3Dnobody", "kind=steps&order=oldest", "format=md"])
def test_the_page_of_a_question_that_has_everything_asks_little(question: str, listed: str) -> None:
    client = signed_in(Role.EDITOR)
    said = text_of(client.get(question))
    assert all(words in said for words in ("CE-", "run-1", "1 of 1 done"))
    with CaptureQueriesContext(connection) as queries:
        assert client.get(f"{question}?{listed}").status_code == 200
    assert len(queries) <= MOST_QUERIES
