"""Idempotency keys of the guarded calls inside a keyed call: each has its own, and a repetition meets the same ones."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import Enum
from functools import partial
from itertools import count
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any
from weakref import WeakValueDictionary

from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.process import forks

_DEEPEST = 100
_STATED = frozenset({"datetime", "decimal", "fractions", "ipaddress", "uuid", "zoneinfo"})
"""Modules whose values say all that they are in their text."""
_FIELDS = ("__pydantic_fields__", "model_fields", "__attrs_attrs__", "__struct_fields__")
"""Where the classes of pydantic, attrs and msgspec name their fields."""


class NestedCalls:
    """The guarded calls inside one attempt of a call that has `key`, or of a workflow step.

    A call's key comes from that key, the operation, the arguments and the ordinal among equal calls. Each attempt
    begins with an empty one, so that the ordinals start again. Thread-safe without a lock: each change of a dictionary
    or a set, and each step of a counter, is one step of the interpreter. `pinned` gives one operation a key of its own:
    that of the failed call which is made again.

    A forked child makes other calls than its parent: those that it begins after the fork come from a key of its own,
    also in a repetition, which meets the calls of before the fork with the keys that they had.
    """

    __slots__ = ("__weakref__", "_forks", "_key", "_layers", "_opaque", "_ordinals", "_pinned", "_strand")

    def __init__(self, key: str, pinned: Mapping[str, str] | None = None) -> None:
        self._key = key
        self._pinned = dict(pinned or {})
        self._ordinals: dict[tuple[str, str], Iterator[int]] = {}
        self._layers = _FORKED.get(key, ())
        self._forks = forks.forks_made()
        _LIVE[key] = self
        self._opaque: dict[tuple[str, str], dict[tuple[tuple[int, ...], bool], tuple[object, ...]]] = {}
        self._strand = _strand()

    def key_of(self, operation: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        """The key of one call; None where the callable sends none.

        Raises ConfigurationError for concurrent calls that differ only in arguments which cannot be digested: their
        order, and so their keys, would be left to chance.
        """
        if args and getattr(type(args[0]), "sends_no_key", False):
            return None
        pinned = self._pinned.pop(operation, None)
        if pinned is not None:
            return pinned
        opaque: list[object] = []
        name = operation, digest(_encoded([list(args), dict(kwargs)], opaque, 0))
        if opaque:
            self._tell_apart(name, tuple(opaque))
        ordinal, key = next(self._ordinals.setdefault(name, count())), self._key
        for made, key_after in self._layers:
            if ordinal < made.get(name, 0):
                break
            key = key_after
        return digest(key, *name, str(ordinal))

    def fork(self) -> None:
        """In the child: what is begun from here on is the child's own."""
        made = {name: next(ordinals) for name, ordinals in self._ordinals.items()}
        self._ordinals = {name: count(number) for name, number in made.items()}
        own = digest(self._layers[-1][1] if self._layers else self._key, "fork", str(forks.forks_made() - self._forks))
        self._layers = _FORKED[self._key] = (*self._layers, (made, own))
        self._forks = 0

    def _tell_apart(self, name: tuple[str, str], opaque: tuple[object, ...]) -> None:
        """Calls in the strand of the attempt have an order; others have none, and must not need one."""
        seen = self._opaque.setdefault(name, {})
        # The objects are kept: another one must not get the id of one that is gone.
        seen[tuple(map(id, opaque)), self._strand == _strand()] = opaque
        met = list(seen)
        if len({ids for ids, _ in met}) > 1 and not all(is_ordered for _, is_ordered in met):
            types = ", ".join(sorted({type(one).__qualname__ for one in opaque}))
            raise ConfigurationError(
                f"concurrent calls of {name[0]} differ only in arguments that cannot be digested ({types}): give the"
                " guard an idempotency_key that tells them apart"
            )


_LIVE: WeakValueDictionary[str, NestedCalls] = WeakValueDictionary()
"""By its key, the last attempt of each call."""
_FORKED: dict[str, tuple[tuple[dict[tuple[str, str], int], str], ...]] = {}
"""By the key of a call that was under way at a fork of this process: for each fork, how many calls inside were made
before it, by name, and the key of those after it."""


def _fork_all() -> None:
    for one in list(_LIVE.values()):
        one.fork()


forks.in_child(_fork_all)


def digest(*parts: str | bytes) -> str:
    """40 hexadecimal digits that tell these parts from any others."""
    import hashlib  # when first needed: an agent without keys does without OpenSSL

    sum_ = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        sum_.update(len(content).to_bytes(8, "big") + content)
    return sum_.hexdigest()[:40]


def _strand() -> tuple[int, int]:
    """The thread, and the task in it, of whoever calls."""
    task: object = None
    if (trio := sys.modules.get("trio")) is not None:
        with suppress(RuntimeError, AttributeError):
            task = trio.lowlevel.current_task()
    if task is None and (asyncio := sys.modules.get("asyncio")) is not None:
        with suppress(RuntimeError, AttributeError):
            task = asyncio.current_task()
    return threading.get_ident(), id(task)


def _encoded(value: object, opaque: list[object], depth: int) -> bytes:
    """The value as bytes: equal ones for equal values, in every process. Objects that say nothing are left `opaque`."""
    try:
        found = _plain(value) if depth <= _DEEPEST else None
        if found is None and depth <= _DEEPEST:
            found = _compound(value, opaque, depth + 1)
    except Exception:  # an object of the caller's that does not let itself be read
        found = None
    if found is None:
        opaque.append(value)
        found = b""
    # A list and a tuple mean the same: a value that was stored comes back as a list.
    name = "list" if isinstance(value, list | tuple) else f"{type(value).__module__}.{type(value).__qualname__}"
    return _joined(name.encode("utf-8", "replace"), found)


def _plain(value: object) -> bytes | None:
    """A value without parts; None for any other."""
    if value is None:
        return b""
    if isinstance(value, Enum):
        return value.name.encode()
    if isinstance(value, bool | int):
        return f"{int(value):x}".encode()
    if isinstance(value, float | complex):
        return repr(value).encode()
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, PurePath) or type(value).__module__.partition(".")[0] in _STATED:
        return str(value).encode()
    if isinstance(value, type | FunctionType | BuiltinFunctionType) and "<" not in value.__qualname__:
        owner = getattr(value, "__self__", None)
        return f"{value.__module__}.{value.__qualname__}".encode() if owner is None or _is_module(owner) else None
    return None


def _compound(value: object, opaque: list[object], depth: int) -> bytes | None:
    """A value with parts; None for one whose parts are not known."""
    if isinstance(value, list | tuple):
        return _joined(*(_encoded(one, opaque, depth) for one in value))
    if isinstance(value, Mapping):
        pairs = [_encoded([key, one], opaque, depth) for key, one in value.items()]
        return _joined(*sorted(pairs))
    if isinstance(value, AbstractSet):
        return _joined(*sorted(_encoded(one, opaque, depth) for one in value))
    if isinstance(value, MethodType):
        return _encoded([value.__func__, value.__self__], opaque, depth)
    if isinstance(value, partial):
        return _encoded([value.func, value.args, value.keywords], opaque, depth)
    parts: Callable[[], object] | None = getattr(type(value), "recovery_key_parts", None)
    if parts is not None:
        return _encoded(parts.__get__(value)(), opaque, depth)
    names = _fields_of(value)
    return None if names is None else _encoded([getattr(value, name) for name in names], opaque, depth)


def _fields_of(value: object) -> list[str] | None:
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    for name in _FIELDS:
        found = getattr(type(value), name, None)
        if isinstance(found, Mapping | tuple | list):
            return [str(getattr(one, "name", one)) for one in found]
    return None


def _is_module(owner: object) -> bool:
    return isinstance(owner, type(sys))


def _joined(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
