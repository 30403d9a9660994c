"""The transports themselves, sync and async, without a library: `httpx` and `httpx2` beside this give them theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Unpack

from recovery_ops.rules.enums import Adjustment
from recovery_ops.runtime.calls.operation import ATTEMPT
from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.guards.options import AllGuardOptions, check_options
from recovery_ops.runtime.integrations.http_calls import LONGEST_LOOK, Calls, Exchange, Library, is_failing


class SyncCalls:
    """What a sync transport derives from, beside its library's own base."""

    library: ClassVar[Library]

    def __init__(
        self,
        recovery: Recovery,
        transport: Any = None,
        *,
        fresh: Callable[[], Any] | None = None,
        operation: str | Callable[[Any], str | None] | None = None,
        is_idempotent: Callable[[Any], bool] | None = None,
        is_failure: Callable[[int], bool] = is_failing,
        **options: Unpack[AllGuardOptions],
    ) -> None:
        check_options(type(self).__name__, recovery.desired.policy.foreground_sources, options)
        make = self.library.module.HTTPTransport
        self._fresh = fresh or (make if transport is None else None)
        self._transport = transport or (self._fresh or make)()
        self._calls = Calls(self.library, recovery, operation, is_idempotent, is_failure, options)

    def handle_request(self, request: Any) -> Any:
        """Send a request, as often as the rules allow."""
        found = self._calls.guard_of(request, self._send)
        if found is None:
            return self._transport.handle_request(request)
        guarded, exchange = found
        try:
            return guarded(exchange)
        except Exception as error:
            ended = error
        except BaseException:
            _close(exchange)
            raise
        return self._calls.ended(exchange, ended)

    def close(self) -> None:
        """Close the transport within."""
        self._transport.close()

    def _send(self, exchange: Exchange) -> Any:
        _close(exchange)
        once = self._fresh() if self._fresh is not None and _wants_fresh_connection() else None
        try:
            response = (once or self._transport).handle_request(self._calls.prepared(exchange.request))
        except BaseException:
            if once is not None:
                once.close()
            raise
        stream, broke, body = response.stream, self._calls.broke(exchange), self.library.body
        if not self._calls.is_failure(response.status_code):
            response.stream = body(stream, broke, also_close=once)
            return response
        ahead: list[bytes] = []
        rest, trouble = iter(stream), None
        try:
            for chunk in rest:
                ahead.append(chunk)
                if sum(map(len, ahead)) >= LONGEST_LOOK:
                    break
        except Exception as error:  # the code above meets it where it reads
            trouble = error
        response.stream = body(stream, broke, ahead=ahead, rest=rest, trouble=trouble, also_close=once)
        exchange.response = response
        raise self._calls.failure(exchange.request, response, b"".join(ahead))


class AsyncCalls:
    """What an async transport derives from, beside its library's own base."""

    library: ClassVar[Library]

    def __init__(
        self,
        recovery: Recovery,
        transport: Any = None,
        *,
        fresh: Callable[[], Any] | None = None,
        operation: str | Callable[[Any], str | None] | None = None,
        is_idempotent: Callable[[Any], bool] | None = None,
        is_failure: Callable[[int], bool] = is_failing,
        **options: Unpack[AllGuardOptions],
    ) -> None:
        check_options(type(self).__name__, recovery.desired.policy.foreground_sources, options)
        make = self.library.module.AsyncHTTPTransport
        self._fresh = fresh or (make if transport is None else None)
        self._transport = transport or (self._fresh or make)()
        self._calls = Calls(self.library, recovery, operation, is_idempotent, is_failure, options)

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request, as often as the rules allow."""
        found = self._calls.guard_of(request, self._send)
        if found is None:
            return await self._transport.handle_async_request(request)
        guarded, exchange = found
        try:
            return await guarded(exchange)
        except Exception as error:
            ended = error
        except BaseException:
            await _aclose(exchange)
            raise
        return self._calls.ended(exchange, ended)

    async def aclose(self) -> None:
        """Close the transport within."""
        await self._transport.aclose()

    async def _send(self, exchange: Exchange) -> Any:
        await _aclose(exchange)
        once = self._fresh() if self._fresh is not None and _wants_fresh_connection() else None
        try:
            response = await (once or self._transport).handle_async_request(self._calls.prepared(exchange.request))
        except BaseException:
            if once is not None:
                await once.aclose()
            raise
        stream, broke, body = response.stream, self._calls.broke(exchange), self.library.body
        if not self._calls.is_failure(response.status_code):
            response.stream = body(stream, broke, also_close=once)
            return response
        ahead: list[bytes] = []
        rest, trouble = aiter(stream), None
        try:
            async for chunk in rest:
                ahead.append(chunk)
                if sum(map(len, ahead)) >= LONGEST_LOOK:
                    break
        except Exception as error:  # the code above meets it where it reads
            trouble = error
        response.stream = body(stream, broke, ahead=ahead, rest=rest, trouble=trouble, also_close=once)
        exchange.response = response
        raise self._calls.failure(exchange.request, response, b"".join(ahead))


def _wants_fresh_connection() -> bool:
    """Whether the attempt that we are in follows a connection that was cut."""
    return ATTEMPT.get().adjustment is Adjustment.DISABLE_KEEPALIVE


def _close(exchange: Exchange) -> None:
    response, exchange.response = exchange.response, None
    if response is not None:
        response.stream.close()


async def _aclose(exchange: Exchange) -> None:
    response, exchange.response = exchange.response, None
    if response is not None:
        await response.stream.aclose()
