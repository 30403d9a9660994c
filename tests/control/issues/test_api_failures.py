"""Causes of failures by the API and on the command line: the same acts as on the pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from events import keys
from events.models import Agent
from recovery_ops import cli
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.issues.models import FailureCase, FailureGrouping
from recovery_ops.rules.enums import Category
from tests.support.api_client import Program
from tests.support.command_line import WHY as SAID_WHY
from tests.support.command_line import Operator, operator
from tests.support.stories import NOW, Story, failed
from tests.support.told import untold

__all__ = ["operator"]  # the fixture

pytestmark = pytest.mark.django_db
WHY = {"reason": "the database was moved"}


@pytest.fixture
def storm() -> None:
    """Two fingerprints, by the real clock, which the API goes by."""
    keys.forget_keys()
    late = (NOW - timezone.now()).total_seconds()
    story = Story().tell(*[failed(Category.TIMEOUT, "crm.update", fingerprint="one")] * 3, at=late + 300)
    story.tell(failed(Category.TIMEOUT, "search_web", fingerprint="two"), at=late + 200).store()


@pytest.mark.usefixtures("storm")
def test_causes_are_listed_decided_and_told_one_by_one() -> None:
    program = Program()
    found = program.get("failures")[1]
    assert [(row["fingerprint"], row["failures"], row["state"]) for row in found["failures"]] == [
        ("one", 3, "open"),
        ("two", 1, "open"),
    ]
    body: dict[str, Any] = WHY | {"verb": "archive", "fingerprints": ["one", "moon"], "more": 5}
    status, done = program.post("failures", body)
    assert (status, done["refused"]) == (200, 1)
    assert done["results"][0]["done"]["state"] == "archived"
    assert done["results"][1]["problem"]["code"] == "unknown_failure"
    assert [row["fingerprint"] for row in program.get("failures", state="archived")[1]["failures"]] == ["one"]
    assert AuditEntry.objects.filter(verb="failure.archive", actor_kind="key").count() == 1


def test_failure_names_all_its_backends_and_operations() -> None:
    keys.forget_keys()
    late = (NOW - timezone.now()).total_seconds()
    story = Story()
    for number in range(5):
        one = failed(Category.TIMEOUT, f"op-{number}", fingerprint="one", provider=f"p-{number}", model="m")
        story.tell(one, at=late + 300)
    story.store()
    [row] = Program().get("failures")[1]["failures"]
    assert sorted(row["operations"]) == [f"op-{number}" for number in range(5)]
    assert len(row["backends"]) == 5


@pytest.mark.usefixtures("storm")
def test_bulk_keys_with_equal_prefix_are_two_requests() -> None:
    program, names = Program(), ["one", "two"]
    for number in (1, 2):
        resolve = WHY | {"verb": "resolve", "fingerprints": names}
        done = program.post("failures", resolve, idempotency_key=f"{'k' * 63}{number}")[1]["results"]
        assert [one["done"]["was_already"] for one in done] == [False, False]
        again = program.post("failures", resolve, idempotency_key=f"{'k' * 63}{number}")[1]["results"]
        assert [one["done"]["was_already"] for one in again] == [True, True]
        program.post("failures", WHY | {"verb": "reopen", "fingerprints": names})


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"verb": "burn", "fingerprints": ["one"]}, "verb"),
        ({"verb": "resolve", "fingerprints": []}, "fingerprints"),
        ({"verb": "resolve", "fingerprints": [1]}, "fingerprints"),
        ({"verb": "resolve"}, "fingerprints"),
    ],
)
def test_what_cannot_be_is_a_problem_by_field(body: dict[str, Any], field: str) -> None:
    status, problem = Program("act").post("failures", WHY | body)
    assert status == 400
    assert field in problem["fields"]


@pytest.mark.usefixtures("storm")
def test_causes_are_merged_split_and_told_apart_again() -> None:
    program = Program()
    assert program.post("failures/merge", WHY | {"fingerprints": ["one", "two"]})[1]["fingerprint"] == "one"
    found = program.get("failures")[1]
    assert [row["failures"] for row in found["failures"]] == [4]
    number = found["groupings"][0]["number"]
    assert program.post(f"failures/groupings/{number}/undo", WHY)[1]["fingerprint"] == "two"
    split = WHY | {"fingerprint": "one", "field": "operation", "value": "crm.update"}
    assert program.post("failures/split", split)[1]["fingerprint"] == "one~crm.update"
    assert program.post("failures/groupings/999/undo", WHY)[0] == 404


def test_a_key_that_may_only_read_changes_nothing() -> None:
    assert Program("read").post("failures", WHY | {"verb": "resolve", "fingerprints": ["one"]})[0] == 403
    assert not FailureCase.objects.exists()


@pytest.mark.usefixtures("storm")
def test_the_command_line_says_what_became_of_each(operator: Operator) -> None:
    assert operator.run("failures", "list") == cli.DONE
    assert untold(operator.said[0], "one", 3, "timeout", "crm.update") == []
    assert operator.run("failures", "resolve", "one", "moon", *SAID_WHY) == cli.REFUSED
    assert untold(operator.said[0], "one", "resolved", "unassigned") == []
    assert operator.run("failures", "archive", "two", "--for", "7d", *SAID_WHY) == cli.DONE
    assert operator.run("failures", "merge", "one", "two", *SAID_WHY) == cli.DONE
    assert [untold(one, "merge", "one") for one in operator.said] == [[]]
    number = FailureGrouping.objects.get().pk
    assert operator.run("failures", "undo", str(number), *SAID_WHY) == cli.DONE
    assert operator.run("failures", "split", "one", "--field", "operation", "--value", "x", *SAID_WHY) == cli.DONE
    assert operator.run("failures", "unassign", "one", *SAID_WHY, "--dry-run") == cli.DONE
    assert [untold(one, "one", "resolved", "unassigned") for one in operator.said] == [[]]
    case = FailureCase.objects.get(fingerprint="one")
    assert (case.state, case.assigned_to) == ("resolved", "")


@pytest.mark.usefixtures("storm")
def test_the_command_line_puts_away_until_it_escalates_and_resolves_in_the_next_version(operator: Operator) -> None:
    assert operator.run("failures", "archive", "one", "--escalating", *SAID_WHY) == cli.DONE
    assert FailureCase.objects.get(fingerprint="one").archived_usual == 3
    assert operator.run("failures", "resolve", "two", "--next-version", *SAID_WHY) == cli.REFUSED
    [refused] = operator.said
    assert (untold(refused, "two"), FailureCase.objects.filter(fingerprint="two").exists()) == ([], False)
    Agent.objects.update(version="2.8.1")
    assert operator.run("failures", "resolve", "two", "--next-version", *SAID_WHY) == cli.DONE
    assert FailureCase.objects.get(fingerprint="two").versions == {"research": ["2.8.1"]}


@pytest.mark.usefixtures("storm")
def test_the_command_line_tries_a_changed_split_and_waits_for_clean_runs(operator: Operator) -> None:
    assert operator.run("failures", "split", "one", "--field", "operation", "--value", "x", *SAID_WHY) == cli.DONE
    words = ("failures", "edit", str(FailureGrouping.objects.get().pk), "--value", "crm.update", *SAID_WHY)
    assert operator.run(*words, "--dry-run") == cli.DONE
    assert untold(operator.said[1], 3, "one", "one~crm.update") == []
    assert FailureGrouping.objects.filter(ended_at=None, value="x").exists()
    assert operator.run(*words) == cli.DONE
    assert FailureGrouping.objects.get(ended_at=None).value == "crm.update"
    assert operator.run("failures", "resolve", "two", "--clean-runs", "12", *SAID_WHY) == cli.DONE
    assert [untold(one, "two", "pending", "unassigned") for one in operator.said] == [[]]
    assert operator.run("failures", "list", "--state", "pending") == cli.DONE
    assert untold(operator.said[1], "pending", 0, 12, "unassigned") == [], "clean runs so far, of how many"
