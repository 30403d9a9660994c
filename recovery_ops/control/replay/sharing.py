"""Shares the deciding among processes: one reads the recordings, the others decide what each instance told.

Instances do not meet, so each can be decided by itself. What comes back is added up in the order in which they were
read, so that the result does not depend on who was quicker.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from types import TracebackType
from typing import Any, Self

from recovery_ops.control.replay.beginning import begin_process
from recovery_ops.control.replay.comparing import Comparison
from recovery_ops.control.replay.recorded import Recording
from recovery_ops.rules.policy import parse_policy

AHEAD = 2
"""Recordings of instances that wait, for each process: more would only fill the memory."""


class Deciders:
    """Decides recordings under the policies of two documents; `processes` 0 decides in this process.

    Leaving the block ends the processes, whatever they are at.
    """

    def __init__(self, old: Mapping[str, Any], new: Mapping[str, Any], *, old_version: str, processes: int) -> None:
        self._found = _nothing(old, new, old_version)
        self._pool: ProcessPoolExecutor | None = None
        self._most = AHEAD * processes
        self._under_way: deque[Future[Comparison]] = deque()
        if processes:
            self._pool = ProcessPoolExecutor(
                processes,
                mp_context=multiprocessing.get_context("spawn"),  # a fork would share our database connections
                initializer=begin_process,
                initargs=(old, new, old_version),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, where: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def decide(self, recording: Recording) -> None:
        """Have one instance decided; waits while too many are under way. Raises what deciding an earlier one raised."""
        if self._pool is None:
            self._found.add(recording)
            return
        self._under_way.append(self._pool.submit(_decided, recording))
        while len(self._under_way) > self._most:
            self._join_next()

    def found(self) -> Comparison:
        """Everything, when all are decided."""
        while self._under_way:
            self._join_next()
        return self._found

    def _join_next(self) -> None:
        self._found.join(self._under_way.popleft().result())


def _nothing(old: Mapping[str, Any], new: Mapping[str, Any], old_version: str) -> Comparison:
    return Comparison(parse_policy(old, version=old_version), parse_policy(new, version="proposed"))


# -- in the other processes --------------------------------------------------------------------------------------------
_asked: list[tuple[Mapping[str, Any], Mapping[str, Any], str]] = []


def begin(old: Mapping[str, Any], new: Mapping[str, Any], old_version: str) -> None:
    """From now on this process decides under these."""
    _asked[:] = [(old, new, old_version)]


def _decided(recording: Recording) -> Comparison:
    found = _nothing(*_asked[0])
    found.add(recording)
    return found
