"""Bytes that each target takes, from which a fuzzer goes on."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

# protobuf ships no types; opentelemetry-proto does.
from google.protobuf import json_format  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from recovery_ops.rules.policy.model import BUILT_IN, document_of
from tests.support.otlp import protobuf, record, request

_FACTS = request(record(given={"recovery.operation": "search_web", "recovery.attempt": 2}))
_POLICY = {
    **document_of(BUILT_IN),
    "rules": [
        {"id": "one", "scope": {"operation": "search_*"}, "settings": {"max_retries": 5}, "fallbacks": ["other"]}
    ],
    "classification": [{"name": "busy", "category": "overloaded", "match": {"message": "*is busy*"}}],
}
_ERRORS = [
    {"status_code": 429, "headers": {"retry-after": "3"}, "body": {"error": {"type": "rate_limit_error"}}},
    {
        "status": 400,
        "message": "maximum context length is 8192 tokens, you asked for 9000",
        "code": "context_length_exceeded",
    },
    "connection reset by peer",
]

_TRACE, _SPAN = bytes.fromhex("5b8efff798038103d269b633813fc60c"), bytes.fromhex("eee19b7ec3c1b174")
_ERROR = [{"key": "exception.type", "value": {"stringValue": "httpx.ReadTimeout"}}]


def _spans(trace: str, span: str) -> dict[str, Any]:
    """A call of a model that failed, with its ids as the encoding wants them."""
    one = {
        "traceId": trace,
        "spanId": span,
        "name": "chat large",
        "startTimeUnixNano": "1795000000000000000",
        "endTimeUnixNano": "1795000001000000000",
        "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
        "events": [{"name": "exception", "timeUnixNano": "1795000000500000000", "attributes": _ERROR}],
        "status": {"code": 2},
    }
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": [one]}]}]}


def _spans_in_protobuf() -> bytes:
    given = _spans(base64.b64encode(_TRACE).decode(), base64.b64encode(_SPAN).decode())
    return bytes(json_format.ParseDict(given, ExportTraceServiceRequest()).SerializeToString())


# AgentToServer: instance_uid, sequence_num, and a description that says service.name.
_NAME = b"\x0a\x0cservice.name\x12\x0a\x0a\x08research"
_WHO = b"\x0a" + bytes([len(_NAME)]) + _NAME
_OPAMP = b"\x0a\x10" + bytes(range(16)) + b"\x10\x01" + b"\x1a" + bytes([len(_WHO)]) + _WHO
SEEDS: Mapping[str, Sequence[bytes]] = {
    "otlp": [b"\x00" + protobuf(_FACTS), b"\xff" + json.dumps(_FACTS).encode()],
    "traces": [b"\x00" + _spans_in_protobuf(), b"\xff" + json.dumps(_spans(_TRACE.hex(), _SPAN.hex())).encode()],
    "opamp": [_OPAMP, _OPAMP + bytes.fromhex("3a080a04686173681002")],
    "classifier": [json.dumps(one).encode() for one in _ERRORS],
    "policy": [json.dumps(_POLICY).encode(), json.dumps(document_of(BUILT_IN)).encode()],
}
