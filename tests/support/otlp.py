"""Says facts the way a stock OpenTelemetry SDK does, in both encodings, and posts them."""

from __future__ import annotations

import asyncio
import base64
import copy
import itertools
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import httpx
from google.protobuf import json_format  # type: ignore[import-untyped]  # protobuf ships no types
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from events.otlp import receiver

JSON = "application/json"
PROTOBUF = "application/x-protobuf"
RESOURCE = {"service.name": "billing", "service.instance.id": "billing-1", "service.version": "1.2.3"}

WHOLE_FAILURE: dict[str, object] = {
    "recovery.failure.category": "timeout",
    "recovery.failure.evidence": "http_status",
    "recovery.failure.retryable": True,
    "recovery.attempt.number": 1,
}
"""What each failure has to say."""

_numbers = itertools.count(1)


def new_uid() -> str:
    """An idempotency key that no other record has."""
    return str(uuid.UUID(int=(time.time_ns() // 1_000_000 << 80) | 7 << 76 | 2 << 62 | next(_numbers)))


def value(given: object) -> dict[str, Any]:
    """An AnyValue as OTLP/JSON writes it."""
    match given:
        case bool():
            return {"boolValue": given}
        case int():
            return {"intValue": str(given)}
        case float():
            return {"doubleValue": given}
        case str():
            return {"stringValue": given}
        case bytes():
            return {"bytesValue": base64.b64encode(given).decode()}
        case list():
            return {"arrayValue": {"values": [value(one) for one in given]}}
        case dict():
            return {"kvlistValue": {"values": attributes(given)}}
    return {}


def attributes(given: Mapping[str, object]) -> list[dict[str, Any]]:
    """Attributes as OTLP/JSON writes them."""
    return [{"key": key, "value": value(one)} for key, one in given.items()]


def record(event: str = "recovery.failure_classified", *, ago_s: float = 1.0, **rest: Any) -> dict[str, Any]:
    """A log record in OTLP/JSON. `given`: its attributes, to which a uid is added; the rest: its fields."""
    given = {"log.record.uid": new_uid(), **rest.pop("given", {})}
    time_ns = time.time_ns() - int(ago_s * 1e9)
    return {
        "timeUnixNano": str(time_ns),
        "observedTimeUnixNano": str(time_ns),
        "severityNumber": 13,
        "eventName": event,
        "attributes": attributes({key: one for key, one in given.items() if one is not None}),
        **rest,
    }


def request(*records: dict[str, Any], resource: Mapping[str, object] = RESOURCE) -> dict[str, Any]:
    """An export request in OTLP/JSON."""
    scope_logs = [{"scope": {"name": "tests"}, "logRecords": list(records)}]
    return {"resourceLogs": [{"resource": {"attributes": attributes(resource)}, "scopeLogs": scope_logs}]}


def protobuf(given: Mapping[str, Any]) -> bytes:
    """The same request in protobuf."""
    document = copy.deepcopy(dict(given))
    for part in document["resourceLogs"]:
        for scope in part.get("scopeLogs", ()):
            for one in scope["logRecords"]:
                for name in ("traceId", "spanId"):
                    if name in one:
                        one[name] = base64.b64encode(bytes.fromhex(one[name])).decode()
    message = json_format.ParseDict(document, ExportLogsServiceRequest())
    return bytes(message.SerializeToString())


class Door:
    """Posts to the receiver, in this process and without a socket."""

    def __init__(self, token: str) -> None:
        self.token = token

    def post(
        self,
        content: bytes | Iterable[bytes] | AsyncIterator[bytes] = b"",
        *,
        path: str = "/v1/logs",
        method: str = "POST",
        headers: Mapping[str, str | None] | None = None,
        json: Mapping[str, Any] | None = None,
        app: receiver.Receiver = receiver.app,
    ) -> httpx.Response:
        """The answer to one request. A header that is None is left out; several pieces travel chunked."""
        given = {"authorization": f"Bearer {self.token}", "content-type": PROTOBUF, **(headers or {})}
        body: Any = content
        if json is not None:
            body, given["content-type"] = httpx.Request("POST", "http://x", json=json).content, JSON
        elif not isinstance(content, bytes | AsyncIterator):
            body = _in_pieces(content)
        sent = {name: one for name, one in given.items() if one is not None}

        async def exchange() -> httpx.Response:
            transport = httpx.ASGITransport(app, raise_app_exceptions=True)
            async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=30) as client:
                return await client.request(method, path, content=body, headers=sent)

        return asyncio.run(exchange())


async def _in_pieces(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
