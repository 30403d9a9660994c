"""Reads values that strangers sent, under any spelling of their name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Attributes = Mapping[str, object]


def text_of(given: Attributes, spellings: Iterable[str]) -> str:
    """The first that is a text, or an empty one."""
    for name in spellings:
        value = given.get(name)
        if type(value) is str and value:
            return value
    return ""


def whole_of(given: Attributes, spellings: Iterable[str]) -> int | None:
    """The first that is a whole number, or says one."""
    for name in spellings:
        value = given.get(name)
        if type(value) is int:
            return value
        if type(value) is str and len(value) < 19 and value.isascii() and value.isdecimal():
            return int(value)
    return None
