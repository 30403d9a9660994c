"""Answers with status 200 that are none: an error object, an empty list of choices, or a page of HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SHOWN_CHARS = 200


class ModelRefused(Exception):
    """The model, or the provider's filter, declined to answer. The same request is not repeated."""

    kind = "content_refused"


class ModelFailed(Exception):
    """The provider answered 200 with an error in the body; `code` is its word for why, `body` the error as it came."""

    def __init__(self, code: str, message: str, body: Mapping[str, Any] | None = None) -> None:
        self.code = code
        self.message = message
        self.body = body
        super().__init__(message)


class ModelAnswerUnreadable(Exception):
    """The provider answered 200 with something that is no answer of its interface."""

    kind = "schema_mismatch"


def failure_in(answer: Any, part: str) -> Exception | None:
    """The error that an answer is instead; `part` is the attribute that every answer of this path has."""
    if answer is None or isinstance(answer, (str, bytes, list)):
        return unreadable(answer)
    failed = failed_by(_flat_error(answer) or getattr(answer, "error", None))
    if failed is not None:
        return failed
    found = getattr(answer, part, None)
    is_missing = found is None or (part == "choices" and not found)
    return ModelAnswerUnreadable(f"the answer has no {part}") if is_missing else None


def _flat_error(answer: Any) -> dict[str, Any] | None:
    """The error where the whole answer is one, as vLLM and Mistral write it."""
    if getattr(answer, "object", "") != "error":
        return None
    return {name: getattr(answer, name, None) for name in ("message", "type", "code")}


def failed_by(error: Any) -> ModelFailed | None:
    """The failure that an error object means, as the vendor's library or plain JSON holds it."""
    if not isinstance(error, Mapping):
        dump = getattr(error, "model_dump", None)
        error = dump() if callable(dump) else {"message": error} if isinstance(error, str) and error else None
    if not error:
        return None
    code = error.get("code") or error.get("type") or "server_error"
    return ModelFailed(str(code), str(error.get("message") or ""), {"error": dict(error)})


def unreadable(answer: object) -> ModelAnswerUnreadable:
    """An answer in another form, told by how it begins."""
    return ModelAnswerUnreadable(f"the answer is not of this interface: {str(answer)[:_SHOWN_CHARS]!r}")
