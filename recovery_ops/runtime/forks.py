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


class Follower(Protocol):
    """A part of the runtime with threads, locks or files."""

    def before_fork(self) -> None:
        """In the parent: leave everything in a state that two processes can go on from."""

    def after_fork_in_parent(self) -> None:
        """In the parent: go on."""

    def after_fork_in_child(self) -> None:
        """In the child: forget the parent's threads, connections and queue, and become someone else."""


_followers: tuple[weakref.ref[Follower], ...] = ()
_registering = threading.Lock()
_importing = threading.RLock()
_holders: set[int] = set()
"""Threads that are in the middle of a fork and hold the lock on imports."""
_mark = ""
_is_hooked = False


def follow(one: Follower) -> None:
    """Tell it about forks for as long as it lives (it is held weakly: Python cannot unregister a hook)."""
    global _followers  # noqa: PLW0603  # hooks are the process's own, so is this list
    with _registering:
        _hook()
        _followers = (*(ref for ref in _followers if ref() is not None), weakref.ref(one))


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
    if _importing.acquire(timeout=_PATIENCE_S):
        _holders.add(threading.get_ident())
    _tell(lambda one: one.before_fork())


def _after_in_parent() -> None:
    _tell(lambda one: one.after_fork_in_parent())
    if threading.get_ident() in _holders:
        _holders.discard(threading.get_ident())
        _importing.release()


def _after_in_child() -> None:
    global _registering, _importing  # noqa: PLW0603  # see above
    _registering = threading.Lock()
    _importing = threading.RLock()
    _holders.clear()
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
