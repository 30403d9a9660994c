"""Events of every kind, as an agent that is not ours may send them: each attribute with each fault."""

from __future__ import annotations

import enum
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from django.db import transaction

from events.derived.traces import settle
from events.otlp import reading
from events.otlp.sent import Encoding, Signal
from events.store.writes import store_facts
from recovery_ops.rules.events import Event, Record
from recovery_ops.wire import encode, names
from tests.support import otlp

FAULTS: dict[str, Any] = {
    "missing": MISSING,
    "empty": "",
    "invisible": "\u200b\u2060",
    "a map": {"a": [1, {"b": "c"}]},
    "a word": "moon",
    "negative": -1,
    "10,000 characters": "x" * 10_000,
    "23 digits": 10**22,
    "23 digits as text": "9" * 23,
    "no end": float("inf"),
    "a fraction beyond all counts": 1e308,
    "a list of lists": [["a"], [None]],
    "a step up": "..",
    "an address": "/a?b=c#d%2F&e;//evil.example/",
}
"""What an attribute may hold that it should not, by what is wrong with it; `MISSING`: it is not sent."""


def good(kind: type[Event]) -> dict[str, object]:
    """An event of this kind with every attribute, as our own agent sends it."""
    return _sent(kind, [one.name for one in fields(kind) if one.init], run="run-1")


def bare(kind: type[Event]) -> dict[str, object]:
    """The same with the attributes that it has to have, and no others."""
    return _sent(kind, [one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING])


def alone(kind: type[Event], fault: str) -> Iterator[dict[str, object]]:
    """Events of this kind, each with this fault in another attribute."""
    for name in good(kind):
        if name != names.UID:
            yield _without_missing(good(kind) | {name: FAULTS[fault]})


def spoilt(kind: type[Event], fault: str) -> dict[str, object]:
    """An event of this kind with this fault in all attributes at once."""
    every = [*good(kind), names.DERIVED_FROM]
    return _without_missing(dict.fromkeys(every, FAULTS[fault]) | {names.UID: otlp.new_uid()})


def _sent(kind: type[Event], wanted: Iterable[str], run: str = "") -> dict[str, object]:
    hints = get_type_hints(kind)
    said = {name: _value(hints[name], name) for name in wanted}
    record = Record(event=kind(**said), uid=otlp.new_uid(), sequence_number=1, at_ns=0, run=run, source="user")
    return encode(record).attributes


def _without_missing(attributes: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in attributes.items() if value is not MISSING}


def store(now: datetime, events: Mapping[type[Event], list[dict[str, object]]]) -> int:
    """Store these events as they come through the door, a minute ago; return how many were taken in."""
    at_ns = int(now.timestamp() - 60) * 10**9
    records = []
    for kind, several in events.items():
        for attributes in several:
            at_ns += 1_000_000
            record = otlp.record(names.EVENTS[kind].full_name, given=attributes)
            records.append(record | {"timeUnixNano": str(at_ns), "observedTimeUnixNano": str(at_ns)})
    resource = {names.SERVICE_NAME: "research", names.SERVICE_INSTANCE_ID: "r-0"}
    body = json.dumps(otlp.request(*records, resource=resource)).encode()
    received_us = int(now.timestamp() * 1e6)
    intake = reading.read_request(Signal.LOGS, Encoding.JSON, body, environment="dev", received_us=received_us)
    with transaction.atomic():
        return store_facts(*settle([intake]))


def _value(wanted: Any, name: str) -> Any:
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return _value(next(one for one in parts if one is not type(None)), name)
    if origin is tuple:
        return (_value(parts[0], name),)
    if origin is Mapping:
        return {"max_retries": _value(parts[1], name)}
    if inspect.isclass(wanted) and issubclass(wanted, enum.Enum):
        return next(iter(wanted))
    return {str: f"some {name}", bool: True, int: 3, float: 1.5}.get(wanted, 3)
