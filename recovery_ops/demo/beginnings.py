"""How an agent of the demonstration begins a run again: each kind of run keeps its steps, and is found by them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from recovery_ops.runtime import Recovery, RecoveryError, RetryRequest, Workflow

Begin = Callable[[str, str], object]
"""Does a run of this id from its checkpoint, with another input where that is not empty."""


class Beginnings:
    """What `on_retry` of an agent is: it knows each kind of run by the name of its workflow."""

    def __init__(self) -> None:
        self.recovery: Recovery | None = None
        self._ways: dict[str, Begin] = {}

    def add(self, workflow: str, begin: Begin) -> None:
        """Runs of this kind are begun again so, in a thread of the runtime's."""
        self._ways[workflow] = begin

    def add_tasks(self, workflow: str, begin: Callable[[str, str], Coroutine[Any, Any, object]]) -> None:
        """The same for runs that are tasks of the loop that is running now."""
        loop = asyncio.get_running_loop()
        self.add(workflow, lambda run, given: asyncio.run_coroutine_threadsafe(begin(run, given), loop).result())

    def __call__(self, asked: RetryRequest) -> None:
        """Begin it again. LookupError for a run that kept no checkpoint: nobody knows where it was."""
        for workflow, begin in self._ways.items():
            if Workflow(workflow, asked.run, recovery=self.recovery).steps():
                with contextlib.suppress(RecoveryError):  # it fails again: the run tells that itself
                    begin(asked.run, asked.input)
                return
        raise LookupError("it kept no checkpoint")
