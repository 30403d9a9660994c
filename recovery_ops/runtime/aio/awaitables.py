"""Tells what has to be awaited from what has not: callables before they are called, results at the cost of a look."""

from __future__ import annotations

import inspect
from types import GeneratorType

PLAIN: set[type] = {bool, bytes, dict, float, int, list, set, str, tuple, type(None)}
"""Types of results that are not awaited, for a look before `is_pending`."""
_PLAIN_MOST = 500
"""A program that makes classes up must not have them kept here."""


def is_async(function: object) -> bool:
    """Whether a callable, or the object with a `__call__` that it is, has to be awaited.

    A plain function that returns a coroutine shows it by its result alone (`is_pending`).
    """
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  # asks whether calling it must be awaited


def is_pending(result: object) -> bool:
    """Whether a result has to be awaited. A type that has not is noted in `PLAIN`."""
    if inspect.isawaitable(result):
        return True
    if len(PLAIN) < _PLAIN_MOST and type(result) is not GeneratorType:  # some generators are awaited
        PLAIN.add(type(result))
    return False
