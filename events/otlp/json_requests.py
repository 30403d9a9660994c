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
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import orjson

from events.otlp.part_limits import check_members, check_records, check_scopes
from events.otlp.sent import DEEPEST, WRONG_ID, Batch, Fault, Malformed, Sent, Signal, Unreadable, check_depth, hex_id

_MOST_UINT64 = 2**64 - 1
_MOST_DIGITS = 400
_MOST_INT_DIGITS = 20
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A number as JSON writes it."""
_INT64 = range(-(2**63), 2**63)
_DEEPEST_JSON = 8 * DEEPEST
"""Three braces and brackets are one level of a value, and what is around a record is a few."""
_SIGN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_OPENING, _CLOSING = frozenset("{["), frozenset("}]")
_METRIC_KINDS = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")


def read_logs(body: bytes) -> list[Batch]:
    """The log records of an export request. Raises Malformed."""
    batches = []
    for head, contents, unreadable in envelopes(body, LOGS):
        batch = Batch(head.attributes, head.scope_name, unreadable=unreadable)
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
METRICS = Names("resourceMetrics", "scopeMetrics", "metrics")
_SIGNALS = {
    LOGS.resources: Signal.LOGS,
    SPANS.resources: Signal.TRACES,
    METRICS.resources: Signal.METRICS,
}
_SPELLINGS = {
    name: (
        re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name),
        name.replace("scope", "instrumentationLibrary"),
    )
    for names in (LOGS, SPANS, METRICS)
    for name in names
}
"""How protobuf spells these names, and how OTLP called two of them before 0.19."""


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
        return self.around({"scope": self.scope, self.names.records: [content]})

    def around(self, scope: object) -> bytes:
        """A request that holds the records of one scope, as far as they can be written down."""
        return _written(self.names, {"resource": self.resource, self.names.scopes: [scope]})


def _written(names: Names, part: object) -> bytes:
    try:
        return json.dumps({names.resources: [part]}).encode()
    except RecursionError:
        return b"(nested too deeply to be written down)"


class Envelope(NamedTuple):
    """The records of one resource and one scope, unread; or, instead of them, what is none or holds none."""

    head: Head
    contents: list[Any]
    unreadable: list[Unreadable]


def envelopes(body: bytes, names: Names) -> Iterator[Envelope]:
    """The records of a request. What is wrong with one resource or scope spoils nothing beside it.

    Raises Malformed where there is nothing that could be a record, and for too many.
    """
    record_count = scope_count = 0
    wrong: Malformed | None = None
    parts = _list(_document(body, names), names.resources, "")
    check_scopes(len(parts))
    for path, part in _with_paths(parts, names.resources):
        try:
            scopes = _list(_object(part, path), names.scopes, path)
            head = Head(names, part.get("resource") or {}, _attributes(part), {})
        except Malformed as fault:
            wrong = fault
            yield _spoiled(names, fault, "resource", partial(_written, names, part))
            continue
        check_scopes(scope_count := scope_count + len(scopes))
        for scope_path, scope in _with_paths(scopes, f"{path}.{names.scopes}"):
            try:
                records = _list(_object(scope, scope_path), names.records, scope_path)
            except Malformed as fault:
                wrong = fault
                yield _spoiled(names, fault, "scope", partial(head.around, scope))
                continue
            check_records(record_count := record_count + len(records))
            yield Envelope(head._replace(scope=scope.get("scope") or {}), records, [])
    if wrong is not None and not record_count:
        raise wrong


def _spoiled(names: Names, fault: Malformed, of: str, alone: Callable[[], bytes]) -> Envelope:
    reason = f"is in a {of} that cannot be read: {fault.reason.rstrip('.')}"
    return Envelope(Head(names, {}, {}, {}), [], [Unreadable(reason, alone)])


def count_data_points(body: bytes) -> int:
    """How many data points an export request holds. Raises Malformed."""
    return sum(
        len(_list(metric[kind], "dataPoints", metric_path))
        for path, part in _objects(_document(body, METRICS), METRICS.resources, "")
        for scope_path, scope in _objects(part, METRICS.scopes, path)
        for metric_path, metric in _objects(scope, METRICS.records, scope_path)
        for kind in _METRIC_KINDS
        if isinstance(metric.get(kind), dict)
    )


def _document(body: bytes, names: Names) -> Mapping[str, Any]:
    check_members(body)
    document = _loaded(body)
    if not isinstance(document, dict):
        raise Malformed("The body is JSON, but no object.")
    for other, signal in _SIGNALS.items():
        if other in document and names.resources not in document:
            raise Malformed(f"The body has `{other}`, which goes to /v1/{signal.value}.", other)
    if not _is_written_twice(body, document, names):
        return document
    del document  # both at once would be twice the memory
    again: Mapping[str, Any] = _loaded_by_python(body, partial(_joined, names))
    return again


def _loaded(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        # NaN, lone surrogates, very long numbers and bytes that are no UTF-8 are no JSON to orjson; the records without
        # them are good ones.
        return _loaded_by_python(body)


def _loaded_by_python(body: bytes, of_pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    read = partial(json.loads, parse_int=_whole_of_digits, object_pairs_hook=of_pairs)
    written = body.decode("utf-8-sig", errors="replace")
    try:
        try:
            return read(written)
        except RecursionError:
            return read(_without_deep(written))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"The body is not JSON: {error}.") from error


def _without_deep(written: str) -> str:
    """The same with null for what no parser follows. The record around it is set aside for its depth, and it alone."""
    parts, depth, since = [], 0, 0
    for found in _SIGN.finditer(written):
        if found[0] in _OPENING:
            depth += 1
            if depth == _DEEPEST_JSON:
                parts.append(written[since : found.start()])
        elif found[0] in _CLOSING:
            if depth == _DEEPEST_JSON:
                parts.append("null")
                since = found.end()
            depth -= 1
    if depth >= _DEEPEST_JSON:
        raise ValueError("it is nested too deeply, and has no end")
    return "".join((*parts, written[since:]))


def _is_written_twice(body: bytes, document: Mapping[str, Any], names: Names) -> bool:
    """Whether some list of records was given in two parts, of which a reader keeps the last: more names than lists."""
    level = [document]
    for name in names:
        lists = [one[name] for one in level if name in one]
        quoted = f'"{name}"'.encode()
        # The first count is quick, and wrong only where a text is the name itself.
        if body.count(quoted) > len(lists) and len(re.findall(quoted + rb"\s*:", body)) > len(lists):
            return True
        level = [one for given in lists if isinstance(given, list) for one in given if isinstance(one, dict)]
    return False


def _joined(names: Names, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose list of records was written in two parts: to protobuf, which knows no other, that is one list.

    A part that is no list is one of its members, which will be set aside. Of all else that is written twice the last
    counts, to every reader alike.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        before = found.get(name) if name in names else None
        if before is None:
            found[name] = value
        elif value is not None:
            if not isinstance(before, list):
                found[name] = before = [before]
            before.extend(value if isinstance(value, list) else [value])
    return found


def _whole_of_digits(written: str) -> float:
    """Python refuses a number of thousands of digits, and with it the whole body; as a fraction it is one record's."""
    return int(written) if len(written) <= _MOST_DIGITS else float(written)


def _list(parent: Mapping[str, Any], name: str, path: str) -> list[Any]:
    """One that is missing or null is empty. Raises Malformed for what is no list."""
    given = parent.get(name)
    if given is None:
        for spelling in _SPELLINGS.get(name, ()):
            if spelling in parent and spelling != name:
                # What is not known is to be ignored, but this is all that was sent, thrown away by its spelling.
                path = _joined_path(path, spelling)
                raise Malformed(f"In OTLP/JSON this is called `{name}`, not `{spelling}`.", path)
        return []
    if not isinstance(given, list):
        path = _joined_path(path, name)
        raise Malformed(f"`{path}` is no list.", path)
    return given


def _joined_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _with_paths(given: list[Any], path: str) -> Iterator[tuple[str, Any]]:
    return ((f"{path}[{index}]", one) for index, one in enumerate(given))


def _objects(parent: Mapping[str, Any], name: str, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    found = _with_paths(_list(parent, name, path), _joined_path(path, name))
    return ((path_of, _object(one, path_of)) for path_of, one in found)


def _object(given: object, path: str) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise Malformed(f"`{path}` is no object.", path)
    return given


def _attributes(part: Mapping[str, Any]) -> dict[str, object]:
    """Those of a resource; none where that is no resource."""
    resource = part.get("resource")
    pairs = resource.get("attributes") if isinstance(resource, dict) else None
    return readable_map(pairs if isinstance(pairs, list) else ())


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
    if number not in _INT64:
        raise Fault("intValue is no 64-bit number")
    return number


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
    """A 64-bit integer travels as a number or as a text of one: `7`, `-7`, `3.0`, `1e2`. Raises Fault."""
    try:
        if isinstance(given, str) and len(given) <= 40 and _NUMBER.fullmatch(given):
            return int(given) if given.removeprefix("-").isdigit() else _exactly_whole(given)
        if isinstance(given, int) and not isinstance(given, bool):
            return given
        if isinstance(given, float) and given.is_integer():
            return int(given)
    except ValueError:
        pass
    raise Fault(f"{name} is no whole number")


def _exactly_whole(written: str) -> int:
    """A number with a fraction or an exponent. Raises ValueError where it is not whole, or has too many digits."""
    number = Decimal(written)
    if number.adjusted() > _MOST_INT_DIGITS or number != number.to_integral_value():
        raise ValueError(written)
    return int(number)


def moment(given: object, name: str) -> int:
    """Nanoseconds since the epoch, 0 for nothing. Raises Fault."""
    time_ns = 0 if given is None else whole(given, name)
    if not 0 <= time_ns <= _MOST_UINT64:
        raise Fault(f"{name} is no unsigned 64-bit number")
    return time_ns


def identifier(given: object, digits: int) -> str:
    """An id of so many hexadecimal digits, as `hex_id` gives it. Raises Fault for what is no text."""
    written = text(given, "id")
    length = digits // 2
    with suppress(ValueError):
        if len(written) == digits or not written:
            return hex_id(bytes.fromhex(written), length)
        if len(written) == digits // 2 and len(decoded := bytes.fromhex(written)) == 8:
            return hex_id(decoded, length)
    with suppress(binascii.Error, ValueError):
        decoded = base64.b64decode(written, validate=True)  # as the JSON of protobuf writes bytes
        if len(decoded) == length and any(decoded):
            return WRONG_ID + decoded.hex()
    return WRONG_ID
