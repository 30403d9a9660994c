"""A run that its budget stops, and what silence leaves of it: the workflow goes on from what it has saved."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.rules import events as facts
from recovery_ops.rules.events import CheckpointRestored, CheckpointSaved
from recovery_ops.runtime import StopRun
from recovery_ops.runtime.testing import Lab
from recovery_ops.runtime.workflows.sqlite_checkpoints import SqliteCheckpoints
from recovery_ops.runtime.workflows.workflow import Workflow
from tests.support.stories import NOW, Story

pytestmark = pytest.mark.django_db


def test_a_workflow_whose_run_spent_its_budget_is_resumed_after_the_default(tmp_path: Path) -> None:
    lab = Lab()
    load, pay = lab.script("order 7"), lab.script("paid")

    def workflow() -> Workflow:
        return Workflow("payout", "order-7", recovery=lab.recovery, store=SqliteCheckpoints(tmp_path / "steps.db"))

    def work() -> None:
        with lab.recovery.run("run-1", source="main_agent") as run:
            workflow().step("load", load)
            while True:
                run.turn()

    with pytest.raises(StopRun):
        work()
    told = [fact for fact in lab.events if isinstance(fact, CheckpointSaved | facts.RunStopped)]
    assert [type(fact) for fact in told] == [CheckpointSaved, facts.RunStopped]
    Story().tell(*told, at=100, run="run-1").store()
    open_escalations("dev", NOW)
    assert keep_deadlines("dev", NOW + timedelta(hours=1)) == 1
    one = Escalation.objects.get()
    assert (one.resolution, one.runs) == ("aborted", ["run-1"])
    assert one.reason == "turns"
    assert one.notes.get(verb="default").text.endswith("its state is saved.")
    with lab.recovery.run("run-2", source="main_agent"):
        again = workflow()
        assert (again.step("load", load), again.step("pay", pay)) == ("order 7", "paid")
    assert (load.calls, pay.calls) == (1, 1), "what was saved is not done again"
    assert [fact.step for fact in lab.events_of(CheckpointRestored)] == ["load"]
