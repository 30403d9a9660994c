"""Spans for the doors that Django does not stand at: the intake and the streams."""

from __future__ import annotations

from opentelemetry.trace import SpanKind, Status, StatusCode

from recovery_ops.control.self_monitoring.telemetry import running
from recovery_ops.server.asgi_apps import App, Message, Receive, Scope, Send

_NAMED = {"/v1/logs", "/v1/traces", "/v1/metrics", "/api/v1/desired/stream", "/live/stream"}


def traced(app: App) -> App:
    """The same door with a span for each request: of facts until they are stored, of a stream until it ends."""

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        found = running()
        if found is None or scope["type"] != "http":
            await app(scope, receive, send)
            return
        route = scope["path"] if scope["path"] in _NAMED else "elsewhere"
        span = found.tracer.start_span(f"{scope['method']} {route}", kind=SpanKind.SERVER)
        span.set_attribute("http.request.method", scope["method"])
        span.set_attribute("http.route", route)

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                span.set_attribute("http.response.status_code", message["status"])
                if message["status"] >= 500:
                    span.set_status(Status(StatusCode.ERROR))
            await send(message)

        try:
            await app(scope, receive, noted)
        finally:
            span.end()

    return door
