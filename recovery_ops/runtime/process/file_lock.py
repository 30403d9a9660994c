"""The right to write one file, held by one process at a time and given back by its death, however it dies."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class Claim:
    """A lock on `<path>.lock`, beside the file and not on it.

    Closing any descriptor of an SQLite file would drop the locks that SQLite holds on it.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path) -> Claim | None:
        """The claim on this file; None if another process, or another part of this one, has it.

        Raises OSError where the directory cannot be written, or the file system knows no locks.
        """
        beside = path.with_name(path.name + ".lock")
        while True:
            descriptor = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _lock(descriptor)
            except (BlockingIOError, PermissionError):
                os.close(descriptor)
                return None
            except OSError:
                os.close(descriptor)
                raise
            # Whoever had it may have removed the lock file after we opened it: then we hold the lock of nothing.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(beside)):
                    return cls(path, descriptor)
            os.close(descriptor)

    def release(self, *, is_file_gone: bool = False) -> None:
        """Give it back; with `is_file_gone` the lock file goes too."""
        if self._descriptor < 0:
            return
        if is_file_gone:
            with contextlib.suppress(OSError):  # some systems do not remove what is open; it is a few bytes
                self.path.with_name(self.path.name + ".lock").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            _unlock(self._descriptor)
        self.forget()

    def forget(self) -> None:
        """In a forked child: close our copy without unlocking, the lock is the parent's."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
