"""Reads objects that may do anything when they are read: raise, lie about themselves, or hold 100 MB.

Nothing here causes I/O: a property is never used to get at a body. Whatever a property or `__str__` raises is
swallowed, except Ctrl-C.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

LONGEST_TEXT = 4096
_LARGEST_BODY = 65_536
_LONGEST_HEADER = 512
_MOST_HEADERS = 256
_MOST_CLASSES = 2048

# What an exception may carry that says what it is.
_TELLING = frozenset(
    {
        *("kind", "category", "status_code", "status", "code", "http_status", "response", "body", "json_body"),
        *("headers", "hdrs", "details", "error", "error_code", "type", "sqlstate", "pgcode", "sqlite_errorname"),
        *(
            "grpc_status_code",
            "_state",
            "_code",
            "_details",
            "message",
            "request_id",
            "returncode",
            "stderr",
            "retry_at",
            "retry_after",
            *("request", "num_retries", "last_attempt"),
        ),
    }
)

_declared_by: dict[type, tuple[str, ...]] = {}
_names_by: dict[type, tuple[str, ...]] = {}


def get(source: object, name: str) -> object:
    """An attribute, or None where there is none or reading it fails."""
    try:
        return getattr(source, name, None)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def attributes(source: object) -> dict[str, object]:
    """The telling attributes that are there. Most errors have none, and asking each for thirty would cost the most."""
    found = {name: value for name, value in _own(source).items() if name in _TELLING}
    for name in _declared(type(source)):
        if name not in found:
            found[name] = get(source, name)
    return found


def _own(source: object) -> dict[str, object]:
    own = get(source, "__dict__")
    return own if type(own) is dict else {}


def _declared(cls: type) -> tuple[str, ...]:
    """The telling names that the class itself has, as properties, slots or defaults."""
    known = _declared_by.get(cls)
    if known is None:
        known = tuple(sorted(name for name in _TELLING if any(name in base.__dict__ for base in cls.__mro__)))
        _remember(_declared_by, cls, known)
    return known


def names_of(cls: type) -> tuple[str, ...]:
    """The qualified names of an exception class and its bases, most derived first; built-ins by their bare name."""
    known = _names_by.get(cls)
    if known is None:
        bases = (base for base in cls.__mro__[:24] if base not in (object, BaseException, Exception))
        known = tuple(name for name in map(_qualified, bases) if name) or ("Exception",)
        _remember(_names_by, cls, known)
    return known


def _qualified(cls: type) -> str:
    module, name = get(cls, "__module__"), get(cls, "__qualname__")
    if not isinstance(module, str) or not isinstance(name, str):
        return ""
    return name[:200] if module == "builtins" else f"{module}.{name}"[:200]


def _remember(store: dict[type, tuple[str, ...]], cls: type, names: tuple[str, ...]) -> None:
    if len(store) >= _MOST_CLASSES:  # a program that makes classes without end must not make this grow
        store.clear()
    store[cls] = names


def plain(source: object, name: str) -> object:
    """An attribute that is a value and not code: never a property that might read from a socket."""
    own = _own(source)
    if name in own:
        return own[name]
    for base in type(source).__mro__:
        if name in base.__dict__:
            value = base.__dict__[name]
            return None if hasattr(type(value), "__get__") else value
    return None


def text(value: object) -> str:
    """A string, cut to 4 kB; empty for anything else."""
    return str(value[:LONGEST_TEXT]) if isinstance(value, str) else ""


def decoded(value: object) -> str:
    """The first 4 kB of a string or of bytes, as text; empty for anything else."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value[:LONGEST_TEXT]).decode("utf-8", "replace")
    return text(value)


def said(error: BaseException, found: Mapping[str, object]) -> str:
    """What an exception says, cut to 4 kB; of a failed subprocess, its exit status and the end of its error output."""
    code = found.get("returncode")
    if type(code) is int and "stderr" in found:
        tail = found["stderr"]
        words = decoded(tail[-800:]).strip() if isinstance(tail, (str, bytes)) else ""
        return f"exit status {code}: {words}" if words else f"exit status {code}"
    for name in ("message", "_details"):
        told = text(found.get(name))
        if told:
            return told
    if type(error).__str__ is BaseException.__str__:
        # The default would print arguments of any size; a single string is the usual case.
        args = error.args
        if len(args) == 1 and isinstance(args[0], (str, bytes)):
            return decoded(args[0])
        return "" if not args else _brief(args[0] if len(args) == 1 else args)
    return _printed(error)


def _printed(error: BaseException) -> str:
    try:
        return text(str(error))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return ""


class _Brief(reprlib.Repr):
    """`repr` of a bounded part of anything built in."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 1000
        self.maxtuple = self.maxlist = self.maxdict = 12
        self.maxlevel = 4

    def repr_str(self, x: str, level: int) -> str:
        """A string is cut before it is printed."""
        return super().repr_str(x[: 2 * self.maxstring], level)

    def repr_bytes(self, x: bytes, level: int) -> str:
        """The same for bytes."""
        return repr(x[: self.maxstring])


def _brief(value: object) -> str:
    try:
        return _Brief().repr(value)[:LONGEST_TEXT]
    except KeyboardInterrupt:
        raise
    except BaseException:
        return ""


def parsed(body: object) -> object:
    """The JSON of a body that is small enough to be an error's; a body that was parsed already as it is."""
    if isinstance(body, (dict, list)):
        return body
    if isinstance(body, Mapping):
        return dict(islice(body.items(), 64))
    if isinstance(body, (bytes, bytearray, str)) and 2 <= len(body) <= _LARGEST_BODY:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return None
    return None


def pairs(headers: object) -> Iterator[tuple[str, str]]:
    """Names in lower case and values of any library's headers (at most 256)."""
    raw = get(headers, "raw")  # httpx: its `items()` decodes everything first
    items = raw if isinstance(raw, list) else headers if isinstance(headers, (list, tuple)) else _items(headers)
    if not isinstance(items, Iterable):
        return
    for pair in islice(items, _MOST_HEADERS):
        if isinstance(pair, tuple) and len(pair) >= 2:
            yield _word(pair[0]).lower(), _word(pair[-1])


def _items(headers: object) -> object:
    ask = get(headers, "items")
    return ask() if callable(ask) else None


def _word(value: object) -> str:
    if isinstance(value, bytes):
        return value[:_LONGEST_HEADER].decode("latin-1")
    if isinstance(value, str):
        return str(value[:_LONGEST_HEADER])
    return str(value) if isinstance(value, (int, float)) else ""
