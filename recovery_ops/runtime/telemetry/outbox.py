"""Where events wait until the server has them: a file that outlives the process, with memory where the disk fails."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.process.file_lock import Claim
from recovery_ops.runtime.process.files import (
    claim_first_free,
    default_path,
    marked,
    set_aside_damaged,
    state_directory,
)
from recovery_ops.runtime.process.forks import Halt
from recovery_ops.runtime.process.log_messages import TroubleLog
from recovery_ops.runtime.telemetry.orphaned_outboxes import Legacy
from recovery_ops.runtime.telemetry.outbox_file import Damaged, Entry, OutboxFile, Rank, Row, dropped_name

__all__ = ["Batch", "Entry", "Outbox", "Rank", "Row", "default_path", "state_directory"]

LIMIT_BYTES = 64 * 1024 * 1024
MEMORY_BYTES = 8 * 1024 * 1024
SYNC_EVERY_S = 1.0
WRITE_AGAIN_S = 1.0
OPEN_AGAIN_S = 30.0
_LOCK_PATIENCE_S = 1.0
_never_closed: list[OutboxFile] = []
_MOVED_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class Batch:
    """Events that are on their way, in order, all from one store."""

    store: OutboxFile
    rows: tuple[Row, ...]


class Outbox:
    """Keeps events, in order, until they are delivered. Thread-safe and fork-safe; never raises for want of a disk.

    Each process writes a file of its own: `path`, or a suffixed one where another process has that. It is guarded by
    a lock that dies with the process; what dead processes left in the same directory is given out first (`Legacy`).

    `path` None keeps everything in memory, as does a directory that cannot be written (said once in the log, tried
    again each 30 s). While the disk is full or fails, newcomers wait in at most `memory_bytes` of memory and move to
    the file when it works again. A damaged file is set aside as `*.damaged`, and counted. `limit_bytes` bounds what
    is kept (who goes first: `Rank`), `ceiling_bytes` (twice that) even what is never dropped for the limit, and
    `disk_bytes` the file itself.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        limit_bytes: int = LIMIT_BYTES,
        ceiling_bytes: int | None = None,
        memory_bytes: int = MEMORY_BYTES,
        disk_bytes: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._limit_bytes = limit_bytes
        self._ceiling_bytes = ceiling_bytes or 2 * limit_bytes
        self._memory_bytes = memory_bytes
        self._disk_bytes = disk_bytes
        self._clock = clock or Clock()
        self._notices = TroubleLog(logging.getLogger(__name__))
        self._is_closed = False
        self._begin(path)

    def _begin(self, path: Path | None) -> None:
        now = self._clock.now()
        self._asked_path = path
        self._lock = threading.RLock()
        self._halt = Halt(_LOCK_PATIENCE_S)
        self._claim: Claim | None = None
        self._own: OutboxFile | None = None
        self._memory = OutboxFile(None, limit_bytes=self._memory_bytes, ceiling_bytes=2 * self._memory_bytes)
        self._legacy = Legacy(self._on_disk, self._clock)
        self._write_again_at = now
        self._open_again_at = now
        self._synced_at = now - SYNC_EVERY_S
        self._open(now)

    @property
    def path(self) -> Path | None:
        """The file of this process; None in memory."""
        return self._own.path if self._own else None

    @property
    def is_durable(self) -> bool:
        """Whether everything it keeps outlives the process."""
        return self._own is not None and self._memory.pending == 0

    @property
    def pending(self) -> int:
        """How many events wait to be delivered, those of dead processes included once they are taken over."""
        # Without the lock, as `tallies`: who asks must not wait for a disk, and the numbers move anyway.
        return sum(store.pending for store in self._stores())

    @property
    def last_sequence(self) -> int:
        """The sequence number that the last writer of the file came to."""
        with self._lock:
            return max(store.tallies["sequence"] for store in (self._own or self._memory, self._memory))

    @property
    def tallies(self) -> Mapping[str, int]:
        """What was lost since the file was made: `dropped_<rank>`, `refused` by the server, `damaged_<what>`."""
        found = Counter(dict(self._own.tallies) if self._own else {})
        found.update(dict(self._memory.tallies))
        del found["sequence"]
        return found

    @property
    def dropped(self) -> int:
        """How many events were lost: dropped for want of room, refused by the server, or in a file that was damaged."""
        return sum(count for name, count in self.tallies.items() if name != "damaged_files")

    def add(self, entries: Sequence[Entry], *, last_sequence: int = 0, lost: Mapping[Rank, int] | None = None) -> None:
        """Keep the entries; `lost` is what was dropped before it came here."""
        with self._lock:
            if self._is_closed:
                return
            now = self._clock.now()
            if self._is_file_next(now) and self._own is not None:
                is_synced = now - self._synced_at >= SYNC_EVERY_S or any(one.rank is Rank.ALWAYS for one in entries)
                with self._surviving(self._own):
                    _write(self._own, entries, last_sequence, lost or {}, is_synced=is_synced)
                    self._synced_at = now if is_synced else self._synced_at
                    return
            _write(self._memory, entries, last_sequence, lost or {}, is_synced=False)

    def take(self, *, records: int = 512, size_bytes: int = 4 * 1024 * 1024) -> Batch | None:
        """The next events to send, or None. End it with `delivered`, `give_back` or `set_aside`."""
        with self._lock:
            if self._is_closed:
                return None
            if self._own is not None and self._own.path is not None:
                self._legacy.look(self._own.path)
            for store in self._stores():
                with self._surviving(store):
                    rows = store.oldest(records, size_bytes)
                    if rows:
                        return Batch(store, tuple(rows))
            return None

    def delivered(self, batch: Batch) -> None:
        """The server has them."""
        with self._lock:
            if self._holds(batch):
                with self._surviving(batch.store):
                    batch.store.remove(batch.rows)

    def give_back(self, batch: Batch) -> None:
        """They could not be sent now."""
        with self._lock:
            batch.store.release()

    def set_aside(self, batch: Batch, reason: str) -> None:
        """The server refuses the one record of this batch for what it says."""
        with self._lock:
            if not self._holds(batch):
                return
            with self._surviving(batch.store):
                try:
                    batch.store.set_aside(batch.rows[0], reason)
                except sqlite3.Error:
                    # No room even for that: then it is only counted.
                    batch.store.tallies["refused"] += 1
                    batch.store.remove(batch.rows)

    def aside(self) -> list[tuple[str, str]]:
        """Uid and reason of what was set aside by this process and its namesakes before it."""
        with self._lock:
            return [found for store in (self._own, self._memory) if store is not None for found in store.aside()]

    def close(self) -> None:
        """Close the files; what waits in them is sent by the next process."""
        # A thread that hangs in a dead disk may have the lock: then the files are left to the end of the process.
        if not self._lock.acquire(timeout=_LOCK_PATIENCE_S):
            return
        try:
            if not self._is_closed:
                self._write_again_at = self._clock.now()
                self._is_file_next(self._clock.now())
                self._say_what_ends()
                self._is_closed = True
                self._legacy.leave()
                for store in self._stores():
                    with contextlib.suppress(sqlite3.Error):
                        store.close()
                if self._claim is not None:
                    self._claim.release()
        finally:
            self._lock.release()

    def _say_what_ends(self) -> None:
        """What no disk took and no server has ends with the process: nobody can count it later."""
        if self._asked_path is not None and self._memory.pending:
            said = "recovery-ops: %d events that no disk and no server took end with this process"
            self._notices.once("ends", said, self._memory.pending)

    def before_fork(self) -> None:
        """No thread is inside SQLite and no file is open while the process is doubled: SQLite forbids both."""
        if self._halt.begin(self._lock):
            for store in self._stores():
                with contextlib.suppress(sqlite3.Error):
                    store.disconnect()

    def after_fork_in_parent(self) -> None:
        """Connections open again at the next use."""
        self._halt.end(self._lock)

    def after_fork_in_child(self, mark: str) -> None:
        """An outbox of the child's own: the parent's events, files and locks stay the parent's."""
        if self._claim is not None:
            self._claim.forget()
        if not self._halt.is_held:
            # Still open, because a thread hung in it: closing it here could touch the parent's file.
            _never_closed.extend(self._stores())
        self._legacy.forget()
        asked = self._asked_path
        self._begin(marked(asked, mark) if asked is not None and not self._is_closed else None)
        self._asked_path = asked

    def _stores(self) -> list[OutboxFile]:
        """In the order in which they are sent."""
        return [store for store in (self._legacy.file, self._own, self._memory) if store is not None]

    def _holds(self, batch: Batch) -> bool:
        """Not if the store was damaged and replaced while the batch was on its way."""
        return not self._is_closed and any(store is batch.store for store in self._stores())

    def _on_disk(self, path: Path) -> OutboxFile:
        return OutboxFile(
            path, limit_bytes=self._limit_bytes, ceiling_bytes=self._ceiling_bytes, disk_bytes=self._disk_bytes
        )

    def _open(self, now: float) -> None:
        """Open the file of this process if it has none yet and it is time to try."""
        if self._asked_path is None or self._own is not None or now < self._open_again_at:
            return
        self._open_again_at = now + OPEN_AGAIN_S
        try:
            self._claim = self._claim or claim_first_free(self._asked_path)
            try:
                self._own = self._on_disk(self._claim.path)
            except Damaged:
                self._own = self._renewed(self._claim.path, Counter())
            self._notices.over("recovery-ops: the outbox could be opened", "open")
        except (OSError, sqlite3.Error, Damaged) as error:
            # A process that cannot write keeps its claim: nobody else should write there either.
            self._notices.once(
                "open",
                "recovery-ops: no outbox at %s (%s): events wait in memory and die with it",
                self._asked_path,
                error,
            )

    def _is_file_next(self, now: float) -> bool:
        """Whether newcomers go to the file: what waits in memory goes there first, or order would be lost."""
        self._open(now)
        if self._own is None or now < self._write_again_at or self._memory.is_held:
            return False
        if self._memory.pending or self._memory.tallies:
            with self._surviving(self._own):
                self._move_to(self._own)
                self._notices.over("recovery-ops: the outbox can be written again", "disk")
                return True
            self._memory.release()
            return False
        return True

    def _move_to(self, file: OutboxFile) -> None:
        while rows := self._memory.oldest(_MOVED_AT_ONCE, 1024 * 1024):
            file.add([row.entry for row in rows], tallies={}, is_synced=True)
            self._memory.remove(rows)
        told = {name: file.tallies[name] + more for name, more in self._memory.tallies.items() if name != "sequence"}
        told["sequence"] = max(self._memory.tallies["sequence"], file.tallies["sequence"])
        file.add([], tallies=told, is_synced=False)
        self._memory.tallies.clear()

    @contextlib.contextmanager
    def _surviving(self, store: OutboxFile) -> Iterator[None]:
        """A store that fails is a store that waits; a damaged one is replaced."""
        try:
            yield
        except Damaged:
            self._replace(store)
        except sqlite3.Error as error:
            self._write_again_at = self._clock.now() + WRITE_AGAIN_S
            self._notices.once(
                "disk",
                "recovery-ops: the outbox does not work (%s): events wait in memory, at most %d bytes of them",
                error,
                self._memory_bytes,
            )

    def _replace(self, store: OutboxFile) -> None:
        if store is self._legacy.file:
            self._legacy.leave(is_damaged=True)
        if store is not self._own or self._claim is None:
            return
        self._own = None
        tallies = store.tallies.copy()
        tallies["damaged_events"] += store.pending
        store.close()
        try:
            self._own = self._renewed(self._claim.path, tallies)
        except (OSError, sqlite3.Error, Damaged):
            self._memory.tallies.update(tallies)

    def _renewed(self, path: Path, tallies: Counter[str]) -> OutboxFile:
        self._notices.once(
            f"damaged {path}", "recovery-ops: the outbox %s is damaged: it is set aside, a new one begins", path
        )
        set_aside_damaged(path)
        tallies["damaged_files"] += 1
        file = self._on_disk(path)
        file.add([], tallies=tallies, is_synced=False)
        return file


def _write(
    store: OutboxFile, entries: Sequence[Entry], last_sequence: int, lost: Mapping[Rank, int], *, is_synced: bool
) -> None:
    tallies = {dropped_name(rank): store.tallies[dropped_name(rank)] + more for rank, more in lost.items()}
    if last_sequence:
        tallies["sequence"] = last_sequence
    store.add(entries, tallies=tallies, is_synced=is_synced)
