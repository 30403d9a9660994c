"""Transcripts: which tool calls of a conversation have no result, and the same conversation made whole.

Three forms are read: Anthropic's (`tool_use` and `tool_result` blocks), OpenAI's chat messages (`tool_calls` and the
role `tool`) and OpenAI's flat items (`function_call`, `function_call_output`). A transcript is whole when each call has
exactly one result, in the order of the calls, at once after the message that made them: no vendor takes another one.
What the provider runs itself (`server_tool_use`, `mcp_tool_use` and their `…_tool_result` blocks) stands in pairs, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.tools.results import ERROR_PREFIX, ToolResult

Message = Mapping[str, Any]


class Form(StrEnum):
    """How a list of messages writes down tool calls."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    OPENAI_ITEMS = "openai_items"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call that the model asks for. `arguments` is as it came: an object, or the JSON text of one."""

    id: str
    name: str
    arguments: object = None


@dataclass(frozen=True, slots=True)
class Repair:
    """A transcript made whole. `added` are the ids of the calls that got a result; `dropped` the ids of results that
    belonged to no call, or came twice, and of calls to the provider's own tools that have no result: it alone makes
    those."""

    messages: list[Any]
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def tool_use_of(block: object) -> ToolUse:
    """A call out of any vendor's block, as a mapping or as the vendor library's own object. Never raises.

    What is missing is empty: a call without a name asks for a tool that does not exist, and gets that as its result.
    """
    if isinstance(block, ToolUse):
        return block
    function = _part(block, "function")
    named = function if function is not None else block
    arguments = _part(named, "input")
    if arguments is None:
        arguments = _part(named, "arguments")
    found = _part(block, "call_id") or _part(block, "id")
    return ToolUse(_word(found), _word(_part(named, "name")), arguments)


def tool_uses_in(message: object) -> list[ToolUse]:
    """The calls of one assistant message, in order: a mapping, or the vendor library's own message object."""
    if _part(message, "type") == "function_call":
        return [tool_use_of(message)]
    calls = _part(message, "tool_calls")
    blocks = calls if isinstance(calls, Sequence) and not isinstance(calls, str) else []
    content = _part(message, "content")
    if isinstance(content, Sequence) and not isinstance(content, str):
        blocks = [*(block for block in content if _part(block, "type") == "tool_use"), *blocks]
    return [tool_use_of(block) for block in blocks]


def form_of(messages: Sequence[Message]) -> Form:
    """Which of the three forms a conversation has; Anthropic's where nothing tells."""
    for message in messages:
        if _part(message, "tool_calls") or _part(message, "role") == "tool":
            return Form.OPENAI
        if _part(message, "type") in ("function_call", "function_call_output"):
            return Form.OPENAI_ITEMS
        if any(_part(block, "type") in ("tool_use", "tool_result") for block in _blocks(message)):
            return Form.ANTHROPIC
    return Form.ANTHROPIC


def faults(messages: Sequence[Message]) -> list[str]:
    """What keeps a transcript from being whole, one sentence each; empty when it is."""
    turns, unpaired = _matched(messages), _unpaired(messages)
    found = [f"{call.id} has no result" for turn in turns for call in turn.unanswered]
    found += [f"{name} of the provider's own tools stands alone" for name in unpaired.values()]
    found += [f"the result of {tool_use_id} answers no call" for turn in turns for tool_use_id, _ in turn.orphans]
    found += [
        f"the results of {', '.join(call.id for call in turn.calls)} are not in their place"
        for turn in turns
        if not turn.unanswered and not turn.orphans and turn.rebuilt() != turn.original
    ]
    return found


def unanswered(messages: Sequence[Message]) -> list[ToolUse]:
    """The calls without a result, in order."""
    return [call for turn in _matched(messages) for call in turn.unanswered]


def endings(messages: Sequence[Message]) -> dict[str, bool]:
    """Of each call that has a result: whether it went well."""
    found: dict[str, bool] = {}
    for turn in _matched(messages):
        for call, answer in zip(turn.calls, turn.answers, strict=True):
            if answer is not None:
                found[call.id] = not _is_error(answer)
    return found


def made_whole(messages: Sequence[Message], results: Sequence[ToolResult]) -> Repair:
    """The transcript with each call answered once, at its place.

    `results` answer the calls that have none (`unanswered`), in that order. The given messages are not changed; those
    that need no repair are taken over as they are.
    """
    unpaired = _unpaired(messages)
    turns = _matched(_without(messages, unpaired))
    waiting = list(results)
    added: list[str] = []
    for turn in turns:
        for index, answer in enumerate(turn.answers):
            if answer is None and waiting:
                added.append(turn.calls[index].id)
                turn.answers[index] = _written(waiting.pop(0), turn.form)
    dropped = (
        *unpaired.values(),
        *(tool_use_id for turn in turns for tool_use_id, _ in turn.orphans),
    )
    return Repair([message for turn in turns for message in turn.rebuilt()], tuple(added), dropped)


def begun_by_user(messages: Sequence[Message]) -> list[Any]:
    """The messages, with one of the user in front where they would begin with the assistant's: vendors reject that."""
    first = next((place for place, one in enumerate(messages) if _part(one, "role") not in _INSTRUCTIONS), None)
    if first is None or _part(messages[first], "role") != "assistant":
        return list(messages)
    return [*messages[:first], {"role": "user", "content": BEGINNING_IS_MISSING}, *messages[first:]]


BEGINNING_IS_MISSING = "(The beginning of this conversation is missing.)"
_INSTRUCTIONS = ("system", "developer")


def _unpaired(messages: Sequence[Message]) -> dict[tuple[int, int], str]:
    """The blocks of the provider's own tools without a partner, by their places: calls and results, with their ids.

    A result stands behind its call, in the same message or in a later one.
    """
    waiting: dict[str, tuple[int, int]] = {}
    alone: dict[tuple[int, int], str] = {}
    for place, message in enumerate(messages):
        for index, block in enumerate(_blocks(message)):
            kind = _word(_part(block, "type"))
            if kind.endswith("_tool_use"):
                name = _word(_part(block, "id"))
                if name in waiting:
                    alone[waiting[name]] = name
                waiting[name] = (place, index)
            elif kind.endswith("_tool_result"):
                name = _word(_part(block, "tool_use_id"))
                if waiting.pop(name, None) is None:
                    alone[place, index] = name
    return alone | {at: name for name, at in waiting.items()}


def _without(messages: Sequence[Message], places: Mapping[tuple[int, int], str]) -> list[Any]:
    """The messages without the blocks at these places; a message of which nothing is left goes, too."""
    found: list[Any] = []
    for place, message in enumerate(messages):
        blocks = _blocks(message)
        left = [block for index, block in enumerate(blocks) if (place, index) not in places]
        if len(left) == len(blocks):
            found.append(message)
        elif left:
            found.append({**message, "content": left})
    return found


@dataclass(slots=True)
class _Turn:
    """The messages that make calls, and what follows them up to the next calls; or messages before any call."""

    form: Form
    calls: list[ToolUse] = field(default_factory=list)
    opening: list[Message] = field(default_factory=list)
    following: list[Message] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    """For each call its result as written down, None where there is none."""
    orphans: list[tuple[str, Any]] = field(default_factory=list)
    """Results in this turn that answer none of its calls."""

    @property
    def original(self) -> list[Message]:
        return [*self.opening, *self.following]

    @property
    def unanswered(self) -> list[ToolUse]:
        return [call for call, answer in zip(self.calls, self.answers, strict=True) if answer is None]

    @property
    def has_results(self) -> bool:
        return any(_results(message, self.form) for message in self.following)

    def match(self) -> None:
        """Give each call the first result of the turn that names it."""
        self.orphans = [found for message in self.following for found in _results(message, self.form)]
        self.answers = [_take(self.orphans, call.id) for call in self.calls]

    def rebuilt(self) -> list[Any]:
        """The messages with the results of the calls at their place, and no others; untouched where that is so."""
        rebuilt = self._rebuilt()
        return self.original if rebuilt == self.original else rebuilt

    def _rebuilt(self) -> list[Any]:
        results = [answer for answer in self.answers if answer is not None]
        if self.form is not Form.ANTHROPIC or not results:
            left = [rest for message in self.following if (rest := _stripped(message, self.form)) is not None]
            return [*self.opening, *results, *left]
        others = list(self.following)
        own: Mapping[str, Any] = {"role": "user", "content": []}
        if others and _part(others[0], "role") == "user":
            own = _stripped(others.pop(0), self.form) or own
        answer = {**own, "content": [*results, *_as_blocks(own.get("content"))]}
        left = [rest for message in others if (rest := _stripped(message, self.form)) is not None]
        return [*self.opening, answer, *left]


def _matched(messages: Sequence[Message]) -> list[_Turn]:
    """The turns with their results: those of the turn first, then those that came late, after later calls.

    An id may come again in a later turn (small models count from 0 in each), so no result is sought before its call.
    """
    turns = _turns(messages, form_of(messages))
    for turn in turns:
        turn.match()
    for number, turn in enumerate(turns):
        for index, call in enumerate(turn.calls):
            for later in turns[number + 1 :] if turn.answers[index] is None else ():
                turn.answers[index] = _take(later.orphans, call.id)
                if turn.answers[index] is not None:
                    break
    return turns


def _turns(messages: Sequence[Message], form: Form) -> list[_Turn]:
    turns = [_Turn(form)]
    for message in messages:
        turn, calls = turns[-1], _calls(message, form)
        if not calls:
            turn.following.append(message)
            continue
        if form is Form.OPENAI_ITEMS and turn.calls and not turn.has_results:
            turn.opening.extend(turn.following)  # flat items: calls (and thoughts between them) up to the first output
            turn.following.clear()
        else:
            turn = _Turn(form)
            turns.append(turn)
        turn.calls.extend(calls)
        turn.opening.append(message)
    return turns


def _take(found: list[tuple[str, Any]], tool_use_id: str) -> Any:
    for index, (name, result) in enumerate(found):
        if name == tool_use_id:
            del found[index]
            return result
    return None


def _written(result: ToolResult, form: Form) -> dict[str, Any]:
    if form is Form.ANTHROPIC:
        return result.as_anthropic()
    return result.as_openai() if form is Form.OPENAI else result.as_openai_item()


def _calls(message: Message, form: Form) -> list[ToolUse]:
    if form is Form.OPENAI_ITEMS:
        return [tool_use_of(message)] if _part(message, "type") == "function_call" else []
    if _part(message, "role") != "assistant":
        return []
    if form is Form.OPENAI:
        calls = _part(message, "tool_calls")
        return [tool_use_of(call) for call in calls] if isinstance(calls, (list, tuple)) else []
    return [tool_use_of(block) for block in _blocks(message) if _part(block, "type") == "tool_use"]


def _results(message: Message, form: Form) -> list[tuple[str, Any]]:
    """The results that a message holds, each with the id of the call that it answers."""
    if form is Form.OPENAI_ITEMS:
        is_result = _part(message, "type") == "function_call_output"
        return [(_word(_part(message, "call_id")), message)] if is_result else []
    if form is Form.OPENAI:
        return [(_word(_part(message, "tool_call_id")), message)] if _part(message, "role") == "tool" else []
    if _part(message, "role") != "user":
        return []
    blocks = (block for block in _blocks(message) if _part(block, "type") == "tool_result")
    return [(_word(_part(block, "tool_use_id")), block) for block in blocks]


def _stripped(message: Message, form: Form) -> Message | None:
    """The message without the results it holds; None where nothing is left of it."""
    if not _results(message, form):
        return message
    left = [block for block in _blocks(message) if _part(block, "type") != "tool_result"]
    return {**message, "content": left} if form is Form.ANTHROPIC and left else None


def _is_error(answer: object) -> bool:
    """By Anthropic's flag; the other forms have none, so by how our own texts begin."""
    text = _part(answer, "output") or _part(answer, "content")
    return _part(answer, "is_error") is True or (isinstance(text, str) and text.startswith(ERROR_PREFIX))


def _blocks(message: object) -> list[Any]:
    content = _part(message, "content")
    return list(content) if isinstance(content, (list, tuple)) else []


def _as_blocks(content: object) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content) if isinstance(content, (list, tuple)) else []


def _part(source: object, name: str) -> Any:
    try:
        return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
    except Exception:
        return None


def _word(value: object) -> str:
    return str(value) if isinstance(value, str) else ""
