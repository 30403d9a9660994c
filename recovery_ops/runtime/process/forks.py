"""What a fork does to threads, locks and files: each part of the runtime is told before and after, and starts anew."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Protocol

_log = logging.getLogger(__name__)

_PATIENCE_S = 2.0
"""How long a fork waits for an import in another thread; a fork must never hang because of us."""


class AnyLock(Protocol):
    """A lock of the standard library."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool:
        """Wait for it."""

    def release(self) -> None:
        """Release the lease."""


class Follower(Protocol):
    """A part of the runtime with threads, locks or files."""

    def before_fork(self) -> None:
        """In the parent: leave everything in a state that two processes can go on from."""

    def after_fork_in_parent(self) -> None:
        """In the parent: go on."""

    def after_fork_in_child(self) -> None:
        """In the child: forget the parent's threads, connections and queue, and become someone else."""


class InChild:
    """A follower that is concerned by a fork in the child alone."""

    def before_fork(self) -> None:
        """Nothing is held open."""

    def after_fork_in_parent(self) -> None:
        """Nothing was given up."""


class Halt:
    """A lock that is held during a fork, by the thread that forks. Two threads may fork at once."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._threads: set[int] = set()

    @property
    def is_held(self) -> bool:
        """Whether this thread holds the lock for its fork."""
        return threading.get_ident() in self._threads

    def begin(self, lock: AnyLock) -> bool:
        """Before the fork; False where another thread kept the lock too long: a fork must never hang because of us."""
        if lock.acquire(timeout=self._patience_s):
            self._threads.add(threading.get_ident())
        return self.is_held

    def end(self, lock: AnyLock) -> None:
        """After the fork, in the parent."""
        if self.is_held:
            self._threads.discard(threading.get_ident())
            lock.release()


_followers: tuple[weakref.ref[Follower], ...] = ()
_renewals: tuple[Callable[[], None], ...] = ()
_registering = threading.Lock()
_importing = threading.RLock()
_holders: set[int] = set()
"""Threads that are in the middle of a fork and hold the lock on imports."""
_mark = ""
_forks = 0
_is_hooked = False


def follow(one: Follower) -> None:
    """Tell it about forks for as long as it lives (it is held weakly: Python cannot unregister a hook)."""
    global _followers  # noqa: PLW0603  # hooks are the process's own, so is this list
    with _registering:
        _hook()
        _followers = (*(ref for ref in _followers if ref() is not None), weakref.ref(one))


def in_child(renew: Callable[[], None]) -> None:
    """Have a function of a module called in each forked child, for good, once a client follows forks."""
    global _renewals  # noqa: PLW0603  # see above
    with _registering:
        _renewals = (*_renewals, renew)


def forks_made() -> int:
    """Forks of this process since a client follows them; during the renewals of a child, the number of its own fork."""
    return _forks


def process_mark() -> str:
    """What tells this process from the one it was forked from: empty in the first, `~<pid>-<random>` in a child."""
    return _mark


@contextlib.contextmanager
def not_while_importing() -> Iterator[None]:
    """Keep forks out of an import in a background thread.

    A child that is born while another thread holds a module's import lock could never import that module.
    """
    with _importing:
        yield


def _tell(what: Callable[[Follower], None]) -> None:
    for ref in _followers:
        one = ref()
        if one is None:
            continue
        try:
            what(one)
        except Exception:
            # A fork belongs to the application: our trouble must not become its trouble.
            _log.exception("recovery-ops could not prepare %s for a fork", type(one).__name__)


def _before() -> None:
    global _forks  # noqa: PLW0603  # see above
    if _importing.acquire(timeout=_PATIENCE_S):
        _holders.add(threading.get_ident())
    _forks += 1
    _tell(lambda one: one.before_fork())


def _after_in_parent() -> None:
    _tell(lambda one: one.after_fork_in_parent())
    if threading.get_ident() in _holders:
        _holders.discard(threading.get_ident())
        _importing.release()


def _after_in_child() -> None:
    global _registering, _importing, _forks  # noqa: PLW0603  # see above
    _registering = threading.Lock()
    _importing = threading.RLock()
    _holders.clear()
    for renew in _renewals:
        renew()
    _forks = 0
    _tell(lambda one: one.after_fork_in_child())


def _hook() -> None:
    """Have followers told, once there is one.

    Thread pools and loggers hold their locks during a fork. Whoever waits for an import then must do so before they
    do, and what was registered last runs first: so their hooks have to be there already.
    """
    global _is_hooked  # noqa: PLW0603  # see above
    if _is_hooked or not hasattr(os, "register_at_fork"):
        return
    import concurrent.futures.thread  # noqa: F401  # 15 ms, for its hook; `logging` has set its own

    _is_hooked = True
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)


def _mark_child() -> None:
    global _mark  # noqa: PLW0603  # see above
    _mark = f"~{os.getpid()}-{os.urandom(3).hex()}"


if hasattr(os, "register_at_fork"):
    # From the import on: a child is another instance also where its parent had nothing that followed.
    os.register_at_fork(after_in_child=_mark_child)
