"""The bounded queue between every caller and one background thread, which is woken only when it must be."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item")

GATHER_S = 0.01
"""How long an ordinary item waits for company."""
_CALM_ROUNDS = 25
"""After so many rounds without an item the thread sleeps for good, and the next item has to wake it.

Waking costs the caller a system call (some 10 µs on a virtual machine), looking around each 10 ms costs the process
half a percent of a core: so it looks around while things happen, and sleeps when they do not.
"""
_CEILING = 2
"""Urgent items may fill the queue to this many times its limit, when nothing empties it."""
_CHUNK = 512
_AWAKE, _GATHERING, _IDLE, _ABSENT = range(4)


class Bell(Protocol):
    """What the thread waits at: a queue of rings. Tests give one whose waits take no time."""

    def put(self, ring: None, /) -> None:
        """Ring."""

    def get(self, *, timeout: float | None = None) -> None:
        """Wait for a ring, at most so many seconds; raises Empty."""

    def empty(self) -> bool:
        """Whether nobody has rung since."""


class EventQueue(Generic[Item]):
    """Takes items on any thread and hands them in order, in lists, to `deliver` on a daemon thread of its own.

    `put` costs an append: it wakes the thread only if that is idle, or if the item is urgent. No lock is taken on the
    way, so it may be called anywhere, in signal handlers and finalizers too; what two threads do at once is ordered
    by the interpreter's own lock (each step here is one operation on a deque or an attribute).
    """

    def __init__(
        self,
        deliver: Callable[[list[Item]], None],
        *,
        prepare: Callable[[], None],
        name: str,
        limit: int,
        bell: Callable[[], Bell] = SimpleQueue,
    ) -> None:
        self._deliver = deliver
        self._prepare = prepare
        self._name = name
        self._limit = limit
        self._new_bell = bell
        self._is_closed = False
        self._begin()

    def _begin(self) -> None:
        self._queue: deque[Item | threading.Event] = deque()
        self._bell = self._new_bell()
        self._starting = threading.Lock()
        self._prepared = threading.Event()
        self._thread: threading.Thread | None = None
        self._state = _ABSENT
        self._is_urgent = False

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, item: Item, is_urgent: bool) -> bool:
        """Take an item; False when there is no room for it. (By position: on this path a keyword costs.)"""
        queue = self._queue
        if self._is_closed or (len(queue) >= self._limit and (not is_urgent or len(queue) >= self._limit * _CEILING)):
            return False
        queue.append(item)
        if is_urgent:
            self._is_urgent = True
        state = self._state
        if state and (is_urgent or state >= _IDLE):
            self._wake()
        return True

    def start(self) -> None:
        """Start the thread now; otherwise the first item does."""
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._state = _AWAKE
                try:
                    thread.start()
                except RuntimeError:
                    # The interpreter is ending, or there are no more threads to be had: `flush` and `close` deliver.
                    self._state = _ABSENT
                else:
                    self._thread = thread

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything taken so far was handed over; False if that did not happen in time."""
        if self._thread is None and not self._queue:
            return True
        marker = threading.Event()
        self._queue.append(marker)
        self._is_urgent = True
        self._wake()
        if self._thread is None:
            self._drain_here()
        return marker.wait(timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Take no more, hand over what is there; False if that did not happen in time."""
        self._is_closed = True
        thread = self._thread
        if thread is None:
            self._drain_here()
            return True
        self._wake()
        if thread is not threading.current_thread():
            thread.join(timeout_s)
        return not thread.is_alive()

    def wait_prepared(self, timeout_s: float) -> None:
        """Wait for `prepare` to be done, if its thread has begun and there is something to prepare for."""
        if self._thread is not None and self._queue:
            self._prepared.wait(timeout_s)

    def after_fork_in_child(self) -> None:
        """What is queued is the parent's to deliver; the child begins empty, its first item starts its thread."""
        self._begin()

    def _wake(self) -> None:
        if self._state == _ABSENT:
            self.start()
        self._bell.put(None)

    def _run(self) -> None:
        self._surviving(self._prepare)
        self._prepared.set()
        calm_rounds = _CALM_ROUNDS
        while not self._is_closed or self._queue:
            if calm_rounds >= _CALM_ROUNDS:
                self._rest(_IDLE, None)
            if not self._is_urgent:
                self._rest(_GATHERING, GATHER_S)
            self._is_urgent = False
            calm_rounds = 0 if self._queue else calm_rounds + 1
            self._drain()

    def _rest(self, state: int, timeout_s: float | None) -> None:
        self._state = state
        # Whoever put something in before the new state could be seen has not rung: look once more before sleeping.
        if not (self._is_urgent or self._is_closed or (state == _IDLE and self._queue)):
            with contextlib.suppress(Empty):
                self._bell.get(timeout=timeout_s)
        self._state = _AWAKE
        while not self._bell.empty():
            self._bell.get()

    def _drain_here(self) -> None:
        """In the caller's thread, where there is no other."""
        if self._queue:
            self._surviving(self._prepare)
            self._drain()

    def _drain(self) -> None:
        queue = self._queue
        while queue:
            items: list[Item] = []
            marker: threading.Event | None = None
            while queue and len(items) < _CHUNK and marker is None:
                taken = queue.popleft()
                if isinstance(taken, threading.Event):
                    marker = taken
                else:
                    items.append(taken)
            if items:
                self._surviving(functools.partial(self._deliver, items))
            if marker is not None:
                marker.set()

    def _surviving(self, step: Callable[[], None]) -> None:
        """A defect of ours must not end the thread: what comes next may go well."""
        try:
            step()
        except Exception:
            logging.getLogger(__name__).exception("recovery-ops: some events could not be handled")
