"""New work that a person has paused: nothing is begun, what is under way goes on, and the process says so."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Literal

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired, Pause
from recovery_ops.runtime import Deadline, DeadlineExceeded, Limits, Recovery, RunCancelled, RunsPaused
from recovery_ops.runtime.aio.waker import Waker
from recovery_ops.runtime.testing import Lab, RecordedEvents

WHY = "the ledger moves"
OnPause = Literal["reject", "wait"]


def lab_of(on_pause: OnPause = "reject") -> Lab:
    lab = Lab()
    lab.recovery.on_pause = on_pause
    return lab


def paused(lab: Lab, *, lasts_s: float | None = None, instance: str = "", revision: int = 7) -> Desired:
    """A document by which no new work is to be begun."""
    ends = None if lasts_s is None else lab.clock.wall() + lasts_s
    service = lab.recovery.instance.service
    held = Pause(id="pz-1", service=service, instance=instance, by="ana", reason=WHY, expires_at=ends)
    return Desired(revision=revision, pauses=(held,))


def enter(lab: Lab, is_task: bool, **said: Any) -> None:
    """Begin a run and end it, in a thread or a task."""

    async def task() -> None:
        async with lab.recovery.run("refund", **said):
            pass

    if is_task:
        asyncio.run(task())
    else:
        with lab.recovery.run("refund", **said):
            pass


def beats(lab: Lab) -> list[tuple[str, bool | None, int]]:
    """What it said of itself since it was asked last."""
    lab.recovery.housekeep()
    found = [(one.status, one.takes_new_work, one.runs_in_flight) for one in lab.events_of(events.InstanceHeartbeat)]
    lab.events.clear()
    return found


@pytest.mark.parametrize("is_task", [False, True])
@pytest.mark.parametrize("source", ["main_agent", ""])
def test_a_new_run_is_refused_in_front_and_behind_and_says_who_why_and_until_when(is_task: bool, source: str) -> None:
    lab = lab_of()
    lab.recovery.apply(paused(lab, lasts_s=60.0))
    assert not lab.recovery.takes_new_work
    with pytest.raises(RunsPaused, match=f"refund was not begun: new work is paused \\(ana: {WHY}\\); try") as caught:
        enter(lab, is_task, source=source)
    assert caught.value.note == f"ana: {WHY}"
    assert caught.value.retry_at is not None
    assert caught.value.retry_at.timestamp() == lab.clock.wall() + 60.0
    assert not lab.recovery.runs_in_flight
    assert not lab.events_of(events.RunStarted), "what was not begun is not told"
    lab.recovery.apply(Desired(revision=8))
    assert lab.recovery.takes_new_work
    enter(lab, is_task)


def test_what_is_under_way_goes_on_with_the_runs_inside_of_it_and_the_calls() -> None:
    lab = lab_of()
    guarded = lab.recovery.guard("book", idempotent=True)(lab.script("one", "two", "three"))
    with lab.recovery.run("mine", run_id="r-1"):
        lab.recovery.apply(paused(lab))
        with lab.recovery.run("inner"):
            assert guarded() == "one"
        with lab.recovery.run("the same run, in another place", run_id="r-1"):
            assert guarded() == "two"
    assert guarded() == "three", "a call outside of runs is no run"
    with pytest.raises(RunsPaused), Deadline(5.0), lab.recovery.run("a deadline is no run"):
        pass


def test_it_ends_by_the_agents_own_clock() -> None:
    lab = lab_of()
    lab.recovery.apply(paused(lab, lasts_s=60.0))
    lab.clock.push(59.0)
    assert not lab.recovery.takes_new_work
    lab.clock.push(1.0)
    enter(lab, is_task=False)


def test_who_is_not_meant_takes_work() -> None:
    lab = lab_of()
    lab.recovery.apply(paused(lab, instance="another"))
    enter(lab, is_task=False)
    lab.recovery.apply(paused(lab, instance=lab.recovery.instance.instance))
    assert not lab.recovery.takes_new_work


@pytest.mark.parametrize("is_task", [False, True])
def test_who_would_rather_wait_waits_for_the_end_or_for_somebody(is_task: bool) -> None:
    lab = lab_of("wait")
    lab.recovery.apply(paused(lab, lasts_s=20.0))
    began = lab.clock.now()
    enter(lab, is_task, timeout=5.0)
    assert lab.clock.now() - began == pytest.approx(20.0, abs=0.01), "its deadline counts from its beginning"
    lab.recovery.apply(paused(lab))
    lab.waker.at(12.0, lambda: lab.recovery.apply(Desired(revision=9)))
    enter(lab, is_task)
    assert lab.clock.now() - began == pytest.approx(32.0, abs=0.01)


def test_who_waits_can_be_called_off_and_is_refused_when_the_process_ends() -> None:
    lab = lab_of("wait")
    lab.recovery.apply(paused(lab))
    run = lab.recovery.run("refund")
    lab.waker.at(2.0, run.cancel)
    with pytest.raises(RunCancelled), run:
        pass
    lab.waker.at(2.0, lab.recovery.close)
    with pytest.raises(RunsPaused):
        enter(lab, is_task=False)


def test_who_waits_waits_no_longer_than_the_deadline_around() -> None:
    lab = lab_of("wait")
    lab.recovery.apply(paused(lab, lasts_s=60.0))
    began = lab.clock.now()
    with pytest.raises(DeadlineExceeded, match="refund"), Deadline(7.0, clock=lab.clock):
        enter(lab, is_task=False)
    assert lab.clock.now() - began == pytest.approx(7.0, abs=0.01)
    assert not lab.recovery.runs_in_flight


@pytest.mark.parametrize("is_task", [False, True])
def test_a_worker_asks_before_it_takes_a_job(is_task: bool) -> None:
    lab = lab_of()

    def wait(timeout_s: float | None = None) -> bool:
        if is_task:
            return asyncio.run(lab.recovery.wait_for_work_async(timeout_s))
        return lab.recovery.wait_for_work(timeout_s)

    assert wait()
    lab.recovery.apply(paused(lab, lasts_s=60.0))
    began = lab.clock.now()
    assert not wait(7.0)
    assert lab.clock.now() - began == pytest.approx(7.0)
    assert wait()
    assert lab.clock.now() - began == pytest.approx(60.0, abs=0.01)


def test_threads_that_wait_begin_when_somebody_takes_it_back() -> None:
    recovery = Recovery(
        "billing", on_pause="wait", sink=RecordedEvents(), waker=Waker(), is_background_work_wanted=False
    )
    recovery.apply(Desired(pauses=(Pause(id="pz-1", service="billing"),)))
    begun, waiting = [], threading.Barrier(5)

    def work(number: int) -> None:
        waiting.wait()
        with recovery.run(f"job {number}"):
            begun.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    waiting.wait()
    assert begun == []
    recovery.apply(Desired(revision=1))
    for one in threads:
        one.join(20.0)
    assert sorted(begun) == [0, 1, 2, 3]


def test_it_tells_at_once_how_it_stands_and_that_none_is_left() -> None:
    lab = lab_of()
    assert beats(lab) == [("running", True, 0)]
    with lab.recovery.run("mine"):
        lab.recovery.apply(paused(lab))
        assert beats(lab) == [("draining", False, 1)]
        assert beats(lab) == [], "told once"
    assert beats(lab) == [("drained", False, 0)]
    lab.recovery.apply(Desired(revision=8))
    assert beats(lab) == [("running", True, 0)]


def test_a_ceiling_of_its_own_keeps_it_at_work_and_is_told() -> None:
    lab = Lab(limits=Limits(allow_pause=False))
    assert lab.recovery.apply(paused(lab)) == ("pz-1.pause",)
    enter(lab, is_task=False)
    assert beats(lab) == [("running", True, 0)]


def test_out_of_the_way_it_pauses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_OPS_OFF", "1")
    lab = lab_of()
    lab.recovery.apply(paused(lab))
    enter(lab, is_task=False)


@pytest.mark.parametrize("is_task", [False, True])
def test_rejected_run_can_be_entered_after_the_pause(is_task: bool) -> None:
    lab = lab_of()
    run = lab.recovery.run("refund")

    async def task() -> None:
        async with run:
            pass

    def enter_again() -> None:
        if is_task:
            asyncio.run(task())
        else:
            with run:
                pass

    lab.recovery.apply(paused(lab))
    with pytest.raises(RunsPaused):
        enter_again()
    lab.recovery.apply(Desired(revision=8))
    enter_again()
    assert len(lab.events_of(events.RunStarted)) == len(lab.events_of(events.RunFinished)) == 1
