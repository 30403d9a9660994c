"""What the transports for httpx and httpx2 share: which operation a request is, whether it may be made again, and how
its end looks to the code above.

A status that asks for a retry goes up the ladder as an `HTTPStatusError` of the library's own; what comes back down is
the last response as it came, or the library's last exception.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from types import ModuleType
from typing import Any, ClassVar, NoReturn

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.runtime.calls.exhaustion import MARK
from recovery_ops.runtime.calls.operation import ATTEMPT
from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.errors import (
    CircuitOpen,
    DeadlineExceeded,
    RecoveryError,
    RecoveryExhausted,
    RetryAfterActive,
)
from recovery_ops.runtime.guards.options import AllGuardOptions
from recovery_ops.runtime.guards.types import Guarded
from recovery_ops.runtime.integrations import failure_reports as reporting
from recovery_ops.runtime.runs.context import source_of_run

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""What HTTP promises to be harmless when done twice."""

MOST_HOSTS = 256
"""Each host is an operation with a breaker; an agent that roams the web must not grow without end."""

LONGEST_LOOK = 65_536
"""How much of an error's body is read to classify it; the code above still gets all of it."""

_FAILING = frozenset({408, 409, 429})


def is_failing(status: int) -> bool:
    """Whether a status is the service's trouble. Other errors (404, 403, 422 …) are answers: the code above knows."""
    return status in _FAILING or status >= 500


@dataclass(frozen=True, slots=True)
class Library:
    """httpx or httpx2, and the classes that have to derive from its own."""

    module: ModuleType
    body: type[Any]
    refusals: Sequence[type[Any]]
    """In the order CircuitOpen, RetryAfterActive, DeadlineExceeded."""


@dataclass(slots=True, eq=False)
class Exchange:
    """One request on its way, and the failing response that came last."""

    sends_no_key: ClassVar[bool] = True
    request: Any
    operation: str
    response: Any = None


@dataclass(slots=True, eq=False)
class Calls:
    """The part of a transport that neither waits nor sends."""

    library: Library
    recovery: Recovery
    operation: str | Callable[[Any], str | None] | None
    is_idempotent: Callable[[Any], bool] | None
    is_failure: Callable[[int], bool]
    options: AllGuardOptions
    _guards: dict[tuple[str, bool], Guarded[..., Any]] = field(default_factory=dict)

    def name_of(self, request: Any) -> str | None:
        """The operation: what the request says, what the developer said, or the host. None: not guarded."""
        own = request.extensions.get("operation")
        if isinstance(own, str):
            return own
        if self.operation is not None:
            return self.operation if isinstance(self.operation, str) else self.operation(request)
        host = request.url.netloc.decode("ascii")
        name = f"http:{host.rpartition('@')[2]}"
        is_new = (name, True) not in self._guards and (name, False) not in self._guards
        return None if is_new and len({known for known, _ in self._guards}) >= MOST_HOSTS else name

    def guard_of(self, request: Any, send: Callable[..., Any]) -> tuple[Guarded[..., Any], Exchange] | None:
        """How to make this request; None for one that nobody guards."""
        name = self.name_of(request)
        if name is None:
            return None
        key = (name, self.may_repeat(request))
        guarded = self._guards.get(key)
        if guarded is None:
            options: AllGuardOptions = {"reraise": True, **self.options, "idempotent": key[1]}
            guarded = self._guards[key] = self.recovery.guard(name, **options)(send)
        return guarded, Exchange(request, name)

    def may_repeat(self, request: Any) -> bool:
        """Whether the request may be made twice, by its method, its key, or the developer's word."""
        if not self.can_replay(request):
            return False
        own = request.extensions.get("is_idempotent")
        if isinstance(own, bool):
            return own
        if self.is_idempotent is not None:
            return self.is_idempotent(request)
        return request.method in SAFE_METHODS or "idempotency-key" in request.headers

    def can_replay(self, request: Any) -> bool:
        """Whether the body is in memory; a generator or a file is spent by the first attempt."""
        return isinstance(request.stream, self.library.module.ByteStream)

    def prepared(self, request: Any) -> Any:
        """The request for this attempt: it takes no longer than what is left."""
        left_s = ATTEMPT.get().remaining_s
        if left_s is None:
            return request
        given = request.extensions.get("timeout") or dict.fromkeys(("connect", "read", "write", "pool"))
        timeout = {name: left_s if value is None else min(value, left_s) for name, value in given.items()}
        return self.library.module.Request(
            request.method,
            request.url,
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "timeout": timeout},
        )

    def failure(self, request: Any, response: Any, seen: bytes) -> Exception:
        """The failing response as the error that the rules look at; `seen` is the beginning of its body."""
        module, headers = self.library.module, response.headers.copy()
        if not self.can_replay(request):
            headers["x-should-retry"] = "false"  # its body was sent, and cannot be sent again
        copied: Any = None
        with suppress(Exception):  # a body that is not in the encoding it claims
            copied = module.Response(response.status_code, headers=headers, content=seen, request=request)
        if copied is None:
            copied = module.Response(response.status_code, headers=headers, request=request)
        text = f"{response.status_code} {response.reason_phrase}"
        error: Exception = module.HTTPStatusError(text, request=request, response=copied)
        return error

    def broke(self, exchange: Exchange) -> Callable[[Exception], None]:
        """What to do when a body breaks off in the reader's hands: it is told, and not asked for again."""

        def tell(error: Exception) -> None:
            operation = self.recovery.operations.get(exchange.operation)
            if operation is not None and isinstance(error, self.library.module.TransportError):
                source = self.options.get("source", "") or source_of_run() or self.recovery.default_source
                reporting.failed(self.recovery, operation, error, source=source, counts_for_breaker=True)

        return tell

    def ended(self, exchange: Exchange, error: Exception) -> Any:
        """What the code above gets when the ladder gave up: the last response, or an error of the library's."""
        kinds: tuple[type[RecoveryError], ...] = (CircuitOpen, RetryAfterActive, DeadlineExceeded)
        for kind, ours in zip(kinds, self.library.refusals, strict=True):
            if isinstance(error, kind):
                _refuse(ours, error, exchange.request)
        cause = error.last_error if isinstance(error, RecoveryExhausted) else error
        if isinstance(error, RecoveryError) and not isinstance(error, RecoveryExhausted):
            cause = error.__cause__ or error
        if isinstance(cause, self.library.module.HTTPStatusError) and exchange.response is not None:
            if (found := getattr(cause, MARK, None)) is not None:
                exchange.response.extensions[MARK] = found  # for a guard around the client that raises the status
            return exchange.response
        if type(cause) is TimeoutError:  # our deadline, which the code above knows by another name
            raise self.library.module.ReadTimeout(str(cause), request=exchange.request) from cause
        raise cause or error


def _refuse(ours: type[Any], error: Exception, request: Any) -> NoReturn:
    """Both an error of the runtime's, with its fields, and one of the library's."""
    refused = ours.__new__(ours, *error.args)
    refused.__dict__.update(error.__dict__)
    refused.request = request
    raise refused


class Begun:
    """A body of which a part may have been read ahead; `also_close` is closed with it. For sync and async libraries."""

    def __init__(
        self,
        stream: Any,
        broke: Callable[[Exception], None],
        *,
        ahead: Sequence[bytes] = (),
        rest: Any = None,
        trouble: Exception | None = None,
        also_close: Any = None,
    ) -> None:
        self._stream = stream
        self._broke = broke
        self._ahead = ahead
        self._rest = stream if rest is None else rest
        self._trouble = trouble
        self._also_close = also_close

    def __iter__(self) -> Iterator[bytes]:
        yield from self._ahead
        if self._trouble is not None:
            raise self._trouble
        try:
            yield from self._rest
        except Exception as error:
            self._broke(error)
            raise

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._ahead:
            yield chunk
        if self._trouble is not None:
            raise self._trouble
        try:
            async for chunk in self._rest:
                yield chunk
        except Exception as error:
            self._broke(error)
            raise

    def close(self) -> None:
        """Give the connection back."""
        self._stream.close()
        if self._also_close is not None:
            self._also_close.close()

    async def aclose(self) -> None:
        """Give the connection back."""
        await self._stream.aclose()
        if self._also_close is not None:
            await self._also_close.aclose()
