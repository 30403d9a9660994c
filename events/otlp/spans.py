"""Reads the spans of OpenTelemetry requests, in either encoding, to plain values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

# protobuf ships no types; opentelemetry-proto does.
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from events.otlp import json_requests, protobuf_requests
from events.otlp.part_limits import check_records, check_scopes
from events.otlp.sent import (
    WRONG_ID,
    Encoding,
    Fault,
    Malformed,
    SentSpan,
    SpanBatch,
    SpanEvent,
    Unreadable,
    hex_id,
    mended_id,
)

EVENTS = 128
"""The most events of one span that are looked at: the first and, because they tell how it ended, the last."""


def read_spans(body: bytes, encoding: Encoding) -> list[SpanBatch]:
    """The spans of a request. Raises Malformed."""
    return _read_json(body) if encoding is Encoding.JSON else _read_protobuf(body)


def with_mended_ids(batches: list[SpanBatch]) -> tuple[list[SpanBatch], int]:
    """The same with ids that can be stored, and how many spans had a malformed one."""
    count = 0
    for batch in batches:
        for place, span in enumerate(batch.spans):
            if WRONG_ID in (span.trace_id[:1], span.span_id[:1], span.parent_id[:1]):
                batch.spans[place] = span._replace(
                    trace_id=mended_id(span.trace_id),
                    span_id=mended_id(span.span_id),
                    parent_id=mended_id(span.parent_id),
                )
                count += 1
    return batches, count


# -- protobuf ----------------------------------------------------------------------------------------------------------


def _read_protobuf(body: bytes) -> list[SpanBatch]:
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError as error:
        return _salvage(body, error)
    check_scopes(len(request.resource_spans))
    check_scopes(sum(len(part.scope_spans) for part in request.resource_spans))
    check_records(sum(len(scope.spans) for part in request.resource_spans for scope in part.scope_spans))
    batches = []
    for part in request.resource_spans:
        resource, described = (
            protobuf_requests.readable_map(part.resource.attributes),
            part.resource.SerializeToString(),
        )
        for scope in part.scope_spans:
            batch = SpanBatch(resource, scope.scope.name)
            head = protobuf_requests.Head(described, scope.scope.SerializeToString())
            for span in scope.spans:
                _take(batch, span, head)
            batches.append(batch)
    return batches


def _salvage(body: bytes, cause: DecodeError) -> list[SpanBatch]:
    """The spans that can be read by themselves, where one spoils the request."""
    batches = []
    try:
        for head, resource, contents, unreadable in protobuf_requests.envelopes(body):
            batch = SpanBatch(resource, head.scope_name, unreadable=unreadable)
            for content in contents:
                try:
                    _take(batch, Span.FromString(content), head)
                except DecodeError as error:
                    reason = f"is no Span in protobuf: {error}"
                    batch.unreadable.append(Unreadable(reason, partial(head.alone, content)))
            batches.append(batch)
    except DecodeError:
        raise Malformed(f"The body is no ExportTraceServiceRequest in protobuf: {cause}.") from cause
    return batches


def _take(batch: SpanBatch, span: Span, head: protobuf_requests.Head) -> None:
    try:
        events = tuple(
            SpanEvent(event.name, event.time_unix_nano, protobuf_requests.plain_map(event.attributes))
            for event in _ends(span.events)
        )
        batch.spans.append(
            SentSpan(
                span.name,
                span.kind,
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                span.status.code,
                span.status.message,
                protobuf_requests.plain_map(span.attributes),
                events,
                hex_id(span.trace_id, 16),
                hex_id(span.span_id, 8),
                hex_id(span.parent_span_id, 8),
            )
        )
    except Fault as fault:
        batch.unreadable.append(Unreadable(str(fault), head.writer_of(span)))


def _ends(events: Any) -> list[Any]:
    return list(events) if len(events) <= EVENTS else [*events[: EVENTS // 2], *events[-EVENTS // 2 :]]


# -- JSON --------------------------------------------------------------------------------------------------------------


def _read_json(body: bytes) -> list[SpanBatch]:
    batches = []
    for head, contents, unreadable in json_requests.envelopes(body, json_requests.SPANS):
        batch = SpanBatch(head.attributes, head.scope_name, unreadable=unreadable)
        for content in contents:
            try:
                batch.spans.append(_span(content))
            except (Fault, RecursionError) as fault:
                batch.unreadable.append(Unreadable(str(fault), partial(head.alone, content)))
        batches.append(batch)
    return batches


def _span(given: object) -> SentSpan:
    span = _object(given, "a span")
    status = _object(span.get("status") or {}, "status")
    events = span.get("events") or []
    if not isinstance(events, list):
        raise Fault("events are no list")
    return SentSpan(
        json_requests.text(span.get("name"), "name"),
        json_requests.whole(span.get("kind") or 0, "kind"),
        json_requests.moment(span.get("startTimeUnixNano"), "startTimeUnixNano"),
        json_requests.moment(span.get("endTimeUnixNano"), "endTimeUnixNano"),
        json_requests.whole(status.get("code") or 0, "status.code"),
        json_requests.text(status.get("message"), "status.message"),
        json_requests.plain_map(span.get("attributes")),
        tuple(_event(_object(event, "an event")) for event in _ends(events)),
        json_requests.identifier(span.get("traceId"), 32),
        json_requests.identifier(span.get("spanId"), 16),
        json_requests.identifier(span.get("parentSpanId"), 16),
    )


def _event(given: Mapping[str, Any]) -> SpanEvent:
    return SpanEvent(
        json_requests.text(given.get("name"), "name"),
        json_requests.moment(given.get("timeUnixNano"), "timeUnixNano"),
        json_requests.plain_map(given.get("attributes")),
    )


def _object(given: object, name: str) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise Fault(f"{name} is no object")
    return given
