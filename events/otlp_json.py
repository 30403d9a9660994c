"""Reads OpenTelemetry requests in JSON.

Walks the document itself: `google.protobuf.json_format` takes hexadecimal ids for base64, refuses a whole request for
one record, and is five times slower.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from events.sent import Batch, Fault, Malformed, Sent, Unreadable, check_depth, hex_id

_MOST_UINT64 = 2**64 - 1
_INT64 = range(-(2**63), 2**63)
_METRIC_KINDS = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")


def read_logs(body: bytes) -> list[Batch]:
    """The log records of an export request. Raises Malformed."""
    batches = []
    for path, part in _items(_document(body, "resourceLogs"), "resourceLogs", ""):
        resource = _resource(part, path)
        for scope_path, scope in _items(part, "scopeLogs", path):
            about = scope.get("scope") or {}
            batch = Batch(resource, str(about.get("name") or "") if isinstance(about, dict) else "")
            for _, record in _items(scope, "logRecords", scope_path, of=object):
                try:
                    batch.records.append(_record(record))
                except (Fault, RecursionError) as fault:
                    batch.unreadable.append(Unreadable(str(fault), _as_written(record)))
            batches.append(batch)
    return batches


def count_spans(body: bytes) -> int:
    """How many spans an export request holds. Raises Malformed."""
    return sum(
        len(list(_items(scope, "spans", scope_path)))
        for path, part in _items(_document(body, "resourceSpans"), "resourceSpans", "")
        for scope_path, scope in _items(part, "scopeSpans", path)
    )


def count_data_points(body: bytes) -> int:
    """How many data points an export request holds. Raises Malformed."""
    return sum(
        len(list(_items(metric[kind], "dataPoints", metric_path)))
        for path, part in _items(_document(body, "resourceMetrics"), "resourceMetrics", "")
        for scope_path, scope in _items(part, "scopeMetrics", path)
        for metric_path, metric in _items(scope, "metrics", scope_path)
        for kind in _METRIC_KINDS
        if isinstance(metric.get(kind), dict)
    )


def _document(body: bytes, needed: str) -> Mapping[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        # NaN, lone surrogates and very long numbers are no JSON to orjson; the records without them are good ones.
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"The body is not JSON: {error}.") from error
    if not isinstance(document, dict):
        raise Malformed("The body is JSON, but no object.")
    snake = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", needed)
    if snake in document:
        # Keys that are not known are to be ignored, but this is a whole request thrown away by its spelling.
        raise Malformed(f"Keys are lowerCamelCase in OTLP/JSON: `{needed}`, not `{snake}`.", snake)
    return document


def _items(parent: Mapping[str, Any], name: str, path: str, of: type = dict) -> Iterator[tuple[str, Any]]:
    """The members of a list with the path to each. One that is missing or null is empty; what is no list is a fault."""
    given = parent.get(name)
    path = f"{path}.{name}" if path else name
    if given is None:
        return
    if not isinstance(given, list):
        raise Malformed(f"`{path}` is no list.", path)
    for index, one in enumerate(given):
        if not isinstance(one, of):
            raise Malformed(f"`{path}[{index}]` is no object.", f"{path}[{index}]")
        yield f"{path}[{index}]", one


def _resource(part: Mapping[str, Any], path: str) -> dict[str, object]:
    resource = part.get("resource") or {}
    if not isinstance(resource, dict):
        raise Malformed(f"`{path}.resource` is no object.", f"{path}.resource")
    try:
        return _map(resource.get("attributes"))
    except Fault as fault:
        raise Malformed(f"`{path}.resource.attributes`: {fault}.", f"{path}.resource.attributes") from fault


def _record(given: object) -> Sent:
    if not isinstance(given, dict):
        raise Fault("is no object")
    return Sent(
        _text(given.get("eventName"), "eventName"),
        _time(given.get("timeUnixNano"), "timeUnixNano"),
        _time(given.get("observedTimeUnixNano"), "observedTimeUnixNano"),
        _int(given.get("severityNumber") or 0, "severityNumber"),
        _plain(given.get("body")),
        _map(given.get("attributes")),
        _id(given.get("traceId"), 32),
        _id(given.get("spanId"), 16),
    )


def _map(pairs: object, depth: int = 0) -> dict[str, object]:
    if pairs is None:
        return {}
    if not isinstance(pairs, list):
        raise Fault("attributes are no list")
    found = {}
    for pair in pairs:
        if not isinstance(pair, dict):
            raise Fault("an attribute is no object")
        found[_text(pair.get("key"), "key")] = _plain(pair.get("value"), depth)
    return found


def _plain(value: object, depth: int = 0) -> object:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Fault('a value is no object such as {"stringValue": "…"}')
    for member, given in value.items():
        read = _MEMBERS.get(member)
        if read is not None and given is not None:
            return read(given, depth)
    return None


def _array(given: object, depth: int) -> object:
    check_depth(depth)
    values = given.get("values") if isinstance(given, dict) else given
    if values is not None and not isinstance(values, list):
        raise Fault("arrayValue.values is no list")
    return [_plain(one, depth + 1) for one in values or ()]


def _kvlist(given: object, depth: int) -> object:
    check_depth(depth)
    if not isinstance(given, dict):
        raise Fault("kvlistValue is no object")
    return _map(given.get("values"), depth + 1)


def _int_value(given: object, depth: int) -> object:
    number = _int(given, "intValue")
    # protobuf cannot hold it either; as a text it is at least not lost.
    return number if number in _INT64 else str(number)


def _double_value(given: object, depth: int) -> object:
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise Fault("doubleValue is no number")
    try:
        return float(given)
    except (ValueError, OverflowError):
        raise Fault("doubleValue is no number") from None


def _bool_value(given: object, depth: int) -> object:
    if not isinstance(given, bool):
        raise Fault("boolValue is neither true nor false")
    return given


def _bytes_value(given: object, depth: int) -> object:
    text = _text(given, "bytesValue").replace("-", "+").replace("_", "/")
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise Fault("bytesValue is no base64") from None
    return base64.b64encode(content).decode()


_MEMBERS: dict[str, Callable[[object, int], object]] = {
    "stringValue": lambda given, depth: _text(given, "stringValue"),
    "intValue": _int_value,
    "doubleValue": _double_value,
    "boolValue": _bool_value,
    "arrayValue": _array,
    "kvlistValue": _kvlist,
    "bytesValue": _bytes_value,
}


def _text(given: object, name: str) -> str:
    if given is None:
        return ""
    if not isinstance(given, str):
        raise Fault(f"{name} is no text")
    return given


def _int(given: object, name: str) -> int:
    """A 64-bit integer travels as a number or as a text of digits."""
    try:
        if isinstance(given, str) and len(given) <= 40:
            return int(given)
        if isinstance(given, int) and not isinstance(given, bool):
            return given
        if isinstance(given, float) and given.is_integer():
            return int(given)
    except ValueError:
        pass
    raise Fault(f"{name} is no whole number")


def _time(given: object, name: str) -> int:
    time_ns = 0 if given is None else _int(given, name)
    if not 0 <= time_ns <= _MOST_UINT64:
        raise Fault(f"{name} is no unsigned 64-bit number")
    return time_ns


def _id(given: object, digits: int) -> str:
    text = _text(given, "id")
    try:
        return hex_id(bytes.fromhex(text), digits // 2) if len(text) == digits else ""
    except ValueError:
        return ""


def _as_written(given: object) -> bytes:
    """For the quarantine: as it was, as far as that can be said."""
    try:
        return json.dumps(given)[:65536].encode()
    except RecursionError:
        return b"(nested too deeply to be written down)"
