"""Transcripts of three vendors, damaged in every way that a crash can damage them, and made whole."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.tools import outcomes as tool_outcomes
from recovery_ops.rules.tools.transcript import (
    Form,
    ToolUse,
    begun_by_user,
    endings,
    faults,
    form_of,
    made_whole,
    tool_use_of,
    tool_uses_in,
    unanswered,
)

FORMS = list(Form)


def asking(form: Form, *ids: str) -> list[dict[str, Any]]:
    """What a model says when it makes these calls."""
    if form is Form.ANTHROPIC:
        blocks = [{"type": "tool_use", "id": one, "name": "search", "input": {"q": one}} for one in ids]
        return [{"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, *blocks]}]
    if form is Form.OPENAI:
        function = {"name": "search", "arguments": "{}"}
        calls = [{"id": one, "type": "function", "function": function} for one in ids]
        return [{"role": "assistant", "content": None, "tool_calls": calls}]
    return [{"type": "function_call", "call_id": one, "name": "search", "arguments": "{}"} for one in ids]


def answering(form: Form, *ids: str, text: str = "found") -> list[dict[str, Any]]:
    """The results of these calls."""
    if form is Form.ANTHROPIC:
        blocks = [{"type": "tool_result", "tool_use_id": one, "content": text} for one in ids]
        return [{"role": "user", "content": blocks}] if ids else []
    if form is Form.OPENAI:
        return [{"role": "tool", "tool_call_id": one, "content": text} for one in ids]
    return [{"type": "function_call_output", "call_id": one, "output": text} for one in ids]


def saying(text: str, role: str = "user") -> list[dict[str, Any]]:
    return [{"role": role, "content": text}]


def missing(messages: list[dict[str, Any]]) -> list[str]:
    return [use.id for use in unanswered(messages)]


def repaired(messages: list[dict[str, Any]]) -> list[Any]:
    results = [tool_outcomes.cancelled(use, was_called=False) for use in unanswered(messages)]
    return made_whole(messages, results).messages


def is_whole(messages: list[Any], form: Form) -> bool:
    """By the vendors' own rule, told apart from the code under test: calls, then at once their results in order."""
    waiting: list[str] = []
    for message in messages:
        if form is Form.ANTHROPIC:
            content = message["content"] if isinstance(message["content"], list) else []
            results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
            calls = [block["id"] for block in content if block["type"] == "tool_use"]
            if results and content[: len(results)] != [b for b in content if b["type"] == "tool_result"]:
                return False
            if results != waiting:
                return False
            waiting = calls
            continue
        calls = [call["id"] for call in message.get("tool_calls", [])]
        calls += [message["call_id"]] if message.get("type") == "function_call" else []
        result = message.get("tool_call_id") or (
            message["call_id"] if message.get("type") == "function_call_output" else None
        )
        if result is not None:
            if not waiting or waiting.pop(0) != result:
                return False
        elif waiting and form is Form.OPENAI:
            return False
        waiting += calls
    return not waiting


@pytest.mark.parametrize("form", FORMS)
class TestInEachForm:
    def test_a_whole_transcript_is_left_as_it_is(self, form: Form) -> None:
        messages = [*saying("hi"), *asking(form, "a", "b"), *answering(form, "a", "b"), *saying("ok", "assistant")]
        assert form_of(messages) is form
        assert faults(messages) == []
        repair = made_whole(messages, [])
        assert repair.messages == messages
        assert all(one is other for one, other in zip(repair.messages, messages, strict=True))

    def test_a_call_that_broke_off_gets_its_result(self, form: Form) -> None:
        messages = [*saying("hi"), *asking(form, "a", "b")]
        assert missing(messages) == ["a", "b"]
        assert is_whole(repaired(messages), form)

    def test_the_results_that_there_are_stay(self, form: Form) -> None:
        messages = [*asking(form, "a", "b", "c"), *answering(form, "b")]
        assert missing(messages) == ["a", "c"]
        whole = repaired(messages)
        assert is_whole(whole, form)
        assert "found" in str(whole)

    def test_a_person_who_spoke_in_between_is_not_lost(self, form: Form) -> None:
        messages = [*asking(form, "a"), *saying("are you there?")]
        whole = repaired(messages)
        assert is_whole(whole, form)
        assert "are you there?" in str(whole)

    def test_calls_in_several_turns_each_get_theirs(self, form: Form) -> None:
        """Small models count their calls from 0 in each turn."""
        messages = [*asking(form, "0"), *saying("go on"), *asking(form, "0"), *answering(form, "0", text="second")]
        if form is not Form.OPENAI_ITEMS:
            assert missing(messages) == ["0"]
        assert is_whole(repaired(messages), form)

    def test_a_result_that_came_late_is_put_in_its_place(self, form: Form) -> None:
        messages = [
            *asking(form, "a"),
            *answering(form, "x"),
            *asking(form, "b"),
            *answering(form, "b"),
            *answering(form, "a", text="late"),
        ]
        assert missing(messages) == []
        repair = made_whole(messages, [])
        assert is_whole(repair.messages, form)
        assert repair.dropped == ("x",)
        assert "late" in str(repair.messages)

    def test_results_out_of_order_are_put_in_order(self, form: Form) -> None:
        messages = [*asking(form, "a", "b"), *answering(form, "b", "a")]
        assert faults(messages)
        assert is_whole(repaired(messages), form)

    def test_a_result_that_comes_twice_is_dropped_once(self, form: Form) -> None:
        messages = [*asking(form, "a"), *answering(form, "a", "a")]
        assert faults(messages) == ["the result of a answers no call"]
        repair = made_whole(messages, [])
        assert repair.dropped == ("a",)
        assert is_whole(repair.messages, form)

    def test_a_result_without_a_call_is_dropped(self, form: Form) -> None:
        messages = [*saying("hi"), *answering(form, "gone"), *saying("ok", "assistant")]
        assert repaired(messages) == [*saying("hi"), *saying("ok", "assistant")]

    def test_how_each_call_ended_is_known(self, form: Form) -> None:
        bad = tool_outcomes.unknown_tool(ToolUse("b", "x"), [])
        messages = made_whole([*asking(form, "a", "b"), *answering(form, "a")], [bad]).messages
        assert endings(messages) == {"a": True, "b": False}

    def test_the_given_messages_are_not_changed(self, form: Form) -> None:
        messages = [*asking(form, "a", "b"), *answering(form, "b", "x"), *saying("so?")]
        before = copy.deepcopy(messages)
        repaired(messages)
        assert messages == before


@pytest.mark.parametrize(("flag", "text"), [(True, "boom"), (None, "Error: boom"), (False, "fine"), (None, "fine")])
def test_error_is_known_by_flag_or_text(flag: bool | None, text: str) -> None:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": "a", "content": text}
    if flag is not None:
        block["is_error"] = flag
    messages = [*asking(Form.ANTHROPIC, "a"), {"role": "user", "content": [block]}]
    assert endings(messages) == {"a": text == "fine"}


@st.composite
def damaged(draw: st.DrawFn) -> tuple[Form, list[dict[str, Any]]]:
    """A conversation, with messages lost, doubled and moved."""
    form = draw(st.sampled_from(FORMS))
    messages: list[dict[str, Any]] = []
    for turn in range(draw(st.integers(0, 4))):
        ids = [f"{draw(st.sampled_from(['', turn]))}{one}" for one in "abc"[: draw(st.integers(0, 3))]]
        messages += asking(form, *ids) if ids else saying("hm", "assistant")
        for one in draw(st.permutations(ids)):
            messages += answering(form, one) * draw(st.sampled_from([0, 1, 1, 1, 2]))
        messages += saying("go on") * draw(st.integers(0, 1))
    if draw(st.booleans()) and messages:
        place = draw(st.integers(0, len(messages) - 1))
        moved = messages.pop(place)
        messages.insert(draw(st.integers(0, len(messages))), moved)
    return form, messages


@given(damaged())
def test_every_transcript_is_whole_after_repair(case: tuple[Form, list[dict[str, Any]]]) -> None:
    form, messages = case
    whole = repaired(messages)
    assert is_whole(whole, form)
    assert faults(whole) == []
    assert made_whole(whole, []).messages == whole


@given(damaged())
def test_repair_adds_what_was_missing_and_drops_only_what_answers_nothing(
    case: tuple[Form, list[dict[str, Any]]],
) -> None:
    _, messages = case
    results = [tool_outcomes.cancelled(use, was_called=False) for use in unanswered(messages)]
    repair = made_whole(messages, results)
    assert list(repair.added) == [result.tool_use_id for result in results]
    calls = sum(len(tool_uses_in(message)) for message in messages)
    given_results = str(messages).count("'found'")
    assert given_results - len(repair.dropped) + len(repair.added) == calls
    assert str(repair.messages).count("go on") == str(messages).count("go on")


class Block:
    """A library's own object."""

    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)


class Hostile:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize(
    ("block", "use"),
    [
        ({"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}, ToolUse("1", "f", {"a": 1})),
        ({"id": "1", "function": {"name": "f", "arguments": "{}"}}, ToolUse("1", "f", "{}")),
        ({"type": "function_call", "id": "fc_1", "call_id": "1", "name": "f", "arguments": ""}, ToolUse("1", "f", "")),
        (Block(type="tool_use", id="1", name="f", input={}), ToolUse("1", "f", {})),
        (Block(id="1", function=Block(name="f", arguments="{}")), ToolUse("1", "f", "{}")),
        (ToolUse("1", "f"), ToolUse("1", "f")),
        ({}, ToolUse("", "", None)),
        ({"id": 7, "name": ["f"]}, ToolUse("", "", None)),
        (None, ToolUse("", "", None)),
        ("f", ToolUse("", "", None)),
    ],
)
def test_a_call_is_read_from_any_block(block: object, use: ToolUse) -> None:
    assert tool_use_of(block) == use


def test_a_block_that_cannot_be_read_is_a_call_of_nothing() -> None:
    assert tool_use_of(Hostile()) == ToolUse("", "", None)


def test_the_calls_of_an_answer_are_found_in_order() -> None:
    answer = Block(content=[Block(type="text", text="x"), Block(type="tool_use", id="1", name="f", input={})])
    assert tool_uses_in(answer) == [ToolUse("1", "f", {})]
    assert [use.id for use in tool_uses_in(asking(Form.OPENAI, "a", "b")[0])] == ["a", "b"]
    assert [use.id for use in tool_uses_in(asking(Form.OPENAI_ITEMS, "a")[0])] == ["a"]
    assert tool_uses_in({"role": "assistant", "content": "no calls"}) == []


PAIRS = [
    ("server_tool_use", "web_search_tool_result"),
    ("server_tool_use", "code_execution_tool_result"),
    ("server_tool_use", "advisor_tool_result"),
    ("mcp_tool_use", "mcp_tool_result"),
]


def provided(use: str, result: str, *parts: str) -> list[dict[str, Any]]:
    """A conversation with one call of the provider's own tool, or parts of it."""
    blocks = {
        "use": {"type": use, "id": "srv-1", "name": "search", "input": {}},
        "result": {"type": result, "tool_use_id": "srv-1", "content": []},
        "text": {"type": "text", "text": "Well."},
    }
    return [*saying("please"), {"role": "assistant", "content": [blocks[part] for part in parts]}, *saying("thanks")]


@pytest.mark.parametrize(("use", "result"), PAIRS)
class TestProviderTools:
    def test_pair_is_whole(self, use: str, result: str) -> None:
        messages = provided(use, result, "use", "result", "text")
        assert faults(messages) == []
        assert made_whole(messages, []).messages == messages

    def test_pair_over_two_messages_is_whole(self, use: str, result: str) -> None:
        first, second = provided(use, result, "use")[:2], provided(use, result, "result")[1:]
        assert faults([*first, *second]) == []

    @pytest.mark.parametrize(
        "parts", [("use", "text"), ("result", "text"), ("result", "use", "text"), ("use", "result", "result", "text")]
    )
    def test_block_without_partner_is_a_fault(self, use: str, result: str, parts: tuple[str, ...]) -> None:
        messages = provided(use, result, *parts)
        assert faults(messages)
        repair = made_whole(messages, [])
        assert faults(repair.messages) == []
        assert "srv-1" in repair.dropped
        assert {"type": "text", "text": "Well."} in repair.messages[1]["content"]

    def test_message_of_nothing_else_goes(self, use: str, result: str) -> None:
        assert made_whole(provided(use, result, "result"), []).messages == [*saying("please"), *saying("thanks")]

    def test_calls_of_ours_beside_it_are_kept(self, use: str, result: str) -> None:
        messages = provided(use, result, "use")
        messages[1]["content"] += asking(Form.ANTHROPIC, "a")[0]["content"]
        messages[2:] = answering(Form.ANTHROPIC, "a")
        assert faults(messages)
        whole = made_whole(messages, []).messages
        assert faults(whole) == []
        assert whole[-1] == messages[-1]


@given(
    st.lists(st.tuples(st.sampled_from(["use", "result", "text"]), st.sampled_from("ab"), st.booleans()), max_size=8)
)
def test_any_provider_blocks_are_made_whole(parts: list[tuple[str, str, bool]]) -> None:
    messages: list[dict[str, Any]] = saying("please")
    for kind, name, starts in parts:
        block: dict[str, Any] = {"type": "text", "text": name}
        if kind == "use":
            block = {"type": "server_tool_use", "id": name, "name": "search", "input": {}}
        elif kind == "result":
            block = {"type": "web_search_tool_result", "tool_use_id": name, "content": []}
        if starts or messages[-1]["role"] == "user":
            messages.append({"role": "assistant", "content": []})
        messages[-1]["content"].append(block)
    before = copy.deepcopy(messages)
    whole = made_whole(messages, []).messages
    assert messages == before
    assert faults(whole) == []
    assert made_whole(whole, []).messages == whole
    waiting: list[str] = []
    for block in (block for message in whole[1:] for block in message["content"]):
        if block["type"] == "server_tool_use":
            waiting.append(block["id"])
        elif block["type"] != "text":
            waiting.remove(block["tool_use_id"])
    assert not waiting


@pytest.mark.parametrize("leading", [[], saying("be kind", "system")])
def test_conversation_begins_with_the_user(leading: list[dict[str, Any]]) -> None:
    begun = begun_by_user([*leading, *saying("hello", "assistant"), *saying("hi")])
    assert [one["role"] for one in begun] == [*(one["role"] for one in leading), "user", "assistant", "user"]
    assert begun_by_user(begun) == begun
    assert begun_by_user([]) == []
