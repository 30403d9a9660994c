"""Which tab of the list, and which `state` of the API, holds a cause of each state."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery_ops.control.issues.models import FailureCase
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

TABS = ("open", "mine", "archived", "resolved")
_FAILED_S, _BEFORE, _AFTER = 100, timedelta(seconds=200), timedelta(seconds=50)
"""Each cause failed last at `_FAILED_S` before now."""

CASES: dict[str, tuple[str, set[str], dict[str, Any]]] = {
    "untouched": ("open", {"open"}, {}),
    "open": ("open", {"open", "mine"}, {"state": "open"}),
    "of another": ("open", {"open"}, {"state": "open", "assigned_to": "bob"}),
    "pending": ("pending", {"open", "mine"}, {"state": "pending", "clean_needed": 3}),
    "regressed": ("regressed", {"open", "mine"}, {"state": "regressed"}),
    "failed again": ("regressed", {"open", "mine"}, {"state": "resolved", "decided_at": NOW - _BEFORE}),
    "resolved": ("resolved", {"resolved"}, {"state": "resolved", "decided_at": NOW - _AFTER}),
    "failed in the old version": (
        "resolved",
        {"resolved"},
        {"state": "resolved", "decided_at": NOW - _BEFORE, "versions": {"research": ["1"]}},
    ),
    "archived": ("archived", {"archived"}, {"state": "archived", "archived_until": NOW + timedelta(seconds=1)}),
    "archive over": ("returned", {"open", "mine"}, {"state": "archived", "archived_until": NOW}),
    "few more": ("archived", {"archived"}, {"state": "archived", "archived_more": 3, "seen_more": 2}),
    "more": ("returned", {"open", "mine"}, {"state": "archived", "archived_more": 3, "seen_more": 3}),
    "as usual": ("archived", {"archived"}, {"state": "archived", "archived_usual": 4}),
}
"""What was decided about a cause of that name: its state, and the tabs of ana that hold it."""


@pytest.fixture
def causes() -> None:
    """One cause for each case; in `test` every one is resolved."""
    for environment in ("dev", "test"):
        story = Story(environment)
        story.tell(*(failed(Category.TIMEOUT, fingerprint=name) for name in CASES), at=_FAILED_S)
        story.store()
    for name, (_, _, fields) in CASES.items():
        row = {"decided_at": NOW, "assigned_to": "ana", **fields}
        if fields:
            FailureCase.objects.create(environment="dev", fingerprint=name, **row)
        FailureCase.objects.create(environment="test", fingerprint=name, state="resolved", decided_at=NOW)


@pytest.mark.usefixtures("causes")
def test_each_state_is_in_its_tabs(subtests: pytest.Subtests) -> None:
    client = signed_in(Role.OPERATOR, "ana")
    for tab in (*TABS, "all"):
        with subtests.test(tab=tab):
            context = client.get("/failures", {"tab": tab, "environment": "dev"}).context
            found = {row.found.fingerprint for row in context["rows"]}
            assert found == {name for name, (_, tabs, _) in CASES.items() if tab in tabs or tab == "all"}
            counts = {name: count for name, _, count, _ in context["tabs"]}
            assert counts[tab] == len(found)


@pytest.mark.usefixtures("causes")
def test_each_state_is_kept_by_its_filter(subtests: pytest.Subtests) -> None:
    program = Program()
    for state in {state for state, _, _ in CASES.values()}:
        with subtests.test(state=state):
            rows = program.get("failures", state=state)[1]["failures"]
            assert {row["fingerprint"] for row in rows} == {name for name, case in CASES.items() if case[0] == state}
