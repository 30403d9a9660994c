"""Tells any number of waiting streams that a number in the database changed: the floor that always works.

LISTEN/NOTIFY and the like may wake it sooner; what is true is always read from the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, Self
from weakref import WeakSet

from django.db import close_old_connections, connections

from events.live.wakes import Ear

Snapshot = Mapping[str, int]

logger = logging.getLogger(__name__)


class Follower(Protocol):
    """Whoever is told of changes. Both are called on the event loop on which it joined, and have to return soon."""

    def stir(self) -> None:
        """There is a newer snapshot."""

    def end(self) -> None:
        """There will be no more of them."""


class Changes:
    """What one follower sees: an async iterator over snapshots, which skips what it was too slow for."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[None] | None = None
        self._seen = 0
        self._is_over = False

    async def __aenter__(self) -> Self:
        self._pulse.join(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._pulse.leave(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Snapshot:
        """Wait for a snapshot that differs from the last one. May be cancelled (a timeout): nothing is lost by it."""
        while not self._is_over:
            version, snapshot = self._pulse._newest
            if snapshot is not None and version != self._seen:
                self._seen = version
                return snapshot
            # Nothing runs between the look and the wait, so a stir falls before the look or wakes the wait.
            self._waiting = self._loop.create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        raise StopAsyncIteration

    def end(self) -> None:
        """End the iteration. To be called on the follower's own event loop."""
        self._is_over = True
        self.stir()

    def stir(self) -> None:
        """Look again. To be called on the follower's own event loop."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Pulse:
    """One poller and any number of followers, on any number of event loops.

    `read` returns a few numbers (newest id, revision per environment, …). It runs in a thread of its own, which lives
    while somebody follows and asks every `interval_s` seconds, or at once after `wake()`. A read that fails is logged
    once and tried again; the followers stay. Each follower holds one place for the newest snapshot, never a queue.
    `ear` makes what listens for wakes of other processes; it lives as long as the thread.
    """

    def __init__(
        self,
        read: Callable[[], Snapshot],
        interval_s: float = 0.25,
        ear: Callable[[Callable[[], None]], Ear | None] = lambda wake: None,
    ) -> None:
        self._read = read
        self._interval_s = interval_s
        self._ear = ear
        self._lock = threading.Lock()
        self._awake = threading.Event()
        self._thread: threading.Thread | None = None
        self._followers: dict[asyncio.AbstractEventLoop, set[Follower]] = {}
        self._ended: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
        self._newest: tuple[int, Snapshot | None] = (0, None)
        self._is_failing = False

    def follow(self) -> Changes:
        """`async with pulse.follow() as changes: async for snapshot in changes: …`, the first one at once.

        To be called on the event loop that will iterate.
        """
        return Changes(self)

    def join(self, follower: Follower) -> None:
        """Tell it of every change from now on, or of the end at once. What is known already it asks for: `newest`.

        To be called on the event loop on which it is to be told.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            is_over = loop in self._ended
            if not is_over:
                self._followers.setdefault(loop, set()).add(follower)
                if self._thread is None:
                    # What an earlier poller saw may be hours old.
                    self._newest = (self._newest[0], None)
                    self._thread = threading.Thread(target=self._poll, name="pulse", daemon=True)
                    self._thread.start()
        if is_over:
            follower.end()

    def leave(self, follower: Follower) -> None:
        """Tell it nothing more. To be called on the event loop on which it joined."""
        loop = asyncio.get_running_loop()
        with self._lock:
            group = self._followers.get(loop)
            if group is not None:
                group.discard(follower)
                if not group:
                    del self._followers[loop]
            if not self._followers:
                self._awake.set()

    @property
    def newest(self) -> Snapshot | None:
        """The newest snapshot; None before the first read."""
        return self._newest[1]

    def wake(self) -> None:
        """Read now. May be called from any thread; many calls at once cause one or two reads."""
        self._awake.set()

    def close(self) -> None:
        """End all followers at once, and those who come later on the same event loops. From any thread, any often.

        A server that ends takes no new followers, while the next one in the same process starts afresh.
        """
        with self._lock:
            followers, self._followers = self._followers, {}
            self._ended.update(followers)
            with contextlib.suppress(RuntimeError):  # called outside of any event loop
                self._ended.add(asyncio.get_running_loop())
        for loop, group in followers.items():
            with contextlib.suppress(RuntimeError):  # that loop is closed, and its followers with it
                loop.call_soon_threadsafe(_end, tuple(group))
        self._awake.set()

    @property
    def is_polling(self) -> bool:
        """Whether the poller's thread lives."""
        return self._thread is not None

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called for the running event loop."""
        return asyncio.get_running_loop() in self._ended

    def _poll(self) -> None:
        with self._listening():
            while self._has_followers():
                self._awake.clear()
                self._look()
                self._awake.wait(self._interval_s)

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        ear = self._ear(self.wake)
        if ear is not None:
            ear.start()
        try:
            yield
        finally:
            if ear is not None:
                ear.stop()

    def _has_followers(self) -> bool:
        with self._lock:
            if self._followers:
                return True
        let_go()
        with self._lock:
            # Someone may have come while the connections were being closed; they count on this thread.
            if not self._followers:
                self._thread = None
            return self._thread is not None

    def _look(self) -> None:
        try:
            snapshot = dict(self._read())
            close_old_connections()  # gives a pooled connection back; keeps one that is meant to stay
        except Exception as error:  # whatever it is, the next read may succeed
            if not self._is_failing:
                logger.warning("cannot read what changed, trying on: %r", error)
            self._is_failing = True
            let_go()
            return
        if self._is_failing:
            self._is_failing = False
            logger.info("reading what changed works again")
        version, newest = self._newest
        if snapshot != newest:
            self._newest = (version + 1, snapshot)
            self._stir()

    def _stir(self) -> None:
        with self._lock:
            groups = {loop: tuple(group) for loop, group in self._followers.items()}
        for loop, group in groups.items():
            try:
                # One call per loop: a thousand of these would cost a thousand writes to the loop's wake-up pipe.
                loop.call_soon_threadsafe(_stir, group)
            except RuntimeError:  # closed without leaving
                with self._lock:
                    self._followers.pop(loop, None)


def _stir(group: tuple[Follower, ...]) -> None:
    for follower in group:
        follower.stir()


def _end(group: tuple[Follower, ...]) -> None:
    for follower in group:
        follower.end()


def let_go() -> None:
    """Close this thread's database connections, broken ones too."""
    with contextlib.suppress(Exception):
        connections.close_all()
