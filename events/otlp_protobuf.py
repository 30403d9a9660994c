"""Reads OpenTelemetry requests in protobuf.

One bad record spoils a whole protobuf message, so a request that cannot be decoded is taken apart by its framing, and
each record decoded by itself.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

# protobuf ships no types; opentelemetry-proto does.
from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from events.sent import Batch, Fault, Malformed, Sent, Unreadable, check_depth, hex_id

_SCALARS = frozenset({"string_value", "int_value", "double_value", "bool_value"})


def read_logs(body: bytes) -> list[Batch]:
    """The log records of an ExportLogsServiceRequest. Raises Malformed."""
    try:
        request = ExportLogsServiceRequest.FromString(body)
    except DecodeError as error:
        return _salvage(body, error)
    batches = []
    for part in request.resource_logs:
        resource = _readable_map(part.resource.attributes)
        for scope in part.scope_logs:
            batch = Batch(resource, scope.scope.name)
            for record in scope.log_records:
                _take(batch, record)
            batches.append(batch)
    return batches


def count_spans(body: bytes) -> int:
    """How many spans an ExportTraceServiceRequest holds. Raises Malformed."""
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError as error:
        raise Malformed(f"The body is no ExportTraceServiceRequest in protobuf: {error}.") from error
    return sum(len(scope.spans) for part in request.resource_spans for scope in part.scope_spans)


def count_data_points(body: bytes) -> int:
    """How many data points an ExportMetricsServiceRequest holds. Raises Malformed."""
    try:
        request = ExportMetricsServiceRequest.FromString(body)
    except DecodeError as error:
        raise Malformed(f"The body is no ExportMetricsServiceRequest in protobuf: {error}.") from error
    metrics = (metric for part in request.resource_metrics for scope in part.scope_metrics for metric in scope.metrics)
    return sum(
        len(getattr(metric, kind).data_points) for metric in metrics if (kind := metric.WhichOneof("data")) is not None
    )


def _salvage(body: bytes, cause: DecodeError) -> list[Batch]:
    """The records that can be read by themselves, where one bad record (or more) spoils the request.

    Walks the envelopes by their framing alone, and decodes each record on its own.
    """
    batches = []
    try:
        for part in _fields(body, 1):
            resources = [Resource.FromString(one) for one in _fields(part, 1)]
            resource = _readable_map(resources[-1].attributes) if resources else {}
            for scope in _fields(part, 2):
                scopes = [InstrumentationScope.FromString(one) for one in _fields(scope, 1)]
                batch = Batch(resource, scopes[-1].name if scopes else "")
                for content in _fields(scope, 2):
                    try:
                        _take(batch, LogRecord.FromString(content))
                    except DecodeError as error:
                        batch.unreadable.append(Unreadable(f"is no LogRecord in protobuf: {error}", content))
                batches.append(batch)
    except DecodeError:
        batches = []
    if not any(batch.records for batch in batches):
        raise Malformed(f"The body is no ExportLogsServiceRequest in protobuf: {cause}.") from cause
    return batches


def _fields(message: bytes, number: int) -> Iterator[bytes]:
    """The length-delimited fields of this number, whatever message it is. Raises DecodeError."""
    for one in UnknownFieldSet(Empty.FromString(message)):
        if one.field_number == number:
            if not isinstance(one.data, bytes):
                raise DecodeError(f"field {number} is no message")
            yield one.data


def _take(batch: Batch, record: LogRecord) -> None:
    try:
        body = record.body.string_value or (_plain(record.body) if record.HasField("body") else None)
        batch.records.append(
            Sent(
                record.event_name,
                record.time_unix_nano,
                record.observed_time_unix_nano,
                record.severity_number,
                body,
                _map(record.attributes),
                hex_id(record.trace_id, 16),
                hex_id(record.span_id, 8),
            )
        )
    except Fault as fault:
        batch.unreadable.append(Unreadable(str(fault), record.SerializeToString()))


def _map(pairs: Any, depth: int = 0) -> dict[str, object]:
    # Asking for each kind of value is cheaper than asking which is set; only an empty one leaves that open.
    return {
        pair.key: (value := pair.value).string_value
        or value.int_value
        or value.double_value
        or value.bool_value
        or _plain(value, depth)
        for pair in pairs
    }


def _readable_map(pairs: Any) -> dict[str, object]:
    """A resource's attributes. One that cannot be read is no reason to refuse the records."""
    try:
        return _map(pairs)
    except Fault:
        return _map(pair for pair in pairs if _is_shallow(pair))


def _is_shallow(pair: KeyValue) -> bool:
    return pair.value.WhichOneof("value") not in ("array_value", "kvlist_value")


def _plain(value: AnyValue, depth: int = 0) -> object:
    kind = value.WhichOneof("value")
    if kind in _SCALARS:
        return getattr(value, kind)
    if kind is None:
        return None
    if kind == "array_value":
        check_depth(depth)
        return [_plain(one, depth + 1) for one in value.array_value.values]
    if kind == "kvlist_value":
        check_depth(depth)
        return _map(value.kvlist_value.values, depth + 1)
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return None  # a reference into a table that only profiles have
