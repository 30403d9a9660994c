"""Partial results: a set of named calls, of which some may fail without the whole being lost.

`Recovery.gather` and `Recovery.gather_async` lead here.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from recovery_ops.runtime.aio.awaitables import is_async
from recovery_ops.runtime.aio.task_group import run_together
from recovery_ops.runtime.calls.deadline import Deadline, Duration
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.guards.argument_checks import check_count
from recovery_ops.runtime.partial_results.collector import Collecting
from recovery_ops.runtime.partial_results.parts import Gathered, Part
from recovery_ops.runtime.process.clock import Clock


def gather(
    recovery: Engine,
    parts: Mapping[str, Part | Callable[[], Any]],
    *,
    at_once: int,
    timeout: Duration | None,
    done: Mapping[str, Any] | None,
) -> Gathered:
    """Make the calls, one after the other or with `at_once` threads, and return what came of each."""
    _check(parts, at_once)
    job = Collecting(recovery, parts, done)
    for name in job.waiting:
        if is_async(job.parts[name].function):
            raise ConfigurationError(f"{name} is async: use gather_async")
    with _within(timeout, job.clock):
        if at_once > 1:
            _in_threads(job, at_once)
        else:
            job.run_all()
    return job.result()


async def gather_async(
    recovery: Engine,
    parts: Mapping[str, Part | Callable[[], Any]],
    *,
    at_once: int | None,
    timeout: Duration | None,  # noqa: ASYNC109  # one for several calls, shared with the sync form
    done: Mapping[str, Any] | None,
) -> Gathered:
    """Make the calls in tasks, all at once or `at_once` at a time."""
    _check(parts, at_once)
    job = Collecting(recovery, parts, done)
    count = len(job.waiting)

    async def one() -> bool:
        name = job.next()
        if name is not None:
            await job.run_async(name)
        return job.is_stopped

    with _within(timeout, job.clock):
        if count:
            await run_together([one] * count, at_once=min(at_once or count, count))
    return job.result()


def _check(parts: object, at_once: object) -> None:
    """Refuse parts that could never be called."""
    if not isinstance(parts, Mapping):
        given = type(parts).__name__
        raise ConfigurationError(f'gather: parts must be a mapping of calls by name, {{"price": price}}, not a {given}')
    for name, one in parts.items():
        if not callable(one.function if isinstance(one, Part) else one):
            raise ConfigurationError(f"gather: {name} must be a Part or a callable without arguments, not {one!r}")
    check_count("gather", "at_once", at_once)


def _within(timeout: Duration | None, clock: Clock) -> AbstractContextManager[object]:
    return nullcontext() if timeout is None else Deadline(timeout, clock=clock, cancels=False)


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
