"""New work that a person has paused here: whoever would begin a run is refused or waits, and runs under way go on."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from math import inf

from recovery_ops.rules.desired_state import Pause
from recovery_ops.runtime.aio.waker import waited, waited_async
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import DeadlineExceeded, RunCancelled, RunsPaused
from recovery_ops.runtime.runs.context import RunContext

LOOK_EVERY_S = 5.0


def begin(recovery: Engine, scope: RunContext, name: str) -> None:
    """Begin a run, in a thread. Raises RunsPaused, or waits, as the process has said: DeadlineExceeded at the
    deadline around it, RunCancelled where it is called off.
    """
    waited(recovery.waker, _beginning(recovery, scope, name))


async def begin_async(recovery: Engine, scope: RunContext, name: str) -> None:
    """`begin` in a task; a cancel of the task passes through."""
    await waited_async(recovery.waker, _beginning(recovery, scope, name))


def wait_for_work(recovery: Engine, timeout_s: float | None) -> bool:
    """Block this thread while new work is paused; whether it is to be begun now."""
    waited(recovery.waker, _waiting(recovery, timeout_s))
    return recovery.takes_new_work


async def wait_for_work_async(recovery: Engine, timeout_s: float | None) -> bool:
    """`wait_for_work` in a task."""
    await waited_async(recovery.waker, _waiting(recovery, timeout_s))
    return recovery.takes_new_work


def _beginning(recovery: Engine, scope: RunContext, name: str) -> Generator[float, None, None]:
    """Yields how long to wait before the next look."""
    while (held := recovery.begin_run(scope)) is not None:
        if scope.is_cancelled:  # also by a run around it
            raise RunCancelled(name or "run", note=scope.called_off_note)
        if recovery.on_pause == "reject" or recovery.is_closed or held.is_stop:
            ends = None if held.expires_at is None else datetime.fromtimestamp(held.expires_at, UTC)
            raise RunsPaused(name or "run", retry_at=ends, note=held.note, is_stop=held.is_stop)
        outer = scope.around()
        left_s = inf if outer is None else outer.deadline_at - recovery.clock.now()
        if left_s <= 0:
            raise DeadlineExceeded(name or "run")
        yield min(left_s, _next_look_s(recovery, held))


def _waiting(recovery: Engine, timeout_s: float | None) -> Generator[float, None, None]:
    """Yields how long to wait before the next look."""
    ends_at = None if timeout_s is None else recovery.clock.now() + timeout_s
    while (held := recovery.pause()) is not None and not recovery.is_closed:
        delay_s = _next_look_s(recovery, held)
        if ends_at is not None:
            delay_s = min(delay_s, ends_at - recovery.clock.now())
        if delay_s <= 0:
            return
        yield delay_s


def _next_look_s(recovery: Engine, held: Pause) -> float:
    # The machine's clock may be set while somebody waits: it is looked at again.
    left_s = LOOK_EVERY_S if held.expires_at is None else held.expires_at - recovery.clock.wall()
    return min(max(left_s, 0.001), LOOK_EVERY_S)
