"""Reads OpenTelemetry requests in JSON.

Walks the document itself: `google.protobuf.json_format` takes hexadecimal ids for base64, refuses a whole request for
one record, and is five times slower.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import orjson

from events.density import check_members, check_records
from events.sent import Batch, Fault, Malformed, Sent, Unreadable, check_depth, hex_id

_MOST_UINT64 = 2**64 - 1
_MOST_DIGITS = 400
_INT64 = range(-(2**63), 2**63)
_METRIC_KINDS = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")


def read_logs(body: bytes) -> list[Batch]:
    """The log records of an export request. Raises Malformed."""
    batches = []
    for head, contents in envelopes(body, LOGS):
        batch = Batch(head.attributes, head.scope_name)
        for content in contents:
            try:
                batch.records.append(_record(content))
            except (Fault, RecursionError) as fault:
                batch.unreadable.append(Unreadable(str(fault), partial(head.alone, content)))
        batches.append(batch)
    return batches


class Names(NamedTuple):
    """What the lists of a signal's request are called, from the outermost in."""

    resources: str
    scopes: str
    records: str


LOGS = Names("resourceLogs", "scopeLogs", "logRecords")
SPANS = Names("resourceSpans", "scopeSpans", "spans")


class Head(NamedTuple):
    """What stands before the records of one batch."""

    names: Names
    resource: object
    attributes: dict[str, object]
    scope: object

    @property
    def scope_name(self) -> str:
        """Empty where there is none."""
        return str(self.scope.get("name") or "") if isinstance(self.scope, dict) else ""

    def alone(self, content: object) -> bytes:
        """A request that holds this one record of the batch, as far as it can be written down."""
        inner = {"scope": self.scope, self.names.records: [content]}
        try:
            return json.dumps(
                {self.names.resources: [{"resource": self.resource, self.names.scopes: [inner]}]}
            ).encode()
        except RecursionError:
            return b"(nested too deeply to be written down)"


def envelopes(body: bytes, names: Names) -> Iterator[tuple[Head, list[Any]]]:
    """The records of each batch of a request, unread. Raises Malformed."""
    count = 0
    for path, part in _items(_document(body, names.resources), names.resources, ""):
        attributes = _resource(part, path)
        for scope_path, scope in _items(part, names.scopes, path):
            head = Head(names, part.get("resource") or {}, attributes, scope.get("scope") or {})
            records = [record for _, record in _items(scope, names.records, scope_path, of=object)]
            check_records(count := count + len(records))
            yield head, records


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
    check_members(body)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        # NaN, lone surrogates, very long numbers and bytes that are no UTF-8 are no JSON to orjson; the records without
        # them are good ones.
        try:
            document = json.loads(body.decode("utf-8-sig", errors="replace"), parse_int=_whole_of_digits)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"The body is not JSON: {error}.") from error
    if not isinstance(document, dict):
        raise Malformed("The body is JSON, but no object.")
    snake = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", needed)
    if snake in document:
        # Keys that are not known are to be ignored, but this is a whole request thrown away by its spelling.
        raise Malformed(f"Keys are lowerCamelCase in OTLP/JSON: `{needed}`, not `{snake}`.", snake)
    return document


def _whole_of_digits(written: str) -> float:
    """Python refuses a number of thousands of digits, and with it the whole body; as a fraction it is one record's."""
    return int(written) if len(written) <= _MOST_DIGITS else float(written)


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
    pairs = resource.get("attributes")
    if pairs is not None and not isinstance(pairs, list):
        raise Malformed(f"`{path}.resource.attributes` is no list.", f"{path}.resource.attributes")
    return readable_map(pairs or ())


def readable_map(pairs: Sequence[object]) -> dict[str, object]:
    """A resource's attributes. One that cannot be read is no reason to refuse the records."""
    found: dict[str, object] = {}
    for pair in pairs:
        with suppress(Fault):
            found |= plain_map([pair])
    return found


def _record(given: object) -> Sent:
    if not isinstance(given, dict):
        raise Fault("is no object")
    return Sent(
        text(given.get("eventName"), "eventName"),
        moment(given.get("timeUnixNano"), "timeUnixNano"),
        moment(given.get("observedTimeUnixNano"), "observedTimeUnixNano"),
        whole(given.get("severityNumber") or 0, "severityNumber"),
        _plain(given.get("body")),
        plain_map(given.get("attributes")),
        identifier(given.get("traceId"), 32),
        identifier(given.get("spanId"), 16),
    )


def plain_map(pairs: object, depth: int = 0) -> dict[str, object]:
    """Attributes as plain values. Raises Fault."""
    if pairs is None:
        return {}
    if not isinstance(pairs, list):
        raise Fault("attributes are no list")
    found = {}
    for pair in pairs:
        if not isinstance(pair, dict):
            raise Fault("an attribute is no object")
        found[text(pair.get("key"), "key")] = _plain(pair.get("value"), depth)
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
    return plain_map(given.get("values"), depth + 1)


def _int_value(given: object, depth: int) -> object:
    number = whole(given, "intValue")
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
    encoded = text(given, "bytesValue").replace("-", "+").replace("_", "/")
    try:
        content = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise Fault("bytesValue is no base64") from None
    return base64.b64encode(content).decode()


_MEMBERS: dict[str, Callable[[object, int], object]] = {
    "stringValue": lambda given, depth: text(given, "stringValue"),
    "intValue": _int_value,
    "doubleValue": _double_value,
    "boolValue": _bool_value,
    "arrayValue": _array,
    "kvlistValue": _kvlist,
    "bytesValue": _bytes_value,
}


def text(given: object, name: str) -> str:
    """A text, empty for nothing. Raises Fault."""
    if given is None:
        return ""
    if not isinstance(given, str):
        raise Fault(f"{name} is no text")
    return given


def whole(given: object, name: str) -> int:
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


def moment(given: object, name: str) -> int:
    """Nanoseconds since the epoch, 0 for nothing. Raises Fault."""
    time_ns = 0 if given is None else whole(given, name)
    if not 0 <= time_ns <= _MOST_UINT64:
        raise Fault(f"{name} is no unsigned 64-bit number")
    return time_ns


def identifier(given: object, digits: int) -> str:
    """An id of so many hexadecimal digits; empty where it is none. Raises Fault for what is no text."""
    written = text(given, "id")
    try:
        return hex_id(bytes.fromhex(written), digits // 2) if len(written) == digits else ""
    except ValueError:
        return ""
