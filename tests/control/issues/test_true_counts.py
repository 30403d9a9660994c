"""Counts of failures are counts of all that failed, however many there are."""

from __future__ import annotations

import pytest

from events.failures.asking import counts_before, counts_lately
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, ago, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
FLOOD = 2_400
RARE = 3


@pytest.fixture(autouse=True)
def _flood() -> None:
    """A few failures of one issue, and behind them more of another than a page once read."""
    story = Story()
    for number in range(RARE):
        told = failed(Category.TIMEOUT, "crm", fingerprint="rare", message="no answer")
        story.tell(told, at=3000 - number, instance="r-0", run=f"rare-{number}")
    for number in range(FLOOD):
        told = failed(Category.OVERLOADED, "search_web", fingerprint="flood", message="helios says 529")
        story.tell(told, at=2000 - number / 2, instance=f"a-{number % 3}", run=f"flood-{number % 40}")
    story.store()


def test_list_counts_all_failures_of_the_range() -> None:
    page = signed_in(Role.VIEWER).get("/failures?range=1h")
    head = Shown(page).one("causes").data
    assert (head["failures"], head["causes"], head["total"]) == (f"{FLOOD + RARE}", "2", f"{FLOOD + RARE}")
    [flood, rare] = [row.found for row in page.context["rows"]]
    assert (flood.count, flood.runs, flood.instances, flood.first) == (FLOOD, 40, 3, ago(2000))
    assert (rare.count, rare.runs, rare.instances, rare.first) == (RARE, 3, 1, ago(3000))
    assert (rare.message, flood.message) == ("no answer", "helios says 529")
    assert sum(span.count for span in page.context["histogram"].rows) == FLOOD + RARE
    assert sum(flood.bins) == FLOOD


def test_filters_count_all_failures_of_the_range() -> None:
    page = signed_in(Role.VIEWER).get("/failures?range=1h&instance=a-1")
    assert (page.context["failed"], page.context["total"]) == (FLOOD // 3, FLOOD + RARE)
    counts = {choice.word: choice.count for _, choices in page.context["facets"] for choice in choices}
    assert (counts["a-0"], counts["a-1"], counts["search_web"]) == (FLOOD // 3, FLOOD // 3, FLOOD // 3)


def test_issue_behind_a_flood_has_its_page() -> None:
    page = signed_in(Role.VIEWER).get("/failures/rare?range=1h")
    assert (page.context["found"].count, len(page.context["failures"].rows)) == (RARE, RARE)
    flood = signed_in(Role.VIEWER).get("/failures/flood?range=1h").context
    assert (flood["found"].count, flood["found"].first, len(flood["failures"].rows)) == (FLOOD, ago(2000), 20)


def test_answer_has_the_total_and_all_counts() -> None:
    answer = signed_in(Role.VIEWER).get("/api/v1/failures?limit=1").json()
    assert (answer["total"], len(answer["failures"])) == (2, 1)
    assert (answer["failures"][0]["failures"], answer["failures"][0]["runs"]) == (FLOOD, 40)


def test_detectors_count_all_failures_of_the_range() -> None:
    counts = counts_lately("dev", start=ago(3600), end=NOW)
    assert counts == {("flood", ""): FLOOD, ("rare", ""): RARE}
    assert counts_before("dev", start=NOW, end=NOW + (NOW - ago(3600))) == {"flood": FLOOD, "rare": RARE}
