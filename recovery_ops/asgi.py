"""The one server entry point: sends each request to the door it belongs to.

Facts and streams are plain ASGI: nothing of Django's stands between their socket and their answer. Everything else is
Django in a pool of threads that keep their database connections, which is two to three times as quick as its ASGI
handler.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from types import FrameType
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")

from django.conf import settings
from django.core.wsgi import get_wsgi_application

_django = get_wsgi_application()  # sets Django up: everything below may import models

from events.otlp import receiver
from recovery_ops.control.dashboard import live_stream
from recovery_ops.control.desired_state import stream
from recovery_ops.server.asgi_apps import App, Receive, Scope, Send, WsgiDoor, answer
from recovery_ops.server.garbage_collection import look_for_cycles_less_often
from recovery_ops.server.health import NotReady, Readiness
from recovery_ops.server.log_filters import WithoutLinks
from recovery_ops.server.parent_watch import end_with_parent
from recovery_ops.server.sqlite_connections import close_all_connections


def _traced(app: App) -> App:
    """With spans where a collector is named; OpenTelemetry is loaded only there."""
    if not settings.OTLP_EXPORT_URL:
        return app
    from recovery_ops.control.self_monitoring.request_spans import traced

    return traced(app)


_intake = _traced(receiver.app)


class Dispatcher:
    """Chooses the door by path; tells the open streams to end as soon as the server is told to."""

    def __init__(self, django: WsgiDoor) -> None:
        self._django = django
        self._readiness = Readiness()
        self.health: dict[str, App] = {"/healthz": _healthz, "/readyz": self._readyz}
        self._doors: dict[str, App] = {
            "/api/v1/desired/stream": _traced(stream.app),
            "/live/stream": _traced(live_stream.app),
            **self.health,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            if scope["path"].startswith("//"):  # an exporter was given an address that ends in a slash
                scope = {**scope, "path": f"/{scope['path'].lstrip('/')}"}
            await self._door_of(scope)(scope, receive, send)

    def _door_of(self, scope: Scope) -> App:
        path = scope["path"]
        if path == "/v1/opamp":
            return self._django
        if path == "/v1" or path.startswith("/v1/"):
            return _intake
        if scope.get("server") and scope["server"][1] == settings.OTLP_PORT:
            return self.health.get(path, _intake)  # which has nothing at other addresses, and says so its own way
        return self._doors.get(path, self._django)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._chain_signals(asyncio.get_running_loop())
        end_with_parent()
        look_for_cycles_less_often()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        _close_streams()
        receiver.close()  # only now: no request is open any more
        self._django.shut_down()
        if threading.current_thread() is threading.main_thread():  # else the process goes on
            await asyncio.to_thread(close_all_connections)
        await send({"type": "lifespan.shutdown.complete"})

    def _chain_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """Put the end of the streams before the server's own handlers.

        Servers wait for open responses *before* they say lifespan.shutdown, and a stream never ends by itself; told
        only then, each would have to be cut off after a timeout.
        """
        if threading.current_thread() is not threading.main_thread():
            return  # a server in a test's thread: only the main thread hears signals
        for number in (signal.SIGINT, signal.SIGTERM):
            previous = signal.getsignal(number)

            def handle(number: int, frame: FrameType | None, previous: Any = previous) -> None:
                loop.call_soon_threadsafe(_close_streams)
                if callable(previous):
                    previous(number, frame)
                elif previous is signal.SIG_DFL:
                    signal.signal(number, signal.SIG_DFL)
                    signal.raise_signal(number)

            signal.signal(number, handle)

    async def _readyz(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._readiness.check()
        except NotReady as error:
            await answer(send, 503, {"status": "cannot store", "reason": error.reason})
        else:
            await answer(send, 200, {"status": "ready"})


def _close_streams() -> None:
    stream.close()
    live_stream.app.close()


async def _healthz(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, 200, {"status": "alive"})


async def facts(scope: Scope, receive: Receive, send: Send) -> None:
    """Only the intake and the health: for processes that serve nothing else, on a port of their own."""
    if scope["type"] == "http":
        await application.health.get(scope["path"], _intake)(scope, receive, send)
    else:
        await application(scope, receive, send)


# Not in the settings: naming the logger there would take from it what uvicorn writes with.
logging.getLogger("uvicorn.access").addFilter(WithoutLinks())
application = Dispatcher(
    WsgiDoor(_django, threads=settings.WEB_THREADS, max_body_bytes=settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
)
