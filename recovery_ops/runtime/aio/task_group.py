"""Several pieces of work at once, in tasks or in threads, under asyncio or trio; nothing is left running behind."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from recovery_ops.runtime.aio.libraries import is_under_trio

T = TypeVar("T")
Job = Callable[[], Awaitable[bool]]
"""Work to be done; True calls off all the others."""


async def in_thread(work: Callable[[], T]) -> T:
    """What blocking work returns or raises, whatever that is; the loop goes on meanwhile.

    A cancel ends the waiting; the thread itself cannot be ended and runs on unheard.
    """
    ended: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            ended.append((True, work()))
        except BaseException as error:  # carried over by hand: a StopIteration would hang the future
            ended.append((False, error))

    if is_under_trio():
        await sys.modules["trio"].to_thread.run_sync(run, abandon_on_cancel=True)
    else:
        await asyncio.to_thread(run)
    is_value, found = ended[0]
    if is_value:
        return found  # type: ignore[no-any-return]  # what `work` returned
    raise found


async def run_together(jobs: Sequence[Job], *, at_once: int) -> None:
    """Run the jobs, so many at once; the first that raises, or returns True, calls off the others."""
    if len(jobs) == 1:
        await jobs[0]()
    elif is_under_trio():
        await _run_under_trio(jobs, at_once)
    else:
        await _run_under_asyncio(jobs, at_once)


async def _run_under_asyncio(jobs: Sequence[Job], at_once: int) -> None:
    places = asyncio.Semaphore(at_once)

    async def run(job: Job) -> bool:
        async with places:
            return await job()

    tasks = [asyncio.ensure_future(run(job)) for job in jobs]
    waiting, is_called_off = set(tasks), False
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                is_called_off = task.result() or is_called_off
            if is_called_off:
                break
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run_under_trio(jobs: Sequence[Job], at_once: int) -> None:
    trio = sys.modules["trio"]
    places = trio.CapacityLimiter(at_once)
    try:
        async with trio.open_nursery() as nursery:

            async def run(job: Job) -> None:
                async with places:
                    if await job():
                        nursery.cancel_scope.cancel()

            for job in jobs:
                nursery.start_soon(run, job)
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
