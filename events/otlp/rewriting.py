"""Writes a record down again as a request of OTLP/JSON, so that what was read but not stored can be replayed."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from events.otlp.sent import Sent


def request_of(sent: Sent, resource: Mapping[str, object], scope: str) -> bytes:
    """A request with this one record."""
    record: dict[str, object] = {
        "timeUnixNano": str(sent.time_ns),
        "observedTimeUnixNano": str(sent.observed_ns),
        "severityNumber": sent.severity,
        "eventName": sent.event_name,
        "attributes": _pairs(sent.attributes),
        "traceId": sent.trace_id,
        "spanId": sent.span_id,
    }
    if sent.body is not None:
        record["body"] = _value(sent.body)
    part = {
        "resource": {"attributes": _pairs(resource)},
        "scopeLogs": [{"scope": {"name": scope}, "logRecords": [record]}],
    }
    return orjson.dumps({"resourceLogs": [part]}, default=str, option=orjson.OPT_NON_STR_KEYS)


def _pairs(given: Mapping[str, object]) -> list[dict[str, object]]:
    return [{"key": str(key), "value": _value(value)} for key, value in given.items()]


def _value(given: object) -> dict[str, object]:
    if isinstance(given, bool):
        return {"boolValue": given}
    if isinstance(given, int):
        return {"intValue": str(given)}
    if isinstance(given, float):
        # JSON has no word for what is no number; OTLP writes it as a text.
        return {"doubleValue": given if given - given == 0 else str(given)}
    if isinstance(given, list | tuple):
        return {"arrayValue": {"values": [_value(one) for one in given]}}
    if isinstance(given, Mapping):
        return {"kvlistValue": {"values": _pairs(given)}}
    return {} if given is None else {"stringValue": _writable(str(given))}


def _writable(text: str) -> str:
    """orjson refuses lone surrogates."""
    return text.encode(errors="replace").decode()
