"""Errors that cross to another process: rebuilt from what they hold, not from how they were made.

What a default pickle does, calling the class with `args`, does not fit constructors that make their text from fields; a
worker's error would then break, or hang, the pool that waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.runtime.failures.safe_inspection import LONGEST_TEXT, names_of

_PLAIN = (str, int, float, bool, bytes, datetime, type(None))
_DEEPEST = 4


class Portable(Exception):
    """An exception of which copies keep class, `args` and every field, and pickles all of that that can be pickled.

    A field that cannot be pickled, or not be read back, arrives as a stand-in: containers without the parts that do
    not travel, an exception as an `Exception` with its name and text, anything else as its text.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Class, `args` and fields; each field packed by itself, so that one that cannot travel costs only itself."""
        own, slots = _state(self)
        packed = tuple({name: _pack(value) for name, value in part.items()} for part in (own, slots))
        return _unpacked, (type(self), tuple(_pack(one) for one in self.args), *packed)

    def __copy__(self) -> Portable:
        """Within the process everything is kept as it is."""
        return _rebuilt(type(self), self.args, *_state(self))


def _state(error: Portable) -> tuple[dict[str, Any], dict[str, Any]]:
    """What stands in its `__dict__`, and in the slots of its classes."""
    state = object.__getstate__(error)
    own, slots = state if isinstance(state, tuple) else (state, None)
    return dict(own or {}), dict(slots or {})


def _rebuilt(cls: type[Portable], args: tuple[Any, ...], own: dict[str, Any], slots: dict[str, Any]) -> Portable:
    error = cls.__new__(cls, *args)
    error.args = args  # `__new__` of an OSError leaves them to an `__init__` that is not called here
    error.__dict__.update(own)
    for name, value in slots.items():
        object.__setattr__(error, name, value)
    return error


@dataclass(frozen=True, slots=True)
class _Packed:
    """A value that was pickled once: errors in errors are not pickled again for each that holds them."""

    pickled: bytes
    otherwise: str
    """Its text, for a process that lacks its class."""
    is_error: bool

    def value(self) -> Any:
        import pickle

        try:
            return pickle.loads(self.pickled)  # noqa: S301  # part of a pickle that is being read already
        except Exception:
            return Exception(self.otherwise) if self.is_error else self.otherwise


def _unpacked(cls: type[Portable], args: tuple[Any, ...], own: dict[str, Any], slots: dict[str, Any]) -> Portable:
    parts = ({name: _value(one) for name, one in part.items()} for part in (own, slots))
    return _rebuilt(cls, tuple(_value(one) for one in args), *parts)


def _value(packed: Any) -> Any:
    return packed.value() if isinstance(packed, _Packed) else packed


def _pack(value: Any, depth: int = 0) -> Any:
    """The value, or what is to become of it over there."""
    if type(value) in _PLAIN:
        return value
    import pickle

    try:
        pickled = pickle.dumps(value)
        pickle.loads(pickled)  # noqa: S301  # what this process has just written; many errors fail only here
    except Exception:
        return _stand_in(value, depth)
    return _Packed(pickled, _told(value), isinstance(value, BaseException))


def _stand_in(value: Any, depth: int) -> Any:
    import dataclasses
    import pickle

    if isinstance(value, BaseException):
        return Exception(_told(value))
    if depth >= _DEEPEST:
        return _told(value)
    if isinstance(value, Mapping):
        return {_clean(key, depth): _clean(one, depth) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_clean(one, depth) for one in value]
        return parts if isinstance(value, list) else tuple(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        try:
            fields = [field.name for field in dataclasses.fields(value) if field.init]
            made = dataclasses.replace(value, **{name: _clean(getattr(value, name), depth) for name in fields})
            pickle.loads(pickle.dumps(made))  # noqa: S301  # as above
        except Exception:
            return _told(value)
        return made
    return _told(value)


def _clean(value: Any, depth: int) -> Any:
    return _value(_pack(value, depth + 1))


def _told(value: object) -> str:
    """Its text, after its name where it is an error; cut to 4 kB."""
    try:
        said = str(value) if isinstance(value, BaseException) else repr(value)
    except Exception:
        said = ""
    if isinstance(value, BaseException) or not said:
        name = (*names_of(type(value)), type(value).__name__)[0]
        said = f"{name}: {said}" if said else name
    return said[:LONGEST_TEXT]
