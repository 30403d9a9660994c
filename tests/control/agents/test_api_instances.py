"""Several instances at once, by the API and on the command line."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from events import keys
from events.models import Agent
from recovery_ops import cli
from recovery_ops.control.core.models.audit import AuditEntry
from tests.support.api_client import Program
from tests.support.command_line import WHY as SAID_WHY
from tests.support.command_line import Operator, operator
from tests.support.stories import NOW, Story, heartbeat

__all__ = ["operator"]  # the fixture

pytestmark = pytest.mark.django_db
WHY = {"reason": "its node was taken out of the cluster"}
GONE = {"service": "research", "instance": "g-1"}


@pytest.fixture
def one_died() -> None:
    """g-0 reports, g-1 fell silent, by the real clock, which the API goes by."""
    keys.forget_keys()
    late = (NOW - timezone.now()).total_seconds()
    story = Story()
    for number, seen in enumerate((5, 600)):
        at: dict[str, Any] = {"at": late + seen, "received": late + seen}
        story.tell(heartbeat(), instance=f"g-{number}", **at)
    story.store()


@pytest.mark.usefixtures("one_died")
def test_programs_retire_each_by_itself_and_list_them() -> None:
    program = Program()
    body: dict[str, Any] = WHY | {"verb": "retire", "instances": [GONE, GONE | {"instance": "g-0"}]}
    assert program.post("fleet/instances", body | {"dry_run": True})[1]["results"][0]["done"]["dry_run"]
    assert not AuditEntry.objects.filter(result=AuditEntry.OK).exists()
    status, done = program.post("fleet/instances", body)
    assert (status, done["refused"]) == (200, 1)
    assert done["results"][0]["done"]["retired_at"]
    assert done["results"][1]["problem"]["code"] == "reports"
    assert [one["instance"] for one in program.get("fleet")[1]["agents"]] == ["g-0"]
    [listed] = program.get("fleet", state="retired")[1]["agents"]
    assert (listed["instance"], listed["retired_at"] is not None) == ("g-1", True)
    again = program.post("fleet/instances", WHY | {"verb": "restore", "instances": [GONE]})[1]
    assert again["results"][0]["done"]["retired_at"] is None


@pytest.mark.usefixtures("one_died")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"verb": "burn", "instances": [GONE]}, "verb"),
        ({"verb": "retire", "instances": []}, "instances"),
        ({"verb": "retire", "instances": ["research/g-1"]}, "instances"),
        ({"verb": "retire", "instances": [GONE | {"more": "x"}]}, "instances"),
    ],
)
def test_what_cannot_be_is_a_problem_by_field(body: dict[str, Any], field: str) -> None:
    status, problem = Program().post("fleet/instances", WHY | body)
    assert (status, list(problem["fields"])) == (400, [field])


@pytest.mark.usefixtures("one_died")
def test_a_key_that_may_only_read_changes_nothing() -> None:
    assert Program("read").post("fleet/instances", WHY | {"verb": "retire", "instances": [GONE]})[0] == 403


def test_the_command_line_says_what_became_of_each(operator: Operator) -> None:
    Agent.objects.filter(instance="r-1").update(last_seen_us=F("last_seen_us") - 600 * 10**6)
    assert operator.run("instances", "label", "research/r-0", "research/r-1", "--labels", "eu", *SAID_WHY) == cli.DONE
    assert operator.said == ["research/r-0: eu", "research/r-1: eu"]
    operator.said.clear()
    assert operator.run("instances", "retire", "research/r-0", "research/r-1", *SAID_WHY) == cli.REFUSED
    assert operator.said[0].startswith("research/r-0: rejected: ")
    assert operator.said[1] == "research/r-1: retired"
    operator.said.clear()
    assert operator.run("instances", "restore", "research/r-1", *SAID_WHY) == cli.DONE
    assert operator.said == ["research/r-1: restored"]
