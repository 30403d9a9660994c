"""The rung before the last: a person is asked, the user who is there or a queue; deadlines stand still meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.runtime import RecoveryExhausted, RunCancelled, StopRun
from recovery_ops.runtime.testing import Lab
from tests.runtime.tools.toolboxes import open_tool, registry_of, use

HARMLESS: dict[str, Any] = {"idempotent": True, "max_retries": 0}


class Denied(Exception):
    kind = "policy_denied"


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


@pytest.fixture(params=["thread", "task"])
def call(request: pytest.FixtureRequest, lab: Lab) -> Callable[..., Any]:
    """Calls a script behind a guard, in a thread or in a task."""

    def called(script: Any, *, source: str = "main_agent", deadline_s: float | None = None, **said: Any) -> Any:
        if request.param == "thread":
            with lab.recovery.run(source=source, timeout=deadline_s):
                return lab.recovery.guard("book", **HARMLESS | said)(script)()

        async def task() -> Any:
            async def answer() -> Any:
                return script()

            async with lab.recovery.run(source=source, timeout=deadline_s):
                return await lab.recovery.guard("book", **HARMLESS | said)(answer)()

        return asyncio.run(task())

    return called


def named(lab: Lab, **rows: Any) -> None:
    lab.recovery.apply(Desired(revision=1, policy=parse_policy({"escalations": rows})))


def test_the_users_yes_makes_the_call_once_more(lab: Lab, call: Callable[..., Any]) -> None:
    script = lab.script(Denied(), "booked")
    asked: list[events.Escalated] = []

    def hears(question: events.Escalated) -> bool:
        asked.append(question)
        return True

    assert call(script, ask_user=hears) == "booked"
    assert [(one.operation, one.queue, one.reason, one.default_action) for one in asked] == [
        ("book", "policy_review", "policy_denied", "deny")
    ]
    assert script.calls == 2
    assert lab.events_of(events.Escalated) == []
    assert [one.attempt for one in lab.events_of(events.AttemptSucceeded)] == [2]


@pytest.mark.parametrize("answer", [False, None, "yes", 1])
def test_anything_but_yes_leaves_the_failure(lab: Lab, call: Callable[..., Any], answer: object) -> None:
    script = lab.script(Denied())
    with pytest.raises(RecoveryExhausted) as exhausted:
        call(script, ask_user=lambda question: answer)
    assert (script.calls, exhausted.value.steps) == (1, ("retry", "ask_a_person", "fail"))


def test_silence_is_the_default_answer(lab: Lab, call: Callable[..., Any]) -> None:
    named(lab, quota_exhausted={"queue": "quota", "default_answer": "allow"})
    error = Exception("no money")
    error.kind = "quota_exhausted"  # type: ignore[attr-defined]  # as an adapter says it
    assert call(lab.script(error, "paid"), ask_user=lambda question: None) == "paid"


def test_one_yes_is_one_attempt(lab: Lab, call: Callable[..., Any]) -> None:
    script = lab.script(Denied(), 503, "booked")
    with pytest.raises(RecoveryExhausted) as exhausted:
        call(script, ask_user=lambda question: True, max_retries=3)
    assert (script.calls, exhausted.value.attempts) == (2, 2)


def test_in_background_the_queue_is_asked_with_a_deadline(lab: Lab, call: Callable[..., Any]) -> None:
    named(lab, policy_denied={"queue": "policy_review", "deadline_s": 600})
    with pytest.raises(RecoveryExhausted):
        call(lab.script(Denied()), source="nightly", ask_user=lambda question: True)
    (fact,) = lab.events_of(events.Escalated)
    assert (fact.queue, fact.deadline_s, fact.default_action) == ("policy_review", 600.0, "deny")


def test_what_an_upstream_forbids_is_not_the_users_to_allow(lab: Lab, call: Callable[..., Any]) -> None:
    script = lab.script(403)
    with pytest.raises(StopRun):
        call(script, ask_user=lambda question: True)
    assert script.calls == 1
    assert [one.queue for one in lab.events_of(events.Escalated)] == ["policy_review"]


def test_other_failures_ask_only_where_a_queue_is_named_and_after_everything_else(
    lab: Lab, call: Callable[..., Any]
) -> None:
    for number, fallback in enumerate((None, lab.script("cached"))):
        assert number == 0 or call(lab.script(ValueError()), fallback=fallback) == "cached"
    with pytest.raises(RecoveryExhausted):
        call(lab.script(ValueError()))
    assert lab.events_of(events.Escalated) == []
    named(lab, bug={"queue": "developers"})
    with pytest.raises(RecoveryExhausted) as exhausted:
        call(lab.script(ValueError()))
    assert [one.queue for one in lab.events_of(events.Escalated)] == ["developers"]
    assert exhausted.value.steps == ("retry", "ask_a_person", "fail")


def test_a_hook_that_raises_is_told_and_counts_as_silence(lab: Lab, call: Callable[..., Any]) -> None:
    def broken(question: events.Escalated) -> bool:
        raise OSError("no terminal")

    with pytest.raises(RecoveryExhausted):
        call(lab.script(Denied()), ask_user=broken)
    assert [one.hook for one in lab.events_of(events.HookFailed)] == ["ask_user"]


def test_deadlines_stand_still_while_a_person_thinks(lab: Lab, call: Callable[..., Any]) -> None:
    def thinks(question: events.Escalated) -> bool:
        lab.clock.push(3600.0)
        return True

    assert call(lab.script(Denied(), "booked"), ask_user=thinks, attempt_timeout=10.0) == "booked"


def test_the_run_goes_on_for_as_long_as_was_left_of_it(lab: Lab) -> None:
    def thinks(question: events.Escalated) -> bool:
        lab.clock.push(3600.0)
        return True

    other = lab.recovery.guard("other", idempotent=True)(lab.script("done"))
    book = lab.recovery.guard("book", ask_user=thinks, **HARMLESS)(lab.script(Denied(), "booked"))
    with lab.recovery.run(source="main_agent", timeout=10.0) as run:
        lab.clock.push(4.0)
        book()
        assert run.scope.deadline_at - lab.clock.now() == pytest.approx(6.0)
        assert other.outcome().value == "done"


def test_asking_for_permission_suspends_the_run_too(lab: Lab) -> None:
    def thinks(tool: object, arguments: object, reason: str) -> bool:
        lab.clock.push(3600.0)
        return True

    script = lab.script("paid")
    registry = registry_of(
        lab, open_tool("pay", script, require_permission=True), permission=lambda tool, args: "no", ask_person=thinks
    )
    with lab.recovery.run(source="main_agent", timeout=10.0) as run:
        for number in range(4):
            registry.run_tool(use("pay", str(number)))
        assert run.scope.deadline_at - lab.clock.now() == pytest.approx(10.0)
    assert script.calls == 1


def test_a_task_does_not_wait_for_a_person_beyond_the_deadline_of_the_question(lab: Lab) -> None:
    named(lab, policy_denied={"queue": "policy_review", "deadline_s": 1})

    async def never(question: events.Escalated) -> bool:
        await asyncio.Event().wait()
        return True

    async def answer() -> str:
        raise Denied

    async def task() -> None:
        async with lab.recovery.run(source="main_agent"):
            await lab.recovery.guard("book", ask_user=never, **HARMLESS)(answer)()

    with pytest.raises(RecoveryExhausted):
        asyncio.run(task())


def test_a_cancel_while_a_person_thinks_passes_and_leaves_nothing_behind(lab: Lab) -> None:
    async def answer() -> str:
        raise Denied

    async def cancelled(question: events.Escalated) -> bool:
        raise asyncio.CancelledError

    guarded = lab.recovery.guard("book", ask_user=cancelled, **HARMLESS)(answer)

    async def task() -> None:
        async with lab.recovery.run(source="main_agent"):
            await guarded()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(task())
    assert in_flight(lab) == 0


def in_flight(lab: Lab) -> int:
    lab.recovery.flush()
    return sum(one.in_flight for one in lab.events_of(events.CallsCounted)[-1:])


class TestCancellingARun:
    def test_a_wait_ends_at_once_and_nothing_is_tried_again(self, lab: Lab) -> None:
        script = lab.script(503)
        guarded = lab.recovery.guard("book", idempotent=True, base_delay=100.0)(script)
        with lab.recovery.run(source="main_agent", timeout=1000.0) as run:
            lab.waker.at(7.0, run.cancel)
            began = lab.clock.now()
            with pytest.raises(RunCancelled):
                guarded()
        assert lab.clock.now() - began == pytest.approx(7.0)
        assert script.calls == 1

    def test_a_task_that_waits_is_woken_too(self, lab: Lab) -> None:
        async def answer() -> str:
            raise TimeoutError

        async def task() -> None:
            guarded = lab.recovery.guard("book", idempotent=True, base_delay=100.0)(answer)
            async with lab.recovery.run(source="main_agent", timeout=1000.0) as run:
                lab.waker.at(7.0, run.cancel)
                with pytest.raises(RunCancelled):
                    await guarded()

        asyncio.run(task())
        assert lab.waits == [30.0]

    def test_no_turn_and_no_tool_call_is_given_any_more(self, lab: Lab) -> None:
        script = lab.script("done")
        registry = registry_of(lab, open_tool("book", script))
        with lab.recovery.run(source="main_agent") as run, lab.recovery.run() as inner:
            run.cancel()
            assert not registry.run_tool(use("book")).is_error
            with pytest.raises(RunCancelled):
                inner.turn()
        assert script.calls == 0
