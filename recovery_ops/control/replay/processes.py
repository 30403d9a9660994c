"""Shares the deciding among processes: one reads what is stored, the others decide what each instance told.

Instances do not meet, so each can be decided by itself. What comes back is added up in the order in which they were
read, so that the result does not depend on who was quicker.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from itertools import chain, islice
from types import TracebackType
from typing import Self

from events.queries.recordings import Page, Speaker, unpacked
from recovery_ops.control.replay.comparison import Comparison
from recovery_ops.control.replay.process_start import Documents, begin_process
from recovery_ops.control.replay.recorded_calls import Listener, Recording
from recovery_ops.rules.policy.failure_effects import Effects
from recovery_ops.rules.policy.model import parse_policy

AHEAD = 2
"""Instances that wait, for each process: more would only fill the memory."""
LOOK_S = 0.5


def _nobody(done_facts: int, read_facts: int) -> None:
    """Who need not be told."""


class Deciders:
    """Decides recordings under the policies of two documents; `processes` 0 decides in this process.

    `meanwhile` is told every now and then how many facts are decided, and how many are read: an instance is decided as
    a whole, so of a large one nothing is decided for long. Leaving the block ends the processes, whatever they are at.
    """

    def __init__(self, under: Documents, *, processes: int, meanwhile: Callable[[int, int], None] = _nobody) -> None:
        self._under, self._meanwhile = under, meanwhile
        self._found = _nothing(under)
        self._read_facts = 0
        self._pool: ProcessPoolExecutor | None = None
        self._most = AHEAD * processes
        self._under_way: deque[Future[Comparison]] = deque()
        if processes:
            self._pool = ProcessPoolExecutor(
                processes,
                mp_context=multiprocessing.get_context("spawn"),  # a fork would share our database connections
                initializer=begin_process,
                initargs=(under,),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, where: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def decide(self, speaker: Speaker, pages: Iterable[Page]) -> None:
        """Have one instance decided; waits while too many are under way. Raises what deciding an earlier one raised."""
        if self._pool is None:
            self._found.add(_heard(speaker, self._read(pages), self._under, self._found.old.failures))
            self._look()
            return
        self._under_way.append(self._pool.submit(_decided, speaker, list(self._read(pages))))
        while len(self._under_way) > self._most:
            self._join_next()

    def found(self) -> Comparison:
        """Everything, when all are decided."""
        while self._under_way:
            self._join_next()
        return self._found

    def _join_next(self) -> None:
        while not wait(islice(self._under_way, 1), timeout=LOOK_S).done:
            self._look()
        self._found.join(self._under_way.popleft().result())

    def _read(self, pages: Iterable[Page]) -> Iterator[Page]:
        for page in pages:
            self._read_facts += page.facts
            self._look()
            yield page

    def _look(self) -> None:
        self._meanwhile(self._found.facts, self._read_facts)


def _nothing(under: Documents) -> Comparison:
    return Comparison(parse_policy(under.old, version=under.old_version), parse_policy(under.new, version="proposed"))


def _heard(speaker: Speaker, pages: Iterable[Page], under: Documents, effects: Effects) -> Recording:
    return Listener(speaker, under.start_s, effects).listen(chain.from_iterable(map(unpacked, pages)))


# -- in the other processes --------------------------------------------------------------------------------------------
_asked: list[Documents] = []


def begin(under: Documents) -> None:
    """From now on this process decides under these."""
    _asked[:] = [under]
    # Millions of records come and go, and none points back at another: looking for circles took a fifth of the time.
    gc.disable()
    gc.freeze()


def _decided(speaker: Speaker, pages: list[Page]) -> Comparison:
    found = _nothing(_asked[0])
    found.add(_heard(speaker, pages, _asked[0], found.old.failures))
    gc.collect()  # what little there is, now that the recording is gone
    return found
