"""What dead processes left unsent: one file of theirs at a time is taken over, emptied and given up."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.process.file_lock import Claim
from recovery_ops.runtime.process.files import OUTBOX_SUFFIX, remove_database, set_aside_damaged
from recovery_ops.runtime.telemetry.outbox_file import Damaged, OutboxFile

LOOK_EVERY_S = 30.0
KEEP_EMPTY_S = 3600.0
"""How long the empty file of a dead process is left: one that comes back by then goes on with its sequence numbers."""


class Legacy:
    """The files of dead processes in one directory. Not thread-safe: `Outbox` holds the lock.

    Events keep their uids and their envelope, so they are still the dead instance's, and an event that it had sent just
    before it died is dropped by the server.
    """

    def __init__(self, open_file: Callable[[Path], OutboxFile], clock: Clock) -> None:
        self.file: OutboxFile | None = None
        """The file taken over, while there is something in it."""
        self._open_file = open_file
        self._clock = clock
        self._claim: Claim | None = None
        self._look_next_at = clock.now()

    def look(self, own: Path) -> None:
        """Take over the next file if it is time to; finish with the one there is, if it is empty."""
        if self.file is not None:
            if self.file.pending:
                return
            self.leave()
            self._look_next_at = self._clock.now()
        if self._clock.now() < self._look_next_at:
            return
        self._look_next_at = self._clock.now() + LOOK_EVERY_S
        for path in sorted(own.parent.glob(f"*{OUTBOX_SUFFIX}")):
            if path != own and self._take_over(path):
                return

    def leave(self, *, is_damaged: bool = False) -> None:
        """Give the file up: for the next finder if it is not empty, for good if it is and nobody came back for it."""
        file, claim = self.file, self._claim
        self.file = self._claim = None
        if file is None or claim is None:
            return
        is_removed = is_damaged
        with contextlib.suppress(OSError, sqlite3.Error):
            age_s = self._clock.wall() - claim.path.stat().st_mtime
            is_removed = is_damaged or (file.pending == 0 and age_s > KEEP_EMPTY_S)
        with contextlib.suppress(sqlite3.Error):
            file.close()
        if is_damaged:
            set_aside_damaged(claim.path)
        elif is_removed:
            remove_database(claim.path)
        claim.release(is_file_gone=is_removed)

    def forget(self) -> None:
        """In a forked child: the file and its lock are the parent's."""
        if self._claim is not None:
            self._claim.forget()
        self.file = self._claim = None

    def _take_over(self, path: Path) -> bool:
        """Whether there was something in it to send."""
        try:
            claim = Claim.take(path)
        except OSError:
            return False
        if claim is None:
            return False
        try:
            self.file, self._claim = self._open_file(path), claim
        except Damaged:
            set_aside_damaged(path)
            claim.release(is_file_gone=True)
            return False
        except (OSError, sqlite3.Error):
            claim.release()
            return False
        if self.file.pending == 0:
            self.leave()
            return False
        return True
