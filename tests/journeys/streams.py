"""Streams of a journey that break after their first token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any


class Broken(Exception):
    """A stream broke of which the caller has a part."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def streamed(error: BaseException) -> Iterator[str]:
    """A stream that breaks after its first token."""
    yield "part"
    raise error


async def streamed_async(error: BaseException) -> AsyncIterator[str]:
    yield "part"
    raise error


def read(value: Any) -> Any:
    """A result; a stream is read to its end."""
    if hasattr(value, "__next__"):
        for _ in value:
            pass
    return value


async def read_async(guarded: Callable[[], Any]) -> Any:
    value = await guarded()
    if hasattr(value, "__anext__"):
        async for _ in value:
            pass
    return value
