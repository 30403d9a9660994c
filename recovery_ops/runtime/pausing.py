"""New work that a person has paused here: whoever would begin a run is refused or waits, and runs under way go on."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Literal

from recovery_ops.runtime.errors import DeadlineExceeded, NewWorkPaused, RunCancelled

if TYPE_CHECKING:
    from recovery_ops.rules.intent import Pause
    from recovery_ops.runtime.recovery import Recovery
    from recovery_ops.runtime.run import Scope

LOOK_EVERY_S = 5.0
OnPause = Literal["refuse", "wait"]


def begin(recovery: Recovery, scope: Scope, name: str) -> None:
    """Begin a run, in a thread. Raises NewWorkPaused, or waits, as the process has said: DeadlineExceeded at the
    deadline around it, RunCancelled where it is called off.
    """
    with closing(_beginning(recovery, scope, name)) as looks:
        for delay_s in looks:
            recovery.waker.wait(delay_s)


async def begin_async(recovery: Recovery, scope: Scope, name: str) -> None:
    """The same in a task; a cancel of the task passes through."""
    with closing(_beginning(recovery, scope, name)) as looks:
        for delay_s in looks:
            await recovery.waker.wait_async(delay_s)


def wait_for_work(recovery: Recovery, timeout_s: float | None) -> bool:
    """Block this thread while new work is paused; whether it is to be begun now."""
    with closing(_waiting(recovery, timeout_s)) as looks:
        for delay_s in looks:
            recovery.waker.wait(delay_s)
    return recovery.takes_new_work


async def wait_for_work_async(recovery: Recovery, timeout_s: float | None) -> bool:
    """The same in a task."""
    with closing(_waiting(recovery, timeout_s)) as looks:
        for delay_s in looks:
            await recovery.waker.wait_async(delay_s)
    return recovery.takes_new_work


def _beginning(recovery: Recovery, scope: Scope, name: str) -> Generator[float, None, None]:
    """Yields how long to wait before the next look."""
    while (held := recovery.begin_run(scope)) is not None:
        if scope.is_called_off:
            raise RunCancelled(name or "run", note=scope.note)
        if recovery.on_pause == "refuse" or recovery.is_closed:
            ends = None if held.expires_at is None else datetime.fromtimestamp(held.expires_at, UTC)
            raise NewWorkPaused(name or "run", retry_at=ends, note=held.note)
        left_s = inf if scope.outer is None else scope.outer.deadline_at - recovery.clock.now()
        if left_s <= 0:
            raise DeadlineExceeded(name or "run")
        yield min(left_s, _next_look_s(recovery, held))


def _waiting(recovery: Recovery, timeout_s: float | None) -> Generator[float, None, None]:
    """Yields how long to wait before the next look."""
    ends_at = None if timeout_s is None else recovery.clock.now() + timeout_s
    while (held := recovery.pause()) is not None and not recovery.is_closed:
        delay_s = _next_look_s(recovery, held)
        if ends_at is not None:
            delay_s = min(delay_s, ends_at - recovery.clock.now())
        if delay_s <= 0:
            return
        yield delay_s


def _next_look_s(recovery: Recovery, held: Pause) -> float:
    # A wake between the look and the wait would be missed: nobody waits longer than this for what has come already.
    left_s = LOOK_EVERY_S if held.expires_at is None else held.expires_at - recovery.clock.wall()
    return min(max(left_s, 0.001), LOOK_EVERY_S)
