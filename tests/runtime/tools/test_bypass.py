"""A tool that must not be bypassed: however its call ends, the model is told of no other way."""

from __future__ import annotations

from typing import Any

import pytest

from recovery_ops.rules.tools.policy_limits import ToolRule
from recovery_ops.rules.tools.results import NO_BYPASS, Detail, ResultKind
from recovery_ops.runtime import Settings, ToolResult
from recovery_ops.runtime.testing import Lab
from tests.runtime.tools.toolboxes import PLAYS, Play, live, open_tool, registry_of, use

OTHER_WAYS = ("another tool", "another way", "another approach", "without it", "what you have")


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture(params=PLAYS)
def play(request: pytest.FixtureRequest) -> Play:
    return PLAYS[request.param]


def called(play: Play, lab: Lab, *outcomes: Any, times: int = 1, **said: Any) -> list[ToolResult]:
    tool = open_tool("approve", lab.script(*outcomes), **{"bypass_allowed": False} | said)
    registry = registry_of(lab, tool)
    with lab.recovery.run(source="main_agent"):
        return [play(registry, [use("approve", f"u{number}", order=7)])[0] for number in range(times)]


def other_ways(result: ToolResult) -> list[str]:
    return [way for way in OTHER_WAYS if way in result.content]


def test_failed_and_stopped_tool_names_no_other_way(play: Play, lab: Lab) -> None:
    results = called(play, lab, *[RuntimeError("broken")] * 4, times=4)
    assert [one.detail for one in results] == [Detail.NONE] * 3 + [Detail.STOPPED_TOOL]
    assert [other_ways(one) for one in results] == [[]] * 4
    assert NO_BYPASS in results[2].advice
    assert NO_BYPASS in results[3].suggestion


def test_open_breaker_names_no_other_way(play: Play, lab: Lab) -> None:
    results = called(play, lab, *[503] * 4, times=2, settings=Settings(consecutive_failures=1))
    assert results[1].detail is Detail.REFUSED
    assert [NO_BYPASS in one.suggestion for one in results] == [True, True]
    assert [other_ways(one) for one in results] == [[], []]


def test_denied_permission_names_no_other_way(play: Play, lab: Lab) -> None:
    [result] = called(play, lab, "yes", require_permission=True)
    assert (result.kind, other_ways(result)) == (ResultKind.DENIED, [])
    assert NO_BYPASS in result.suggestion


def test_repeated_call_names_no_other_way(play: Play, lab: Lab) -> None:
    results = called(play, lab, "yes", times=3)
    assert [one.advice.endswith(NO_BYPASS) for one in results] == [False, False, True]
    assert other_ways(results[2]) == []


def test_failures_of_several_tools_name_no_other_way(play: Play, lab: Lab) -> None:
    tools = [open_tool(name, lab.script(RuntimeError("broken"))) for name in ("a", "b")]
    last = open_tool("approve", lab.script(RuntimeError("broken")), bypass_allowed=False)
    registry = registry_of(lab, *tools, last)
    with lab.recovery.run(source="main_agent"):
        results = [play(registry, [use(name)])[0] for name in ("a", "b", "approve")]
    assert NO_BYPASS in results[2].advice
    assert other_ways(results[2]) == []


def test_policy_forbids_bypass_of_optional_tool(play: Play, lab: Lab) -> None:
    tool = open_tool("approve", lab.script(503), optional=True)
    live(lab, tools=(ToolRule(operation="appr*", forbids_bypass=True),))
    [result] = play(registry_of(lab, tool), [use("approve")])
    assert (result.detail, result.is_error, NO_BYPASS in result.suggestion) == (Detail.NONE, True, True)


def test_policy_reaches_tool_withdrawn_before(play: Play, lab: Lab) -> None:
    registry = registry_of(lab, open_tool("approve", lab.script(503), optional=True))
    with lab.recovery.run(source="main_agent"):
        [first] = play(registry, [use("approve", "u1")])
        live(lab, tools=(ToolRule(operation="approve", forbids_bypass=True),))
        [second] = play(registry, [use("approve", "u2")])
    assert (first.detail, NO_BYPASS in first.suggestion) == (Detail.WITHDRAWN, False)
    assert (second.detail, NO_BYPASS in second.suggestion) == (Detail.WITHDRAWN, True)
