"""OpenTelemetry's log messages, read no further than needed: what is inside a part stays bytes until someone asks.

The official classes make an object for every attribute and every value of it, and reading those from Python costs ten
times what decoding does. The same bytes read as these messages give each attribute as one `bytes`; most were seen a
moment ago, in another record, and are looked up instead of being read again. An attribute that cannot be read spoils
its record, not the request.
"""

from __future__ import annotations

from typing import Any

# protobuf ships no types.
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto  # type: ignore[import-untyped]
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

_PACKAGE = "recovery_ops.parts"
_F = FieldDescriptorProto

_MESSAGES: dict[str, tuple[tuple[str, int, Any, Any], ...]] = {
    # field, number, kind (or a message of ours), once or many times – as in logs.proto, whose numbers never change
    "Request": (("resource_logs", 1, "ResourceLogs", _F.LABEL_REPEATED),),
    "ResourceLogs": (
        ("resource", 1, _F.TYPE_BYTES, _F.LABEL_OPTIONAL),
        ("scope_logs", 2, "ScopeLogs", _F.LABEL_REPEATED),
    ),
    "ScopeLogs": (
        ("scope", 1, _F.TYPE_BYTES, _F.LABEL_OPTIONAL),
        ("log_records", 2, "LogRecord", _F.LABEL_REPEATED),
    ),
    "LogRecord": (
        ("time_unix_nano", 1, _F.TYPE_FIXED64, _F.LABEL_OPTIONAL),
        ("severity_number", 2, _F.TYPE_INT32, _F.LABEL_OPTIONAL),
        ("body", 5, _F.TYPE_BYTES, _F.LABEL_OPTIONAL),
        ("attributes", 6, _F.TYPE_BYTES, _F.LABEL_REPEATED),
        ("trace_id", 9, _F.TYPE_BYTES, _F.LABEL_OPTIONAL),
        ("span_id", 10, _F.TYPE_BYTES, _F.LABEL_OPTIONAL),
        ("observed_time_unix_nano", 11, _F.TYPE_FIXED64, _F.LABEL_OPTIONAL),
        ("event_name", 12, _F.TYPE_STRING, _F.LABEL_OPTIONAL),
    ),
}


def _classes() -> dict[str, Any]:
    file = FileDescriptorProto(name="recovery_ops/parts.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label in fields:
            one = message.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                one.type, one.type_name = _F.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                one.type = kind
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES}


_made = _classes()
LogsRequest: Any = _made["Request"]
"""An ExportLogsServiceRequest; `resource`, `scope`, `body` and each of `attributes` are bytes of the message there."""
LogRecord: Any = _made["LogRecord"]
