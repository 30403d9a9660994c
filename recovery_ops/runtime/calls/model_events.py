"""Events of streamed answers, in the forms of OpenAI's chat and Responses APIs and of Anthropic's Messages API.

Events are recognised by their attributes: vendors' packages are not imported, and compatible clients are understood.
An event of another form says nothing.
"""

from __future__ import annotations

from typing import Any

from recovery_ops.runtime.failures.empty_answers import ModelFailed

_DELTA_FIELDS = (
    *("content", "tool_calls", "function_call", "refusal", "text"),
    *("reasoning_content", "reasoning"),  # DeepSeek, vLLM, OpenRouter
)
_RESPONSE_ENDS = frozenset(f"response.{end}" for end in ("completed", "incomplete", "failed", "cancelled", "done"))
_MESSAGE_CONTENT = frozenset({"content_block_delta", "message_delta", "completion"})
_MESSAGE_EVENTS = _MESSAGE_CONTENT | {"message_start", "content_block_start", "content_block_stop", "message_stop"}
_WHOLE = None
"""The part that an answer without choices is."""


class StreamedAnswer:
    """How far the answer of one stream is; `note` reads its events in order."""

    __slots__ = ("_begun", "_ended", "_is_known")

    def __init__(self) -> None:
        self._is_known = False
        self._begun: set[int | None] = set()
        self._ended: set[int | None] = set()

    @property
    def is_open(self) -> bool:
        """Whether its end is missing, or that of one of its choices; False where no event is of a known form."""
        return self._is_known and not (self._ended and self._begun <= self._ended)

    def note(self, event: Any) -> None:
        """Read an event."""
        kind = _kind(event)
        if not kind and (choices := _choices(event)) is not None:
            self._is_known = True
            for choice in choices:
                self._add(getattr(choice, "index", 0), is_end=bool(getattr(choice, "finish_reason", None)))
        elif kind.startswith("response.") or kind in _MESSAGE_EVENTS:
            self._is_known = True
            reason = getattr(getattr(event, "delta", event), "stop_reason", None)
            self._add(_WHOLE, is_end=kind in _RESPONSE_ENDS or kind == "message_stop" or bool(reason))

    def _add(self, part: int | None, *, is_end: bool) -> None:
        self._begun.add(part)
        if is_end:
            self._ended.add(part)


def has_content(event: Any) -> bool | None:
    """Whether an event has something of the answer in it; None for an event of another form."""
    kind = _kind(event)
    if kind.startswith("response."):
        return kind.endswith((".delta", ".completed", ".incomplete"))
    if kind in _MESSAGE_EVENTS:
        return kind in _MESSAGE_CONTENT
    choices = None if kind else _choices(event)
    if choices is None:
        return None
    return any(getattr(delta, name, None) for delta in map(_delta, choices) for name in _DELTA_FIELDS)


def text_in(event: Any) -> str:
    """The text of the answer in an event; empty for an event of another form."""
    kind = _kind(event)
    if kind.startswith("response."):
        return str(event.delta) if kind == "response.output_text.delta" else ""
    if kind in _MESSAGE_EVENTS:
        return str(getattr(getattr(event, "delta", None), "text", None) or getattr(event, "completion", None) or "")
    deltas = [_delta(choice) for choice in ((not kind and _choices(event)) or ())[:1]]
    return "".join(str(getattr(delta, "content", None) or getattr(delta, "text", None) or "") for delta in deltas)


def failure_of(event: Any) -> ModelFailed | None:
    """The failure that an event of the Responses API reports."""
    kind = _kind(event)
    error = event if kind == "error" else None
    if kind == "response.failed":
        error = getattr(getattr(event, "response", None), "error", None)
    message = getattr(error, "message", None)
    if not isinstance(message, str):
        return None
    return ModelFailed(str(getattr(error, "code", None) or "server_error"), message)


def _kind(event: Any) -> str:
    kind = getattr(event, "type", None)
    return kind if isinstance(kind, str) else ""


def _choices(event: Any) -> list[Any] | None:
    choices = getattr(event, "choices", None)
    return choices if isinstance(choices, list) else None


def _delta(choice: Any) -> Any:
    """The new part of a choice; a text completion is its own."""
    return getattr(choice, "delta", choice)
