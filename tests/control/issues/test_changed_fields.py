"""Each act on a cause of failures changes these fields of its row and no other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from events.failures.asking import last_number
from recovery_ops.control.issues.models import FailureCase
from recovery_ops.control.issues.services.issues import triage
from recovery_ops.rules.enums import Category
from tests.support.actions import REASON, person
from tests.support.isolated import rolled_back
from tests.support.stories import NOW, Story, failed

pytestmark = pytest.mark.django_db

BEFORE: dict[str, Any] = {
    "state": "archived",
    "assigned_to": "bob",
    "decided_at": NOW - timedelta(hours=1),
    "decided_by": "bob",
    "reason": "it was calm",
    "archived_until": NOW + timedelta(hours=1),
    "archived_more": 7,
    "archived_usual": 8,
    "hour_began": NOW,
    "hour_seen": 9,
    "versions": {"research": ["1"]},
    "clean_needed": 4,
    "clean_seen": 3,
    "clean_operations": ["charge"],
    "clean_agents": [1],
    "seen_more": 5,
    "counted_to": 0,
}
NO_RUNS: dict[str, Any] = {"clean_needed": None, "clean_seen": 0, "clean_operations": None, "clean_agents": None}
NO_ARCHIVE: dict[str, Any] = {"archived_until": None, "archived_more": None, "archived_usual": None}
NO_HOUR: dict[str, Any] = {"hour_began": None, "hour_seen": 0}
_DECIDED: dict[str, Any] = {"decided_at": NOW, "decided_by": "ana", "reason": REASON, "seen_more": 0, "versions": None}
DECIDED = _DECIDED | NO_RUNS

CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "assign": ("assign", {"to": "ana"}, {"assignee": "ana", "assigned_to": "ana"}),
    "unassign": ("unassign", {}, {"assignee": None, "assigned_to": ""}),
    "archive for": (
        "archive",
        {"for_s": 60.0},
        DECIDED | NO_ARCHIVE | NO_HOUR | {"archived_until": NOW + timedelta(minutes=1)},
    ),
    "archive until more": ("archive", {"more": 1}, DECIDED | NO_ARCHIVE | NO_HOUR | {"archived_more": 1}),
    "archive until escalating": (
        "archive",
        {"escalating": True},
        DECIDED | NO_ARCHIVE | {"archived_usual": 2, "hour_seen": 0},
    ),
    "resolve": ("resolve", {}, DECIDED | NO_ARCHIVE | {"state": "resolved"}),
    "resolve in the next version": (
        "resolve",
        {"next_version": True},
        DECIDED | NO_ARCHIVE | {"state": "resolved", "versions": {"research": ["2"]}},
    ),
    "resolve after clean runs": (
        "resolve",
        {"clean_runs": 6},
        DECIDED
        | NO_ARCHIVE
        | {"state": "pending", "clean_needed": 6, "clean_operations": ["refund"], "clean_agents": []},
    ),
    "reopen": ("reopen", {}, DECIDED | NO_ARCHIVE | {"state": "open"}),
}
"""The act, what is said, and what stands in the row afterwards."""


def fields(one: FailureCase) -> dict[str, Any]:
    found = {link.name: getattr(one, link.name) for link in one._meta.concrete_fields}
    return found | {"assignee": one.assignee and one.assignee.get_username()}


def test_act_changes_its_fields_alone(subtests: pytest.Subtests) -> None:
    _, bob = (get_user_model().objects.create(username=name) for name in ("ana", "bob"))
    for environment in ("dev", "test"):
        story = Story(environment)
        story.tell(*[failed(Category.TIMEOUT, "refund", fingerprint="one")] * 2, at=60, version="2").store()
    for told, (verb, said, changed) in CASES.items():
        with subtests.test(told), rolled_back():
            for environment in ("dev", "test"):
                FailureCase.objects.create(environment=environment, fingerprint="one", assignee=bob, **BEFORE)
            old = fields(FailureCase.objects.get(environment="dev"))
            asked: dict[str, Any] = {"by": person(), "environment": "dev", "reason": REASON, "now": NOW}
            triage(verb, fingerprint="one", **asked, **said)
            new = fields(FailureCase.objects.get(environment="dev"))
            assert new.pop("version") == old.pop("version") + 1
            if "decided_at" in changed:
                assert new.pop("counted_to") == last_number()
            assert {name: new[name] for name in new if new[name] != old[name]} == {
                name: value for name, value in changed.items() if value != old[name]
            }
