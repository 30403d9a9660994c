"""A run that a person wants begun again: the agent's own function is called, once for each wish, whatever happens."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Abort, Desired, Pause, Retry
from recovery_ops.runtime import Recovery, RetryRequest, RunCancelled, Workflow
from recovery_ops.runtime.config.stream import STREAM_PATH
from recovery_ops.runtime.runs.retries import AT_ONCE
from recovery_ops.runtime.testing import Lab
from recovery_ops.wire import desired_document
from tests.support.http_server import Stream, event, serving, silent_until, stored
from tests.support.processes import eventually

WHY = "the bank is back"
PATIENCE_S = 30.0


class Hook:
    """What an agent gives; it can be waited for, and held until it may go on."""

    def __init__(self, *, is_held: bool = False, raises: Exception | None = None) -> None:
        self.asked: list[RetryRequest] = []
        self.threads: list[threading.Thread] = []
        self.may_end = threading.Event()
        self._come = threading.Condition()
        self._raises = raises
        if not is_held:
            self.may_end.set()

    def __call__(self, asked: RetryRequest) -> None:
        with self._come:
            self.asked.append(asked)
            self.threads.append(threading.current_thread())
            self._come.notify_all()
        assert self.may_end.wait(PATIENCE_S)
        if self._raises is not None:
            raise self._raises

    def came(self, count: int) -> list[RetryRequest]:
        """What it was asked, once it was asked so often and has ended each time."""
        with self._come:
            assert self._come.wait_for(lambda: len(self.asked) >= count, PATIENCE_S)
        if self.may_end.is_set():
            for thread in self.threads:
                thread.join(PATIENCE_S)
        return self.asked


def wish(run: str = "run-7", *, one_id: str = "again-1", **more: Any) -> Retry:
    given = {"service": "lab", "instance": "lab-1", "by": "ana", "reason": WHY} | more
    return Retry(id=one_id, run=run, **given)


def lab_of(hook: Hook | None, *wishes: Retry, directory: Path | None = None) -> Lab:
    """An agent that has been up for a minute, and was told these wishes."""
    lab = Lab(on_retry=hook, directory=directory)
    lab.recovery.apply(Desired(revision=7, retries=wishes))
    lab.clock.push(60.0)
    return lab


def settled(lab: Lab) -> None:
    """Some rounds, and the end of every thread that they began."""
    for _ in range(3):
        lab.recovery.housekeep()
        for thread in threading.enumerate():
            if thread.name == "recovery-ops-retry":
                thread.join(PATIENCE_S)


def test_it_is_asked_once_in_a_thread_of_its_own_with_who_why_and_the_input() -> None:
    hook = Hook()
    lab = lab_of(hook, wish(input='{"limit": 5}'))
    settled(lab)
    lab.recovery.apply(replace(lab.recovery.desired, revision=8))
    settled(lab)
    assert hook.came(1) == [RetryRequest(run="run-7", input='{"limit": 5}', by="ana", reason=WHY)]
    assert hook.threads[0] is not threading.current_thread()


def test_another_wish_for_the_same_run_is_another_time() -> None:
    hook = Hook()
    lab = lab_of(hook, wish(), wish(one_id="again-2", reason="the bank was not back"))
    settled(lab)
    assert {one.reason for one in hook.came(2)} == {WHY, "the bank was not back"}, "each in a thread of its own"


def test_what_is_for_others_is_left_to_them() -> None:
    hook = Hook()
    lab = lab_of(hook, wish(one_id="a", instance="lab-2"), wish(one_id="b", service="other"))
    settled(lab)
    assert hook.asked == []


def test_the_process_that_comes_after_does_not_do_it_again(tmp_path: Path) -> None:
    first, second = Hook(), Hook()
    settled(lab_of(first, wish(), directory=tmp_path))
    settled(lab_of(second, wish(), wish("run-8", one_id="again-2"), directory=tmp_path))
    assert [one.run for one in first.came(1)] == ["run-7"]
    assert [one.run for one in second.came(1)] == ["run-8"]


def test_it_is_noted_before_it_is_done(tmp_path: Path) -> None:
    hook = Hook(is_held=True)
    lab = lab_of(hook, wish(), directory=tmp_path)
    lab.recovery.housekeep()
    hook.came(1)
    noted = [path for path in tmp_path.rglob("retries/*") if path.read_text() == "again-1"]
    hook.may_end.set()
    settled(lab)
    assert len(noted) == 1, "killed now, the next process would know"


def test_what_cannot_be_noted_is_not_done_and_that_is_told(tmp_path: Path) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("where the directory should be")
    hook = Hook()
    lab = lab_of(hook, wish(), directory=blocked)
    settled(lab)
    assert hook.asked == []
    assert [one.hook for one in lab.events_of(events.HookFailed)] == ["on_retry"]


def test_a_hook_that_raises_is_told_with_the_run_and_is_not_asked_again() -> None:
    hook = Hook(raises=ValueError("no such order"))
    lab = lab_of(hook, wish())
    settled(lab)
    assert len(hook.came(1)) == 1
    [told] = lab.events_of(events.HookFailed)
    assert (told.hook, told.error_type, told.message) == ("on_retry", "ValueError", "no such order")
    assert lab.read.runs[lab.events.index(told)] == "run-7"


def test_a_function_that_only_promises_or_ends_its_program_is_told_as_one_that_raised() -> None:
    async def promises(asked: RetryRequest) -> None:
        raise AssertionError("nobody awaits it")

    def ends(asked: RetryRequest) -> None:
        sys.exit("usage: pay ORDER")

    for hook, error in ((promises, "TypeError"), (ends, "SystemExit")):
        lab = Lab(on_retry=hook)
        lab.recovery.apply(Desired(revision=7, retries=(wish(),)))
        lab.clock.push(60.0)
        settled(lab)
        assert [one.error_type for one in lab.events_of(events.HookFailed)] == [error]


def test_a_run_that_its_program_has_begun_meanwhile_is_not_begun_beside_itself() -> None:
    hook = Hook()
    lab = Lab(on_retry=hook)
    lab.clock.push(60.0)
    with lab.recovery.run("payout", run_id="run-7"):
        lab.recovery.apply(Desired(revision=7, retries=(wish(),)))
        settled(lab)
    settled(lab)
    assert hook.asked == []
    [told] = lab.events_of(events.HookFailed)
    assert told.message == "it is under way in this process already"


def test_nothing_is_begun_before_guards_are_declared() -> None:
    hook = Hook()
    lab = Lab(on_retry=hook)
    lab.recovery.apply(Desired(revision=7, retries=(wish(),)))
    settled(lab)
    assert hook.asked == []
    lab.clock.push(1.0)
    settled(lab)
    assert len(hook.came(1)) == 1


def test_while_new_work_is_paused_it_waits() -> None:
    hook = Hook()
    lab = lab_of(hook, wish())
    held = Pause(id="pz-1", service="lab", by="ana", reason="the ledger moves")
    lab.recovery.apply(Desired(revision=8, retries=(wish(),), pauses=(held,)))
    settled(lab)
    assert hook.asked == []
    lab.recovery.apply(Desired(revision=9, retries=(wish(),)))
    settled(lab)
    assert len(hook.came(1)) == 1


def test_many_are_begun_a_few_at_a_time() -> None:
    hook = Hook(is_held=True)
    lab = lab_of(hook, *(wish(f"run-{number}", one_id=f"again-{number}") for number in range(AT_ONCE + 2)))
    lab.recovery.housekeep()
    lab.recovery.housekeep()
    assert len(hook.came(AT_ONCE)) == AT_ONCE
    hook.may_end.set()
    settled(lab)
    assert len(hook.came(AT_ONCE + 2)) == AT_ONCE + 2


def test_what_only_the_disk_tells_may_have_been_taken_back_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that died while work was paused comes back, and the console is not to be had yet."""
    pause = Pause(id="pz-1", service="lab", by="ana", reason="the ledger moves", expires_at=time.time() + 0.5)
    gate, hook = threading.Event(), Hook()

    def said(revision: int, **wanted: Any) -> bytes:
        given: dict[str, Any] = {"environment": "dev", "policy": {"schema_version": 1}, "policy_version": "1"}
        given |= {"overrides": [], "resets": []}
        return event(desired_document(**given, issued_at=time.time(), revision=revision, **wanted), revision=revision)

    with serving(routes={STREAM_PATH: Stream(said(7, retries=[wish()], pauses=[pause]))}, otherwise=stored()) as server:
        more: dict[str, Any] = {"url": server.url, "key": "k", "instance": "lab-1", "directory": tmp_path}
        with closing(Recovery("lab", on_retry=hook, **more)) as first:
            eventually(lambda: first.desired.revision == 7 and any(tmp_path.rglob("desired.json")))
        later = Stream(said(8))
        server.routes[STREAM_PATH] = silent_until(gate, later)
        with closing(Recovery("lab", on_retry=hook, **more)) as second:
            assert second.desired.retries, "from the disk"
            eventually(lambda: second.takes_new_work)
            monkeypatch.setattr("recovery_ops.runtime.background_thread.SETTINGS_AFTER_S", 0.0)
            second.housekeep()
            gate.set()
            eventually(lambda: second.desired.revision == 8)
        later.cut()
    assert hook.asked == []


@pytest.mark.parametrize("takes", [True, False])
def test_a_heartbeat_says_whether_it_is_to_be_had(takes: bool) -> None:
    lab = lab_of(Hook() if takes else None, wish())
    lab.recovery.housekeep()
    assert {one.takes_retries for one in lab.events_of(events.InstanceHeartbeat)} == {takes}


def test_an_aborted_workflow_is_begun_again_from_its_checkpoint() -> None:
    done: list[str] = []
    lab: Lab

    def pay(order: str) -> str:
        done.append(f"pay {order}")
        return "paid"

    def tell(receipt: str) -> str:
        done.append(f"tell {receipt}")
        return "told"

    def work(order: str) -> None:
        with lab.recovery.run("refund", run_id=order), Workflow("refund", order, recovery=lab.recovery) as flow:
            receipt = flow.step("pay", pay, order)
            guarded = lab.recovery.guard("mail")(tell)
            flow.step("tell", guarded, receipt)

    lab = Lab(on_retry=lambda asked: work(asked.run))
    lab.recovery.apply(Desired(revision=7, aborts=(Abort(run="order-7", by="ana", reason="not now"),)))
    with pytest.raises(RunCancelled):
        work("order-7")
    lab.clock.push(60.0)
    lab.recovery.apply(Desired(revision=8, retries=(wish("order-7"),)))
    settled(lab)
    assert done == ["pay order-7", "tell paid"]
    assert [one.step for one in lab.events_of(events.CheckpointRestored)] == ["pay"]
    assert lab.read.runs.count("order-7") > 2
    assert len(lab.events_of(events.RunStarted)) == 2


def _child(recovery: Recovery, hook: Hook, answers: Any) -> None:
    recovery.clock.push(60.0)  # type: ignore[attr-defined]  # the laboratory's
    recovery.housekeep()
    for thread in threading.enumerate():
        if thread.name == "recovery-ops-retry":
            thread.join(PATIENCE_S)
    answers.put((recovery.instance.instance, [one.run for one in hook.asked]))


def test_a_child_of_a_fork_is_another_instance_and_is_asked_nothing_of_its_parents() -> None:
    hook = Hook()
    lab = lab_of(hook, wish())
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=_child, args=(lab.recovery, hook, answers))
    process.start()
    name, asked = answers.get(timeout=PATIENCE_S)
    process.join(PATIENCE_S)
    assert name.startswith("lab-1~")
    assert asked == []
    settled(lab)
    assert len(hook.came(1)) == 1


def test_turned_off_it_begins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_OPS_OFF", "1")
    hook = Hook()
    lab = lab_of(hook, wish())
    settled(lab)
    assert hook.asked == []
