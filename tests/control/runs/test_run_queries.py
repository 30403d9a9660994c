"""What a list of runs asks of the store where there is a lot of everything: no more than any other page."""

from __future__ import annotations

from itertools import product

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.runs.selectors import OFFERED_FROM
from recovery_ops.rules.events import RunStarted
from tests.support.pages import signed_in
from tests.support.stories import Story, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

MOST_QUERIES = 15
DAY_S = 86_400
NARROWED = ("", "rung=5", "status=lost&rung=4", "status=lost&q=run-1", "q=nobody&took_s=10")


@pytest.fixture
def full() -> None:
    """More runs than are told for one page. One of ten was entered days ago, and each met more than a list reads."""
    story = Story()
    for number in range(OFFERED_FROM + 50):
        run = f"run-{number}"
        if number % 10 == 0:
            story.tell(RunStarted(), at=4 * DAY_S + number, run=run)
        story.tell(RunStarted(), at=3_000 - number, run=run)
        for again in range(20 if number % 10 == 0 else 1):
            story.tell(failed(), at=2_500 - number - again / 100, run=run)
    story.store()


@pytest.mark.usefixtures("full")
def test_however_full_the_store_a_list_of_runs_asks_little(subtests: pytest.Subtests) -> None:
    client = signed_in()
    client.get("/runs?range=6h")  # what a session asks once is asked now
    for show, narrowed, view in product(("all", "running", "troubled"), NARROWED, ("", "flows")):
        with subtests.test(show=show, narrowed=narrowed, view=view):
            with CaptureQueriesContext(connection) as queries:
                page = client.get(f"/runs?range=6h&show={show}&view={view}&{narrowed}")
            assert page.status_code == 200
            assert len(queries) <= MOST_QUERIES
