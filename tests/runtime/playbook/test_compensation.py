"""`dispatch_failure` in threads and tasks: real calls, pushed time, the facts read back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired, Override
from recovery_ops.rules.enums import Category, Compensation, CompensationOutcome, State, Verdict
from recovery_ops.rules.playbook.verdicts import BUILT_IN_PLAYBOOK, playbook_document
from recovery_ops.rules.policy.model import PolicyInvalid
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.runtime import (
    CircuitOpen,
    ConfigurationError,
    DeadlineExceeded,
    Recovery,
    RecoveryExhausted,
    Response,
    RetryAfterActive,
    StopRun,
    attempt,
)
from recovery_ops.runtime.playbook.results import CompensationResult
from recovery_ops.runtime.playbook.reversal import ReversalToken
from recovery_ops.runtime.testing import HttpError, Lab

Outcome = CompensationOutcome
Dispatch = Callable[..., CompensationResult]


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


def in_a_thread(recovery: Recovery, failure: Any, **said: Any) -> CompensationResult:
    """The form for threads."""
    return recovery.dispatch_failure(failure, **said)


def in_a_task(recovery: Recovery, failure: Any, **said: Any) -> CompensationResult:
    """The form for tasks, with every callable of the caller as a coroutine function."""

    def as_coroutine(called: Callable[..., Any]) -> Callable[..., Any]:
        async def awaited(*args: Any) -> Any:
            await asyncio.sleep(0)
            return called(*args)

        return awaited

    callables = {name: as_coroutine(one) for name, one in said.items() if callable(one)}

    async def whole() -> CompensationResult:
        return await recovery.dispatch_failure_async(failure, **said | callables)

    return asyncio.run(whole())


@pytest.fixture(params=[in_a_thread, in_a_task], ids=["thread", "task"])
def dispatch(request: pytest.FixtureRequest, lab: Lab) -> Dispatch:
    """Either form, at home in the lab, for somebody who waits."""

    def both(failure: Any, **said: Any) -> CompensationResult:
        found: CompensationResult = request.param(
            lab.recovery, failure, **{"operation": "book", "foreground": True, **said}
        )
        return found

    return both


def kinds(lab: Lab) -> list[type[events.Event]]:
    return [type(fact) for fact in lab.events]


def test_a_timeout_is_tried_again_after_the_schedule(lab: Lab, dispatch: Dispatch) -> None:
    script = lab.script(TimeoutError(), TimeoutError(), "booked")
    result = dispatch(TimeoutError(), retry=script, idempotent=True)
    assert (result.value, result.attempts, result.is_success) == ("booked", 3, True)
    assert lab.waits == pytest.approx([0.2, 0.6, 1.8])
    assert [fact.attempt for fact in lab.events_of(events.FailureClassified)] == [1, 2, 3]
    (finished,) = lab.events_of(events.CompensationFinished)
    assert (finished.outcome, finished.attempts) == (Outcome.SUCCEEDED_AFTER_COMPENSATION, 3)


def test_the_failure_is_told_before_the_retry_is_made(lab: Lab, dispatch: Dispatch) -> None:
    told: list[int] = []
    dispatch(HttpError(500), retry=lambda: told.append(len(lab.events)), idempotent=True)
    assert kinds(lab)[0] is events.FailureClassified
    assert told == [2]  # the failure, and that there will be a retry


def test_used_up_retries_leave_the_last_error(lab: Lab, dispatch: Dispatch) -> None:
    error = HttpError(502)
    result = dispatch(HttpError(500), retry=lab.script(HttpError(503), error), idempotent=True)
    assert (result.outcome, result.reason, result.error) == (Outcome.EXHAUSTED, "attempts", error)
    assert result.advice


def test_an_unknown_error_goes_to_the_unclassified_inbox(lab: Lab, dispatch: Dispatch) -> None:
    asked: list[events.Escalated] = []
    script = lab.script("never")
    result = dispatch(Exception("nobody knows"), retry=script, idempotent=True, escalate=asked.append)
    assert (result.outcome, result.queue, script.calls) == (Outcome.ESCALATED, "unclassified", 0)
    assert [question.escalation_id for question in asked] == [result.escalation_id]
    assert lab.events_of(events.Escalated) == asked


def test_a_used_key_means_it_already_happened(lab: Lab, dispatch: Dispatch) -> None:
    error = HttpError(Response(409, body={"error": {"code": "idempotency_key_in_use"}}))
    result = dispatch(error, retry=lab.script("twice"), idempotent=True)
    assert (result.verdict, result.outcome) == (Verdict.IDEMPOTENCY_CONFLICT, Outcome.DEPRECATED)
    assert result.needs_new_plan
    assert "already happened" in result.advice


def test_stale_evidence_is_read_again_before_the_one_retry(lab: Lab, dispatch: Dispatch) -> None:
    order: list[str] = []
    result = dispatch(
        HttpError(412),
        retry=lambda: order.append("retry"),
        refresh_evidence=lambda: order.append("refresh"),
        idempotent=True,
    )
    assert (order, result.is_success) == (["refresh", "retry"], True)


def test_evidence_that_cannot_be_read_means_a_new_plan(lab: Lab, dispatch: Dispatch) -> None:
    script = lab.script("blind")
    result = dispatch(HttpError(412), retry=script, refresh_evidence=lab.script(OSError()), idempotent=True)
    assert (result.outcome, result.reason, script.calls) == (Outcome.DEPRECATED, "refresh_failed", 0)
    assert [fact.hook for fact in lab.events_of(events.HookFailed)] == ["refresh_evidence"]


def test_a_mismatch_leaves_a_ticket_for_whoever_looks_after_the_adapter(lab: Lab, dispatch: Dispatch) -> None:
    class Mismatch(Exception):
        kind = "schema_mismatch"

    result = dispatch(Mismatch())
    assert (result.outcome, result.queue) == (Outcome.DEPRECATED, "adapter_owner")
    assert [fact.queue for fact in lab.events_of(events.Escalated)] == ["adapter_owner"]


def test_a_hook_that_raises_changes_nothing(lab: Lab, dispatch: Dispatch) -> None:
    result = dispatch(HttpError(403), escalate=lab.script(ValueError("no pager")))
    assert (result.outcome, result.queue) == (Outcome.ESCALATED, "policy_review")
    assert [fact.hook for fact in lab.events_of(events.HookFailed)] == ["escalate"]


def test_what_is_not_said_is_the_most_restrictive(lab: Lab) -> None:
    script = lab.script("twice")
    result = lab.recovery.dispatch_failure(TimeoutError(), retry=script)
    assert (result.reason, script.calls) == ("may_do_harm_twice", 0)
    overloaded = lab.recovery.dispatch_failure(HttpError(529), retry=script)
    assert overloaded.reason == "capacity_in_background"


def test_a_run_says_who_waits_and_when_it_is_over(lab: Lab) -> None:
    script = lab.script("booked")
    with lab.recovery.run(source="main_agent", timeout=10.0):
        answered = lab.recovery.dispatch_failure(HttpError(529), retry=script)
        late = HttpError(Response(429, {"retry-after": "30"}))
        refused = lab.recovery.dispatch_failure(late, retry=script)
    assert answered.is_success
    assert (refused.reason, script.calls) == ("deadline", 1)
    assert refused.retry_at is not None
    assert refused.retry_at.timestamp() == pytest.approx(lab.clock.wall() + 30.0)


def test_a_key_travels_with_each_retry_and_allows_it(lab: Lab, dispatch: Dispatch) -> None:
    keys: list[str | None] = []

    def again() -> None:
        keys.append(attempt().idempotency_key)
        if len(keys) < 2:
            raise TimeoutError

    assert dispatch(TimeoutError(), retry=again, idempotency_key="order-7").is_success
    assert keys == ["order-7", "order-7"]


def test_key_of_the_attempt_around_travels_with_each_retry(lab: Lab) -> None:
    keys: list[str | None] = []

    def book(order: str) -> bool:
        retry = lab.script(TimeoutError(), "booked")

        def again() -> Any:
            keys.append(attempt().idempotency_key)
            return retry()

        said: dict[str, Any] = {"operation": "book", "idempotent": True, "retry": again}
        return lab.recovery.dispatch_failure(TimeoutError(), **said).is_success

    assert lab.recovery.guard("book", idempotency_key=lambda order: order)(book)("order-7")
    assert keys == ["order-7", "order-7"]


def test_what_a_guard_has_told_is_not_told_again(lab: Lab, dispatch: Dispatch) -> None:
    guarded = lab.recovery.guard("book")(lab.script(TimeoutError()))
    with pytest.raises(RecoveryExhausted) as failed:
        guarded()
    before = len(lab.events_of(events.FailureClassified))
    result = dispatch(failed.value, operation="", retry=guarded, idempotent=True)
    assert result.outcome is Outcome.EXHAUSTED
    assert before == 1
    assert len(lab.events_of(events.FailureClassified)) == 1 + 3  # one for each retry, by the guard
    assert {fact.operation for fact in lab.events} == {"book"}


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (CircuitOpen("book", breaker="book", state=State.OPEN), "breaker_open"),
        (RetryAfterActive("book"), "gate_closed"),
        (DeadlineExceeded("book"), "deadline"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_refused_retry_ends_with_its_reason(lab: Lab, dispatch: Dispatch, refusal: Exception, reason: str) -> None:
    script = lab.script(refusal, "twice")
    result = dispatch(TimeoutError(), retry=script, idempotent=True)
    assert (result.outcome, result.reason, script.calls) == (Outcome.EXHAUSTED, reason, 1)


def test_a_refused_call_is_no_failure(lab: Lab, dispatch: Dispatch) -> None:
    result = dispatch(CircuitOpen("book", breaker="book", state=State.OPEN))
    assert (result.outcome, result.reason, result.compensation) == (Outcome.EXHAUSTED, "refused", None)
    assert lab.events == []


def tripped(lab: Lab) -> Desired:
    now = lab.clock.wall()
    trip = Override(
        id="ov-1",
        mode=State.FORCED_OPEN,
        scope=Scope(operation="book"),
        reason="down",
        by="Ana",
        starts_at=now,
        expires_at=now + 600,
        revision=1,
    )
    return Desired(revision=1, overrides=(trip,))


def test_a_trip_in_the_middle_of_a_wait_ends_it(lab: Lab, dispatch: Dispatch) -> None:
    lab.recovery.operations.named("book")
    lab.waker.at(0.1, lambda: lab.recovery.apply(tripped(lab)))
    script = lab.script("booked")
    result = dispatch(TimeoutError(), retry=script, idempotent=True)
    assert (result.reason, script.calls) == ("breaker_open", 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StopRun(Category.PERMISSION, "no")])
def test_what_is_not_a_failure_is_raised(lab: Lab, dispatch: Dispatch, error: BaseException) -> None:
    with pytest.raises(type(error)):
        dispatch(error)
    with pytest.raises(type(error)):
        dispatch(TimeoutError(), retry=lab.script(error), idempotent=True)
    assert events.CompensationFinished not in kinds(lab)


def test_a_cancel_of_the_task_passes_through(lab: Lab) -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    async def whole() -> None:
        task = asyncio.create_task(lab.recovery.dispatch_failure_async(TimeoutError(), retry=hangs, idempotent=True))
        while not lab.events_of(events.RetryScheduled):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(whole())


def test_the_thread_form_says_what_to_do_about_a_coroutine(lab: Lab) -> None:
    async def again() -> None: ...

    for said in ({"retry": again}, {"refresh_evidence": again}, {"reversal": ReversalToken("book", "a", again)}):
        with pytest.raises(ConfigurationError, match="again is async: use dispatch_failure_async"):
            lab.recovery.dispatch_failure(TimeoutError(), **said)


def test_threads_and_tasks_tell_the_same_facts() -> None:
    told = []
    for form in (in_a_thread, in_a_task):
        lab = Lab(reraise=False)
        form(
            lab.recovery,
            HttpError(500),
            operation="book",
            retry=lab.script(TimeoutError(), HttpError(403), takes_s=0.5),
            foreground=True,
            idempotent=True,
        )
        told.append(
            [(type(fact), getattr(fact, "category", None), getattr(fact, "duration_s", None)) for fact in lab.events]
        )
    assert told[0] == told[1]
    assert len(told[0]) == 7


def reversing() -> dict[str, Any]:
    entry = {"compensation": "issue_reversal"}
    return playbook_document(BUILT_IN_PLAYBOOK) | {"schema_mismatch": entry, "idempotency_conflict": entry}


USED_KEY = Response(409, body={"error": {"code": "idempotency_key_in_use"}})


def test_a_token_undoes_its_call_once(lab: Lab, dispatch: Dispatch, request: pytest.FixtureRequest) -> None:
    undone: list[str] = []
    token = ReversalToken("book", request.node.name, lambda: undone.append("refund"))
    first = dispatch(USED_KEY, reversal=token, playbook=reversing())
    again = dispatch(USED_KEY, reversal=token, playbook=reversing())
    assert (first.outcome, first.compensation) == (Outcome.REVERSED, Compensation.ISSUE_REVERSAL)
    assert (again.outcome, again.reason, undone) == (Outcome.EXHAUSTED, "token_already_redeemed", ["refund"])
    assert [fact.reason for fact in lab.events_of(events.ReversalRefused)] == ["token_already_redeemed"]


def test_without_its_token_nothing_is_undone(lab: Lab, dispatch: Dispatch) -> None:
    other = ReversalToken("pay", "order-7", lab.script("undone"))
    assert dispatch(USED_KEY, playbook=reversing()).reason == "no_token"
    assert dispatch(USED_KEY, playbook=reversing(), reversal=other).reason == "token_of_another_call"
    assert [fact.action_id for fact in lab.events_of(events.ReversalRefused)] == [None, "order-7"]


def test_a_token_is_not_used_where_the_playbook_does_not_say_so(lab: Lab, dispatch: Dispatch) -> None:
    undo = lab.script("undone")
    dispatch(USED_KEY, reversal=ReversalToken("book", "order-8", undo))
    assert undo.calls == 0


def test_a_playbook_that_is_none_is_refused(lab: Lab, dispatch: Dispatch) -> None:
    with pytest.raises(PolicyInvalid, match="every verdict needs an entry"):
        dispatch(TimeoutError(), playbook={"transient_timeout": {"compensation": "deprecate_tool_call"}})
