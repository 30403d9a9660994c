"""The right to run one workflow, held by one process at a time and renewed for as long as it works."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from datetime import UTC, datetime

from recovery_ops.runtime.errors import CheckpointError, WorkflowLocked
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.workflows.checkpoint_store import CheckpointStore, Flow

_RENEWALS_PER_LEASE = 3


class Lease(forks.InChild):
    """Taken by the first `enter`, given back by the last `leave`, renewed in between by a daemon thread.

    `lease_s` is how long an owner that has stopped renewing is waited for. Thread-safe; in a forked child it is
    nobody's: the child has to take its own.
    """

    def __init__(self, store: CheckpointStore, flow: Flow, *, instance: str, clock: Clock, lease_s: float) -> None:
        self.flow = flow
        self._store = store
        self._instance = instance
        self._clock = clock
        self._lease_s = lease_s
        self._begin()
        forks.follow(self)

    def _begin(self) -> None:
        self.owner = f"{self._instance} {os.urandom(4).hex()}"
        self._lock = threading.Lock()
        self._entered = 0
        self._is_lost = False
        self._stop: threading.Event | None = None

    @property
    def is_entered(self) -> bool:
        """Whether this process takes part in it."""
        return self._entered > 0

    def enter(self) -> None:
        """Take part in it. Raises WorkflowLocked while somebody else has it, or once somebody else has taken it."""
        with self._lock:
            if self._entered and self._is_lost:
                raise self.held()
            if not self._entered:
                self._take()
            self._entered += 1

    def leave(self) -> None:
        """The last one gives it back."""
        with self._lock:
            if not self._entered:
                return  # a forked child leaves what its parent entered
            self._entered -= 1
            if self._entered:
                return
            if self._stop is not None:
                self._stop.set()
            with contextlib.suppress(CheckpointError):  # then it expires
                self._store.release(self.flow, self.owner)

    def renew(self) -> bool:
        """Prolong it; False once it is another's."""
        try:
            is_mine = self._store.renew(self.flow, self.owner, now=self._clock.wall(), lease_s=self._lease_s)
        except CheckpointError:
            return True  # a disk that is full or busy now may not be so the next time; the lease outlives two of these
        self._is_lost = not is_mine
        return is_mine

    def held(self, owner: str = "", until: float | None = None) -> WorkflowLocked:
        """The error for it being another's."""
        at = None if until is None else datetime.fromtimestamp(until, UTC)
        return WorkflowLocked(self.flow.workflow, self.flow.workflow_id, owner=owner, until=at)

    def after_fork_in_child(self) -> None:
        """The parent runs it."""
        self._begin()

    def _take(self) -> None:
        holder = self._store.acquire(self.flow, self.owner, now=self._clock.wall(), lease_s=self._lease_s)
        if holder is not None:
            raise self.held(holder.owner, holder.until)
        self._is_lost = False
        self._stop = threading.Event()
        threading.Thread(
            target=_renewing,
            args=(weakref.ref(self), self._stop, self._lease_s / _RENEWALS_PER_LEASE),
            name="recovery-ops-lease",
            daemon=True,
        ).start()


def _renewing(lease: weakref.ref[Lease], stop: threading.Event, every_s: float) -> None:
    """Until it is given back, is lost, or nobody knows it any more."""
    while not stop.wait(every_s):
        held = lease()
        if held is None or not held.renew():
            return
        del held
