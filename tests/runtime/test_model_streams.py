"""Streams of vendors' clients under a plain guard: the end of an answer is told by its events, not by its last byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace as Object
from typing import Any

import pytest

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import AttemptSucceeded, FailureClassified
from recovery_ops.runtime.calls.streams import StreamCut
from recovery_ops.runtime.failures.empty_answers import ModelAnswerUnreadable, ModelFailed
from recovery_ops.runtime.testing import Lab


def chunk(text: str = "", end: str | None = None, index: int = 0, **delta: Any) -> Object:
    """A chunk of OpenAI's chat completions."""
    choice = Object(index=index, delta=Object(content=text, **delta), finish_reason=end)
    return Object(object="chat.completion.chunk", choices=[choice])


def event(kind: str, **fields: Any) -> Object:
    """An event of OpenAI's Responses API, or of Anthropic's messages."""
    return Object(type=kind, **fields)


CHAT = [chunk(role="assistant"), chunk("fi"), chunk("ne"), chunk(end="stop"), Object(choices=[], usage=Object())]
TEXTS = [
    Object(choices=[Object(index=0, text=text, finish_reason=end)]) for text, end in (("fi", None), ("ne", "stop"))
]
RESPONSES = [
    event("response.created"),
    *(event("response.output_text.delta", delta=text) for text in ("fi", "ne")),
    event("response.completed", response=Object(error=None)),
]
MESSAGES = [
    event("message_start", message=Object(stop_reason=None)),
    event("content_block_start"),
    *(event("content_block_delta", delta=Object(text=text)) for text in ("fi", "ne")),
    event("content_block_stop"),
    event("message_delta", delta=Object(stop_reason="end_turn")),
    event("message_stop"),
]
FORMS = {"chat": CHAT, "texts": TEXTS, "responses": RESPONSES, "messages": MESSAGES}
LAST_TEXT = {"chat": 3, "texts": 1, "responses": 3, "messages": 5}
"""How many events there are before the one that ends the answer."""

Read = Callable[..., list[Any]]


@pytest.fixture
def lab() -> Lab:
    return Lab(default_source="main_agent")


@pytest.fixture(params=["thread", "task"])
def read(request: pytest.FixtureRequest, lab: Lab) -> Read:
    """Read the streams of a model, one for each attempt, with a fallback; the events that the caller gets."""

    def asked(*streams: list[Any], **options: Any) -> list[Any]:
        left = list(streams)

        async def ask() -> AsyncIterator[Any]:
            return _played(left.pop(0))

        async def go(guarded: Callable[[], Any]) -> list[Any]:
            return [one async for one in await guarded()]

        is_thread = request.param == "thread"
        options = {"fallback": (lambda: iter(["instead"])) if is_thread else _instead, **options}
        guard: Any = lab.recovery.guard("model", kind="model", **options)
        return list(guard(lambda: iter(left.pop(0)))()) if is_thread else asyncio.run(go(guard(ask)))

    return asked


async def _instead() -> AsyncIterator[str]:
    return _played(["instead"])


async def _played(events: list[Any]) -> AsyncIterator[Any]:
    for one in events:
        yield one


def categories(lab: Lab) -> list[Category]:
    return [found.category for found in lab.events_of(FailureClassified)]


@pytest.mark.parametrize("form", FORMS)
def test_whole_answer_is_a_success(lab: Lab, read: Read, form: str) -> None:
    assert read(FORMS[form], whole_streams=True) == FORMS[form]
    assert categories(lab) == []


@pytest.mark.parametrize("form", FORMS)
def test_answer_without_end_is_retried(lab: Lab, read: Read, form: str) -> None:
    cut = FORMS[form][: LAST_TEXT[form]]
    assert read(cut, FORMS[form], whole_streams=True) == FORMS[form]
    assert categories(lab) == [Category.NETWORK]


@pytest.mark.parametrize("form", FORMS)
def test_answer_without_end_goes_to_fallback(lab: Lab, read: Read, form: str) -> None:
    cut = FORMS[form][: LAST_TEXT[form]]
    assert read(cut, cut, cut, whole_streams=True) == ["instead"]
    assert categories(lab) == [Category.NETWORK] * 3


@pytest.mark.parametrize("form", FORMS)
def test_part_without_end_is_restarted_or_raised(lab: Lab, read: Read, form: str) -> None:
    cut = FORMS[form][: LAST_TEXT[form]]
    assert read(cut, on_broken_stream="restart") == [*cut, "instead"]
    with pytest.raises(StreamCut):
        read(cut)
    assert lab.events_of(AttemptSucceeded) == []


def test_cut_before_the_first_token_is_retried(lab: Lab, read: Read) -> None:
    assert read(CHAT[:1], CHAT) == CHAT
    assert categories(lab) == [Category.NETWORK]


def test_each_choice_of_an_answer_has_an_end(lab: Lab, read: Read) -> None:
    both = [chunk("a"), chunk("b", index=1), chunk(end="stop"), chunk(end="stop", index=1), chunk()]
    assert read(both) == both
    with pytest.raises(StreamCut):
        read(both[:3])


def test_missing_finish_reason_can_be_accepted(lab: Lab, read: Read) -> None:
    assert read(CHAT[:3], finish_reason_required=False) == CHAT[:3]
    assert read(CHAT[:3], finish_reason_required=False, whole_streams=True) == CHAT[:3]
    assert categories(lab) == []


def test_answer_without_text_is_cut_however_declared(lab: Lab, read: Read) -> None:
    assert read(CHAT[:1], CHAT, finish_reason_required=False) == CHAT
    assert categories(lab) == [Category.NETWORK]


@pytest.mark.parametrize("events", [["fi", "ne"], [Object(type="text", text="fine")], [1, None, {"choices": []}], []])
def test_other_events_say_nothing_of_an_end(lab: Lab, read: Read, events: list[Any]) -> None:
    assert read(events, whole_streams=True) == events
    assert categories(lab) == []


@pytest.mark.parametrize(
    "failed",
    [
        event("error", code="server_error", message="The model failed"),
        event("response.failed", response=Object(error=Object(code="server_error", message="The model failed"))),
    ],
    ids=["error", "failed"],
)
def test_failure_within_a_stream_is_a_failure(lab: Lab, read: Read, failed: Any) -> None:
    broken = [*RESPONSES[:2], failed]
    with pytest.raises(ModelFailed):
        read(broken)
    assert read(broken, broken, whole_streams=True) == ["instead"]
    assert set(categories(lab)) == {Category.SERVER_ERROR}


@pytest.mark.parametrize("name", ["content", "reasoning_content", "reasoning", "tool_calls", "refusal"])
def test_break_after_reasoning_is_raised(lab: Lab, name: str) -> None:
    def ask() -> Iterator[Any]:
        yield chunk(role="assistant")
        yield Object(choices=[Object(index=0, delta=Object(**{name: "x"}), finish_reason=None)])
        raise ConnectionResetError(104, "reset")

    with pytest.raises(ConnectionResetError):
        list(lab.recovery.guard("model", kind="model", fallback=lambda: iter([]))(ask)())
    assert [found.broken_stream for found in lab.events_of(FailureClassified)] == ["error"]


class VendorStream:
    """A stream of a vendor's client: it reads an HTTP response."""

    def __init__(self, events: list[Any], content_type: str = "text/event-stream", body: bytes = b"") -> None:
        self._events = iter(events)
        self.response = Object(headers={"content-type": content_type}, read=lambda: body, is_closed=True)

    def __iter__(self) -> VendorStream:
        return self

    def __next__(self) -> Any:
        return next(self._events)

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (VendorStream([]), ModelAnswerUnreadable),
        (VendorStream([], "text/html", b"<html>maintenance</html>"), ModelAnswerUnreadable),
        (VendorStream([], "application/json", b'{"error": {"code": "server_error", "message": "x"}}'), ModelFailed),
    ],
    ids=["no events", "page", "error"],
)
def test_response_without_events_is_a_failure(lab: Lab, stream: VendorStream, error: type[Exception]) -> None:
    guard: Any = lab.recovery.guard("model", kind="model", max_retries=0)
    with pytest.raises(error):
        guard(lambda: stream)()
    instead: Any = lab.recovery.guard("other", kind="model", max_retries=0, fallback=lambda: "instead")
    assert instead(lambda: stream)() == "instead"
