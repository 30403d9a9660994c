"""Spans and logs of plain instrumentation."""

from __future__ import annotations

import base64
import copy
import itertools
import json
from typing import Any

from google.protobuf import json_format  # type: ignore[import-untyped]  # protobuf ships no types
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from events.derived import derive_from_spans
from events.ingest.records import Intake, Row, read_records
from events.otlp.sent import Encoding
from events.otlp.spans import read_spans
from tests.support.otlp import RESOURCE, attributes, record

NOW_US = 1_795_000_000_000_000


TRACE = "5b8efff798038103d269b633813fc60c"


_ids = itertools.count(1)


def span(
    name: str = "work", *, ago_s: float = 10.0, parent: dict[str, Any] | None = None, **rest: Any
) -> dict[str, Any]:
    """A span of a second in OTLP/JSON. `given`: its attributes; `raised`: exceptions on it; the rest: its fields."""
    given, raised = rest.pop("given", {}), rest.pop("raised", [])
    start_ns = NOW_US * 1000 - int(ago_s * 1e9)
    made = {
        "traceId": TRACE,
        "spanId": f"{next(_ids):016x}",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(start_ns + 10**9),
        "attributes": attributes(given),
        "events": [
            {"name": "exception", "timeUnixNano": str(start_ns + index), "attributes": attributes(one)}
            for index, one in enumerate(raised)
        ],
        **rest,
    }
    return made if parent is None else {**made, "parentSpanId": parent["spanId"]}


def failed(name: str = "work", message: str = "", **rest: Any) -> dict[str, Any]:
    return span(name, status={"code": 2, "message": message}, **rest)


def exception(kind: str, message: str = "") -> dict[str, str]:
    return {"exception.type": kind, "exception.message": message, "exception.stacktrace": "Traceback …"}


def traces(*spans: dict[str, Any]) -> dict[str, Any]:
    scope_spans = [{"scope": {"name": "tests"}, "spans": list(spans)}]
    return {"resourceSpans": [{"resource": {"attributes": attributes(RESOURCE)}, "scopeSpans": scope_spans}]}


def as_protobuf(document: dict[str, Any]) -> bytes:
    document = copy.deepcopy(document)
    for one in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in one:
                one[name] = base64.b64encode(bytes.fromhex(one[name])).decode()
    return bytes(json_format.ParseDict(document, ExportTraceServiceRequest()).SerializeToString())


def intake(body: bytes, encoding: Encoding = Encoding.JSON) -> Intake:
    return read_records(derive_from_spans(read_spans(body, encoding)).batches, "dev", NOW_US)


def rows(*spans: dict[str, Any]) -> list[Row]:
    found = intake(json.dumps(traces(*spans)).encode())
    assert not found.refused
    return found.rows


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o"}


def logged(kind: str = "httpx.ReadTimeout", message: str = "", **rest: Any) -> dict[str, Any]:
    return record("", severityNumber=17, given={"log.record.uid": None, **exception(kind, message)}, **rest)


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30)


scalars = texts | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)


words = st.sampled_from(
    [
        *("error.type", "exception.type", "exception.message", "http.response.status_code", "gen_ai.tool.name"),
        *("gen_ai.request.model", "gen_ai.response.model", "gen_ai.operation.name", "rpc.grpc.status_code"),
        *("http.response.header.retry-after", "gen_ai.usage.input_tokens", "session.id"),
    ]
)


said = st.dictionaries(words | texts, scalars | st.lists(scalars, max_size=3), max_size=6)
