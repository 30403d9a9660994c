"""The progress bars of commands that take long: on standard error, where that is a terminal; elsewhere nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


@contextmanager
def progress_bar(words: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar that is gone at the end of the block, and what is told how much of `total` is done so far."""
    console = Console(stderr=True)
    with Progress(*_COLUMNS, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(words, total=total)
        yield lambda done: progress.update(task, completed=done)
