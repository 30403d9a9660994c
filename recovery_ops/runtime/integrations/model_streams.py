"""Streams of vendors' clients: the tokens that they count, and the failures that come as events."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.runtime.calls.streams import Held, Opened


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer. `input_tokens` includes those that came from, or went into, a cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0


class Dialect(Protocol):
    """What one vendor says in its own way."""

    provider: str
    default_timeout: Any

    def answers(self, url: str) -> bool:
        """Whether a POST to this path asks a model for an answer, and may be made twice."""

    def limit_key(self, url: str, request: Mapping[str, Any]) -> str | None:
        """The name of the parameter that limits the answer's tokens."""

    def usage(self, answer: Any) -> Usage | None:
        """What a whole answer, or an event of a stream, says of tokens."""

    def trouble(self, answer: Any) -> Exception | None:
        """A refusal or a failure that came as an answer, whole or as an event."""

    def part(self, url: str) -> str:
        """The attribute that every answer of this path has."""

    def connection_error(self, message: str, request: Any) -> Exception:
        """The vendor's own error for a connection that broke."""

    def continued(self, url: str, body: Mapping[str, Any], part: str) -> dict[str, Any]:
        """The request for the rest of an answer whose beginning is `part`."""


class VendorStream(Opened):
    """A vendor's own stream. The caller gets that object, which then reads what the guard hands on."""

    def __init__(self, stream: Any, dialect: Dialect, count: Callable[[Usage], None]) -> None:
        super().__init__(stream)
        self.source = getattr(stream, "_iterator", stream)
        self._dialect, self._count, self._close = dialect, count, stream.close
        self._input = self._output = self._cached = 0

    def note(self, event: Any) -> Exception | None:
        """Read an event; returns the failure that it stands for. Counts are totals so far: the largest is the last."""
        usage = self._dialect.usage(event)
        if usage is not None:
            self._input = max(self._input, usage.input_tokens)
            self._output = max(self._output, usage.output_tokens)
            self._cached = max(self._cached, usage.cached_input_tokens)
        return super().note(event) or self._dialect.trouble(event)

    def cut(self) -> Exception:
        return self._dialect.connection_error(str(super().cut()), self.value.response.request)

    def end(self) -> None:
        """Count what was used, once."""
        if self._input or self._output:
            self._count(Usage(self._input, self._output, self._cached))
            self._input = self._output = self._cached = 0

    def restarted(self, count: int) -> None:
        self.value.restarts = count

    def close_source(self) -> None:
        with contextlib.suppress(Exception):
            self._close()

    async def close_async(self) -> None:
        with contextlib.suppress(Exception):
            await self._close()

    def hand_on(self, stream: Any) -> Any:
        if hasattr(self.value, "_iterator"):
            self.value._iterator, self.value.restarts = stream, 0
            if not isinstance(stream, Held):
                self.value.close = stream.close
            return self.value
        return stream
