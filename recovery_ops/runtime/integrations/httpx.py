"""Transports for httpx that recover: give one to a client, and the code above notices nothing.

from recovery_ops.runtime.integrations.httpx import RecoveryTransport

with httpx.Client(transport=RecoveryTransport(recovery)) as client:
    client.get("https://prices.example/today")  # retried, gated and counted as `http:prices.example`
"""

from __future__ import annotations

from recovery_ops.runtime.errors import CircuitOpen, DeadlineExceeded, RetryAfterActive
from recovery_ops.runtime.integrations.http_calls import Begun, Library
from recovery_ops.runtime.integrations.http_transports import AsyncCalls, SyncCalls
from recovery_ops.runtime.integrations.packages import missing

try:
    import httpx
except ModuleNotFoundError as error:
    raise missing(__name__, "httpx", error) from None


class BreakerOpen(CircuitOpen, httpx.ConnectError):
    """The request was not sent: the operation's breaker is open."""


class ServerAskedForPause(RetryAfterActive, httpx.ConnectError):
    """The request was not sent: the server said when to come back, and it is not then."""


class NoTimeLeft(DeadlineExceeded, httpx.ConnectTimeout):
    """The request was not sent: the deadline of the run has passed."""


class _Body(Begun, httpx.SyncByteStream, httpx.AsyncByteStream):
    pass


LIBRARY = Library(httpx, _Body, (BreakerOpen, ServerAskedForPause, NoTimeLeft))


class RecoveryTransport(SyncCalls, httpx.BaseTransport):
    """Sends each request of an `httpx.Client` up the ladder.

    `transport` absent is `httpx.HTTPTransport()`; `fresh` makes another for the retry after a cut connection, so that
    no old one is used (without it, a given `transport` is used again). `operation` names the operation, or makes the
    name from a request (None: not guarded); absent, each host is one (at most 256; further hosts are not guarded).
    `is_idempotent` says which requests may be made twice; absent, GET, HEAD, OPTIONS, TRACE, PUT, DELETE and whatever
    carries an Idempotency-Key. `is_failure(status)` says what goes up the ladder; absent, 408, 409, 429 and 5xx.
    A request may say its own: `client.post(url, extensions={"operation": "search", "is_idempotent": True})`.
    The rest are the options of a guard (`source`, `max_retries`, `settings` …).

    Gives up with the last response as it came, or with the last exception of httpx's. What was not sent at all raises
    `BreakerOpen`, `ServerAskedForPause` (both also `ConnectError`) or `NoTimeLeft` (also `ConnectTimeout`).
    """

    library = LIBRARY


class AsyncRecoveryTransport(AsyncCalls, httpx.AsyncBaseTransport):
    """`RecoveryTransport` for `httpx.AsyncClient`; a deadline cancels the attempt."""

    library = LIBRARY
