"""OpenTelemetry's wire: requests in either encoding to plain records, and answers back in the same encoding."""

from __future__ import annotations

from types import ModuleType

import orjson

from events.ingest.cleaning import PLAIN, Cleaner
from events.otlp import json_requests, protobuf_requests
from events.otlp.sent import Batch, Encoding, Signal

_ANSWER_CHARS = 2000


def read_logs(body: bytes, encoding: Encoding, cleaner: Cleaner = PLAIN) -> list[Batch]:
    """The log records of a request, for whoever cleans them with this cleaner. Raises Malformed."""
    return json_requests.read_logs(body) if encoding is Encoding.JSON else protobuf_requests.read_logs(body, cleaner)


def count_data_points(body: bytes, encoding: Encoding) -> int:
    """How many data points a request holds. Raises Malformed."""
    count: int = _reader(encoding).count_data_points(body)
    return count


def _reader(encoding: Encoding) -> ModuleType:
    return json_requests if encoding is Encoding.JSON else protobuf_requests


_REJECTED = {
    Signal.LOGS: "rejectedLogRecords",
    Signal.TRACES: "rejectedSpans",
    Signal.METRICS: "rejectedDataPoints",
}
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
GRPC_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 413: 8, 415: 3, 503: 14}
"""HTTP status → code of google.rpc.Status."""


def success(encoding: Encoding, signal: Signal, *, rejected: int = 0, message: str = "") -> bytes:
    """An Export…ServiceResponse; `partial_success` is set where there is something to say."""
    message = message[:_ANSWER_CHARS]
    if not rejected and not message:
        return b"{}" if encoding is Encoding.JSON else b""
    if encoding is Encoding.JSON:
        partial = {_REJECTED[signal]: str(rejected), "errorMessage": message}
        return orjson.dumps({"partialSuccess": partial})
    # The three responses differ in names alone, and protobuf sends no names.
    return _message(1, _number(1, rejected) + _message(2, message.encode()))


def status(encoding: Encoding, http_status: int, message: str, *, field: str | None = None) -> bytes:
    """A google.rpc.Status; with a `field`, even an empty one, it details a google.rpc.BadRequest."""
    code, message = GRPC_CODES[http_status], message[:_ANSWER_CHARS]
    if encoding is Encoding.JSON:
        answer: dict[str, object] = {"code": code, "message": message}
        if field is not None:
            violation = {"field": field, "description": message}
            answer["details"] = [{"@type": _BAD_REQUEST, "fieldViolations": [violation]}]
        return orjson.dumps(answer)
    encoded = _number(1, code) + _message(2, message.encode())
    if field is None:
        return encoded
    violation_bytes = _message(1, field.encode()) + _message(2, message.encode())
    return encoded + _message(3, _message(1, _BAD_REQUEST.encode()) + _message(2, _message(1, violation_bytes)))


def _number(number: int, value: int) -> bytes:
    """A varint field of protobuf; 0 is left out."""
    return _varint(number << 3) + _varint(value) if value else b""


def _message(number: int, content: bytes) -> bytes:
    """A length-delimited field of protobuf: a text, or a message inside a message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
