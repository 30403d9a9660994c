"""A request as plain values, whatever it was encoded in: batches of records, and those that could not be read.

Nothing here knows what a record means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

DEEPEST = 32
"""Arrays and maps nested deeper make a record unreadable. (protobuf's own decoder gives up at about 48.)"""

_NO_ID = bytes(16)
WRONG_ID = "?"
"""What an id begins with that was sent in a wrong form; see `hex_id`."""


class Encoding(StrEnum):
    """How a request and its answer are written; the value is the media type."""

    PROTOBUF = "application/x-protobuf"
    JSON = "application/json"


class Signal(StrEnum):
    """What a request carries; the value is the last part of its path."""

    LOGS = "logs"
    TRACES = "traces"
    METRICS = "metrics"


class Malformed(Exception):
    """A request of which nothing can be read. `field` is the path to the fault, as far as it is known.

    `content` is what could not be read, where someone had it inflated.
    """

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field
        self.content = b""


class Sent(NamedTuple):
    """One log record as it was sent, in plain values; times are nanoseconds since the epoch, 0 for unknown."""

    event_name: str
    time_ns: int
    observed_ns: int
    severity: int
    body: object
    attributes: dict[str, object]
    trace_id: str
    span_id: str
    arrived: dict[str, object] | None = None
    """The attributes before the environment's own rules hid anything of them, where `attributes` no longer say it and
    the record has no uid. Only a digest is made of them.
    """


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that could not be read: why, and what writes it down as a request of its own.

    Not written down yet: that holds the resource once more, and there may be as many as a request has records.
    """

    reason: str
    alone: Callable[[], bytes]


@dataclass(slots=True)
class Batch:
    """The records of one resource and one scope of a request."""

    resource: dict[str, object]
    scope: str
    records: list[Sent] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)


class SpanEvent(NamedTuple):
    """Something that was noted on a span."""

    name: str
    time_ns: int
    attributes: dict[str, object]


class SentSpan(NamedTuple):
    """One span as it was sent. `kind` and `status` are OpenTelemetry's numbers; ids are empty where there is none."""

    name: str
    kind: int
    start_ns: int
    end_ns: int
    status: int
    status_message: str
    attributes: dict[str, object]
    events: tuple[SpanEvent, ...]
    trace_id: str
    span_id: str
    parent_id: str


@dataclass(slots=True)
class SpanBatch:
    """The spans of one resource and one scope of a request."""

    resource: dict[str, object]
    scope: str
    spans: list[SentSpan] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)


class Fault(ValueError):
    """Why one record cannot be read."""


def check_depth(depth: int) -> None:
    """Raise Fault for an array or a map inside `depth` others, if that is too deep."""
    if depth >= DEEPEST:
        raise Fault(f"is nested deeper than {DEEPEST} levels")


def hex_id(given: bytes, length: int) -> str:
    """An id in hexadecimal; empty where all its bytes are zero, which means no id.

    One of a wrong length begins with `WRONG_ID`; behind it stands what is stored: a trace of 64 bits is filled up.
    """
    if len(given) == length:
        return given.hex() if given != _NO_ID[:length] else ""
    if not given:
        return ""
    return WRONG_ID + (given.hex().rjust(2 * length, "0") if len(given) == 8 and any(given) else "")


def mended_id(given: str) -> str:
    """An id without the mark of a wrong one."""
    return given.removeprefix(WRONG_ID)
