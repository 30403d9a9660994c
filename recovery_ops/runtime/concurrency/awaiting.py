"""Tells what has to be awaited from what has not, before it is called."""

from __future__ import annotations

import inspect


def is_async(function: object) -> bool:
    """Whether a callable, or the object with a `__call__` that it is, has to be awaited.

    A plain function that returns a coroutine cannot be told from any other.
    """
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  # asks whether calling it must be awaited
