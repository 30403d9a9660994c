"""Records that a store may choke on, in protobuf and in JSON, and what has to become of each.

A poison is a good record with something more: in protobuf bytes after its own, which a parser merges into it, in JSON
members and attributes. What one of the two cannot say is None there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from recovery_ops.wire import names

if TYPE_CHECKING:
    from events.models import Fact

WHERE = "drill.poison"
"""The attribute that holds it, where the value is what is poisoned."""
LONG = "x" * 12_000
_MOST_UINT64 = 2**64 - 1
_MANY = 128_000
_EVENT, _BODY, _ATTRIBUTE, _TIME, _SEVERITY, _TRACE = 12, 5, 6, 1, 2, 9
"""Numbers of a LogRecord's fields."""

IsKept = Callable[["Fact"], bool]
Pair = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """`is_kept` says whether the stored row is as it has to be; None: it is set aside, for a reason with this in it."""

    words: str
    protobuf: bytes | None = None
    members: Mapping[str, object] | None = None
    """Of the record in JSON; None together with `pairs`: JSON cannot say it."""
    pairs: Sequence[Pair] | None = None
    is_kept: IsKept | None = None
    reason: str = ""

    @property
    def is_of_json(self) -> bool:
        """Whether JSON can say it."""
        return self.members is not None or self.pairs is not None


def framed(number: int, content: bytes) -> bytes:
    """A field of a message or a text, as protobuf writes it."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def _pair(key: bytes, value: bytes) -> bytes:
    return framed(_ATTRIBUTE, framed(1, key) + framed(2, value))


def _text(value: bytes, key: str = WHERE) -> bytes:
    """An attribute whose text need not be one."""
    return _pair(key.encode(), framed(1, value))


def _json_pair(kind: str, value: object, key: str = WHERE) -> Pair:
    return {"key": key, "value": {kind: value}}


def _holds(expected: object, row: Fact) -> bool:
    return (
        WHERE in row.attributes and row.attributes[WHERE] == expected and type(row.attributes[WHERE]) is type(expected)
    )


def _is(column: str, expected: object, row: Fact) -> bool:
    return bool(getattr(row, column) == expected)


def _is_cut(column: str, row: Fact) -> bool:
    """As long as its column is, with a sign that there was more."""
    described: Any = row._meta.get_field(column)
    return bool(getattr(row, column) == LONG[: described.max_length - 1] + "…")


def _is_shortened(text: str) -> bool:
    return len(text) < len(LONG) and text.startswith("xxx") and text.endswith("…")


def _of_text(words: str, text: str, expected: str) -> Poison:
    """A text that both can say."""
    given = _text(text.encode(errors="surrogatepass"))
    return Poison(
        words=words, protobuf=given, pairs=[_json_pair("stringValue", text)], is_kept=partial(_holds, expected)
    )


def _of_name(words: str, attribute: str, column: str) -> Poison:
    """Twelve kilobytes where a column has room for a name."""
    return Poison(
        words=words,
        protobuf=_text(LONG.encode(), attribute),
        pairs=[_json_pair("stringValue", LONG, attribute)],
        is_kept=partial(_is_cut, column),
    )


def _of_number(words: str, number: float) -> Poison:
    expected = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return Poison(
        words=words,
        protobuf=_pair(WHERE.encode(), AnyValue(double_value=number).SerializeToString()),
        pairs=[_json_pair("doubleValue", number)],  # which Python writes as a word that is no JSON
        is_kept=partial(_holds, expected),
    )


def _deep(levels: int) -> tuple[bytes, Pair]:
    value: bytes = framed(1, b"bottom")
    told: dict[str, Any] = {"stringValue": "bottom"}
    for _ in range(levels):
        value = framed(5, framed(1, value))
        told = {"arrayValue": {"values": [told]}}
    return _pair(WHERE.encode(), value), {"key": WHERE, "value": told}


def _many(words: str, count: int) -> Poison:
    return Poison(
        words=words,
        protobuf=b"".join(_pair(f"k{number}".encode(), framed(1, b"v")) for number in range(count)),
        pairs=[_json_pair("stringValue", "v", f"k{number}") for number in range(count)],
        reason="1024 are the most",
    )


def _nested(levels: int) -> Poison:
    given, told = _deep(levels)
    return Poison(words=f"nested {levels} deep", protobuf=given, pairs=[told], reason="nested deeper|no LogRecord")


def _fixed64(number: int, value: int) -> bytes:
    return _varint(number << 3 | 1) + value.to_bytes(8, "little")


def _whole_value(number: int) -> bytes:
    """An attribute with this number as its varint, whatever the sign."""
    return _pair(WHERE.encode(), _varint(3 << 3) + _varint(number))


POISONS: tuple[Poison, ...] = (
    _many(f"{_MANY:,} attributes", _MANY),
    _many("1,500 attributes", 1500),
    Poison(
        words="100 attributes of 4 kB",
        protobuf=b"".join(_text(LONG[:4096].encode(), f"k{number}") for number in range(100)),
        pairs=[_json_pair("stringValue", LONG[:4096], f"k{number}") for number in range(100)],
        reason="bytes after cutting",
    ),
    _nested(60),
    _nested(40),
    _of_text("NUL in a value", "a\0b", "ab"),
    _of_text("NUL and nothing else", "\0", ""),
    _of_text("control characters", "\x1b[31mred\x07", "[31mred"),
    Poison(
        words="NUL in a key",
        protobuf=_text(b"v", "drill.\0key"),
        pairs=[_json_pair("stringValue", "v", "drill.\0key")],
        is_kept=lambda row: row.attributes.get("drill.key") == "v",
    ),
    Poison(
        words="NUL in the operation",
        protobuf=_text(b"tool\0_0", names.OPERATION),
        pairs=[_json_pair("stringValue", "tool\0_0", names.OPERATION)],
        is_kept=partial(_is, "operation", "tool_0"),
    ),
    Poison(
        words="NUL in the body",
        protobuf=framed(_BODY, framed(1, b"a\0b")),
        members={"body": {"stringValue": "a\0b"}},
        is_kept=partial(_is, "body", "ab"),
    ),
    Poison(
        words="NUL in the event's name",
        protobuf=framed(_EVENT, b"drill\0event"),
        members={"eventName": "drill\0event"},
        is_kept=lambda row: row.event == "log" and row.attributes["event.name"] == "drillevent",
    ),
    Poison(words="half a surrogate pair", pairs=[_json_pair("stringValue", "a\ud800b")], is_kept=partial(_holds, "ab")),
    Poison(words="half a surrogate pair in bytes", protobuf=_text(b"a\xed\xa0\x80b"), reason="no LogRecord"),
    Poison(
        words="half a surrogate pair in a key",
        pairs=[_json_pair("stringValue", "v", "drill.\udfffkey")],
        is_kept=lambda row: row.attributes.get("drill.key") == "v",
    ),
    Poison(
        words="half a surrogate pair in the event's name",
        members={"eventName": "drill\ud800event"},
        is_kept=lambda row: row.event == "log" and row.attributes["event.name"] == "drillevent",
    ),
    Poison(words="no UTF-8 in a value", protobuf=_text(b"\xff\xfe"), reason="no LogRecord"),
    Poison(words="no UTF-8 in the event's name", protobuf=framed(_EVENT, b"\xff\xfe"), reason="no LogRecord"),
    Poison(words="a record that is cut off", protobuf=b"\x32\x7f", reason="no LogRecord"),
    _of_number("NaN", math.nan),
    _of_number("Infinity", math.inf),
    _of_number("-Infinity", -math.inf),
    Poison(words="NaN as a text", pairs=[_json_pair("doubleValue", "NaN")], is_kept=partial(_holds, "NaN")),
    Poison(words="1e400", pairs=[_json_pair("doubleValue", "1e400")], is_kept=partial(_holds, "Infinity")),
    Poison(
        words="2^64 - 1",
        protobuf=_whole_value(_MOST_UINT64),  # which an int64 of protobuf says as -1
        is_kept=partial(_holds, -1),
    ),
    Poison(words="2^64 - 1 as a number", pairs=[_json_pair("intValue", _MOST_UINT64)], reason="no 64-bit number"),
    Poison(words="2^63 as a text", pairs=[_json_pair("intValue", str(2**63))], reason="no 64-bit number"),
    Poison(
        words="2^63 as a number of sequence",
        pairs=[_json_pair("intValue", str(2**63), names.SEQUENCE_NUMBER)],
        reason="no 64-bit number",
    ),
    Poison(words="a number of 5,000 digits", pairs=[_json_pair("intValue", "1" * 5000)], reason="no whole number"),
    Poison(
        words="2^64 - 1 as the time",
        protobuf=_fixed64(_TIME, _MOST_UINT64),
        members={"timeUnixNano": str(_MOST_UINT64)},
        is_kept=lambda row: row.at_us <= row.received_us and row.stated_us == _MOST_UINT64 // 1000,
    ),
    Poison(words="a time before time", members={"timeUnixNano": "-1"}, reason="no unsigned 64-bit number"),
    Poison(words="a time beyond 64 bits", members={"timeUnixNano": str(2**64)}, reason="no unsigned 64-bit number"),
    Poison(
        words="no time",
        protobuf=_fixed64(_TIME, 0),
        members={"timeUnixNano": "0"},
        is_kept=lambda row: row.at_us == row.received_us,
    ),
    Poison(
        words="a severity that there is none of",
        protobuf=_varint(_SEVERITY << 3) + _varint(2**31 - 1),
        members={"severityNumber": 2**31 - 1},
        is_kept=partial(_is, "severity", 0),
    ),
    _of_name("an operation of 12 kB", names.OPERATION, "operation"),
    _of_name("a breaker of 12 kB", names.ATTRIBUTES["breaker"], "breaker"),
    _of_name("a model of 12 kB", names.ATTRIBUTES["model"], "model"),
    _of_name("a source of 12 kB", names.QUERY_SOURCE, "source"),
    Poison(
        words="a key of 12 kB",
        protobuf=_text(b"v", LONG),
        pairs=[_json_pair("stringValue", "v", LONG)],
        is_kept=lambda row: [len(key) for key in row.attributes if key.startswith("xxx")] == [256],
    ),
    Poison(
        words="an event's name of 12 kB",
        protobuf=framed(_EVENT, LONG.encode()),
        members={"eventName": LONG},
        is_kept=lambda row: row.event == "log" and _is_shortened(row.attributes["event.name"]),
    ),
    Poison(
        words="a value of 12 kB",
        protobuf=_text(LONG.encode()),
        pairs=[_json_pair("stringValue", LONG)],
        is_kept=lambda row: len(row.attributes[WHERE]) == 4096,
    ),
    Poison(
        words="an id that is too short",
        protobuf=framed(_TRACE, b"short"),
        members={"traceId": "short"},
        is_kept=partial(_is, "trace_id", ""),
    ),
    Poison(words="an id that is a number", members={"traceId": 7}, reason="id is no text"),
    Poison(
        words="a category that nobody knows",
        protobuf=_text(b"\xf0\x9f\x92\xa9", names.ATTRIBUTES["category"]),
        pairs=[_json_pair("stringValue", "💩", names.ATTRIBUTES["category"])],
        is_kept=partial(_is, "category", "unknown"),
    ),
    Poison(words="attributes that are no list", members={"attributes": {"a": 1}}, reason="attributes are no list"),
    Poison(words="a flag that is a text", pairs=[_json_pair("boolValue", "yes")], reason="neither true nor false"),
    Poison(words="bytes that are no base64", pairs=[_json_pair("bytesValue", "=?=")], reason="no base64"),
    Poison(words="a value that is a text", pairs=[{"key": WHERE, "value": "plain"}], reason="a value is no object"),
)
