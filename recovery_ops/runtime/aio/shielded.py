"""Blocking work of a task that a cancel must not part from what came before it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from recovery_ops.runtime.aio.libraries import is_under_trio

P = ParamSpec("P")
R = TypeVar("R")


async def to_its_end(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run it in a thread and wait until it is done; a cancel that comes meanwhile is raised only then.

    An effect whose checkpoint was cancelled would be made again; a lease that is given back while a checkpoint is
    on its way would refuse it.
    """
    if is_under_trio():
        trio: Any = sys.modules["trio"]
        with trio.CancelScope(shield=True):
            result: R = await trio.to_thread.run_sync(lambda: function(*args, **kwargs))
        return result
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    cancel: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancel = error
    if cancel is not None:
        work.exception()  # looked at, so that nobody is told it was not
        raise cancel
    return work.result()
