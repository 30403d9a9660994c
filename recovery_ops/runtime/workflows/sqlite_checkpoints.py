"""The SQLite file in which workflows keep what they have done.

Durability. Every step is written with an fsync (`synchronous=FULL`) before it counts as done; leases are not, a power
cut ends their owner anyway. A finished step is immutable, and the file itself says so (a trigger).

The file is for processes of one machine, as every SQLite file in WAL mode.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recovery_ops.runtime.errors import CheckpointError
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.file_lock import Claim
from recovery_ops.runtime.process.files import state_directory
from recovery_ops.runtime.workflows.checkpoint_store import (
    CheckpointStore,
    Flow,
    Holder,
    Progress,
    StepError,
    StepRecord,
)

FORMAT = 1
BUSY_S = 20.0
"""How long a write waits for other processes; they hold the file for milliseconds."""
_BUSY_PAUSE_S = 0.01
_FORK_PATIENCE_S = 2.0

_TABLES = """
CREATE TABLE IF NOT EXISTS lease (
    workflow TEXT NOT NULL, workflow_id TEXT NOT NULL, owner TEXT NOT NULL, expires_at REAL NOT NULL,
    is_claimed INTEGER NOT NULL, PRIMARY KEY (workflow, workflow_id)
)

CREATE TABLE IF NOT EXISTS step (
    number INTEGER PRIMARY KEY, workflow TEXT NOT NULL, workflow_id TEXT NOT NULL, name TEXT NOT NULL,
    progress TEXT NOT NULL, input_hash TEXT NOT NULL, codec TEXT NOT NULL, content BLOB NOT NULL, error TEXT NOT NULL,
    attempts INTEGER NOT NULL, at REAL NOT NULL, UNIQUE (workflow, workflow_id, name)
)

CREATE TABLE IF NOT EXISTS redeemed (token TEXT PRIMARY KEY, at REAL NOT NULL)

CREATE TRIGGER IF NOT EXISTS finished_is_finished BEFORE UPDATE ON step WHEN OLD.progress = 'finished'
BEGIN SELECT RAISE(ABORT, 'a finished step does not change'); END
"""
_COLUMNS = "name, progress, input_hash, codec, content, error, attempts, at"


class SqliteCheckpoints(CheckpointStore):
    """A store in one SQLite file, by default `checkpoints.db` in the state directory. Thread-safe and fork-safe.

    Beside the expiry, the owner of a lease holds a lock of the operating system, which its death gives back however it
    dies: on the same machine a killed workflow can be resumed at once. Only an owner that lives, but has stopped
    renewing, is waited for until its lease expires.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = Path(path) if path is not None else state_directory() / "checkpoints.db"
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._claims: dict[tuple[Flow, str], Claim] = {}
        self._halt = forks.Halt(_FORK_PATIENCE_S)
        forks.follow(self)
        _stores.add(self)

    def acquire(self, flow: Flow, owner: str, *, now: float, lease_s: float) -> Holder | None:
        """See `CheckpointStore`."""
        claim: Claim | None = None
        holder: Holder | None = None
        try:
            with self._transaction() as db:
                row = db.execute(
                    "SELECT owner, expires_at, is_claimed FROM lease WHERE workflow = ? AND workflow_id = ?", flow
                ).fetchone()
                claim = self._claims.pop((flow, owner), None) or self._claim(flow)
                # An owner that had the lock of the system, and has it no more, is dead.
                is_free = row is None or row[0] == owner or row[1] <= now or (claim is not None and row[2])
                if is_free:
                    values = (*flow, owner, now + lease_s, claim is not None)
                    db.execute("INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?, ?)", values)
                else:
                    holder = Holder(row[0], row[1])
        except BaseException:
            if claim is not None:
                claim.release()
            raise
        if claim is not None and holder is not None:
            claim.release()
        elif claim is not None:
            self._claims[flow, owner] = claim
        return holder

    def renew(self, flow: Flow, owner: str, *, now: float, lease_s: float) -> bool:
        """See `CheckpointStore`."""
        with self._transaction() as db:
            found = db.execute(
                "UPDATE lease SET expires_at = ? WHERE workflow = ? AND workflow_id = ? AND owner = ?",
                (now + lease_s, *flow, owner),
            )
        return found.rowcount == 1

    def release(self, flow: Flow, owner: str) -> None:
        """See `CheckpointStore`."""
        with self._lock:
            # The claim goes first: whoever comes in between finds an owner without one, and takes over with both.
            claim = self._claims.pop((flow, owner), None)
            if claim is not None:
                claim.release(is_file_gone=True)
        with self._transaction() as db:
            db.execute("DELETE FROM lease WHERE workflow = ? AND workflow_id = ? AND owner = ?", (*flow, owner))

    def read(self, flow: Flow, step: str) -> StepRecord | None:
        """See `CheckpointStore`."""
        query = f"SELECT {_COLUMNS} FROM step WHERE workflow = ? AND workflow_id = ? AND name = ?"  # noqa: S608  # constant
        with self._connected() as db:
            row = db.execute(query, (*flow, step)).fetchone()
        return None if row is None else _record(row)

    def write(self, flow: Flow, owner: str, record: StepRecord) -> bool:
        """See `CheckpointStore`."""
        error = "" if record.error is None else json.dumps(asdict(record.error))
        values = (record.progress, record.input_hash, record.codec, record.content, error, record.attempts, record.at)
        with self._transaction(is_synced=True) as db:
            mine = db.execute(
                "SELECT 1 FROM lease WHERE workflow = ? AND workflow_id = ? AND owner = ?", (*flow, owner)
            ).fetchone()
            if mine is None:
                return False
            found = db.execute(
                "INSERT INTO step"
                " (workflow, workflow_id, name, progress, input_hash, codec, content, error, attempts, at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (workflow, workflow_id, name) DO UPDATE SET"
                " progress = excluded.progress, input_hash = excluded.input_hash, codec = excluded.codec,"
                " content = excluded.content, error = excluded.error, attempts = excluded.attempts, at = excluded.at"
                " WHERE step.progress != 'finished'",
                (*flow, record.step, *values),
            )
        return found.rowcount == 1

    def steps(self, flow: Flow) -> tuple[StepRecord, ...]:
        """See `CheckpointStore`."""
        query = f"SELECT {_COLUMNS} FROM step WHERE workflow = ? AND workflow_id = ? ORDER BY number"  # noqa: S608  # constant
        with self._connected() as db:
            return tuple(_record(row) for row in db.execute(query, flow))

    def forget(self, flow: Flow) -> None:
        """See `CheckpointStore`."""
        with self._transaction() as db:
            db.execute("DELETE FROM step WHERE workflow = ? AND workflow_id = ?", flow)

    def redeem(self, token_id: str, *, now: float) -> bool:
        """See `CheckpointStore`."""
        with self._transaction(is_synced=True) as db:
            found = db.execute("INSERT OR IGNORE INTO redeemed VALUES (?, ?)", (token_id, now))
        return found.rowcount == 1

    def close(self) -> None:
        """Close the file. Leases that were not released stand as those of a process that died: others may take over."""
        with self._lock:
            for claim in self._claims.values():
                claim.release()
            self._claims.clear()
            if self._db is not None:
                self._db.close()
                self._db = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the very end of the process anything may be gone already
            self.close()

    def before_fork(self) -> None:
        """No thread is inside SQLite and no file is open while the process is doubled: SQLite forbids both."""
        if self._halt.begin(self._lock) and self._db is not None:
            self._db.close()
            self._db = None

    def after_fork_in_parent(self) -> None:
        """The connection opens again at the next use."""
        self._halt.end(self._lock)

    def after_fork_in_child(self) -> None:
        """The leases are the parent's, and so are their locks."""
        self._lock, self._halt = threading.RLock(), forks.Halt(_FORK_PATIENCE_S)
        for claim in self._claims.values():
            claim.forget()
        self._claims = {}
        if self._db is not None:
            _never_closed.append(self._db)  # a thread of the parent was in it: closing it could touch the file
            self._db = None

    def _claim(self, flow: Flow) -> Claim | None:
        """The lock of the operating system, None if somebody has it or the file system knows no locks."""
        name = hashlib.sha256("\0".join(flow).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        folder = self.path.with_name(self.path.name + ".leases")
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            return Claim.take(folder / name)
        return None

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._db is None:
                    self._db = _opened(self.path)
                yield self._db
            except (sqlite3.Error, OSError) as error:
                raise CheckpointError(
                    f"{self.path}: {error}. Nothing was recorded by this. Give the store a place that can be written"
                    " (RECOVERY_OPS_DIR, or a path of its own); a damaged file has to be restored, or moved away"
                ) from error

    @contextlib.contextmanager
    def _transaction(self, *, is_synced: bool = False) -> Iterator[sqlite3.Connection]:
        with self._connected() as db:
            db.execute(f"PRAGMA synchronous={'FULL' if is_synced else 'NORMAL'}")
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise


_never_closed: list[sqlite3.Connection] = []
_stores: weakref.WeakSet[SqliteCheckpoints] = weakref.WeakSet()
_by_path: weakref.WeakValueDictionary[Path, SqliteCheckpoints] = weakref.WeakValueDictionary()


def _leave_files_whole() -> None:
    """Close the connections, so that SQLite moves its logs into the files. A daemon thread may still hold a store."""
    for store in tuple(_stores):
        store.before_fork()
        store.after_fork_in_parent()


atexit.register(_leave_files_whole)


def store_at(path: Path) -> SqliteCheckpoints:
    """The store of a file, one for all workflows of this process that are kept in it."""
    found = _by_path.get(path)
    if found is None:
        found = _by_path[path] = SqliteCheckpoints(path)  # two at once are two connections, no more
    return found


def _opened(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Results may quote what users said: nobody else's eyes. SQLite gives its journals the same mode.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        _use_wal(db)
        db.execute("PRAGMA temp_store=MEMORY")
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if found > FORMAT:
            raise CheckpointError(f"{path} was written by a newer version of recovery-ops: update this one")
        if found < FORMAT:
            db.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.split("\n\n"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={FORMAT}")
            db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def _use_wal(db: sqlite3.Connection) -> None:
    """Two processes that make the file at once: one is told that it is locked, and SQLite does not wait here."""
    for left in range(int(BUSY_S / _BUSY_PAUSE_S), -1, -1):
        try:
            db.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or not left:
                raise
            time.sleep(_BUSY_PAUSE_S)
        else:
            return


def _record(row: tuple[Any, ...]) -> StepRecord:
    name, progress, input_hash, codec, content, error, attempts, at = row
    return StepRecord(
        step=name,
        progress=Progress(progress),
        input_hash=input_hash,
        attempts=attempts,
        at=at,
        codec=codec,
        content=content,
        error=StepError(**json.loads(error)) if error else None,
    )
