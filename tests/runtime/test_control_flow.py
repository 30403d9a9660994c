"""A framework's control flow passes guards, tools, hooks and runs untouched, and counts nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import CallsCounted, Event, FailureClassified, RunFinished, RunStarted
from recovery_ops.runtime import (
    CircuitBreaker,
    RecoveryExhausted,
    Settings,
    ToolRegistry,
    Workflow,
    build_tool,
    classify,
)
from recovery_ops.runtime.testing import Lab


def named(module: str, name: str, *bases: type[Exception]) -> type[Exception]:
    """A class of that name, as a framework that is not installed defines it."""
    return type(name, bases or (Exception,), {"__module__": module})


BubbleUp = named("langgraph.errors", "GraphBubbleUp")
KNOWN = [
    named("langgraph.errors", "GraphInterrupt", BubbleUp),
    named("langgraph.errors", "ParentCommand", BubbleUp),
    named("pydantic_ai.exceptions", "ModelRetry"),
    named("pydantic_ai.exceptions", "CallDeferred"),
    named("pydantic_ai.exceptions", "ApprovalRequired"),
    named("celery.exceptions", "Retry", named("celery.exceptions", "TaskPredicate")),
]
Interrupt = KNOWN[0]


class Paused(Exception):
    """An application's own."""


@pytest.fixture(params=[False, True], ids=["thread", "task"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def called(guard: Callable[..., Any], raised: BaseException, *, is_async: bool, by_outcome: bool = False) -> list[int]:
    """Guard a function that raises this, call it, and return its calls; the very object has to come back."""
    calls: list[int] = []

    def do() -> None:
        calls.append(1)
        raise raised

    async def do_async() -> None:
        do()

    guarded = guard(do_async if is_async else do)
    call = guarded.outcome if by_outcome else guarded
    with pytest.raises(type(raised)) as caught:
        asyncio.run(call()) if is_async else call()
    assert caught.value is raised
    return calls


def counts(lab: Lab) -> dict[str, CallsCounted]:
    lab.clock.push(10.0)
    lab.recovery.housekeep()
    return {fact.operation: fact for fact in lab.events_of(CallsCounted)}


def telling(lab: Lab) -> list[Event]:
    return [fact for fact in lab.events if not isinstance(fact, RunStarted | RunFinished | CallsCounted)]


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("by_outcome", [False, True], ids=["call", "outcome"])
@pytest.mark.parametrize("said", [{}, {"optional": True}, {"fallback": lambda: "other"}, {"idempotent": True}])
def test_control_flow_passes_a_guard(
    kind: type[Exception], said: dict[str, Any], by_outcome: bool, is_async: bool
) -> None:
    lab = Lab(reraise=False)
    guard = lab.recovery.guard("ask", **said)
    with lab.recovery.run(source="main_agent"):
        assert called(guard, kind("for a person"), is_async=is_async, by_outcome=by_outcome) == [1]
    assert telling(lab) == []
    found = lab.events_of(RunFinished)[-1]
    assert found.status is RunStatus.SUCCEEDED


def test_control_flow_leaves_no_call_in_flight(is_async: bool) -> None:
    lab = Lab(reraise=False)
    called(lab.recovery.guard("ask"), Interrupt(), is_async=is_async)
    counted = counts(lab)["ask"]
    assert (counted.calls, counted.in_flight, counted.failures, counted.exhausted) == (1, 0, {}, 0)


def test_control_flow_after_a_failure_ends_the_retries(is_async: bool) -> None:
    lab = Lab(reraise=False)
    outcomes: list[BaseException] = [TimeoutError(), Interrupt()]

    def do() -> None:
        raise outcomes.pop(0)

    async def do_async() -> None:
        do()

    guarded: Any = lab.recovery.guard("ask", idempotent=True)(do_async if is_async else do)
    with lab.recovery.run(source="main_agent"), pytest.raises(Interrupt):
        asyncio.run(guarded()) if is_async else guarded()
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [Category.TIMEOUT]


def test_control_flow_does_not_move_a_breaker(is_async: bool) -> None:
    lab = Lab(reraise=False)
    guard = lab.recovery.guard("ask", idempotent=True, settings=Settings(consecutive_failures=1))
    called(guard, Interrupt(), is_async=is_async)
    breaker = lab.recovery.breaker("ask")
    assert breaker is not None
    assert breaker.is_on_fast_path
    alone = CircuitBreaker("alone", Settings(consecutive_failures=1))
    with pytest.raises(Interrupt), alone.attempt():
        raise Interrupt
    assert alone.state == "closed"


def test_registered_control_flow_passes(is_async: bool) -> None:
    lab = Lab(reraise=False)
    lab.recovery.control_flow = (Paused,)
    assert called(lab.recovery.guard("ask", idempotent=True), Paused(), is_async=is_async) == [1]
    assert telling(lab) == []


def test_unregistered_exception_is_a_failure() -> None:
    lab = Lab(reraise=False)
    with pytest.raises(RecoveryExhausted):
        lab.recovery.guard("ask")(lab.script(Paused()))()


def test_group_of_control_flow_passes_a_guard() -> None:
    lab = Lab(reraise=False)
    called(lab.recovery.guard("ask"), ExceptionGroup("both", [Interrupt(), Interrupt()]), is_async=False)
    mixed = ExceptionGroup("one", [Interrupt(), TimeoutError()])
    with pytest.raises(RecoveryExhausted):
        lab.recovery.guard("other")(lab.script(mixed))()


def test_classified_control_flow_is_a_cancel() -> None:
    assert {classify(kind()).category for kind in KNOWN} == {Category.CANCELLED}


def test_interrupt_ends_a_run_as_cancelled() -> None:
    lab = Lab(reraise=False)
    with pytest.raises(Interrupt), lab.recovery.run():
        raise Interrupt
    assert lab.events_of(RunFinished)[0].status is RunStatus.CANCELLED


def test_cancelled_run_keeps_the_interrupt(is_async: bool) -> None:
    lab = Lab(reraise=False)
    with lab.recovery.run() as run:

        def do() -> None:
            run.cancel()
            raise Interrupt

        async def do_async() -> None:
            do()

        guarded: Any = lab.recovery.guard("ask")(do_async if is_async else do)
        with pytest.raises(Interrupt):
            asyncio.run(guarded.outcome()) if is_async else guarded.outcome()


@pytest.mark.parametrize("hook", ["ask_user", "refresh_credentials"])
def test_interrupting_hook_passes_a_guard(hook: str, is_async: bool) -> None:
    lab = Lab(reraise=False)

    def interrupt(*_: object) -> None:
        raise Interrupt

    failing = lab.script_async if is_async else lab.script
    refused = type("Refused", (Exception,), {"kind": "policy_denied"})()
    said: Any = {hook: interrupt}
    guarded: Any = lab.recovery.guard("ask", **said)(failing(refused if hook == "ask_user" else 401))
    with lab.recovery.run(source="main_agent"), pytest.raises(Interrupt):
        asyncio.run(guarded()) if is_async else guarded()


def test_interrupting_tool_passes_a_turn(is_async: bool) -> None:
    lab = Lab(reraise=False)

    def ask() -> None:
        raise Interrupt

    tool = build_tool("ask", ask, require_permission=False, optional=True)
    registry = ToolRegistry(lab.recovery, tools=[tool, build_tool("say", lambda: "said", require_permission=False)])
    uses = [
        {"type": "tool_use", "id": str(n), "name": name, "input": {}} for n, name in enumerate(("say", "ask", "say"))
    ]
    into: list[Any] = []
    with lab.recovery.run(source="main_agent") as run, pytest.raises(Interrupt):
        asyncio.run(registry.run_tools_async(uses, into=into)) if is_async else registry.run_tools(uses, into=into)
    assert [result.is_error for result in into] == [False, False, False]
    assert [result.kind for result in into] == ["succeeded", "cancelled", "cancelled"]
    assert run.withdrawn == frozenset()
    assert lab.events_of(FailureClassified) == []


def test_interrupting_permission_check_passes(is_async: bool) -> None:
    lab = Lab(reraise=False)

    def permission(*_: object) -> bool:
        raise Interrupt

    registry = ToolRegistry(lab.recovery, permission, tools=[build_tool("say", lambda: "said")])
    use = [{"type": "tool_use", "id": "1", "name": "say", "input": {}}]
    with pytest.raises(Interrupt):
        asyncio.run(registry.run_tools_async(use)) if is_async else registry.run_tools(use)


def test_interrupting_part_passes_gather() -> None:
    def part() -> None:
        raise Interrupt

    with pytest.raises(Interrupt):
        Lab().recovery.gather({"one": part})


def test_interrupting_call_passes_interventions() -> None:
    lab = Lab(reraise=False)
    asked: list[object] = []

    def call(_: object) -> None:
        raise Interrupt

    with pytest.raises(Interrupt):
        lab.recovery.intervene(call, "request", ask_user=asked.append)
    assert asked == []


def test_interrupt_is_not_dispatched(is_async: bool) -> None:
    lab = Lab(reraise=False)
    retries: list[int] = []

    def again() -> None:
        retries.append(1)
        raise Interrupt

    def dispatch(failure: BaseException) -> Any:
        said: dict[str, Any] = {"operation": "book", "retry": again, "idempotent": True}
        return (
            asyncio.run(lab.recovery.dispatch_failure_async(failure, **said))
            if is_async
            else lab.recovery.dispatch_failure(failure, **said)
        )

    with pytest.raises(Interrupt):
        dispatch(Interrupt())
    assert (retries, lab.events) == ([], [])
    with pytest.raises(Interrupt):
        dispatch(TimeoutError())
    assert retries == [1]


def test_interrupted_step_is_run_again(is_async: bool) -> None:
    lab = Lab(reraise=False)
    outcomes: list[Any] = [Interrupt(), "yes"]

    def ask() -> Any:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def step() -> Any:
        workflow = Workflow("w", "1", recovery=lab.recovery)
        return asyncio.run(workflow.step_async("ask", ask)) if is_async else workflow.step("ask", ask)

    with pytest.raises(Interrupt) as caught:
        step()
    assert not hasattr(caught.value, "__notes__")
    assert Workflow("w", "1", recovery=lab.recovery).steps()[0].error is None
    assert step() == "yes"
