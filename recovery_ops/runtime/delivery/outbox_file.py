"""One bounded store of encoded facts: an SQLite file, or the same tables in memory, that knows what to drop first.

Durability. The journal is a WAL, so a commit survives the death of the process, `kill -9` included, without an
fsync. A power cut is survived by what was fsynced: every commit that holds a fact which is always kept, and otherwise
the first commit after a second without one. A removal is never fsynced: what it forgets is sent again, with the same
uid, and the server drops it.

Beginning anew. On a full disk not even a removal can be written. So once all is delivered, what else the file holds is
written to a new one beside it, which then takes its place; whoever dies on the way, one of the two is whole. Room for
that is kept on the disk from the first record that is set aside: all else a new file needs is known to the process.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path

from recovery_ops.rules.records import dataclass
from recovery_ops.runtime.places import (
    keep_promise,
    promise_replacement,
    remove_database,
    replacement_of,
    reserve_replacement,
)

ROW_OVERHEAD_BYTES = 160
"""What a row costs beside its content: uid, index, page headers; so that the bound is about the file, not the facts."""
ASIDE_LIMIT = 1000
_PAGE_BYTES = 4096
_SHRINK_FROM_PAGES = 256
_EVICTED_AT_ONCE = 500
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
"""A full disk, or a quota, which SQLite takes for a write that failed."""
_JOURNAL_PAGES = 1000
_EMPTY_FILE_BYTES = 9 * _PAGE_BYTES
_RESERVE_STEP_BYTES = 4 * _PAGE_BYTES

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
    """Who goes first when there is no room: the lowest rank, and of that the oldest."""

    FAILURE = 0
    FACT = 1
    ALWAYS = 2
    """Transitions, escalations, checkpoints, desired state: kept beyond the bound, up to the ceiling."""


class Damaged(Exception):
    """The file is not a database any more."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """Who speaks: an encoded OTLP `Resource` and `InstrumentationScope`, the same for all facts of an instance."""

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
        """What it takes of the bound."""
        return len(self.content) + ROW_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class Row:
    """An entry and its place in the order of one store."""

    id: int
    entry: Entry


class OutboxFile:
    """The store itself. Not thread-safe: `Outbox` holds the lock.

    `limit_bytes` bounds what is kept, `ceiling_bytes` what is kept when only facts of rank ALWAYS are left to drop;
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
        self._owes_tallies = False
        self._owes_removal = False
        self.counts: Counter[Rank] = Counter()
        self.bytes: Counter[Rank] = Counter()
        self.tallies: Counter[str] = Counter()
        self._read_totals()

    @property
    def pending(self) -> int:
        """How many facts wait."""
        return sum(dict(self.counts).values())

    @property
    def pending_bytes(self) -> int:
        """What they take of the bound."""
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
                owed = dict(self.tallies) if self._owes_tallies else {}
                changed = owed | dict(tallies) | {name: self.tallies[name] + more for name, more in dropped.items()}
                _set_tallies(db, changed)
            self._owes_tallies = False
            self.counts, self.bytes, self._envelope_ids = counts, sizes, envelope_ids
            self.tallies.update({name: value - self.tallies[name] for name, value in changed.items()})

    def oldest(self, records: int, size_bytes: int) -> list[Row]:
        """The next facts to send, in order: at most so many, and no more bytes than that (but at least one).

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
                db.execute(
                    "INSERT INTO aside (uid, content, reason) VALUES (?, ?, ?)",
                    (row.entry.uid, row.entry.content, reason[:1000]),
                )
                db.execute(
                    "DELETE FROM aside WHERE id NOT IN (SELECT id FROM aside ORDER BY id DESC LIMIT ?)", (ASIDE_LIMIT,)
                )
                db.execute("DELETE FROM record WHERE id <= ?", (row.id,))
                _set_tallies(db, {"refused": value})
            self.tallies["refused"] = value
            self._note_gone([row])
            # It is done and counted: room that is not given back now is with the next removal.
            with contextlib.suppress(sqlite3.OperationalError):
                self._shrink(db)
                self._reserve(db)

    def aside(self) -> list[tuple[str, str]]:
        """What was set aside: uid and reason, oldest first."""
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
                keep_promise(self.path)
                # Facts may quote what users said: nobody else's eyes. SQLite gives its journals the same mode.
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
            if has_room or self.pending or not self._has_begun_anew():
                raise
        self._owes_removal = False

    def _has_begun_anew(self) -> bool:
        """Replace the file, of which all is delivered, by one with what else it holds; False where it stays.

        Where even that finds no room, the room can only come from the file itself. It is removed first if all that
        it holds are tallies, which are known here: a kill in that moment loses them. What was set aside is nowhere
        else: room for it is kept beforehand, and where somebody took that too, the file stays until there is some.
        """
        if self.path is None:
            return False
        with _telling_damage():
            aside = self._connection().execute("SELECT * FROM aside ORDER BY id").fetchall()
        try:
            _write_anew(replacement_of(self.path), aside, self.tallies, self._delivered_up_to)
            promise_replacement(self.path)
        except (OSError, sqlite3.Error):
            if aside or not self._is_removed(self.path):
                return False
        self.close()
        self._envelope_ids = {}
        with _telling_damage():
            db = self._connection()
            if self._owes_tallies:
                with _transaction(db):
                    _set_tallies(db, self.tallies)
            self._reserve(db)
        self._owes_tallies = False
        return True

    def _reserve(self, db: sqlite3.Connection) -> None:
        """Keep room for what is set aside, as long as the disk has some, for the day when it has none.

        A page of SQLite's is at least half full, so twice the content is enough. More than a sixteenth of the bound
        is not kept: then the file waits for room.
        """
        if self.path is None:
            return
        sizes = "SELECT SUM(LENGTH(content) + LENGTH(CAST(uid || reason AS BLOB))) FROM aside"
        size_bytes = db.execute(sizes).fetchone()[0]
        if size_bytes:
            steps = 1 + (_EMPTY_FILE_BYTES + 2 * size_bytes) // _RESERVE_STEP_BYTES
            with contextlib.suppress(OSError):
                reserve_replacement(self.path, min(steps * _RESERVE_STEP_BYTES, self.limit_bytes // 16))

    def _is_removed(self, path: Path) -> bool:
        self.close()
        remove_database(path)
        if path.exists():
            return False
        # Nothing is left that a number could be taken for: the next file counts from 1, whenever it can be made.
        self._delivered_up_to = 0
        self._owes_tallies = True
        return True

    def _read_totals(self) -> None:
        with _telling_damage():
            db = self._connection()
            found = db.execute("SELECT rank, COUNT(*), SUM(LENGTH(content)) FROM record GROUP BY rank")
            for rank, count, size in found:
                self.counts[Rank(rank)] = count
                self.bytes[Rank(rank)] = size + count * ROW_OVERHEAD_BYTES
            self.tallies.update(dict(db.execute("SELECT name, value FROM tally")))
            self._reserve(db)

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


def _write_anew(path: Path, aside: Sequence[tuple[object, ...]], tallies: Mapping[str, int], last_id: int) -> None:
    """Make a whole store of an empty file: one file, without a journal beside it."""
    with contextlib.closing(sqlite3.connect(str(path), isolation_level=None)) as db:
        # Nobody goes on from a half: what is needed of it is on disk when it is promised, not before.
        db.execute("PRAGMA synchronous=OFF")
        db.execute("PRAGMA journal_mode=MEMORY").fetchone()
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        db.executescript(_TABLES)
        with _transaction(db):
            db.executemany("INSERT INTO aside VALUES (?, ?, ?, ?)", aside)
            # Records are numbered on, so that no batch speaks of two.
            db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('record', ?)", (last_id,))
            _set_tallies(db, tallies)
        # Last, or there were a journal as large as the file; but here, for later it would take room.
        db.execute("PRAGMA journal_mode=WAL").fetchone()


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
