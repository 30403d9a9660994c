"""An agent that a person stopped: its runs are aborted with saved state, new work is refused, and it says so."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import STOP, Desired, Pause
from recovery_ops.rules.enums import RunStatus, State, StopReason
from recovery_ops.runtime import (
    CircuitOpen,
    ConfigurationError,
    Deadline,
    Limits,
    Recovery,
    RecoveryExhausted,
    RunCancelled,
    RunsPaused,
    Workflow,
)
from recovery_ops.runtime.testing import Lab, RecordedEvents
from recovery_ops.runtime.workflows.sqlite_checkpoints import SqliteCheckpoints

WHY = "it deletes what it should read"
NOTE = f"ana: {WHY}"
STOPPED = "stopped_by_operator"


def stopped(recovery: Recovery, *, ends: float | None = None, instance: str = "", revision: int = 7) -> Desired:
    """A document by which the agent is stopped."""
    service = recovery.instance.service
    held = Pause(id="pz-1", service=service, instance=instance, by="ana", reason=WHY, expires_at=ends, kind=STOP)
    return Desired(revision=revision, pauses=(held,))


def statuses(lab: Lab) -> list[RunStatus]:
    return [one.status for one in lab.events_of(events.RunFinished)]


def beats(lab: Lab) -> list[tuple[str, bool | None, int]]:
    """What it said of itself since it was asked last."""
    lab.recovery.housekeep()
    found = [(one.status, one.takes_new_work, one.runs_in_flight) for one in lab.events_of(events.InstanceHeartbeat)]
    lab.events.clear()
    return found


@pytest.mark.parametrize("is_task", [False, True])
def test_stop_aborts_the_runs_in_flight(is_task: bool) -> None:
    lab = Lab()
    script = lab.script("one", "two")
    guarded = lab.recovery.guard("book", idempotent=True)(script)

    async def answer() -> str:
        return script()  # type: ignore[no-any-return]  # a script returns what it was given

    guarded_task = lab.recovery.guard("book_task", idempotent=True)(answer)

    async def task() -> None:
        async with lab.recovery.run("mine"):
            assert await guarded_task() == "one"
            lab.recovery.apply(stopped(lab.recovery))
            await guarded_task()

    def work() -> None:
        with lab.recovery.run("mine"):
            assert guarded() == "one"
            lab.recovery.apply(stopped(lab.recovery))
            guarded()

    with pytest.raises(RunCancelled) as caught:
        asyncio.run(task()) if is_task else work()
    assert caught.value.note == NOTE
    assert script.calls == 1
    assert statuses(lab) == [RunStatus.CANCELLED]
    assert not lab.events_of(events.BreakerRejected), "an abort is no rejection"


@pytest.mark.parametrize("is_task", [False, True])
@pytest.mark.parametrize("on_pause", ["reject", "wait"])
def test_stopped_agent_refuses_new_runs(is_task: bool, on_pause: str) -> None:
    lab = Lab()
    lab.recovery.on_pause = on_pause  # type: ignore[assignment]  # one of the two words
    lab.recovery.apply(stopped(lab.recovery, ends=lab.clock.wall() + 60.0))

    async def task() -> None:
        async with lab.recovery.run("refund"):
            pass

    def work() -> None:
        with lab.recovery.run("refund"):
            pass

    with pytest.raises(RunsPaused) as caught:
        asyncio.run(task()) if is_task else work()
    assert (caught.value.is_stop, caught.value.note) == (True, NOTE)
    assert caught.value.retry_at is not None
    assert caught.value.retry_at.timestamp() == lab.clock.wall() + 60.0
    assert not lab.recovery.takes_new_work
    assert not lab.events_of(events.RunStarted)


@pytest.mark.parametrize("is_task", [False, True])
def test_stopped_agent_rejects_calls_outside_runs(is_task: bool) -> None:
    lab = Lab()
    script = lab.script("one", "two")
    other = lab.script("other")

    async def answer() -> str:
        return script()  # type: ignore[no-any-return]  # a script returns what it was given

    guarded = lab.recovery.guard("book", fallback=other, read_only=True)(answer if is_task else script)

    def call() -> str:
        found = guarded()
        return asyncio.run(found) if is_task else found  # type: ignore[return-value]  # as it was made

    assert call() == "one"
    lab.recovery.apply(stopped(lab.recovery, ends=lab.clock.wall() + 60.0))
    with pytest.raises(RunsPaused) as caught, Deadline(30.0, clock=lab.clock):
        call()
    assert not isinstance(caught.value, CircuitOpen)
    assert (caught.value.operation, caught.value.is_stop, caught.value.note) == ("book", True, NOTE)
    assert (script.calls, other.calls) == (1, 0), "no fallback goes around a stop"
    lab.clock.push(2.0)
    lab.recovery.housekeep()
    assert {(one.reason, one.state) for one in lab.events_of(events.BreakerRejected)} == {(STOPPED, State.CLOSED)}
    assert not lab.events_of(events.BreakerStateChanged), "a stop is no state of a breaker"


def test_stop_ends_a_call_that_waits_for_its_retry() -> None:
    lab = Lab()
    script = lab.script(ConnectionRefusedError("refused"), "late")
    guarded = lab.recovery.guard("book", read_only=True, max_retries=3)(script)
    lab.waker.at(0.01, lambda: lab.recovery.apply(stopped(lab.recovery)))
    with pytest.raises(RecoveryExhausted) as caught:
        guarded()
    assert (caught.value.reason, script.calls) == (StopReason.STOPPED, 1)


def test_inner_run_of_a_stopped_run_is_cancelled() -> None:
    lab = Lab()
    with lab.recovery.run("mine"):
        lab.recovery.apply(stopped(lab.recovery))
        with pytest.raises(RunCancelled), lab.recovery.run("inner"):
            raise AssertionError("it was begun")


def test_stop_reaches_the_runs_of_every_thread() -> None:
    recovery = Recovery("billing", sink=RecordedEvents(), is_background_work_wanted=False)
    begun, applied, found = threading.Barrier(5), threading.Event(), []

    @recovery.guard("book", idempotent=True)
    def book() -> str:
        return "booked"

    def work(number: int) -> None:
        try:
            with recovery.run(f"job {number}"):
                begun.wait()
                applied.wait(20.0)
                book()
        except RunCancelled as error:
            found.append(error.note)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    begun.wait()
    recovery.apply(stopped(recovery))
    applied.set()
    for one in threads:
        one.join(20.0)
    assert found == [NOTE] * 4


def test_stopped_workflow_is_resumed_from_its_step(tmp_path: Path) -> None:
    lab = Lab()
    store = SqliteCheckpoints(tmp_path / "checkpoints.db")
    reserve, pay = lab.script("reserved", "reserved twice"), lab.script("paid")
    guarded = lab.recovery.guard("pay", idempotent=True)(pay)

    def work() -> None:
        with lab.recovery.run("refund"), Workflow("refund", "order-7", store=store, recovery=lab.recovery) as flow:
            assert flow.step("reserve", reserve) == "reserved"
            lab.recovery.apply(stopped(lab.recovery))
            flow.step("pay", guarded)

    with pytest.raises(RunCancelled) as caught:
        work()
    assert caught.value.resume_id
    lab.recovery.apply(Desired(revision=8))
    with (
        lab.recovery.run("refund"),
        Workflow("refund", "order-7", store=store, recovery=lab.recovery) as again,
    ):
        assert again.step("reserve", reserve) == "reserved"
        assert again.step("pay", guarded) == "paid"
    assert (reserve.calls, pay.calls) == (1, 1)


@pytest.mark.parametrize("is_resumed", [False, True])
def test_end_of_the_stop_restores_the_work(is_resumed: bool) -> None:
    lab = Lab()
    guarded = lab.recovery.guard("book", idempotent=True)(lab.script("one", "two"))
    lab.recovery.apply(stopped(lab.recovery, ends=lab.clock.wall() + 60.0))
    lab.clock.push(59.0)
    assert not lab.recovery.takes_new_work
    with pytest.raises(RunsPaused):
        guarded()
    if is_resumed:
        lab.recovery.apply(Desired(revision=8))
    else:
        lab.clock.push(1.0)
    assert guarded() == "one"
    with lab.recovery.run("mine"):
        assert guarded() == "two"
    assert statuses(lab) == [RunStatus.SUCCEEDED]


def test_expired_stop_aborts_no_run() -> None:
    lab = Lab()
    guarded = lab.recovery.guard("book", idempotent=True)(lab.script("one"))
    with lab.recovery.run("mine"):
        lab.recovery.apply(stopped(lab.recovery, ends=lab.clock.wall() - 1.0))
        assert guarded() == "one"


def test_stop_of_another_instance_changes_nothing() -> None:
    lab = Lab()
    guarded = lab.recovery.guard("book", idempotent=True)(lab.script("one", "two"))
    with lab.recovery.run("mine"):
        lab.recovery.apply(stopped(lab.recovery, instance="another"))
        assert guarded() == "one"
    assert guarded() == "two"


def test_stop_is_told_by_name_and_at_once() -> None:
    lab = Lab()
    assert beats(lab) == [("running", True, 0)]
    with lab.recovery.run("mine"):
        lab.recovery.apply(stopped(lab.recovery))
        assert beats(lab) == [("stopping", False, 1)]
        assert beats(lab) == [], "told once"
    assert beats(lab) == [(STOPPED, False, 0)]
    lab.recovery.apply(Desired(revision=8))
    assert beats(lab) == [("running", True, 0)]


def test_local_ceiling_rejects_the_stop_and_says_so() -> None:
    lab = Lab(limits=Limits(allow_pause=False))
    guarded = lab.recovery.guard("book", idempotent=True)(lab.script("one", "two"))
    with lab.recovery.run("mine"):
        assert lab.recovery.apply(stopped(lab.recovery)) == ("pz-1.pause",)
        assert guarded() == "one"
    assert guarded() == "two"


def test_guard_made_after_the_stop_is_stopped_too() -> None:
    lab = Lab()
    lab.recovery.apply(stopped(lab.recovery))
    with pytest.raises(RunsPaused):
        lab.recovery.guard("late", idempotent=True)(lab.script("one"))()


def test_agent_that_stops_itself_aborts_and_rejects() -> None:
    lab = Lab(limits=Limits(allow_pause=False))
    guarded = lab.recovery.guard("book", idempotent=True)(lab.script("one", "two"))

    def work() -> None:
        with lab.recovery.run("mine"):
            lab.recovery.stop_agent(WHY, by="ana", duration=60.0)
            guarded()

    with pytest.raises(RunCancelled) as caught:
        work()
    assert caught.value.note == NOTE
    with pytest.raises(RunsPaused) as rejected, lab.recovery.run("next"):
        pass
    assert (rejected.value.is_stop, rejected.value.note) == (True, NOTE)
    with pytest.raises(RunsPaused):
        guarded()
    assert [beat[0] for beat in beats(lab)] == [STOPPED]
    lab.clock.push(59.0)
    assert not lab.recovery.takes_new_work
    lab.clock.push(1.0)
    assert guarded() == "one"


def test_documents_of_the_console_leave_an_own_stop() -> None:
    lab = Lab()
    lab.recovery.stop_agent(WHY, duration=600.0)
    lab.recovery.apply(Desired(revision=8))
    assert not lab.recovery.takes_new_work
    lab.recovery.apply(stopped(lab.recovery, revision=9))
    assert lab.recovery.resume_agent()
    assert not lab.recovery.takes_new_work, "the operator's stop stays"
    lab.recovery.apply(Desired(revision=10))
    assert lab.recovery.takes_new_work
    assert not lab.recovery.resume_agent()


def test_second_own_stop_replaces_the_first() -> None:
    lab = Lab()
    lab.recovery.stop_agent(WHY, duration=600.0)
    lab.recovery.stop_agent(WHY, duration=60.0)
    lab.clock.push(60.0)
    assert lab.recovery.takes_new_work
    assert not lab.recovery.resume_agent(), "it has ended by itself"


@pytest.mark.parametrize(
    ("reason", "duration"),
    [
        *(("", 60.0), (" ", 60.0), (None, 60.0)),
        *((WHY, 0.0), (WHY, 86_400.1), (WHY, float("nan")), (WHY, -1), (WHY, None), (WHY, "60"), (WHY, True)),
    ],
)
def test_own_stop_needs_a_reason_and_an_end(reason: Any, duration: Any) -> None:
    lab = Lab()
    with pytest.raises(ConfigurationError):
        lab.recovery.stop_agent(reason, duration=duration)
    assert lab.recovery.takes_new_work
