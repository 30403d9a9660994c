"""Reads values that strangers sent, under any spelling of their name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from recovery_ops.wire import otel_names as foreign

Attributes = Mapping[str, object]

EXCEPTION_TYPES = (foreign.EXCEPTION_TYPE, foreign.ERROR_TYPE)
"""Where instrumentation says what type an error was of."""


TEXT_CHARS = 8192
"""So much of a text is looked at, twice what is stored of any: thousands of failures may share one of megabytes."""


def class_name_of(error_type: str) -> str:
    """A type of error without its module, which spans say and logs may leave out."""
    return error_type.rpartition(".")[2]


def text_of(given: Attributes, spellings: Iterable[str]) -> str:
    """The first that is a text, or an empty one."""
    for name in spellings:
        value = given.get(name)
        if type(value) is str and value:
            return value
    return ""


def start_of(given: Attributes, spellings: Iterable[str]) -> str:
    """As much of that text as is looked at."""
    return text_of(given, spellings)[:TEXT_CHARS]


def number_in(given: Attributes, spellings: Iterable[str]) -> float | None:
    """The first that is a number from 0 to a million, or says one."""
    for name in spellings:
        value = given.get(name)
        if type(value) is not bool and isinstance(value, int | float | str) and len(str(value)) < 25:
            with suppress(ValueError, OverflowError):
                if 0 <= (number := float(value)) <= 1e6:
                    return number
    return None


def whole_of(given: Attributes, spellings: Iterable[str]) -> int | None:
    """The first that is a whole number, or says one."""
    for name in spellings:
        value = given.get(name)
        if type(value) is int:
            return value
        if type(value) is str and len(value) < 19 and value.isascii() and value.isdecimal():
            return int(value)
    return None
