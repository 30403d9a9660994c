"""What must not have a run begun twice, nor leave somebody with a form that cannot be sent."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.models import Agent
from events.runs.again import begun_again
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.runs.models.retries import RunRetry
from recovery_ops.control.runs.retry_status import RetryFault, RetryState
from recovery_ops.control.runs.services.retries import INPUT_BYTES_MOST, INPUT_WAITING_MOST, retry_runs
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import CheckpointSaved, Event, RunFinished, RunStarted
from recovery_ops.rules.roles import Role
from tests.support.actions import asked
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.retries import WHY, begun, ended, retried, there, told
from tests.support.stories import NOW, Story, failed

pytestmark = [pytest.mark.django_db]


def test_a_key_that_comes_again_when_the_run_has_begun_is_answered_with_what_was_done() -> None:
    """Whoever lost the answer asks again, and agents obey within a second."""
    ended("run-7")
    there("r-0")
    first = retried(key="k-1")
    begun()
    again = retried(key="k-1", now=NOW + timedelta(seconds=5))
    assert (again.was_already, again.object.pk) == (True, first.object.pk)
    assert not AuditEntry.objects.exclude(result=AuditEntry.OK).exists()


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize("told", [failed(Category.OVERLOADED), RunFinished(status=RunStatus.FAILED, duration_s=1.0)])
def test_of_a_run_that_has_told_much_since_another_one_began_it_the_list_knows_that(told: Event) -> None:
    """The stories of a list are told by the first and the newest facts: how it was begun again is in between."""
    first = Story().tell(RunStarted(name="due diligence"), at=60, run="run-7", instance="r-0")
    first.tell(told, at=59, run="run-7", instance="r-0").store()
    there("r-1", "r-2", at=1)
    begun(at=50, instance="r-1")
    work = Story()
    for number in range(20):
        saved = CheckpointSaved(workflow="payout", workflow_id="7", step=f"pay-{number}")
        work.tell(saved, at=40 - number, run="run-7", instance="r-1")
    work.store()
    Agent.objects.filter(instance="r-0").update(last_seen_us=0)
    with pytest.raises(CommandRejected, match="not_retried"):
        retry_runs(**asked(runs=["run-7"], reason=WHY))
    form = Shown(signed_in(Role.OPERATOR).get("/runs/act/retry?run=run-7"))
    assert form.values("no-retry") == [RetryFault.RUNS]


def test_what_runs_have_told_is_looked_for_among_their_own_facts() -> None:
    """A wish may rest for two days, and is looked at every few seconds: not among the beginnings of all runs since."""
    ended("run-7", "run-8")
    with CaptureQueriesContext(connection) as asked_for:
        begun_again("dev", {"run-7": NOW - timedelta(days=1), "run-8": NOW})
    for one in asked_for.captured_queries:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {one['sql']}")
            assert "INDEX fact_by_run" in str(cursor.fetchall())


def test_so_much_input_waits_for_one_instance_that_its_document_can_still_be_read() -> None:
    """What an agent can take in is bounded: beyond that it would hear of no override any more, either."""
    runs = [f"run-{number}" for number in range(INPUT_WAITING_MOST // INPUT_BYTES_MOST + 1)]
    ended(*runs, "run-x", "run-y")
    there("r-0", "r-1")
    for run in runs[:-1]:
        retried(run, instance="r-0", input="ä" * (INPUT_BYTES_MOST // 2))
    with pytest.raises(CommandRejected) as full:
        retried(runs[-1], instance="r-0", input="x")
    assert (full.value.status, list(full.value.fields)) == (409, ["input"])
    assert "r-0" in full.value.fields["input"]
    assert retried(runs[-1], instance="r-1", input="x").object.instance == "r-1"
    assert retried("run-x", instance="r-0").object.instance == "r-0"
    RunRetry.objects.filter(run=runs[0]).update(ended_at=NOW)
    assert retried("run-y", instance="r-0", input="x").object.instance == "r-0", "what has ended takes no room"


@pytest.mark.usefixtures("now")
def test_taken_back_when_it_has_begun_it_is_told_as_begun() -> None:
    """Somebody takes it back between the run's own word and the worker's look."""
    ended("run-7")
    there("r-0")
    retried(now=NOW - timedelta(seconds=9))
    begun(at=3)
    client = signed_in(Role.OPERATOR)
    client.post("/runs/run-7/withdraw-retry", {"reason": "the bank is away again"})
    assert RunRetry.objects.get().ended_by == "ana"
    assert (told().state, told().begun_after_s) == (RetryState.BEGUN, 6)


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize("act", ["retry", "abort", "ask"])
def test_of_one_run_that_was_chosen_in_the_list_the_form_says_which(act: str) -> None:
    """It goes to the address of the list, which does not name it."""
    ended("run-7", status=None if act == "abort" else RunStatus.FAILED)
    there("r-0")
    form = signed_in(Role.OPERATOR).get(f"/runs/act/{act}?run=run-7").content.decode()
    assert f'action="/runs/act/{act}"' in form
    assert '<input type="hidden" name="run" value="run-7">' in form


@pytest.mark.usefixtures("now")
def test_what_a_run_is_given_is_handed_on_as_it_was_typed() -> None:
    ended("run-7", "run-8")
    there("r-0")
    client = signed_in(Role.OPERATOR)
    client.post("/runs/run-7/retry", {"reason": WHY, "input": "\r\n  a: 1\r\n  b: 2\r\n", "instance": "r-0"})
    assert RunRetry.objects.get(run="run-7").input == "\n  a: 1\n  b: 2\n"
    again = client.post("/runs/run-8/retry", {"reason": "x" * 501, "input": "\r\n  a: 1", "instance": "r-0"})
    assert ">\n\r\n  a: 1</textarea>" in again.content.decode(), "browsers leave out the first end of a line"
    client.post("/runs/run-8/retry", {"reason": WHY, "input": " \r\n", "instance": "r-0"})
    assert RunRetry.objects.get(run="run-8").input == "", "nobody saw that anything was typed"
