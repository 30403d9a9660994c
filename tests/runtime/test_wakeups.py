"""A change just before a wait begins ends the wait at once: no wake-up is lost between a decision and its wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import trio

from recovery_ops.rules.desired_state import Abort, Answer, Desired, Pause
from recovery_ops.rules.events import Escalated
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.resilience.steps import Cause
from recovery_ops.runtime import Recovery, RecoveryExhausted, RunCancelled
from recovery_ops.runtime.aio.waker import Waker
from recovery_ops.runtime.testing import Lab, PushedClock, PushedWaker, RecordedEvents

Change = Callable[[], object]
WAYS = pytest.mark.parametrize("way", ["thread", "asyncio", "trio"])


class LateWaker(PushedWaker):
    """Lets one change happen when everything is decided and the wait has not begun."""

    def __init__(self, clock: PushedClock) -> None:
        super().__init__(clock)
        self.change: Change | None = None

    def wait(self, delay_s: float, since: int) -> Cause:
        self._happen()
        return super().wait(delay_s, since)

    async def wait_async(self, delay_s: float, since: int) -> Cause:
        self._happen()
        return await super().wait_async(delay_s, since)

    def _happen(self) -> None:
        change, self.change = self.change, None
        if change is not None:
            change()


@pytest.fixture
def lab() -> Lab:
    lab = Lab(reraise=False)
    lab.waker = lab.recovery.waker = LateWaker(lab.clock)
    return lab


def play(way: str, thread: Callable[[], Any], task: Callable[[], Any]) -> Any:
    if way == "thread":
        return thread()
    return asyncio.run(task()) if way == "asyncio" else trio.run(task)


def late(lab: Lab, change: Change) -> None:
    assert isinstance(lab.waker, LateWaker)
    lab.waker.change = change


def calling(lab: Lab, way: str, change: Callable[[Any], Change], **said: Any) -> Any:
    """A guarded call that fails, and waits 25 s before its retry: the change comes just before that wait."""
    said = {"idempotent": True, "base_delay": 25.0, **said}

    def thread() -> Any:
        with lab.recovery.run(source="main_agent", run_id="r-1", timeout=10_000.0) as run:
            late(lab, change(run))
            return lab.recovery.guard("search", **said)(lab.script(503, 503, "found"))()

    async def task() -> Any:
        async with lab.recovery.run(source="main_agent", run_id="r-1", timeout=10_000.0) as run:
            late(lab, change(run))
            return await lab.recovery.guard("search", **said)(lab.script_async(503, 503, "found"))()

    return play(way, thread, task)


@WAYS
def test_policy_before_a_wait_is_obeyed(lab: Lab, way: str) -> None:
    policy = parse_policy({"rules": [{"id": "r", "scope": {}, "settings": {"max_retries": 0}}]})
    began = lab.clock.now()
    with pytest.raises(RecoveryExhausted):
        calling(lab, way, lambda run: lambda: lab.recovery.apply(Desired(revision=1, policy=policy)))
    assert lab.clock.now() == began


@WAYS
def test_cancel_before_a_wait_ends_the_call(lab: Lab, way: str) -> None:
    began = lab.clock.now()
    with pytest.raises(RunCancelled):
        calling(lab, way, lambda run: run.cancel)
    assert lab.clock.now() == began


@WAYS
def test_abort_before_a_wait_ends_the_call(lab: Lab, way: str) -> None:
    began, abort = lab.clock.now(), Desired(revision=1, aborts=(Abort(run="r-1", by="ana", reason="stop"),))
    with pytest.raises(RunCancelled):
        calling(lab, way, lambda run: lambda: lab.recovery.apply(abort))
    assert lab.clock.now() == began


@WAYS
def test_trip_before_a_wait_reaches_the_fallback(lab: Lab, way: str) -> None:
    began = lab.clock.now()
    fallback = lab.script("second best") if way == "thread" else lab.script_async("second best")
    assert calling(lab, way, lambda run: lambda: lab.trip("search"), fallback=fallback) == "second best"
    assert lab.clock.now() == began


@WAYS
def test_answer_before_a_wait_is_taken(lab: Lab, way: str) -> None:
    def answer() -> None:
        ticket = lab.events_of(Escalated)[-1].escalation_id or ""
        answers = (Answer(ticket=ticket, decision="approved", by="ana"),)
        lab.recovery.apply(replace(lab.recovery.desired, revision=1, answers=answers))

    began = lab.clock.now()
    late(lab, answer)
    found = play(
        way,
        lambda: lab.recovery.escalate("Refund?"),
        lambda: lab.recovery.escalate_async("Refund?"),
    )
    assert (found.by, lab.clock.now()) == ("ana", began)


@WAYS
def test_end_of_a_pause_before_a_wait_begins_the_run(lab: Lab, way: str) -> None:
    async def task() -> bool:
        return await lab.recovery.wait_for_work_async()

    pause = Pause(id="p", service="lab")
    lab.recovery.apply(Desired(revision=1, pauses=(pause,)))
    began = lab.clock.now()
    late(lab, lambda: lab.recovery.apply(Desired(revision=2)))
    assert play(way, lab.recovery.wait_for_work, task)
    assert lab.clock.now() == began


@WAYS
@pytest.mark.parametrize("is_late", [True, False])
def test_cancel_of_its_run_ends_a_dispatch(lab: Lab, way: str, is_late: bool) -> None:
    retry = lab.script("found")

    def thread() -> Any:
        with lab.recovery.run(source="main_agent") as run:
            late(lab, run.cancel) if is_late else run.cancel()
            return lab.recovery.dispatch_failure(TimeoutError(), operation="x", retry=retry, idempotent=True)

    async def task() -> Any:
        async with lab.recovery.run(source="main_agent") as run:
            late(lab, run.cancel) if is_late else run.cancel()
            return await lab.recovery.dispatch_failure_async(
                TimeoutError(), operation="x", retry=retry, idempotent=True
            )

    began = lab.clock.now()
    with pytest.raises(RunCancelled):
        play(way, thread, task)
    assert (retry.calls, lab.clock.now()) == (0, began)


@WAYS
def test_waker_ends_a_wait_that_begins_late(way: str) -> None:
    waker = Waker()
    since = waker.changes
    waker.wake_all()
    found = play(way, lambda: waker.wait(3600.0, since), lambda: waker.wait_async(3600.0, since))
    assert found is Cause.CHANGED


@WAYS
def test_wait_without_change_takes_its_time(way: str) -> None:
    waker = Waker()
    since = waker.changes
    found = play(way, lambda: waker.wait(0.001, since), lambda: waker.wait_async(0.001, since))
    assert found is Cause.ELAPSED


def test_closed_client_wakes_a_late_wait() -> None:
    clock = PushedClock()
    waker = LateWaker(clock)
    recovery = Recovery(
        "late", url="", clock=clock, waker=waker, sink=RecordedEvents(), is_background_work_wanted=False, reraise=False
    )
    recovery.apply(Desired(revision=1, pauses=(Pause(id="p", service="late"),)))
    waker.change = recovery.close
    began = clock.now()
    assert not recovery.wait_for_work()
    assert clock.now() == began
