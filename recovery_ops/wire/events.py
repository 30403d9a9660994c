"""Events to and from OpenTelemetry log events: plain names and values, so that any SDK can speak and read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from enum import StrEnum
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from recovery_ops.rules.enums import STATE_ALIASES, Category, State
from recovery_ops.rules.events import BreakerStateChanged, Event, FailureClassified, Record
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.wire import names

Attributes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WireEvent:
    """What one record looks like on the wire, before any SDK or encoding is chosen."""

    event_name: str
    severity: int
    at_ns: int
    attributes: dict[str, Any]
    body: str
    trace_id: str = ""
    span_id: str = ""


@dataclass(frozen=True, slots=True)
class Decoded:
    """An event read back, and what was wrong with its attributes (a warning each; nothing is rejected for them)."""

    event: Event
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    attribute: str
    is_required: bool
    default: object
    read: Callable[[object], object]


def encode(record: Record) -> WireEvent:
    """One record as an event: name, severity, attributes, and a sentence for people as body."""
    event = record.event
    kind = type(event)
    spec = names.EVENTS[kind]
    attributes: dict[str, Any] = {
        names.UID: record.uid,
        names.SEQUENCE_NUMBER: record.sequence_number,
        names.POLICY_VERSION: record.policy_version,
    }
    if event.operation:
        attributes[names.OPERATION] = event.operation
    if record.source:
        attributes[names.QUERY_SOURCE] = record.source
        attributes[names.IS_FOREGROUND] = record.is_foreground
    if record.run:
        attributes[names.RUN] = record.run
    for field in _FIELDS[kind]:
        value = getattr(event, field.name)
        if value is not None and (field.is_required or value != field.default):
            attributes[field.attribute] = _plain(value)
    return WireEvent(
        event_name=spec.full_name,
        severity=_severity(event, spec.severity),
        at_ns=record.at_ns,
        attributes=attributes,
        body=sentence(event),
        trace_id=record.trace_id,
        span_id=record.span_id,
    )


def decode(event_name: str, attributes: Attributes) -> Decoded | None:
    """The event that an event states; None for an event that is not ours.

    Missing or unreadable attributes become the field's default (or the most cautious value) and a warning, because a
    event with a gap is worth more than no event.
    """
    short = names.event_name_of(event_name)
    if short is None:
        return None
    kind = names.KIND_OF[short]
    given = canonical(attributes)
    values: dict[str, object] = {"operation": str(given.get(names.OPERATION, ""))}
    warnings: list[str] = []
    for field in _FIELDS[kind]:
        raw = given.get(field.attribute)
        if raw is None:
            if field.is_required:
                warnings.append(f"{field.attribute} is missing")
            values[field.name] = field.default
            continue
        try:
            values[field.name] = field.read(raw)
        except (ValueError, TypeError):
            warnings.append(f"{field.attribute} has a value that is not understood")
            values[field.name] = field.default
    return Decoded(kind(**values), tuple(warnings))  # type: ignore[arg-type]  # the values fit: each was read by its field's own reader


def canonical(attributes: Attributes) -> dict[str, Any]:
    """The attributes under the names of the table: accepted spellings replaced, the table's own spelling winning."""
    given = dict(attributes)
    for alias, name in names.ATTRIBUTE_ALIASES.items():
        if alias in given:
            given.setdefault(name, given[alias])
    return given


def required_attributes(kind: type[Event]) -> tuple[str, ...]:
    """The attributes that each event of this kind has."""
    return tuple(field.attribute for field in _FIELDS[kind] if field.is_required)


def state_of(spelling: object) -> State:
    """A breaker state from any spelling taken in; ValueError for none of ours."""
    text = str(spelling).strip().lower()
    return STATE_ALIASES.get(text) or State(text)


def category_of(spelling: object) -> Category:
    """A failure category from any spelling taken in; ValueError for none of ours."""
    text = str(spelling).strip().lower()
    return Category(names.VALUE_ALIASES.get(text, text))


def sentence(event: Event) -> str:
    """A short display sentence; nothing ever decides by it."""
    what = names.EVENTS[type(event)].name.replace("_", " ")
    if isinstance(event, BreakerStateChanged):
        return f"{event.breaker}: {event.previous_state.value} → {event.state.value} ({event.trigger.value})"
    if isinstance(event, FailureClassified):
        return f"{event.operation}: {event.category.value}, attempt {event.attempt}"
    return f"{event.operation}: {what}" if event.operation else what


def _severity(event: Event, usual: int) -> int:
    if isinstance(event, BreakerStateChanged):
        return names.WARN if event.state in (State.OPEN, State.FORCED_OPEN) else names.INFO
    if isinstance(event, FailureClassified) and event.category is Category.BUG:
        return names.ERROR
    return usual


def _plain(value: object) -> object:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return value


def _reader(annotation: object) -> Callable[[object], object]:
    """How a value of this annotation is read back from the wire."""
    if get_origin(annotation) in (Union, UnionType):
        return _reader(next(part for part in get_args(annotation) if part is not NoneType))
    if annotation is State:
        return state_of
    if annotation is Category:
        return category_of
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return lambda raw: annotation(str(raw))
    if get_origin(annotation) is tuple:
        part = _reader(get_args(annotation)[0])
        return lambda raw: tuple(part(item) for item in _listed(raw))
    if get_origin(annotation) is Mapping:
        value = _reader(get_args(annotation)[1])
        return lambda raw: MappingProxyType({str(key): value(item) for key, item in _mapped(raw).items()})
    if annotation is bool:
        return _flag
    if annotation is int:
        return _whole
    if annotation is float:
        return _finite
    if annotation is object:
        return _setting
    return str


def _setting(raw: object) -> object:
    """A number, a flag or a text as it came; anything else as text."""
    return raw if isinstance(raw, bool | int | float | str) else str(raw)


def _flag(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in ("true", "false"):
        return raw.lower() == "true"
    raise ValueError(raw)


def _whole(raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise TypeError(raw)
    return int(raw)


def _finite(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise TypeError(raw)
    number = float(raw)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(raw)
    return number


def _listed(raw: object) -> list[object]:
    if isinstance(raw, str):
        raw = json.loads(raw)
    if not isinstance(raw, list | tuple):
        raise TypeError(raw)
    return list(raw)


def _mapped(raw: object) -> Mapping[str, object]:
    """A map; SDKs without nested attributes may send it as JSON text."""
    if isinstance(raw, str):
        raw = json.loads(raw)
    if not isinstance(raw, Mapping):
        raise TypeError(raw)
    return raw


_CAUTIOUS: dict[object, object] = {
    str: "",
    int: 0,
    float: 0.0,
    bool: False,
    Category: Category.UNKNOWN,
    State: State.OPEN,
}


def _fields_of(kind: type[Event]) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    found = []
    for field in fields(kind):
        if field.name == "operation":
            continue
        annotation = hints[field.name]
        has_factory = field.default_factory is not MISSING
        is_required = field.default is MISSING and not has_factory
        default = field.default_factory() if has_factory and callable(field.default_factory) else field.default
        if is_required:
            default = _CAUTIOUS.get(annotation)
            if default is None and isinstance(annotation, type) and issubclass(annotation, StrEnum):
                default = list(annotation)[-1]
        found.append(
            _Field(field.name, names.attribute_of(kind, field.name), is_required, default, _reader(annotation))
        )
    return tuple(found)


class _FieldsOf(dict[type[Event], tuple[_Field, ...]]):
    """Each kind's fields, worked out when one of the kind first travels: an agent that starts sends two or three."""

    def __missing__(self, kind: type[Event]) -> tuple[_Field, ...]:
        found = self[kind] = _fields_of(kind)
        return found


_FIELDS = _FieldsOf()
