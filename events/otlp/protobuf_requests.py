"""Reads OpenTelemetry requests in protobuf.

One bad record spoils a whole protobuf message, so a request that cannot be decoded is taken apart by its framing, and
each record decoded by itself.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple

# protobuf ships no types; opentelemetry-proto does.
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from events.ingest.cleaning import PLAIN, Cleaned, Cleaner
from events.otlp.part_limits import check_records, check_scopes
from events.otlp.protobuf_messages import LogRecord, LogsRequest
from events.otlp.sent import Batch, Fault, Malformed, Sent, Unreadable, check_depth, hex_id
from recovery_ops.wire import names

_SCALARS = frozenset({"string_value", "int_value", "double_value", "bool_value"})


_DELIMITED = 2
_FIXED = {1: 8, 5: 4}
"""The forms of fields on the wire: texts and messages, and numbers of fixed length."""
_MOST_OTHERS = 10_000
"""Fields beside those that are looked for, in what could not be read as a whole."""


def read_logs(body: bytes, cleaner: Cleaner = PLAIN) -> list[Batch]:
    """The log records of an ExportLogsServiceRequest, their attributes cleaned. Raises Malformed."""
    pairs = _pairs_of(cleaner)
    try:
        request = LogsRequest.FromString(body)
        check_scopes(len(request.resource_logs))
        check_scopes(sum(len(part.scope_logs) for part in request.resource_logs))
        check_records(sum(len(scope.log_records) for part in request.resource_logs for scope in part.scope_logs))
        batches = []
        for part in request.resource_logs:
            described = part.resource  # once: each look at it is a copy, which whatever is unreadable would keep
            resource = readable_map(Resource.FromString(described).attributes)
            for scope in part.scope_logs:
                head = Head(described, scope.scope)
                batch = Batch(resource, InstrumentationScope.FromString(head.scope).name)
                for record in scope.log_records:
                    _take(batch, record, head, pairs)
                batches.append(batch)
    except DecodeError as error:
        return _salvage(body, error, pairs)
    return batches


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


class Head(NamedTuple):
    """What stands before the records of one batch: the messages of its resource and its scope."""

    resource: bytes
    scope: bytes

    @property
    def scope_name(self) -> str:
        """As far as it can be read."""
        try:
            return str(InstrumentationScope.FromString(self.scope).name)
        except DecodeError:
            with suppress(DecodeError):
                return _mended_text(self.scope)
        return ""

    def alone(self, content: bytes) -> bytes:
        """A request that holds this one record of the batch, whatever its signal: their framing is the same."""
        return self.around(_field(1, self.scope) + _field(2, content))

    def around(self, scope: bytes) -> bytes:
        """A request that holds the records of one scope."""
        return _field(1, _field(1, self.resource) + _field(2, scope))

    def writer_of(self, record: Any) -> Callable[[], bytes]:
        """What writes such a request with a message, when it is wanted."""
        return lambda: self.alone(record.SerializeToString())


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    size, length = bytearray(), len(content)
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    size.append(length)
    return bytes([number << 3 | 2, *size]) + content


def _salvage(body: bytes, cause: DecodeError, pairs: _Pairs) -> list[Batch]:
    """The records that can be read by themselves, where one bad record (or more) spoils the request."""
    batches = []
    try:
        for head, resource, contents, unreadable in envelopes(body):
            batch = Batch(resource, head.scope_name, unreadable=unreadable)
            for content in contents:
                try:
                    _take(batch, LogRecord.FromString(content), head, pairs)
                except DecodeError as error:
                    reason = f"is no LogRecord in protobuf: {error}"
                    batch.unreadable.append(Unreadable(reason, partial(head.alone, content)))
            batches.append(batch)
    except DecodeError:
        raise Malformed(f"The body is no ExportLogsServiceRequest in protobuf: {cause}.") from cause
    return batches


class Envelope(NamedTuple):
    """The records of one resource and one scope, undecoded; or, instead of them, what is none or holds none."""

    head: Head
    resource: dict[str, object]
    contents: list[bytes]
    unreadable: list[Unreadable]


def envelopes(body: bytes) -> Iterator[Envelope]:
    """The records of a request, found by their framing alone. What is broken inside spoils nothing beside it.

    Raises DecodeError where there is nothing that could be a record, and Malformed for too many.
    """
    count = scopes = 0
    broken: DecodeError | None = None
    parts = _fields(body, 1)[1]
    check_scopes(len(parts))
    for part in parts:
        try:
            inside = _fields(part, 1, 2)
        except DecodeError as error:
            broken = error
            yield _spoiled(error, "resource", partial(_field, 1, part))
            continue
        check_scopes(scopes := scopes + len(inside[2]))
        given = _last(inside[1])
        resource = _attributes(given)
        for scope in inside[2]:
            try:
                found = _fields(scope, 1, 2)
            except DecodeError as error:
                broken = error
                yield _spoiled(error, "scope", partial(Head(given, b"").around, scope))
                continue
            check_records(count := count + len(found[2]))
            yield Envelope(Head(given, _last(found[1])), resource, found[2], [])
    if broken is not None and not count:
        raise broken


def _spoiled(error: DecodeError, of: str, alone: Callable[[], bytes]) -> Envelope:
    return Envelope(Head(b"", b""), {}, [], [Unreadable(f"is in a {of} that cannot be read: {error}", alone)])


def _last(given: list[bytes]) -> bytes:
    """Of a message that comes twice the last one counts."""
    return given[-1] if given else b""


def _attributes(resource: bytes) -> dict[str, object]:
    """The attributes of a resource as far as they can be read.

    A Collector's request is of many services, and not every sender checks what is UTF-8: that is no reason to refuse
    the records of one of them, and less so those of all others.
    """
    try:
        return readable_map(Resource.FromString(resource).attributes)
    except DecodeError:
        pass
    found: dict[str, object] = {}
    with suppress(DecodeError):
        for pair in _fields(resource, 1)[1]:
            with suppress(DecodeError):
                key, value = _mended_pair(pair)
                found[key] = value
    return found


def _mended_pair(given: bytes) -> tuple[str, object]:
    """One attribute as far as it can be read: of a list or a map that cannot, nothing."""
    try:
        pair = KeyValue.FromString(given)
        return pair.key, _plain(pair.value)
    except (DecodeError, Fault):
        return _mended_text(given), _mended_text(_last(_fields(given, 2)[2]))


def _mended_text(message: bytes) -> str:
    """The text in field 1 of a message, with a question mark in a diamond for each byte that is no UTF-8."""
    return _last(_fields(message, 1)[1]).decode(errors="replace")


def _fields(message: bytes, *numbers: int) -> dict[int, list[bytes]]:
    """The length-delimited fields of these numbers, whatever message it is. Raises DecodeError.

    Gives up at the first thing that no sender writes: this looks at what is broken already, and may be an attack.
    """
    found: dict[int, list[bytes]] = {number: [] for number in numbers}
    at, end, others = 0, len(message), 0
    while at < end:
        tag, at = _varint(message, at)
        field, kind = tag >> 3, tag & 7
        if kind == _DELIMITED:
            size, at = _varint(message, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        elif kind == 0:
            size = _varint(message, at)[1] - at
        else:
            raise DecodeError("a field has no known form")
        if not field or at + size > end:
            raise DecodeError("the framing is broken")
        if field in found:
            if kind != _DELIMITED:
                raise DecodeError(f"field {field} is no message")
            found[field].append(message[at : at + size])
        elif (others := others + 1) > _MOST_OTHERS:
            raise DecodeError("it holds little but fields that nobody knows")
        at += size
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A whole number and where it ends."""
    number = shift = 0
    for place in range(at, min(at + 10, len(message))):
        number |= (message[place] & 0x7F) << shift
        if message[place] < 0x80:
            return number, place + 1
        shift += 7
    raise DecodeError("a number does not end")


def _take(batch: Batch, record: Any, head: Head, pairs: _Pairs) -> None:
    try:
        attributes = Cleaned(map(pairs.__getitem__, record.attributes))
        arrived = None
        if pairs.before is not None and not attributes.get(names.UID):
            arrived = Cleaned(map(pairs.before.__getitem__, record.attributes))
        batch.records.append(
            Sent(
                record.event_name,
                record.time_unix_nano,
                record.observed_time_unix_nano,
                record.severity_number,
                _bodies[record.body],
                attributes,
                hex_id(record.trace_id, 16),
                hex_id(record.span_id, 8),
                arrived,
            )
        )
    except DecodeError as error:
        reason = f"is no LogRecord in protobuf: {error}"
        batch.unreadable.append(Unreadable(reason, head.writer_of(record)))
    except Fault as fault:
        batch.unreadable.append(Unreadable(str(fault), head.writer_of(record)))


class _Pairs(dict[bytes, tuple[str, object]]):
    """What the bytes of an attribute say, cleaned. Remembers short ones; forgets all when it is full."""

    def __init__(self, cleaner: Cleaner) -> None:
        super().__init__()
        self._cleaned = cleaner.pair
        self.before: _Pairs | None = _pairs_of(PLAIN) if cleaner.masking else None
        """What they say before the environment's own rules hide anything."""

    def __missing__(self, given: bytes) -> tuple[str, object]:
        fresh = _read_fresh(given)
        if fresh is not None:
            return fresh
        key, value = _read_pair(given)
        if key == names.UID:
            return key, value  # never stored as it is, so never masked: two secrets would become one fact
        pair = self._cleaned(key, value)
        if len(given) <= _REMEMBERED_BYTES and key not in _FRESH and type(value) not in _CONTAINERS:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[given] = pair
        return pair


@lru_cache(maxsize=16)
def _pairs_of(cleaner: Cleaner) -> _Pairs:
    """What is remembered under one cleaner."""
    return _Pairs(cleaner)


class _Bodies(dict[bytes, object]):
    """What the bytes of a body say, which is nearly always one of a few sentences."""

    def __missing__(self, given: bytes) -> object:
        body = _plain(AnyValue.FromString(given))
        if len(given) <= _REMEMBERED_BYTES and type(body) not in _CONTAINERS:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[given] = body
        return body


_REMEMBERED = 16_384
_REMEMBERED_BYTES = 256
_CONTAINERS = frozenset({list, dict})
"""What somebody could change after it was looked up."""
_FRESH = frozenset({names.UID, names.SEQUENCE_NUMBER})
"""Attributes that never say the same twice: remembering them would crowd out the rest."""
_bodies = _Bodies()
_STRING, _VALUE, _WHOLE, _SHORT = 0x0A, 0x12, 0x18, 0x80
"""Tags of a text in field 1, a message in field 2 and an integer in field 3; and what is too long for one byte."""
_LONGEST_WHOLE = 8
"""Bytes of a number after its first: nine hold 63 bits, and a negative one has ten."""


_UID_HEAD = b"\n\x0elog.record.uid\x12&\n$"
"""How a uid of 36 characters begins; nothing else begins so."""
_UID_BYTES = len(_UID_HEAD) + 36
_NUMBER_HEAD = b"\n\x18recovery.sequence_number\x12"
_AT = len(_NUMBER_HEAD)
_MORE_BITS = {1: 0, 2: 0x80, 3: 0x8080, 4: 0x808080}
"""Which bytes of a number of so many say that more come."""


def _read_fresh(given: bytes) -> tuple[str, object] | None:
    """A uid or a sequence number by the shortest way, because no record has that of another; None for all else."""
    if len(given) == _UID_BYTES and given.startswith(_UID_HEAD):
        try:
            return names.UID, given[-36:].decode()
        except UnicodeDecodeError as error:
            raise DecodeError(str(error)) from error
    if given.startswith(_NUMBER_HEAD):
        # Up to four bytes of a number, all at once: seven bits of each.
        size = len(given) - _AT - 2
        if size in _MORE_BITS and given[_AT] == size + 1 and given[_AT + 1] == _WHOLE:
            bits = int.from_bytes(given[_AT + 2 :], "little")
            if bits & 0x80808080 == _MORE_BITS[size]:
                number = bits & 0x7F | bits >> 1 & 0x3F80 | bits >> 2 & 0x1FC000 | bits >> 3 & 0xFE00000
                return names.SEQUENCE_NUMBER, number
    return None


def _read_pair(given: bytes) -> tuple[str, object]:
    """One KeyValue; a short key with a short text or number is read by its framing. Raises DecodeError.

    That costs a third of asking protobuf, and nothing is read that protobuf would read otherwise.
    """
    rest = len(given) - 6
    if rest >= 0 and given[0] == _STRING and given[1] < _SHORT:
        at = 2 + given[1]
        size = rest - given[1]
        if 0 <= size < _SHORT - 2 and given[at : at + 4] == bytes((_VALUE, size + 2, _STRING, size)):
            try:
                return given[2:at].decode(), given[at + 4 :].decode()
            except UnicodeDecodeError as error:
                raise DecodeError(str(error)) from error
        if 0 <= size < _LONGEST_WHOLE and given[at : at + 3] == bytes((_VALUE, size + 2, _WHOLE)):
            number = _whole(given[at + 3 :])
            if number is not None:
                try:
                    return given[2:at].decode(), number
                except UnicodeDecodeError as error:
                    raise DecodeError(str(error)) from error
    pair = KeyValue.FromString(given)
    return pair.key, _plain(pair.value)


def _whole(varint: bytes) -> int | None:
    """A number that is not negative; None where these bytes are anything else."""
    number = 0
    for place, byte in enumerate(varint):
        number |= (byte & 0x7F) << 7 * place
        if byte < _SHORT:
            return number if place == len(varint) - 1 else None
    return None


def plain_map(pairs: Any, depth: int = 0) -> dict[str, object]:
    """Attributes as plain values. Raises Fault."""
    return {pair.key: _plain(pair.value, depth) for pair in pairs}


def readable_map(pairs: Any) -> dict[str, object]:
    """A resource's attributes. One that cannot be read is no reason to refuse the records."""
    try:
        return plain_map(pairs)
    except Fault:
        found: dict[str, object] = {}
        for pair in pairs:
            with suppress(Fault):
                found |= plain_map([pair])
        return found


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
        return plain_map(value.kvlist_value.values, depth + 1)
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return None  # a reference into a table that only profiles have
