"""Taking up a conversation: unanswered calls, files that are not what they were, and the plan."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.tools.results import ResultKind
from recovery_ops.rules.tools.resume import PlanStep, StepStatus
from recovery_ops.rules.tools.transcript import faults
from recovery_ops.runtime import ToolRegistry, attempt
from recovery_ops.runtime.testing import Lab
from tests.runtime.tools.toolboxes import open_tool, registry_of


@pytest.fixture
def lab() -> Lab:
    return Lab()


def anthropic(*calls: tuple[str, str, dict[str, Any]]) -> list[dict[str, Any]]:
    blocks = [{"type": "tool_use", "id": one, "name": name, "input": given} for one, name, given in calls]
    return [{"role": "user", "content": "please"}, {"role": "assistant", "content": blocks}]


def openai(arguments: str) -> list[dict[str, Any]]:
    call = {"id": "1", "type": "function", "function": {"name": "pay", "arguments": arguments}}
    return [{"role": "user", "content": "please"}, {"role": "assistant", "content": None, "tool_calls": [call]}]


def probed(lab: Lab, probe: Any, **said: Any) -> ToolRegistry:
    return registry_of(lab, open_tool("pay", lambda **rest: "never", state_probe=probe, **said))


class TestProbes:
    @pytest.mark.parametrize(
        ("answer", "kind", "said"),
        [
            (True, ResultKind.SUCCEEDED, "it had done its work."),
            ({"receipt": 7}, ResultKind.SUCCEEDED, 'Result: {"receipt": 7}'),
            (False, ResultKind.CANCELLED, "interrupted before it did anything"),
            (None, ResultKind.FAILED, "its outcome is unknown"),
        ],
    )
    def test_the_tool_itself_knows_best(self, lab: Lab, answer: Any, kind: ResultKind, said: str) -> None:
        taken_up = probed(lab, lambda order: answer).resume(anthropic(("1", "pay", {"order": 7})))
        (result,) = taken_up.filled
        assert result.kind is kind
        assert said in result.content
        assert faults(taken_up.messages) == []

    def test_a_probe_sees_the_arguments_and_the_key(self, lab: Lab) -> None:
        seen: list[object] = []

        def probe(order: int) -> bool:
            seen.append((order, attempt().idempotency_key))
            return True

        registry = probed(lab, probe, idempotency_key=lambda order: f"order-{order}")
        registry.resume(openai('{"order": 7}'))
        assert seen == [(7, "order-7")]
        assert attempt().idempotency_key is None

    @pytest.mark.parametrize("arguments", ["{broken", "[]"])
    def test_arguments_that_cannot_be_read_leave_the_outcome_unknown(self, lab: Lab, arguments: str) -> None:
        taken_up = probed(lab, lambda **rest: True).resume(openai(arguments))
        assert "outcome is unknown" in taken_up.messages[2]["content"]

    def test_a_probe_that_raises_leaves_it_unknown(self, lab: Lab) -> None:
        def probe(**arguments: Any) -> bool:
            raise ConnectionError("no bank")

        taken_up = probed(lab, probe).resume(anthropic(("1", "pay", {})))
        assert "outcome is unknown" in taken_up.filled[0].content
        (fact,) = lab.events_of(events.HookFailed)
        assert (fact.hook, fact.operation) == ("state_probe", "pay")
        (told,) = lab.events_of(events.ToolErrorReturned)
        assert (told.tool, told.message) == ("pay", "interrupted")

    def test_an_async_probe_is_awaited_in_tasks_and_unknown_in_threads(self, lab: Lab) -> None:
        async def probe(**arguments: Any) -> bool:
            await asyncio.sleep(0)
            return True

        registry, messages = probed(lab, probe), anthropic(("1", "pay", {}))
        assert asyncio.run(registry.resume_async(messages)).filled[0].kind is ResultKind.SUCCEEDED
        assert registry.resume(messages).filled[0].kind is ResultKind.FAILED
        assert "resume_async" in lab.events_of(events.HookFailed)[0].message

    def test_without_a_registry_or_a_probe_nobody_knows(self, lab: Lab) -> None:
        messages = anthropic(("1", "pay", {}), ("2", "gone", {}))
        registry = registry_of(lab, open_tool("pay", lambda: 1))
        for found in (ToolRegistry(lab.recovery).resume(messages), registry.resume(messages)):
            assert [result.kind for result in found.filled] == [ResultKind.FAILED] * 2
            assert "- pay: interrupted, outcome unknown" in found.briefing


class TestFiles:
    def test_what_is_gone_and_what_changed_is_named(self, lab: Lab, tmp_path: Path) -> None:
        paths = {name: tmp_path / name for name in ("same", "changed", "gone", "came")}
        for name in ("same", "changed", "gone"):
            paths[name].write_text(name)
        marks = ToolRegistry.file_marks(paths.values())
        paths["changed"].write_text("other")
        paths["gone"].unlink()
        paths["came"].write_text("new")
        taken_up = ToolRegistry(lab.recovery).resume([], files=marks)
        assert taken_up.files_gone == (str(paths["gone"]),)
        assert taken_up.files_changed == (str(paths["changed"]), str(paths["came"]))
        assert f"- file gone: {paths['gone']}" in taken_up.briefing

    def test_bare_paths_and_arguments_that_are_paths_are_looked_for(self, lab: Lab, tmp_path: Path) -> None:
        tool = open_tool("read", lambda path: "", file_arguments=["path", "other"])
        here, gone = tmp_path / "here", tmp_path / "gone"
        here.write_text("x")
        messages = anthropic(("1", "read", {"path": str(gone)}), ("2", "read", {"path": str(here), "other": 7}))
        taken_up = registry_of(lab, tool).resume(messages, files=[str(here), str(tmp_path)])
        assert (taken_up.files_gone, taken_up.files_changed) == ((str(gone),), ())

    def test_what_is_no_file_has_a_mark_too(self, lab: Lab, tmp_path: Path) -> None:
        marks = ToolRegistry.file_marks([tmp_path, tmp_path / "none"])
        assert list(marks.values()) == ["no file", "gone"]
        assert ToolRegistry(lab.recovery).resume([], files=marks).briefing == ""


class TestPlan:
    def test_steps_stand_as_their_calls_ended(self, lab: Lab) -> None:
        messages = [
            *anthropic(("1", "look", {})),
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "seen"}]},
            *anthropic(("2", "pay", {}))[1:],
        ]
        plan = [
            {"name": "look", "status": "in_progress", "tool_use_id": "1"},
            {"name": "pay", "status": "in_progress", "tool_use_id": "2"},
            "tell the user",
        ]
        taken_up = probed(lab, lambda: True).resume(messages, plan=plan)
        assert taken_up.plan == (
            PlanStep("look", StepStatus.DONE, "1"),
            PlanStep("pay", StepStatus.DONE, "2"),
            PlanStep("tell the user"),
        )
        assert "- to do: tell the user" in taken_up.briefing


def test_a_whole_conversation_needs_nothing(lab: Lab) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    taken_up = ToolRegistry(lab.recovery).resume(messages)
    assert taken_up.messages == messages
    assert (taken_up.filled, taken_up.dropped, taken_up.briefing) == ((), (), "")


@pytest.mark.parametrize(
    "orphan",
    [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "gone", "content": "x"}]},
        {"role": "tool", "tool_call_id": "gone", "content": "x"},
    ],
)
def test_resumed_conversation_begins_with_the_user(lab: Lab, orphan: dict[str, Any]) -> None:
    rest = openai("{}")[1:] if orphan["role"] == "tool" else anthropic(("1", "pay", {}))[1:]
    taken_up = ToolRegistry(lab.recovery).resume([orphan, *rest])
    assert taken_up.messages[0]["role"] == "user"
    assert taken_up.dropped == ("gone",)
    assert faults(taken_up.messages) == []


def test_resumed_conversation_drops_a_broken_server_call(lab: Lab) -> None:
    call = {"type": "server_tool_use", "id": "srv-1", "name": "web_search", "input": {}}
    taken_up = ToolRegistry(lab.recovery).resume(
        [{"role": "user", "content": "please"}, {"role": "assistant", "content": [call]}]
    )
    assert (taken_up.messages, taken_up.dropped) == ([{"role": "user", "content": "please"}], ("srv-1",))
