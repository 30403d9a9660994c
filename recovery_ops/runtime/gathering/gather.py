"""Partial results: a set of named calls, of which some may fail without the whole being lost.

from recovery_ops.runtime import foundational, gather, supplementary

parts = {
    "profile": foundational(load_profile, user),      # without it there is no answer
    "weather": supplementary(load_weather, user.city),  # left out when it cannot be had
}
try:
    found = gather(parts, at_once=4, deadline_s=5.0)
except GatherBlocked as blocked:
    found = gather(parts, done=blocked.done)  # asks only for what is not there
if not found.complete:
    tell(user, [one.why for one in found.unavailable.values()])

`gather` is for threads, `gather_async` for tasks.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from recovery_ops.runtime.clock import Clock
from recovery_ops.runtime.concurrency.awaiting import is_async
from recovery_ops.runtime.concurrency.workers import stopping_workers
from recovery_ops.runtime.deadline import Deadline
from recovery_ops.runtime.errors import NotConfigured
from recovery_ops.runtime.gathering.collecting import Collecting
from recovery_ops.runtime.gathering.parts import Gathered, Part


def gather(
    parts: Mapping[str, Part | Callable[[], Any]],
    *,
    at_once: int = 1,
    deadline_s: float | None = None,
    done: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
) -> Gathered:
    """Make the calls, one after the other or with `at_once` threads, and say what came of each.

    A callable without a tag is foundational. All parts share `deadline_s` (seconds from now, never later than that of
    the run): parts not begun by then are not begun, threads still busy are left behind, and both are unavailable.
    `done` are results of an earlier gathering; they are not asked for again. Cancels, RunStopped and RunCancelled of
    any part pass through, once what was begun has ended.

    Raises GatherBlocked when a foundational part is missing: nothing more is begun then, and what was begun is waited
    for, so that `done` is true.
    """
    job = Collecting(parts, done, clock)
    for name in job.waiting:
        if is_async(job.parts[name].function):
            raise NotConfigured(f"{name} is async: use gather_async")
    with _within(deadline_s, job.clock):
        if at_once > 1:
            _in_threads(job, at_once)
        else:
            job.run_all()
    return job.result()


async def gather_async(
    parts: Mapping[str, Part | Callable[[], Any]],
    *,
    at_once: int | None = None,
    deadline_s: float | None = None,
    done: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
) -> Gathered:
    """`gather` for tasks: all calls at once unless `at_once` says how many. asyncio or trio.

    A missing foundational part and the deadline cancel the other calls; a cancel from outside cancels all of them, and
    is raised when they have ended. Functions that are not async run in the task itself.
    """
    job = Collecting(parts, done, clock)
    count = min(at_once or len(job.waiting), len(job.waiting))
    with _within(deadline_s, job.clock):

        async def work() -> None:
            while (name := job.next()) is not None:
                await job.run_async(name)

        if count:
            await stopping_workers(work, count, job)
    return job.result()


def _within(deadline_s: float | None, clock: Clock) -> AbstractContextManager[object]:
    return nullcontext() if deadline_s is None else Deadline(deadline_s, clock=clock, cancels=False)


def _in_threads(job: Collecting, at_once: int) -> None:
    """Daemon threads, not a pool: one that is left behind must not hold up the end of the process."""
    for _ in range(min(at_once, len(job.waiting))):
        threading.Thread(
            target=contextvars.copy_context().run, args=(job.run_all,), name="recovery-ops-gather", daemon=True
        ).start()
    try:
        with job.changed:
            job.changed.wait_for(lambda: job.is_over, timeout=job.left_s())
    except BaseException:
        job.stop()
        raise
