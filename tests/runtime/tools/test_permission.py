"""May this tool be called? Only a clear yes is one, and after too many refusals a person decides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.tools.results import ResultKind
from recovery_ops.runtime import Tool, ToolRegistry, ToolResult, build_tool
from recovery_ops.runtime.testing import Lab, Script
from tests.runtime.tools.toolboxes import PLAYS, Play, live_limits, use


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture(params=PLAYS)
def play(request: pytest.FixtureRequest) -> Play:
    return PLAYS[request.param]


def registry(lab: Lab, script: Script, permission: Any = None, **said: Any) -> ToolRegistry:
    tool = build_tool("pay", script, input_schema={"type": "object"})
    return ToolRegistry(lab.recovery, permission, tools=[tool], **said)


def asked(play: Play, lab: Lab, found: ToolRegistry, times: int = 1, source: str = "main_agent") -> list[ToolResult]:
    with lab.recovery.run(source=source):
        return play(found, [use("pay", str(number)) for number in range(times)])


class TestTheAnswer:
    def test_without_a_checker_it_is_denied_with_an_error_that_says_so(self, play: Play, lab: Lab) -> None:
        script = lab.script("paid")
        (result,) = asked(play, lab, registry(lab, script))
        assert (result.kind, result.is_error, result.category) == (ResultKind.DENIED, True, None)
        assert "no permission checker is configured: give ToolRegistry(permission=...)" in result.content
        assert script.calls == 0

    @pytest.mark.parametrize("answer", [False, None, 1, "yes", "", [], object()])
    def test_anything_but_true_is_a_no(self, play: Play, lab: Lab, answer: object) -> None:
        script = lab.script("paid")
        (result,) = asked(play, lab, registry(lab, script, lambda tool, arguments: answer))
        assert result.kind is ResultKind.DENIED
        assert script.calls == 0

    def test_true_is_a_yes(self, play: Play, lab: Lab) -> None:
        seen: list[tuple[str, dict[str, Any]]] = []

        def check(tool: Tool, arguments: dict[str, Any]) -> bool:
            seen.append((tool.name, dict(arguments)))
            arguments["amount"] = 10**6
            return True

        script = lab.script("paid")
        found = registry(lab, script, check)
        with lab.recovery.run(source="main_agent"):
            (result,) = play(found, [use("pay", amount=7)])
        assert result.kind is ResultKind.SUCCEEDED
        assert seen == [("pay", {"amount": 7})]
        assert script.arguments == [((), {"amount": 7})]

    def test_the_reason_reaches_the_model_short_and_without_secrets(self, play: Play, lab: Lab) -> None:
        reason = "needs Bearer canary0123456789 " + "x" * 600
        (result,) = asked(play, lab, registry(lab, lab.script(1), lambda tool, arguments: reason))
        assert "Why: needs Bearer [masked] xxx" in result.content
        assert len(result.content) < 600
        (fact,) = lab.events_of(events.PermissionDenied)
        assert "canary" not in fact.reason

    def test_a_checker_that_raises_denies(self, play: Play, lab: Lab) -> None:
        def check(tool: Tool, arguments: dict[str, Any]) -> bool:
            raise ConnectionError("no policy server")

        (result,) = asked(play, lab, registry(lab, lab.script(1), check))
        assert result.kind is ResultKind.DENIED
        (fact,) = lab.events_of(events.HookFailed)
        assert (fact.hook, fact.error_type) == ("permission", "ConnectionError")

    def test_an_async_checker_is_awaited_in_tasks_and_denies_in_threads(self, lab: Lab) -> None:
        async def check(tool: Tool, arguments: dict[str, Any]) -> bool:
            await asyncio.sleep(0)
            return True

        found = registry(lab, lab.script("paid"), check)
        assert asked(PLAYS["tasks"], lab, found)[0].kind is ResultKind.SUCCEEDED
        (denied,) = asked(PLAYS["threads"], lab, found)
        assert "use run_tool_async" in denied.content

    def test_a_tool_that_needs_none_asks_nobody(self, play: Play, lab: Lab) -> None:
        tool = build_tool("look", lambda: "seen", require_permission=False)
        found = ToolRegistry(lab.recovery, lambda tool, arguments: False, tools=[tool])
        assert play(found, [use("look")])[0].kind is ResultKind.SUCCEEDED

    def test_a_refusal_is_a_fact_and_no_failure(self, play: Play, lab: Lab) -> None:
        with lab.recovery.run(source="main_agent") as run:
            play(registry(lab, lab.script(1), lambda tool, arguments: "not today"), [use("pay")])
        (fact,) = lab.events_of(events.PermissionDenied)
        assert (fact.operation, fact.reason, fact.consecutive, fact.total) == ("pay", "not today", 1, 1)
        assert lab.events_of(events.FailureClassified) == []
        assert run.scope.guards.budget.total == 0

    def test_outside_a_run_it_is_told_too(self, lab: Lab) -> None:
        assert registry(lab, lab.script(1)).run_tool(use("pay")).kind is ResultKind.DENIED
        assert len(lab.events_of(events.PermissionDenied)) == 1


class TestAPerson:
    def test_the_third_refusal_in_a_row_switches_the_run(self, play: Play, lab: Lab) -> None:
        found = registry(lab, lab.script(1), lambda tool, arguments: "no")
        with lab.recovery.run(source="main_agent") as run:
            play(found, [use("pay", "1"), use("pay", "2")])
            assert not run.asks_a_person
            play(found, [use("pay", "3")])
            assert run.asks_a_person
        (tripped,) = lab.events_of(events.GuardTripped)
        assert (tripped.guard, tripped.count, tripped.limit) == ("permission_denials", 3, 3)

    def test_where_nobody_can_answer_a_person_is_asked_by_an_escalation_once(self, play: Play, lab: Lab) -> None:
        found = registry(lab, lab.script(1), lambda tool, arguments: "no")
        results = asked(play, lab, found, times=5)
        (fact,) = lab.events_of(events.Escalated)
        assert (fact.queue, fact.reason, fact.operation) == ("policy_review", "permission_denials", "pay")
        assert ["A person has been asked" in result.content for result in results] == [False, False, True, True, True]

    def test_in_foreground_the_hook_is_asked_and_their_yes_counts(self, play: Play, lab: Lab) -> None:
        questions: list[str] = []

        def ask(tool: Tool, arguments: dict[str, Any], reason: str) -> bool:
            questions.append(f"{tool.name}: {reason}")
            return len(questions) > 1

        script = lab.script("paid")
        found = registry(lab, script, lambda tool, arguments: "too much", ask_person=ask)
        results = asked(play, lab, found, times=5)
        assert [result.kind for result in results[:4]] == [ResultKind.DENIED] * 4
        assert results[4].kind is ResultKind.SUCCEEDED
        assert "a person said no" in results[3].content
        assert questions == ["pay: too much"] * 2
        assert lab.events_of(events.Escalated) == []

    def test_in_background_the_hook_is_left_alone(self, play: Play, lab: Lab) -> None:
        def ask(tool: Tool, arguments: dict[str, Any], reason: str) -> bool:
            raise AssertionError("nobody is there")

        found = registry(lab, lab.script(1), lambda tool, arguments: False, ask_person=ask)
        asked(play, lab, found, times=5, source="nightly")
        assert len(lab.events_of(events.Escalated)) == 1
        assert lab.events_of(events.HookFailed) == []

    def test_a_hook_that_raises_leaves_the_refusal_standing(self, play: Play, lab: Lab) -> None:
        def ask(tool: Tool, arguments: dict[str, Any], reason: str) -> bool:
            raise RuntimeError("the window was closed")

        found = registry(lab, lab.script(1), lambda tool, arguments: "no", ask_person=ask)
        results = asked(play, lab, found, times=4)
        assert {result.kind for result in results} == {ResultKind.DENIED}
        assert [fact.hook for fact in lab.events_of(events.HookFailed)] == ["ask_person"]

    def test_a_yes_in_between_begins_the_row_anew(self, play: Play, lab: Lab) -> None:
        answers = iter([False, False, True, False, False])
        found = registry(lab, lab.script("paid"), lambda tool, arguments: next(answers))
        asked(play, lab, found, times=5)
        assert lab.events_of(events.GuardTripped) == []

    def test_twenty_in_all_switch_the_run_too(self, play: Play, lab: Lab) -> None:
        live_limits(lab, repeat_action="off")
        answers = iter([False, True] * 20)
        found = registry(lab, lab.script("paid"), lambda tool, arguments: next(answers))
        asked(play, lab, found, times=40)
        (tripped,) = lab.events_of(events.GuardTripped)
        assert (tripped.count, tripped.limit) == (20, 20)
