"""Runs that a person wants begun again: the agent's own function does it, once for each wish, in a thread of ours."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from recovery_ops.rules.events import HookFailed
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.runs.context import RunContext

if TYPE_CHECKING:
    from pathlib import Path

    from recovery_ops.rules.desired_state import Retry

AT_ONCE = 4
"""So many are begun again at a time: a person who asks for a hundred must not fill the process with threads."""
_KEPT_S = 30 * 86400.0
"""For how long it is known which wishes were obeyed; the server names none for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequest:
    """Argument of `Recovery(on_retry=…)`: an operator retries a run.

    `run` is its `run_id`; `input` replaces its input, empty if unchanged; `by` and `reason` are those of the operator.
    One call per request, in a thread. Rules:
    docs/guide/workflows.md#retry-from-the-console

    >>> def pay_out(asked: RetryRequest) -> None:
    ...     with recovery.run("payout", run_id=asked.run):
    ...         print(asked.run, asked.input)
    >>> pay_out(RetryRequest(run="order-7", input="40 EUR"))
    order-7 40 EUR
    """

    run: str
    input: str = ""
    by: str = ""
    reason: str = ""


OnRetry = Callable[[RetryRequest], object]


class Retries:
    """The wishes of one `Recovery`. Only its housekeeper asks it."""

    def __init__(self, recovery: Engine, on_retry: OnRetry | None) -> None:
        self._recovery, self.on_retry = recovery, on_retry
        self._begun: set[str] = set()
        self._threads: list[threading.Thread] = []

    def round(self) -> None:
        """Begin what is asked for and was not begun before; while new work is paused, nothing."""
        recovery, on_retry = self._recovery, self.on_retry
        wanted = recovery.desired.retries
        if not wanted or on_retry is None or recovery.is_off or not recovery.takes_new_work:
            return
        me = recovery.instance
        self._threads = [one for one in self._threads if one.is_alive()]
        for one in wanted:
            if one.id in self._begun or not one.is_for(service=me.service, instance=me.instance):
                continue
            if len(self._threads) >= AT_ONCE:
                return
            self._begun.add(one.id)
            thread = threading.Thread(target=self._begin, args=(one, on_retry), name="recovery-ops-retry", daemon=True)
            self._threads.append(thread)
            thread.start()

    def after_fork(self) -> None:
        """The child is another instance: what its parent was asked for stays with the parent."""
        self._threads = []

    def _begin(self, wish: Retry, on_retry: OnRetry) -> None:
        """Note that it is obeyed, on disk, and only then obey it: rather not at all than twice."""
        asked = RetryRequest(run=wish.run, input=wish.input, by=wish.by, reason=wish.reason)
        try:
            if self._note(wish.id):
                if wish.run in self._recovery.runs_in_flight:
                    raise RuntimeError("it is under way in this process already")
                _call(on_retry, asked)
        except (Exception, SystemExit) as error:
            failure = self._recovery.failure_of(error)
            event = HookFailed(hook="on_retry", error_type=failure.error_type, message=failure.message)
            self._recovery.emit(event, RunContext(source="", run_id=wish.run))

    def _note(self, wish: str) -> bool:
        """Whether nobody has noted this wish, in this process, one before it or one beside it. Raises OSError."""
        with forks.not_while_importing():
            import hashlib

            from recovery_ops.runtime.process.files import default_path
        identity = self._recovery.identity
        folder = default_path(identity.instance, identity.url, directory=identity.directory).with_name("retries")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The name is the server's word: it must not be able to point anywhere.
        path = folder / hashlib.sha256(wish.encode("utf-8", "replace")).hexdigest()[:40]
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(wish)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            return False
        _forget_old(folder)
        return True


def _call(on_retry: OnRetry, asked: RetryRequest) -> None:
    """Raises TypeError where nothing was begun, because nobody here awaits what the function returns."""
    promised = on_retry(asked)
    if isinstance(promised, Coroutine):
        promised.close()
        raise TypeError("on_retry is called in a thread: an async function has to be handed to its loop")


def _forget_old(folder: Path) -> None:
    oldest = time.time() - _KEPT_S
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()
