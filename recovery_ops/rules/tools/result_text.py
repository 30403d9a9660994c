"""What a tool returned, as text for the model: any value at all becomes bounded, visible text without secrets."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import islice
from typing import Any

from recovery_ops.rules.classification.redaction import MASK, masked

NOTHING = "(done; nothing was returned)"
_DEEPEST = 32
_MOST_ITEMS = 100_000
_LONGEST_TEXT = 2_000_000
_LONGEST_OTHER = 2000


def shown(value: object, *, is_masked: bool = True) -> str:
    """The text for a value: strings as they are, everything else as JSON. Never raises an `Exception`.

    `is_masked` False leaves what looks like a secret in place, for tools whose output must arrive unchanged.
    """
    if value is None:
        return NOTHING
    try:
        plain = _Plain(is_masked).of(value, 0)
        return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    except Exception:
        return _unshown(value)


def plain_json(value: object, *, is_masked: bool = True) -> object:
    """The value in nothing but what JSON can hold, with every secret in it masked."""
    return _Plain(is_masked).of(value, 0)


class _Plain:
    """Turns a value into what JSON can hold, within bounds of depth and number."""

    def __init__(self, is_masked: bool) -> None:
        self._is_masked = is_masked
        self._left = _MOST_ITEMS

    def of(self, value: object, depth: int) -> object:
        if value is None or isinstance(value, (bool, int)):
            return value if value is None or isinstance(value, bool) else _number(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(float(value))
        if isinstance(value, Enum):
            return self.of(value.value, depth + 1)
        if isinstance(value, str):
            return self._text(str(value))
        if isinstance(value, (bytes, bytearray)):
            return self._text(_decoded(value))
        if depth >= _DEEPEST or self._left <= 0:
            return "…"
        return self._composed(value, depth)

    def _composed(self, value: object, depth: int) -> object:
        if isinstance(value, Mapping):
            return dict(self._pairs(value.items(), depth))
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self._item(one, depth) for one in islice(value, max(0, self._left))]
        if is_dataclass(value) and not isinstance(value, type):
            own = ((part.name, getattr(value, part.name)) for part in fields(value))
            return dict(self._pairs(own, depth))
        dump = getattr(value, "model_dump", None)  # pydantic
        if callable(dump) and not isinstance(value, type):
            return self.of(dump(mode="json"), depth + 1)
        return self._text(_other(value))

    def _pairs(self, pairs: Any, depth: int) -> Iterator[tuple[str, object]]:
        for key, value in pairs:
            if self._left <= 0:
                yield "…", "…"
                return
            name = self._text(key if isinstance(key, str) else _other(key))
            is_secret = self._is_masked and isinstance(value, str) and value != "" and _names_a_secret(name)
            yield name, MASK if is_secret else self._item(value, depth)

    def _item(self, value: object, depth: int) -> object:
        self._left -= 1
        return self.of(value, depth + 1)

    def _text(self, text: str) -> str:
        return masked(_cut(text)) if self._is_masked else _visible(_cut(text))


def _names_a_secret(key: str) -> bool:
    pair = f'{key[:200]}="x"'
    return masked(pair) != pair


def _number(value: int) -> object:
    return int(value) if abs(value) < 10**300 else "(a number too large to show)"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}… (cut: {len(text)} characters in all)"


def _decoded(value: bytes | bytearray) -> str:
    try:
        return _cut(bytes(value[:_LONGEST_TEXT]).decode())
    except UnicodeDecodeError:
        return f"({len(value)} bytes that are no text)"


def _visible(text: str) -> str:
    """Without what cannot be encoded at all."""
    return text.encode("utf-8", "replace").decode()


def _other(value: object) -> str:
    """What an object of any class says of itself, and its class alone where that fails or is nothing but an address."""
    if type(value).__str__ is object.__str__ and type(value).__repr__ is object.__repr__:
        return _unshown(value)
    try:
        return str(value)[:_LONGEST_OTHER]
    except Exception:
        return _unshown(value)


def _unshown(value: object) -> str:
    return masked(f"(a {str(type(value).__name__)[:100]} that cannot be shown as text)")
