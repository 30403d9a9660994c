"""Forks of the test's own process, whose children say what they found."""

from __future__ import annotations

import contextlib
import os
import pickle
import traceback
import warnings
from collections.abc import Callable
from typing import Any, Never


class Child:
    """A forked child; `is_here` in the child, where `ends` says its last word. In the parent `said` waits for that."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of every fork of a process with threads
            self._pid = os.fork()
        self.is_here = self._pid == 0
        os.close(self._reading if self.is_here else self._writing)

    def ends(self, word: Any) -> Never:
        """End the child with a word for its parent."""
        with contextlib.suppress(OSError), open(self._writing, "wb") as pipe:
            pipe.write(pickle.dumps(word))
        os._exit(0)

    def said(self) -> Any:
        """The child's last word."""
        with open(self._reading, "rb") as pipe:
            word = pipe.read()
        os.waitpid(self._pid, 0)
        assert word, "the child died without a word"
        return pickle.loads(word)


def in_child(work: Callable[[], Any]) -> Any:
    """What the work returns in a forked child; AssertionError with the traceback where it raises."""
    child = Child()
    if child.is_here:
        try:
            child.ends((True, work()))
        except BaseException:
            child.ends((False, traceback.format_exc()))
    is_value, word = child.said()
    assert is_value, word
    return word
