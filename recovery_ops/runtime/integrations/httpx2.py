"""`integrations.httpx` for httpx2, on which the clients of Anthropic, OpenAI, Google and MCP stand.

from recovery_ops.runtime.integrations.httpx2 import RecoveryTransport

with httpx2.Client(transport=RecoveryTransport(recovery)) as client:
    client.get("https://prices.example/today")
"""

from __future__ import annotations

from recovery_ops.runtime.errors import CircuitOpen, DeadlineExceeded, RetryAfterActive
from recovery_ops.runtime.integrations.http_calls import Begun, Library
from recovery_ops.runtime.integrations.http_transports import AsyncCalls, SyncCalls
from recovery_ops.runtime.integrations.packages import missing

try:
    import httpx2
except ModuleNotFoundError as error:
    raise missing(__name__, "httpx2", error) from None


class BreakerOpen(CircuitOpen, httpx2.ConnectError):
    """As in `integrations.httpx`."""


class ServerAskedForPause(RetryAfterActive, httpx2.ConnectError):
    """As in `integrations.httpx`."""


class NoTimeLeft(DeadlineExceeded, httpx2.ConnectTimeout):
    """As in `integrations.httpx`."""


class _Body(Begun, httpx2.SyncByteStream, httpx2.AsyncByteStream):
    pass


LIBRARY = Library(httpx2, _Body, (BreakerOpen, ServerAskedForPause, NoTimeLeft))


class RecoveryTransport(SyncCalls, httpx2.BaseTransport):
    """For `httpx2.Client`; see `integrations.httpx`."""

    library = LIBRARY


class AsyncRecoveryTransport(AsyncCalls, httpx2.AsyncBaseTransport):
    """For `httpx2.AsyncClient`; see `integrations.httpx`."""

    library = LIBRARY
