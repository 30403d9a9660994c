"""Workflows through their door: what is done once, what is done again, and what is refused."""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import trio

from recovery_ops.rules import events
from recovery_ops.runtime import ConfigurationError, RecoveryExhausted, StopRun, attempt
from recovery_ops.runtime.errors import CheckpointError, StepChanged, WorkflowLocked
from recovery_ops.runtime.testing import HttpError, Lab
from recovery_ops.runtime.workflows.checkpoint_store import Flow, Progress
from recovery_ops.runtime.workflows.sqlite_checkpoints import SqliteCheckpoints
from recovery_ops.runtime.workflows.workflow import Workflow
from tests.support.processes import eventually
from tests.support.workflow import do

__all__ = ["do"]  # the fixture

Make = Callable[..., Workflow]


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.db"


@pytest.fixture
def make(lab: Lab, path: Path) -> Make:
    """A workflow as a process of its own would make it: with a connection of its own."""

    def workflow(name: str = "refund", workflow_id: str = "order-7", **more: Any) -> Workflow:
        return Workflow(name, workflow_id, **{"recovery": lab.recovery, "store": SqliteCheckpoints(path), **more})

    return workflow


class TestSteps:
    def test_a_finished_step_is_read_not_run(self, lab: Lab, make: Make, do: Callable[..., Any]) -> None:
        script = lab.script({"charge": "c-1", "lines": [1, 2.5, None, True]})
        first = do(make(), "load", script, "order-7")
        again = do(make(), "load", script, "order-7")
        assert (first, again, script.calls) == ({"charge": "c-1", "lines": [1, 2.5, None, True]}, first, 1)
        saved, restored = lab.events
        assert isinstance(saved, events.CheckpointSaved)
        assert isinstance(restored, events.CheckpointRestored)
        assert (saved.workflow, saved.workflow_id, saved.step) == ("refund", "order-7", "load")
        assert saved.size_bytes == len('{"charge":"c-1","lines":[1,2.5,null,true]}')

    def test_the_result_is_what_the_checkpoint_says_on_every_run(self, make: Make, do: Callable[..., Any]) -> None:
        assert do(make(), "pair", lambda: (1, 2)) == [1, 2]
        assert do(make(), "pair", lambda: (1, 2)) == [1, 2]

    def test_a_failed_step_keeps_its_error_and_is_resumed(self, lab: Lab, make: Make, do: Callable[..., Any]) -> None:
        script = lab.script(HttpError(500), "paid")
        with pytest.raises(HttpError):
            do(make(), "pay", script, 10)
        (failed,) = make().steps()
        assert (failed.progress, failed.attempts) == (Progress.FAILED, 1)
        assert failed.error is not None
        assert (failed.error.category, failed.error.can_retry) == ("server_error", True)
        assert do(make(), "pay", script, 10) == "paid"
        (done,) = make().steps()
        assert (done.progress, done.attempts, done.error) == (Progress.FINISHED, 2, None)

    def test_another_input_for_a_finished_step_is_an_error_that_says_so(
        self, lab: Lab, make: Make, do: Callable[..., Any]
    ) -> None:
        do(make(), "pay", lab.script("paid"), 10)
        with pytest.raises(StepChanged, match="step pay of workflow refund order-7 was done with another input") as no:
            do(make(), "pay", lab.script("paid"), 20)
        assert no.value.was_done
        assert no.value.resume_id

    def test_a_failed_step_may_be_given_another_input(self, lab: Lab, make: Make) -> None:
        with pytest.raises(HttpError):
            make().step("pay", lab.script(HttpError(400)), -1)
        assert make().step("pay", lab.script("paid"), 1) == "paid"

    def test_a_step_that_may_have_been_done_may_not(self, lab: Lab, make: Make) -> None:
        with pytest.raises(TimeoutError):
            make().step("pay", lab.script(TimeoutError()), 10)
        with pytest.raises(StepChanged, match="may have been done") as no:
            make().step("pay", lab.script("paid"), 20)
        assert not no.value.was_done
        assert make().step("pay", lab.script("paid"), 20, already_done=lambda amount: None) == "paid"

    def test_an_interrupt_leaves_a_step_whose_outcome_is_unknown(
        self, lab: Lab, make: Make, do: Callable[..., Any]
    ) -> None:
        with pytest.raises(KeyboardInterrupt):
            do(make(), "pay", lab.script(KeyboardInterrupt()), 10)
        (begun,) = make().steps()
        assert (begun.progress, begun.error) == (Progress.STARTED, None)
        assert do(make(), "pay", lab.script("paid"), 10) == "paid"

    @pytest.mark.parametrize("is_entered", [False, True])
    def test_step_name_used_twice_in_run_raises(self, lab: Lab, make: Make, is_entered: bool) -> None:
        """Two mails under one name are one mail."""
        script, workflow = lab.script("sent"), make()
        with workflow if is_entered else nullcontext():
            workflow.step("mail", script, 10)
            with pytest.raises(ConfigurationError):
                workflow.step("mail", script, 10)
        assert script.calls == 1

    @pytest.mark.parametrize("is_entered", [False, True])
    def test_step_name_used_twice_in_task_raises(self, lab: Lab, make: Make, is_entered: bool) -> None:
        script, workflow = lab.script_async("sent"), make()

        async def main() -> None:
            async with workflow if is_entered else nullcontext():
                await workflow.step_async("mail", script, 10)
                with pytest.raises(ConfigurationError):
                    await workflow.step_async("mail", script, 10)

        asyncio.run(main())
        assert script.calls == 1

    def test_step_read_and_asked_again_raises(self, lab: Lab, make: Make) -> None:
        make().step("mail", lab.script("sent"))
        with make() as workflow:
            assert workflow.step("mail", lab.script("never")) == "sent"
            with pytest.raises(ConfigurationError):
                workflow.step("mail", lab.script("never"))

    def test_forgotten_step_is_done_again_in_run(self, lab: Lab, make: Make) -> None:
        script = lab.script("sent")
        with make() as workflow:
            for _ in range(2):
                workflow.step("mail", script)
                workflow.forget()
        assert script.calls == 2

    def test_next_run_reads_the_steps(self, lab: Lab, make: Make) -> None:
        script, workflow = lab.script("paid"), make()
        for _ in range(3):
            with workflow:
                assert workflow.step("pay", script, 10) == "paid"
        assert script.calls == 1

    def test_failed_run_goes_over_its_steps_again(self, lab: Lab, make: Make, do: Callable[..., Any]) -> None:
        workflow, pay, mail = make(), lab.script("paid"), lab.script(HttpError(500), "sent")
        with pytest.raises(HttpError):
            _ = (do(workflow, "pay", pay), do(workflow, "mail", mail))
        assert (do(workflow, "pay", pay), do(workflow, "mail", mail)) == ("paid", "sent")
        assert pay.calls == 1

    def test_failed_step_may_be_asked_again(self, lab: Lab, make: Make, do: Callable[..., Any]) -> None:
        workflow, script = make(), lab.script(HttpError(500), "sent")
        with pytest.raises(HttpError):
            do(workflow, "mail", script)
        assert do(workflow, "mail", script) == "sent"

    def test_executions_do_not_know_each_other(self, lab: Lab, make: Make) -> None:
        script = lab.script("paid")
        for name, workflow_id in (("refund", "1"), ("refund", "2"), ("pay", "1"), ("refund/1", "2")):
            make(name, workflow_id).step("pay", script)
        assert script.calls == 4

    def test_forgetting_makes_everything_new(self, lab: Lab, make: Make) -> None:
        script = lab.script("paid")
        make().step("pay", script)
        make().forget()
        make().step("pay", script)
        assert script.calls == 2

    def test_decorated_functions_are_steps(self, make: Make) -> None:
        calls: list[int] = []
        workflow = make()

        @workflow.as_step(lambda number: f"charge-{number}")
        def charge(number: int) -> int:
            calls.append(number)
            return number * 10

        @workflow.as_step()
        async def tell(whom: str) -> str:
            return f"told {whom}"

        assert [charge(number) for number in (1, 2)] == [10, 20]
        with workflow, pytest.raises(ConfigurationError):
            _ = [charge(number) for number in (1, 2, 1)]
        assert asyncio.run(tell("ana")) == "told ana"
        assert calls == [1, 2]
        assert [one.step for one in workflow.steps()] == ["charge-1", "charge-2", "tell"]


class TestKeysAndProbes:
    def test_the_key_is_the_same_for_the_same_input_and_for_no_other(self, make: Make, do: Callable[..., Any]) -> None:
        keys: list[str | None] = []

        def pay(amount: int, *, currency: str) -> None:
            keys.append(attempt().idempotency_key)
            raise HttpError(400)

        for amount, currency, name in (
            (1, "eur", "a"),
            (1, "eur", "a"),
            (2, "eur", "a"),
            (1, "usd", "a"),
            (1, "eur", "b"),
        ):
            with pytest.raises(HttpError):
                do(make(), name, pay, amount, currency=currency)
        assert keys[0] == keys[1]
        assert len({*keys}) == 4
        assert all(key and len(key) == 40 for key in keys)

    def test_guarded_operations_inside_have_the_key_on_every_attempt(self, lab: Lab, make: Make) -> None:
        keys: list[str | None] = []

        @lab.recovery.guard("pay", idempotent=True)
        def pay() -> str:
            keys.append(attempt().idempotency_key)
            if len(keys) < 3:
                raise TimeoutError
            return "paid"

        with lab.recovery.run(source="main_agent"):
            make().step("pay", pay)
        assert len(keys) == 3
        assert len({*keys}) == 1
        assert keys[0] is not None

    def test_what_is_found_done_is_not_done_again(self, lab: Lab, make: Make, do: Callable[..., Any]) -> None:
        script, asked = lab.script("twice"), []

        def find(charge: str) -> dict[str, str]:
            asked.append((charge, attempt().idempotency_key))
            return {"id": "re-1"}

        assert do(make(), "pay", script, "c-1", already_done=find) == {"id": "re-1"}
        assert do(make(), "pay", script, "c-1", already_done=find) == {"id": "re-1"}
        assert (script.calls, len(asked), asked[0][0]) == (0, 1, "c-1")
        assert asked[0][1]

    @pytest.mark.parametrize("run", [asyncio.run, lambda task: trio.run(lambda: task)], ids=["asyncio", "trio"])
    @pytest.mark.parametrize("found", [None, "p-1"])
    def test_async_already_done_is_awaited(
        self, lab: Lab, make: Make, run: Callable[[Any], Any], found: str | None
    ) -> None:
        charge, find = lab.script_async("p-2"), lab.script_async(found)
        assert run(make().step_async("pay", charge, "c-1", already_done=find)) == (found or "p-2")
        assert (charge.calls, find.calls, find.arguments) == (found is None, 1, [(("c-1",), {})])

    def test_nothing_can_be_found_as_the_result(self, lab: Lab, make: Make) -> None:
        script = lab.script("twice")
        assert make().step("tell", script, already_done=lambda: Workflow.found(None)) is None
        assert make().step("tell", script) is None
        assert script.calls == 0

    def test_while_nobody_knows_nothing_is_done(self, lab: Lab, make: Make) -> None:
        script = lab.script(KeyboardInterrupt(), "paid")
        with pytest.raises(KeyboardInterrupt):
            make().step("pay", script)
        with pytest.raises(TimeoutError):
            make().step("pay", script, already_done=lab.script(TimeoutError()))
        (begun,) = make().steps()
        assert (begun.progress, script.calls) == (Progress.STARTED, 1)


class TestResuming:
    @pytest.mark.parametrize("where", ["in a step", "between steps"])
    def test_every_graceful_failure_names_its_workflow(self, lab: Lab, make: Make, where: str) -> None:
        guarded = lab.recovery.guard("pay")(lab.script(ValueError()))
        workflow = make("re/fund", "order 7")
        fail = guarded if where == "between steps" else functools.partial(workflow.step, "pay", guarded)
        with pytest.raises(RecoveryExhausted) as failed, workflow:
            fail()
        assert failed.value.resume_id == "re%2Ffund/order%207"
        resumed = Workflow.resumed(failed.value.resume_id, recovery=lab.recovery, store=workflow.store)
        assert (resumed.name, resumed.workflow_id) == ("re/fund", "order 7")

    def test_a_stopped_run_can_be_resumed_too(self, lab: Lab, make: Make) -> None:
        guarded = lab.recovery.guard("pay")(lab.script(HttpError(403)))
        with pytest.raises(StopRun) as stopped:
            make().step("pay", guarded)
        assert stopped.value.resume_id == "refund/order-7"

    def test_outside_workflows_there_is_no_resume_id(self, lab: Lab) -> None:
        with pytest.raises(RecoveryExhausted) as failed:
            lab.recovery.guard("pay")(lab.script(ValueError()))()
        assert failed.value.resume_id == ""

    def test_other_errors_are_given_a_note(self, lab: Lab, make: Make) -> None:
        with pytest.raises(ValueError) as failed, make() as workflow:  # noqa: PT011  # its note is what is looked at
            workflow.step("pay", lab.script(ValueError("no")))
        assert failed.value.__notes__ == ["workflow refund can be resumed: refund/order-7"]


class TestLeases:
    def test_two_cannot_run_it_at_once(self, lab: Lab, make: Make, do: Callable[..., Any]) -> None:
        with make():
            with pytest.raises(WorkflowLocked) as held:
                do(make(), "pay", lab.script("paid"))
            assert held.value.owner.startswith("lab-1 ")
            assert held.value.until is not None
            assert held.value.until.timestamp() == pytest.approx(lab.clock.wall() + 30.0)
        assert do(make(), "pay", lab.script("paid")) == "paid"

    def test_whoever_hangs_too_long_loses_it_and_records_nothing_more(self, lab: Lab, make: Make) -> None:
        def hangs() -> str:
            lab.clock.push(31.0)
            assert make().step("pay", lab.script("paid by the other")) == "paid by the other"
            return "paid by the one that hung"

        with pytest.raises(WorkflowLocked), make() as workflow:
            workflow.step("pay", hangs)
        assert make().step("pay", lab.script("never")) == "paid by the other"

    def test_it_is_renewed_while_a_step_takes_long(self, lab: Lab, make: Make) -> None:
        release = threading.Event()
        workflow = make(lease_s=0.05)
        thread = threading.Thread(target=workflow.step, args=("pay", release.wait, 20.0))
        thread.start()
        try:
            eventually(lambda: bool(workflow.steps()), what="the step was begun")
            for _ in range(5):
                before = renewed_until(make())  # before the push: the next renewal may come at any moment
                lab.clock.push(0.04)
                eventually(lambda before=before: renewed_until(make()) > before, what="the lease was renewed")  # type: ignore[misc]
        finally:
            release.set()
            thread.join()

    def test_a_step_is_in_one_thread_at_a_time(self, make: Make) -> None:
        with make() as workflow:

            def inner() -> None:
                workflow.step("pay", lambda: None)

            with pytest.raises(WorkflowLocked, match="in step pay already"):
                workflow.step("pay", inner)

    def test_threads_share_one_workflow(self, lab: Lab, make: Make) -> None:
        with make() as workflow:
            threads = [threading.Thread(target=workflow.step, args=(f"step-{n}", lab.script(n))) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert {one.progress for one in make().steps()} == {Progress.FINISHED}
        assert len(make().steps()) == 8

    def test_a_workflow_that_nobody_knows_any_more_gives_up_its_thread(self, make: Make, path: Path) -> None:
        store = Renewed(path)
        workflow = make(lease_s=0.03, store=store)
        workflow.__enter__()
        thread = renewing_thread()
        eventually(lambda: store.renewals > 0, what="the lease was renewed")
        del workflow
        gc.collect()
        thread.join(timeout=20.0)
        assert not thread.is_alive()

    def test_leaving_ends_the_renewals(self, make: Make) -> None:
        workflow = make(lease_s=600.0)
        with workflow:
            thread = renewing_thread()
        thread.join(timeout=20.0)
        assert not thread.is_alive()

    def test_busy_store_does_not_end_the_renewals(self, make: Make, path: Path) -> None:
        store = Renewed(path, faults=2)
        with make(lease_s=0.03, store=store):
            eventually(lambda: store.renewals > 3, what="the lease was renewed")

    def test_lease_that_cannot_be_given_back_expires(self, lab: Lab, make: Make, path: Path) -> None:
        class Stuck(SqliteCheckpoints):
            def release(self, flow: Flow, owner: str) -> None:
                raise CheckpointError("the disk is full")

        with make(store=Stuck(path)) as workflow:
            assert workflow.step("pay", lambda: "paid") == "paid"
        lab.clock.push(31.0)
        with make() as other:
            assert other.step("pay", lambda: "never") == "paid"

    def test_lost_lease_lets_nobody_join(self, lab: Lab, make: Make) -> None:
        workflow, script = make(lease_s=0.03), lab.script("paid")
        with workflow:
            lost = renewing_thread()
            lab.clock.push(1.0)
            with make():
                lost.join(timeout=20.0)
                assert not lost.is_alive()
                with pytest.raises(WorkflowLocked):
                    workflow.__enter__()
        with workflow:
            assert workflow.step("pay", script) == "paid"


class Renewed(SqliteCheckpoints):
    """A store that counts the renewals, the first `faults` of which fail."""

    def __init__(self, path: Path, faults: int = 0) -> None:
        super().__init__(path)
        self.renewals, self._faults = 0, faults

    def renew(self, flow: Flow, owner: str, *, now: float, lease_s: float) -> bool:
        self.renewals += 1
        if self.renewals <= self._faults:
            raise CheckpointError("the disk is busy")
        return super().renew(flow, owner, now=now, lease_s=lease_s)


def renewing_thread() -> threading.Thread:
    """The thread of the lease that was taken last."""
    return [one for one in threading.enumerate() if one.name == "recovery-ops-lease"][-1]


def renewed_until(other: Workflow) -> float:
    """Until when whoever has the lease has it."""
    with pytest.raises(WorkflowLocked) as held:
        other.__enter__()
    assert held.value.until is not None
    return held.value.until.timestamp()


class TestTasks:
    def test_a_cancel_does_not_part_an_effect_from_its_checkpoint(self, make: Make) -> None:
        async def whole() -> None:
            async with make() as workflow:
                done = asyncio.Event()

                async def pay() -> str:
                    done.set()
                    return "paid"

                task = asyncio.create_task(workflow.step_async("pay", pay))
                await done.wait()
                task.cancel()  # arrives while the checkpoint is written
                with pytest.raises(asyncio.CancelledError):
                    await task

        asyncio.run(whole())
        (done,) = make().steps()
        assert (done.progress, done.content) == (Progress.FINISHED, b'"paid"')

    @pytest.mark.parametrize("turns", range(0, 12, 2))
    def test_a_cancel_at_any_moment_gives_the_lease_back(self, make: Make, turns: int) -> None:
        async def whole() -> None:
            task = asyncio.create_task(make().step_async("pay", asyncio.sleep, 60.0))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(whole())
        with make():
            assert len(make().steps()) <= 1

    def test_tasks_share_one_workflow(self, make: Make) -> None:
        async def whole() -> list[Any]:
            async with make() as workflow:
                steps = (workflow.step_async(f"step-{n}", asyncio.sleep, 0, n) for n in range(8))
                return await asyncio.gather(*steps)

        assert asyncio.run(whole()) == list(range(8))

    def test_the_form_for_threads_says_what_to_do_about_a_coroutine(self, make: Make) -> None:
        with pytest.raises(ConfigurationError, match="step_async"):
            _ = make().step("pay", asyncio.sleep, 0)


@pytest.mark.parametrize("said", [None, "", "refunds", "/7", "refunds/", 7])
def test_a_resume_id_that_names_no_workflow_is_refused_with_what_to_pass(lab: Lab, said: Any) -> None:
    with pytest.raises(ValueError, match="pass the `resume_id` of an error"):
        Workflow.resumed(said, recovery=lab.recovery)
