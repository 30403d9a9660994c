"""Whole numbers from outside: in addresses, forms and the API, none of which a column of 64 bits could not hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

from django import forms

DIGITS = 17
MAX_NUMBER = 10**DIGITS - 1
"""The largest number that is taken in; as microseconds since the epoch it is still a moment."""


def parse_number(text: str) -> int | None:
    """The number that a text of digits stands for, from 0; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None


def parse_version(text: str) -> int | None:
    """The version that a form was shown, None where it names none. Any other text is -1: no object has that version."""
    if not text:
        return None
    number = parse_number(text)
    return -1 if number is None else number


def parse_numbers(texts: Iterable[str]) -> list[int]:
    """The numbers among these texts, each once."""
    return [number for text in dict.fromkeys(texts) if (number := parse_number(text)) is not None]


def is_number(value: object) -> TypeGuard[int]:
    """Whether a value of JSON is a whole number that can be stored."""
    return type(value) is int and abs(value) <= MAX_NUMBER


class NumberField(forms.IntegerField):
    """A whole number from 0 that can be stored; `min_value` and `max_value` narrow it."""

    def __init__(self, *, min_value: int = 0, max_value: int = MAX_NUMBER, **kwargs: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **kwargs)
