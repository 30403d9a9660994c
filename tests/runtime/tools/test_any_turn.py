"""A transcript is whole after anything: any failure in any call, any cut, in threads and tasks, and after a resume."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.tools.results import ResultKind
from recovery_ops.rules.tools.transcript import ToolUse, faults
from recovery_ops.runtime import Response, StopRun, Tool, ToolRegistry, ToolResult
from recovery_ops.runtime.testing import HttpError, Lab
from tests.runtime.tools.toolboxes import open_tool, registry_of

TROUBLE: dict[str, Callable[[], BaseException]] = {
    **{str(status): functools.partial(HttpError, status) for status in (400, 401, 403, 404, 409, 412, 429, 500, 529)},
    "slow down": lambda: HttpError(Response(429, {"retry-after": "30"})),
    "timeout": TimeoutError,
    "bug": lambda: ValueError("a bug"),
    "no memory": MemoryError,
    "its own cancel": asyncio.CancelledError,
    "stop iteration": StopIteration,
    "interrupt": KeyboardInterrupt,
    "exit": SystemExit,
    "group": lambda: ExceptionGroup("two", [ValueError(), TimeoutError()]),
    "recursion": RecursionError,
}
PLANS = st.fixed_dictionaries(
    {
        "tool": st.sampled_from(["read", "pay", "slow", "guarded", "no such tool", ""]),
        "arguments": st.sampled_from([{}, {"n": 1}, {"n": "x"}, "{", "[]", None, 7]),
        "outcome": st.sampled_from(["ok", "ok", "ok", *TROUBLE]),
    }
)
SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def toolbox(lab: Lab, plans: list[dict[str, Any]], *, for_tasks: bool) -> list[Tool]:
    outcomes = iter([plan["outcome"] for plan in plans])

    def do(**arguments: Any) -> str:
        outcome = next(outcomes, "ok")
        if outcome in TROUBLE:
            error = TROUBLE[outcome]()
            raise error
        return "done"

    async def do_async(**arguments: Any) -> str:
        await asyncio.sleep(0)
        return do(**arguments)

    return [
        open_tool("read", do, read_only=True, max_retries=1),
        open_tool("pay", do, input_schema=SCHEMA, require_permission=True),
        open_tool("slow", do_async if for_tasks else do, read_only=True, optional=True),
        open_tool("guarded", do, output_schema={"type": "string"}, fallback=lambda **_: "from the cache"),
    ]


def asked(plans: list[dict[str, Any]]) -> dict[str, Any]:
    """The message of the assistant that asks for the calls."""
    blocks = [
        {"type": "tool_use", "id": f"use-{number}", "name": plan["tool"], "input": plan["arguments"]}
        for number, plan in enumerate(plans)
    ]
    return {"role": "assistant", "content": blocks}


def turned(lab: Lab, plans: list[dict[str, Any]], permission: Any, *, for_tasks: bool) -> list[ToolResult]:
    """The results of a turn, however it ended."""
    registry = registry_of(lab, *toolbox(lab, plans, for_tasks=for_tasks), permission=permission)
    into: list[ToolResult] = []
    uses = ToolRegistry.tool_uses_in(asked(plans))
    stops: list[StopRun] = []
    try:
        with lab.recovery.run(source="main_agent"):
            if for_tasks:
                asyncio.run(registry.run_tools_async(uses, into=into))
            else:
                registry.run_tools(uses, into=into)
    except StopRun as stop:
        stops.append(stop)
    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        pass
    assert all(list(stop.results) == into for stop in stops)
    return into


@pytest.mark.parametrize("for_tasks", [False, True], ids=["threads", "tasks"])
@given(plans=st.lists(PLANS, min_size=1, max_size=6), permission=st.sampled_from([None, True, False, "not today"]))
def test_every_call_has_exactly_one_result_in_order(
    for_tasks: bool, plans: list[dict[str, Any]], permission: object
) -> None:
    checker = None if permission is None else lambda tool, arguments: permission
    results = turned(Lab(), plans, checker, for_tasks=for_tasks)
    assert [one.tool_use_id for one in results] == [f"use-{number}" for number in range(len(plans))]
    answer = {"role": "user", "content": [one.as_anthropic() for one in results]}
    assert faults([{"role": "user", "content": "go"}, asked(plans), answer]) == []
    for one in results:
        assert one.content
        assert "Traceback" not in one.content
        assert one.kind is not ResultKind.CANCELLED or not one.is_error


@given(plans=st.lists(PLANS, min_size=1, max_size=6), cut=st.integers(0, 6))
def test_a_conversation_that_was_cut_anywhere_is_whole_after_a_resume(plans: list[dict[str, Any]], cut: int) -> None:
    lab = Lab()
    results = turned(lab, plans, lambda tool, arguments: True, for_tasks=False)
    kept = [one.as_anthropic() for one in results[:cut]]
    broken: list[dict[str, Any]] = [{"role": "user", "content": "go"}, asked(plans)]
    if kept:
        broken.append({"role": "user", "content": kept})
    resumed = registry_of(Lab(), *toolbox(lab, plans, for_tasks=False)).resume(broken)
    assert faults(resumed.messages) == []
    assert len(resumed.filled) == max(0, len(plans) - cut)
    assert ToolRegistry(lab.recovery).resume(resumed.messages).filled == ()


def test_a_use_may_be_an_object_of_any_kind() -> None:
    lab = Lab()
    results = registry_of(lab).run_tools([object(), ToolUse("", ""), None, {"id": 7, "name": ["x"]}])
    assert [one.kind for one in results] == [ResultKind.UNKNOWN_TOOL] * 4
