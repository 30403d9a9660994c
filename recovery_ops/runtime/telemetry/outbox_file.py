"""One bounded store of encoded events: an SQLite file, or the same tables in memory, that knows what to drop first.

Durability. The journal is a WAL, so a commit survives the death of the process, `kill -9` included, without an
fsync. A power cut is survived by what was fsynced: every commit that holds an event which is always kept, and otherwise
the first commit after a second without one. A removal is never fsynced: what it forgets is sent again, with the same
uid, and the server drops it.

Full disk. Not even a removal can be written then. So once all is delivered, the file is removed and made anew: its
tallies and the records that were set aside are in memory until the disk has room for them. A kill in that moment loses
those, and no event.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.runtime.process.files import remove_database

ROW_OVERHEAD_BYTES = 160
"""Bytes of a row beside its content: uid, index, page headers. So the bound is about the file, not the events."""
ASIDE_LIMIT = 1000
_PAGE_BYTES = 4096
_SHRINK_FROM_PAGES = 256
_EVICTED_AT_ONCE = 500
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
"""A full disk, or a quota, which SQLite takes for a write that failed."""
_JOURNAL_PAGES = 1000

_TABLES = """
CREATE TABLE IF NOT EXISTS envelope (id INTEGER PRIMARY KEY, resource BLOB NOT NULL, scope BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS record (
    id INTEGER PRIMARY KEY AUTOINCREMENT, uid TEXT NOT NULL, rank INTEGER NOT NULL,
    content BLOB NOT NULL, at_ns INTEGER NOT NULL, envelope INTEGER NOT NULL REFERENCES envelope
);
CREATE INDEX IF NOT EXISTS record_by_rank ON record (rank, id);
CREATE TABLE IF NOT EXISTS aside (
    id INTEGER PRIMARY KEY, uid TEXT NOT NULL, content BLOB NOT NULL, reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS tally (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""


class Rank(IntEnum):
    """Order of dropping when there is no room: the lowest rank first, and of that the oldest."""

    FAILURE = 0
    EVENT = 1
    ALWAYS = 2
    """Transitions, escalations, checkpoints, desired state: kept beyond the bound, up to the ceiling."""


class Damaged(Exception):
    """The file is not a database any more."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The sender: an encoded OTLP `Resource` and `InstrumentationScope`, the same for all events of an instance."""

    resource: bytes
    scope: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """One encoded OTLP `LogRecord`. `at_ns` is nanoseconds since the epoch."""

    uid: str
    rank: Rank
    content: bytes
    at_ns: int
    envelope: Envelope

    @property
    def cost_bytes(self) -> int:
        """Bytes that it takes of the bound."""
        return len(self.content) + ROW_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class Row:
    """An entry and its place in the order of one store."""

    id: int
    entry: Entry


class OutboxFile:
    """The store itself. Not thread-safe: `Outbox` holds the lock.

    `limit_bytes` bounds what is kept, `ceiling_bytes` what is kept when only events of rank ALWAYS are left to drop;
    `disk_bytes` bounds the file as SQLite sees it, and is a full disk to it. Every method raises sqlite3.Error when
    the disk fails, and Damaged when the file cannot be read any more; then nothing has changed.
    """

    def __init__(
        self, path: Path | None, *, limit_bytes: int, ceiling_bytes: int, disk_bytes: int | None = None
    ) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        self.ceiling_bytes = max(ceiling_bytes, limit_bytes)
        self._disk_bytes = disk_bytes
        self._db: sqlite3.Connection | None = None
        self._envelope_ids: dict[Envelope, int] = {}
        self._delivered_up_to = 0
        self._held_up_to = 0
        self._owes_removal = False
        self._owed_aside: list[tuple[object, ...]] | None = None
        """Rows set aside by a file that was removed; with the tallies they are still to be written."""
        self.counts: Counter[Rank] = Counter()
        self.bytes: Counter[Rank] = Counter()
        self.tallies: Counter[str] = Counter()
        self._read_totals()

    @property
    def pending(self) -> int:
        """Number of events that wait."""
        return sum(dict(self.counts).values())

    @property
    def pending_bytes(self) -> int:
        """Bytes that they take of the bound."""
        return sum(self.bytes.values())

    @property
    def is_held(self) -> bool:
        """Whether a batch of it is on its way."""
        return self._held_up_to > 0

    def add(self, entries: Sequence[Entry], *, tallies: Mapping[str, int], is_synced: bool) -> None:
        """Keep the entries and set the tallies, in one transaction; then drop what the bound has no room for."""
        if self._owes_removal and not self.pending:
            # There may be room by now. If not, the entries may still find some: a file has pages that are free.
            with contextlib.suppress(sqlite3.Error):
                self._remove_delivered()
        with _telling_damage():
            db = self._connection()
            db.execute(f"PRAGMA synchronous={'FULL' if is_synced else 'NORMAL'}")
            counts, sizes, dropped = self.counts.copy(), self.bytes.copy(), Counter[str]()
            envelope_ids = dict(self._envelope_ids)
            with _transaction(db):
                rows = [
                    (entry.uid, entry.rank, entry.content, entry.at_ns, _envelope_id(db, entry.envelope, envelope_ids))
                    for entry in entries
                ]
                db.executemany("INSERT INTO record (uid, rank, content, at_ns, envelope) VALUES (?, ?, ?, ?, ?)", rows)
                for entry in entries:
                    counts[entry.rank] += 1
                    sizes[entry.rank] += entry.cost_bytes
                self._make_room(db, counts, sizes, dropped)
                changed = (
                    self._pay(db) | dict(tallies) | {name: self.tallies[name] + more for name, more in dropped.items()}
                )
                _set_tallies(db, changed)
            self._owed_aside = None
            self.counts, self.bytes, self._envelope_ids = counts, sizes, envelope_ids
            self.tallies.update({name: value - self.tallies[name] for name, value in changed.items()})

    def oldest(self, records: int, size_bytes: int) -> list[Row]:
        """The next events to send, in order: at most so many, and no more bytes than that (but at least one).

        They are held: whatever the bound says, they are not dropped before `release` or `remove`.
        """
        with _telling_damage():
            found = self._connection().execute(
                "SELECT record.id, uid, rank, content, at_ns, resource, scope FROM record"
                " JOIN envelope ON envelope.id = record.envelope WHERE record.id > ? ORDER BY record.id LIMIT ?",
                (self._delivered_up_to, records),
            )
            rows: list[Row] = []
            envelopes: dict[Envelope, Envelope] = {}
            total = 0
            for row_id, uid, rank, content, at_ns, resource, scope in found:
                total += len(content)
                if rows and total > size_bytes:
                    break
                envelope = Envelope(resource, scope)
                envelope = envelopes.setdefault(envelope, envelope)
                rows.append(Row(row_id, Entry(uid, Rank(rank), content, at_ns, envelope)))
            found.close()
        self._held_up_to = rows[-1].id if rows else 0
        return rows

    def release(self) -> None:
        """The rows of `oldest` stay, and may be dropped again."""
        self._held_up_to = 0

    def remove(self, rows: Sequence[Row]) -> None:
        """The rows of `oldest` were delivered. Should the disk refuse, they are still never given out again; and once
        all are delivered that a full disk does not let go, the file begins anew, which gives its room back: now, or
        before the next is added, if there is no room for that either.
        """
        self._note_gone(rows)
        self._owes_removal = True
        self._remove_delivered()

    def set_aside(self, row: Row, reason: str) -> None:
        """The server refuses the oldest for what it says: out of the way with it, but kept to be looked at.

        Its number in `aside` is not that of the record: a file begun anew may count records from 1 again.
        """
        with _telling_damage():
            db = self._connection()
            value = self.tallies["refused"] + 1
            with _transaction(db):
                owed = self._pay(db)
                db.execute(
                    "INSERT INTO aside (uid, content, reason) VALUES (?, ?, ?)",
                    (row.entry.uid, row.entry.content, reason[:1000]),
                )
                db.execute(
                    "DELETE FROM aside WHERE id NOT IN (SELECT id FROM aside ORDER BY id DESC LIMIT ?)", (ASIDE_LIMIT,)
                )
                db.execute("DELETE FROM record WHERE id <= ?", (row.id,))
                _set_tallies(db, owed | {"refused": value})
            self._owed_aside = None
            self.tallies["refused"] = value
            self._note_gone([row])
            # It is done and counted: room that is not given back now is with the next removal.
            with contextlib.suppress(sqlite3.OperationalError):
                self._shrink(db)

    def aside(self) -> list[tuple[str, str]]:
        """Uid and reason of each record that was set aside, oldest first."""
        if self._owed_aside is not None:
            return [(str(uid), str(reason)) for _, uid, _, reason in self._owed_aside]
        with _telling_damage():
            return list(self._connection().execute("SELECT uid, reason FROM aside ORDER BY id"))

    def disconnect(self) -> None:
        """Close the connection; the next use opens another. In memory there is nothing else than the connection."""
        if self._db is not None and self.path is not None:
            self._db.close()
            self._db = None

    def close(self) -> None:
        """Close the connection for good."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = self._connected()
        return self._db

    def _connected(self) -> sqlite3.Connection:
        name = ":memory:" if self.path is None else str(self.path)
        if self.path is not None:
            try:
                # Events may quote what users said: nobody else's eyes. SQLite gives its journals the same mode.
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            except OSError as error:
                raise sqlite3.OperationalError(str(error)) from error
        db = sqlite3.connect(name, timeout=0.5, isolation_level=None, check_same_thread=False)
        try:
            # Only we use the file: without shared memory a WAL also works where files are on a network.
            db.execute("PRAGMA locking_mode=EXCLUSIVE")
            if not db.execute("PRAGMA page_count").fetchone()[0]:
                # Only of a new file: it would write to one that is there, which a full disk refuses.
                db.execute("PRAGMA auto_vacuum=INCREMENTAL")
            db.execute("PRAGMA journal_mode=WAL").fetchone()
            # A quarter of the bound at most is in the journal before it is written to the file.
            pages = min(_JOURNAL_PAGES, max(16, self.limit_bytes // 4 // _PAGE_BYTES))
            db.execute(f"PRAGMA wal_autocheckpoint={pages}")
            db.execute(f"PRAGMA journal_size_limit={self.limit_bytes}")
            db.execute("PRAGMA temp_store=MEMORY")
            if self._disk_bytes is not None:
                db.execute(f"PRAGMA max_page_count={max(16, self._disk_bytes // _PAGE_BYTES)}")
            db.executescript(_TABLES)
        except BaseException:
            db.close()
            raise
        return db

    def _note_gone(self, rows: Sequence[Row]) -> None:
        self._delivered_up_to = rows[-1].id
        self._held_up_to = 0
        for row in rows:
            self.counts[row.entry.rank] -= 1
            self.bytes[row.entry.rank] -= row.entry.cost_bytes

    def _remove_delivered(self) -> None:
        try:
            with _telling_damage():
                db = self._connection()
                db.execute("PRAGMA synchronous=NORMAL")
                with _transaction(db):
                    db.execute("DELETE FROM record WHERE id <= ?", (self._delivered_up_to,))
                self._shrink(db)
        except sqlite3.Error as error:
            has_room = getattr(error, "sqlite_errorcode", 0) & 0xFF not in _NO_ROOM
            if has_room or self.pending or self.path is None or not self._is_removed(self.path):
                raise
            self._owes_removal = False
            with contextlib.suppress(sqlite3.Error):  # else it is written with the next entries that find room
                self.add([], tallies={}, is_synced=True)
                self._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # the journal takes room too
        self._owes_removal = False

    def _is_removed(self, path: Path) -> bool:
        """Remove the file, of which all is delivered; False where it stays."""
        if self._owed_aside is None:
            with _telling_damage():
                self._owed_aside = self._connection().execute("SELECT * FROM aside ORDER BY id").fetchall()
        self.close()
        self._envelope_ids = {}
        remove_database(path)
        if path.exists():
            self._owed_aside = None
            return False
        self._delivered_up_to = 0  # the next file counts from 1
        return True

    def _pay(self, db: sqlite3.Connection) -> dict[str, int]:
        """Write the rows that a removed file had set aside, and return its tallies, to be written too."""
        if self._owed_aside is None:
            return {}
        db.executemany("INSERT OR REPLACE INTO aside VALUES (?, ?, ?, ?)", self._owed_aside)
        return dict(self.tallies)

    def _read_totals(self) -> None:
        with _telling_damage():
            db = self._connection()
            found = db.execute("SELECT rank, COUNT(*), SUM(LENGTH(content)) FROM record GROUP BY rank")
            for rank, count, size in found:
                self.counts[Rank(rank)] = count
                self.bytes[Rank(rank)] = size + count * ROW_OVERHEAD_BYTES
            self.tallies.update(dict(db.execute("SELECT name, value FROM tally")))

    def _make_room(
        self, db: sqlite3.Connection, counts: Counter[Rank], sizes: Counter[Rank], dropped: Counter[str]
    ) -> None:
        for rank in Rank:
            bound = self.ceiling_bytes if rank is Rank.ALWAYS else self.limit_bytes
            while sizes.total() > bound:
                gone = self._evict(db, rank, sizes.total() - bound)
                if not gone:
                    break
                counts[rank] -= len(gone)
                sizes[rank] -= sum(gone)
                dropped[dropped_name(rank)] += len(gone)

    def _evict(self, db: sqlite3.Connection, rank: Rank, over_bytes: int) -> list[int]:
        """Drop the oldest of a rank until that many bytes are free, but not all at once; the costs of what went."""
        first_free = max(self._held_up_to, self._delivered_up_to)
        found = db.execute(
            "SELECT id, LENGTH(content) FROM record WHERE rank = ? AND id > ? ORDER BY id LIMIT ?",
            (rank, first_free, _EVICTED_AT_ONCE),
        ).fetchall()
        gone: list[int] = []
        last_id = 0
        for row_id, size in found:
            if over_bytes <= 0:
                break
            cost_bytes = size + ROW_OVERHEAD_BYTES
            gone.append(cost_bytes)
            over_bytes -= cost_bytes
            last_id = row_id
        db.execute("DELETE FROM record WHERE rank = ? AND id > ? AND id <= ?", (rank, first_free, last_id))
        return gone

    def _shrink(self, db: sqlite3.Connection) -> None:
        """After a backlog the file gives its room back."""
        if self.path is None or self.pending:
            return
        if db.execute("PRAGMA freelist_count").fetchone()[0] > _SHRINK_FROM_PAGES:
            # A script, because it is run to its end: `execute` stops after the first page.
            db.executescript("PRAGMA incremental_vacuum")


def dropped_name(rank: Rank) -> str:
    """The name of the tally of what was dropped of a rank."""
    return f"dropped_{rank.name.lower()}"


def _envelope_id(db: sqlite3.Connection, envelope: Envelope, known: dict[Envelope, int]) -> int:
    found = known.get(envelope)
    if found is None:
        row = db.execute(
            "SELECT id FROM envelope WHERE resource = ? AND scope = ?", (envelope.resource, envelope.scope)
        ).fetchone()
        if row is None:
            made = db.execute(
                "INSERT INTO envelope (resource, scope) VALUES (?, ?) RETURNING id", (envelope.resource, envelope.scope)
            )
            row = made.fetchone()
        found = known[envelope] = row[0]
    return found


def _set_tallies(db: sqlite3.Connection, tallies: Mapping[str, int]) -> None:
    upsert = "INSERT INTO tally VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    db.executemany(upsert, tallies.items())


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE … COMMIT, or ROLLBACK; sqlite3's own context manager does not begin one."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # On some errors (a full disk) SQLite has rolled back by itself.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def _telling_damage() -> Iterator[None]:
    """Turns SQLite's words for a damaged file into ours."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            raise Damaged(str(error)) from error
        raise
