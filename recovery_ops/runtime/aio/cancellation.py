"""Counts the cancels of a task, and finds the one that an error of a clean-up has replaced."""

from __future__ import annotations

import sys
from traceback import walk_tb
from typing import Any

_LONGEST_CHAIN = 8


def hides_a_cancel(error: BaseException) -> bool:
    """Whether this error was raised in a clean-up that a cancel of the current task began.

    To try again would lose the cancel. A cancel that whoever called us is handling is another matter: what they do to
    clean up may be tried again. Trio cancels again by itself.
    """
    if not cancels_of_task():
        return False
    cancelled = sys.modules["asyncio"].CancelledError
    inside = {frame for frame, _ in walk_tb(error.__traceback__)}
    for _ in range(_LONGEST_CHAIN):
        link = error.__context__
        if link is None or (isinstance(error, TimeoutError) and error.__cause__ is link):
            return False  # what asyncio makes of a deadline's own cancel
        if isinstance(link, cancelled) and any(frame in inside for frame, _ in walk_tb(link.__traceback__)):
            return True
        error = link
    return False


def cancels_of_task() -> int:
    """How many cancels of the current task nobody has taken back; 0 where asyncio runs none."""
    library: Any = sys.modules.get("asyncio")
    try:
        task = library.current_task() if library is not None else None
    except (RuntimeError, AttributeError):  # no loop here, or half loaded by another thread
        return 0
    return 0 if task is None else int(task.cancelling())
