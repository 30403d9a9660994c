"""Streams of a model's answer: held until there is something of the answer, then handed on as they come.

What goes wrong before that is an attempt that failed, and is made again. What goes wrong after it is told and raised:
the code above has a part of the answer, and nobody can take it back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from recovery_ops.rules.records import dataclass
from recovery_ops.rules.words import Category, StopReason
from recovery_ops.runtime.errors import RecoveryExhausted
from recovery_ops.runtime.signals import classify

if TYPE_CHECKING:
    from recovery_ops.runtime.integrations.model_calls import Dialect

MOST_HELD = 64
"""Events that are held back at most; a vendor that says more before the answer begins is heard as it speaks."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer. `input_tokens` includes those that came from, or went into, a cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0


class Hearing:
    """What one stream has said of tokens, and whom to tell."""

    def __init__(self, dialect: Dialect, count: Callable[[Usage], None], report: Callable[[Exception], None]) -> None:
        self.dialect = dialect
        self.count = count
        self.report = report
        self._input = self._output = self._cached = 0

    def note(self, event: Any) -> Exception | None:
        """Read an event; returns the trouble that it tells of. Counts are totals so far: the largest is the last."""
        usage = self.dialect.usage(event)
        if usage is not None:
            self._input = max(self._input, usage.input_tokens)
            self._output = max(self._output, usage.output_tokens)
            self._cached = max(self._cached, usage.cached_input_tokens)
        return self.dialect.trouble(event)

    def end(self) -> None:
        """Count what was used, once."""
        if self._input or self._output:
            self.count(Usage(self._input, self._output, self._cached))
            self._input = self._output = self._cached = 0


def hear(stream: Any, hearing: Hearing) -> Any:
    """The vendor's own stream, begun; raises what went wrong before anything of the answer came."""
    source: Iterator[Any] | None = getattr(stream, "_iterator", None)
    if source is None:  # a version of the vendor's that keeps it elsewhere: guarded up to here
        return stream
    held: list[Any] = []
    try:
        for event in source:
            trouble = hearing.note(event)
            if trouble is not None:
                raise trouble
            held.append(event)
            if hearing.dialect.is_content(event) or len(held) >= MOST_HELD:
                break
    except BaseException:
        hearing.end()
        stream.close()
        raise
    stream._iterator = _handed_on(held, source, hearing)
    return stream


def _handed_on(held: list[Any], source: Iterator[Any], hearing: Hearing) -> Iterator[Any]:
    try:
        yield from held
        for event in source:
            trouble = hearing.note(event)
            if trouble is not None:
                raise trouble
            yield event
    except Exception as error:
        raise _told(error, hearing) from error.__cause__
    finally:
        hearing.end()


async def hear_async(stream: Any, hearing: Hearing) -> Any:
    """As `hear`."""
    source: AsyncIterator[Any] | None = getattr(stream, "_iterator", None)
    if source is None:
        return stream
    held: list[Any] = []
    try:
        async for event in source:
            trouble = hearing.note(event)
            if trouble is not None:
                raise trouble
            held.append(event)
            if hearing.dialect.is_content(event) or len(held) >= MOST_HELD:
                break
    except BaseException:
        hearing.end()
        await stream.close()
        raise
    stream._iterator = _handed_on_async(held, source, hearing)
    return stream


async def _handed_on_async(held: list[Any], source: AsyncIterator[Any], hearing: Hearing) -> AsyncIterator[Any]:
    try:
        for event in held:
            yield event
        async for event in source:
            trouble = hearing.note(event)
            if trouble is not None:
                raise trouble
            yield event
    except Exception as error:
        raise _told(error, hearing) from error.__cause__
    finally:
        hearing.end()


def _told(error: Exception, hearing: Hearing) -> Exception:
    """The vendor's own error as it came; a refusal in the middle as the guard would have raised it."""
    hearing.report(error)
    failure = classify(error)
    if failure.category is not Category.POLICY_DENIED or getattr(error, "kind", None) is None:
        return error
    return RecoveryExhausted(
        "model",
        last_error=error,
        attempts=1,
        rungs=("retry", "fail"),
        reason=StopReason.NOT_RETRYABLE,
        category=failure.category,
        user_message=failure.user_message,
        suggestion=failure.suggestion,
    )
