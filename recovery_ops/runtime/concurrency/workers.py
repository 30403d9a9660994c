"""Several tasks that share one job and end together, under asyncio or trio."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from recovery_ops.runtime.concurrency.task_libraries import is_under_trio


class Job(Protocol):
    """What the workers share."""

    stop_others: Callable[[], None]
    """Set here: cancels all workers but the one that calls it."""


async def stopping_workers(work: Callable[[], Awaitable[None]], count: int, job: Job) -> None:
    """Run `count` workers; return when all have ended. A cancel cancels them, and is raised when they have ended."""
    if is_under_trio():
        trio: Any = sys.modules["trio"]
        async with trio.open_nursery() as nursery:
            job.stop_others = nursery.cancel_scope.cancel
            for _ in range(count):
                nursery.start_soon(work)
        return
    tasks: list[asyncio.Task[None]] = []

    async def one() -> None:
        await work()

    def stop() -> None:
        for task in tasks:
            if task is not asyncio.current_task():
                task.cancel()

    job.stop_others = stop
    async with asyncio.TaskGroup() as group:
        tasks.extend(group.create_task(one()) for _ in range(count))
