"""A run that a person wants to end: its waits end, nothing in it is begun, and every other run goes on."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Abort, Desired
from recovery_ops.rules.enums import RunStatus
from recovery_ops.runtime import RunCancelled
from recovery_ops.runtime.testing import Lab
from tests.runtime.tools.toolboxes import open_tool, registry_of, use
from tests.support.forked import in_child

WHY = "it writes to the wrong customer"


@pytest.fixture
def lab() -> Lab:
    return Lab()


def wanted(*runs: str, revision: int = 7) -> Desired:
    """A document by which these runs are to end."""
    return Desired(revision=revision, aborts=tuple(Abort(run=run, by="ana", reason=WHY) for run in runs))


def endings(lab: Lab) -> dict[str, RunStatus]:
    """How each run ended, by its name."""
    lab.recovery.flush()
    return {one.name: one.status for one in lab.events_of(events.RunFinished)}


@pytest.mark.parametrize("is_task", [False, True])
def test_a_wait_ends_at_once_and_says_who_wanted_that(lab: Lab, is_task: bool) -> None:
    script = lab.script(503)
    said: dict[str, Any] = {"idempotent": True, "base_delay": 25.0}
    lab.waker.at(7.0, lambda: lab.recovery.apply(wanted("r-1")))
    began = lab.clock.now()

    def thread() -> None:
        with lab.recovery.run("refund", run_id="r-1", source="main_agent", timeout=1000.0):
            lab.recovery.guard("book", **said)(script)()

    async def task() -> None:
        async def answer() -> Any:
            return script()

        async with lab.recovery.run("refund", run_id="r-1", source="main_agent", timeout=1000.0):
            await lab.recovery.guard("book", **said)(answer)()

    with pytest.raises(RunCancelled, match=f"book was called off by ana: {WHY}") as caught:
        asyncio.run(task()) if is_task else thread()
    assert caught.value.note == f"ana: {WHY}"
    assert script.calls == 1
    assert endings(lab) == {"refund": RunStatus.CANCELLED}
    if not is_task:
        assert lab.clock.now() - began == pytest.approx(7.0)


def test_another_run_goes_on(lab: Lab) -> None:
    guarded = lab.recovery.guard("book", idempotent=True)(lab.script("one", "two"))
    with lab.recovery.run("mine", run_id="r-1"), lab.recovery.run("inner"):
        lab.recovery.apply(wanted("r-2"))
        assert guarded() == "one"
    with lab.recovery.run("other", run_id="r-2"), pytest.raises(RunCancelled):
        guarded()
    assert endings(lab)["mine"] is RunStatus.SUCCEEDED


def test_what_is_inside_of_it_ends_too_and_gets_no_turn(lab: Lab) -> None:
    script = lab.script("done")
    registry = registry_of(lab, open_tool("book", script))
    with lab.recovery.run(run_id="r-1"), lab.recovery.run() as inner:
        lab.recovery.apply(wanted("r-1"))
        assert not registry.run_tool(use("book")).is_error
        with pytest.raises(RunCancelled, match="by ana"):
            inner.turn()
    assert script.calls == 0


def test_one_that_is_begun_again_is_called_off_until_that_is_taken_back(lab: Lab) -> None:
    guarded = lab.recovery.guard("book")(lab.script("done"))
    lab.recovery.apply(wanted("r-1"))
    with lab.recovery.run(run_id="r-1"), pytest.raises(RunCancelled):
        guarded()
    lab.recovery.apply(wanted(revision=8))
    with lab.recovery.run(run_id="r-1"):
        assert guarded() == "done"


def test_a_run_that_goes_by_the_name_of_another_is_counted_until_both_have_ended(lab: Lab) -> None:
    with lab.recovery.run(run_id="r-1"):
        with lab.recovery.run(run_id="r-1"):
            assert len(lab.recovery.runs_in_flight) == 1
        lab.recovery.apply(wanted("r-1"))
        with pytest.raises(RunCancelled):
            lab.recovery.guard("book")(lab.script("done"))()
    assert not lab.recovery.runs_in_flight


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("depth", [1, 2])
def test_abort_reaches_forked_children(lab: Lab, depth: int) -> None:
    script = lab.script(503)
    call = lab.recovery.guard("book", idempotent=True, base_delay=25.0)(script)

    def aborted() -> tuple[str, int, dict[str, RunStatus]]:
        lab.waker.at(7.0, lambda: lab.recovery.apply(wanted("r-1")))
        with pytest.raises(RunCancelled) as caught:
            call()
        with pytest.raises(RunCancelled):
            call()
        return caught.value.note, script.calls, endings(lab)

    def deeper() -> Any:
        return in_child(aborted)

    with lab.recovery.run("refund", run_id="r-1", source="main_agent"), lab.recovery.run("part", run_id="r-2"):
        assert in_child(aborted if depth == 1 else deeper) == (f"ana: {WHY}", 1, {})
    assert endings(lab) == {"refund": RunStatus.SUCCEEDED, "part": RunStatus.SUCCEEDED}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_run_that_a_child_left_is_forgotten(lab: Lab) -> None:
    call = lab.recovery.guard("book")(lab.script("booked"))

    def leave() -> str:
        run.__exit__(None, None, None)
        lab.recovery.apply(wanted("r-1"))
        return str(call())

    with lab.recovery.run("refund", run_id="r-1", source="main_agent") as run:
        assert in_child(leave) == "booked"
