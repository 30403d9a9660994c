"""Bytes that each target takes, from which a fuzzer goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from recovery_ops.rules.policy import BUILT_IN, document_of
from tests.events.posting import protobuf, record, request

_FACTS = request(record(given={"recovery.operation": "search_web", "recovery.attempt": 2}))
_POLICY = {
    **document_of(BUILT_IN),
    "rules": [{"id": "one", "scope": {"operation": "search_*"}, "knobs": {"max_retries": 5}, "fallbacks": ["other"]}],
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

SEEDS: Mapping[str, Sequence[bytes]] = {
    "otlp": [b"\x00" + protobuf(_FACTS), b"\xff" + json.dumps(_FACTS).encode()],
    "classifier": [json.dumps(one).encode() for one in _ERRORS],
    "policy": [json.dumps(_POLICY).encode(), json.dumps(document_of(BUILT_IN)).encode()],
}
