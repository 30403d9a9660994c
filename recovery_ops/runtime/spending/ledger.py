"""The ledger of spend caps: accounts that threads, tasks and processes of one machine share.

A reservation is written before the call and settled after it, each in one transaction over all accounts of the call.
A process holds a lock of the operating system while it has open calls. Where that lock is free its process is dead:
its open calls are charged at their bound, because they may have been made; a bound that is not known charges nothing.

Without a file the ledger is this process's own, and a forked child goes on with a copy.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite
from pathlib import Path

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.spending import AccountState, Admission, SpendCap, Spending, SpendRuling, admit
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.file_lock import Claim

MOST_BALANCES = 50
"""Accounts that one look at the balances has at most."""
KEPT_S = 35 * 86_400.0
"""How long an account is kept after its last call, in seconds."""
_PRUNED_EVERY_S = 3600.0
_BUSY_S = 20.0
_TABLES = (
    """CREATE TABLE IF NOT EXISTS account (
    name TEXT PRIMARY KEY, calls INTEGER DEFAULT 0, tokens REAL DEFAULT 0, cost_usd REAL DEFAULT 0,
    raises INTEGER DEFAULT 0, used_s REAL DEFAULT 0
)""",
    """CREATE TABLE IF NOT EXISTS open_call (
    id TEXT, account TEXT, owner TEXT, calls INTEGER, tokens REAL, cost_usd REAL, PRIMARY KEY (id, account)
)""",
    "CREATE TABLE IF NOT EXISTS ledger (id TEXT)",
)
_OF_DAY = "SELECT name FROM account WHERE name = ? OR name GLOB ? ORDER BY used_s DESC LIMIT ?"
_OF_RUN = "SELECT name FROM account WHERE name = ?"
_NAMED = "INSERT INTO ledger SELECT ? WHERE NOT EXISTS (SELECT 1 FROM ledger)"
_SPENT = "SELECT calls, tokens, cost_usd, raises FROM account WHERE name = ?"
_OPEN = """SELECT coalesce(sum(calls), 0), coalesce(sum(tokens), 0), coalesce(sum(cost_usd), 0)
FROM open_call WHERE account = ?"""
_CHARGE = """INSERT INTO account (name, calls, tokens, cost_usd, used_s) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET calls = calls + excluded.calls, tokens = tokens + excluded.tokens,
cost_usd = cost_usd + excluded.cost_usd, used_s = excluded.used_s"""
_RAISE = """INSERT INTO account (name, raises, used_s) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET raises = max(raises, excluded.raises), used_s = excluded.used_s"""
_PRUNE = "DELETE FROM account WHERE used_s < ? AND name NOT IN (SELECT account FROM open_call)"
_NOTHING = Spending()


@dataclass(frozen=True, slots=True)
class Reservation:
    """The reserved bound of one call that may be made, or the ruling why it may not."""

    id: str
    ruling: SpendRuling

    @property
    def is_admitted(self) -> bool:
        """Whether the call may be made."""
        return self.ruling.admission is Admission.ADMITTED


@dataclass(frozen=True, slots=True)
class Balances:
    """The accounts of one ledger by name. `ledger` is its random id: processes of one file share it."""

    ledger: str
    accounts: Mapping[str, AccountState]


class SpendLedger(forks.InChild):
    """Accounts by name, in one SQLite file or in memory. Thread-safe and fork-safe.

    Raises OSError or sqlite3.Error where the file cannot be read or written.
    """

    def __init__(self, path: Path | None = None, *, wall: Callable[[], float] = time.time) -> None:
        self._path, self._wall = path, wall
        self._lock = threading.Lock()
        self._owner = uuid.uuid4().hex
        self._claim: Claim | None = None
        self._mine: set[str] = set()
        self._pruned_s = 0.0
        self._memory = None if path is not None else _opened(None)
        forks.follow(self)

    def after_fork_in_child(self) -> None:
        """Become another owner; the lock and the open calls are the parent's."""
        self._lock, self._owner, self._mine = threading.Lock(), uuid.uuid4().hex, set()
        if self._claim is not None:
            self._claim.forget()
            self._claim = None
        if self._memory is not None:
            self._memory.execute("UPDATE ledger SET id = ?", (uuid.uuid4().hex,))

    def reserve(
        self,
        caps: Mapping[str, SpendCap],
        bound: Spending,
        *,
        instead_of: str = "",
        owed: Callable[[], Spending] | None = None,
    ) -> Reservation:
        """Reserve a call in every account that it counts for, or in none.

        `instead_of` is the id of a reservation around this one, which ends. `owed` takes what was spent before: within
        the transaction, so that no other call is admitted between the two.
        """
        with self._lock:
            if self._path is not None and self._claim is None:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._claim = Claim.take(_claim_path(self._path, self._owner))
            with self._transaction() as db:
                self._charge_dead(db)
                self._prune(db)
                db.execute("DELETE FROM open_call WHERE id = ?", (instead_of,))
                self._charge_all(db, caps, owed() if owed is not None else _NOTHING)
                found = Reservation(uuid.uuid4().hex, admit({name: _state(db, name) for name in caps}, caps))
                if found.is_admitted:
                    values = (self._owner, bound.calls, bound.tokens, bound.cost_usd)
                    db.executemany(
                        "INSERT INTO open_call VALUES (?, ?, ?, ?, ?, ?)",
                        [(found.id, name, *values) for name in caps],
                    )
            self._mine.discard(instead_of)
            if found.is_admitted:
                self._mine.add(found.id)
            self._give_back()
        return found

    def commit(self, reservation: Reservation, actual: Spending, owed: Callable[[], Spending] | None = None) -> None:
        """Charge what a call has spent, and end its reservation. A second time it changes nothing.

        `owed` takes what was spent beside the call, within the same transaction.
        """
        with self._lock:
            with self._transaction() as db:
                gone = db.execute("DELETE FROM open_call WHERE id = ? RETURNING account", (reservation.id,)).fetchall()
                if gone:
                    whole = actual if owed is None else actual.plus(owed())
                    self._charge_all(db, [name for (name,) in gone], whole)
            self._mine.discard(reservation.id)
            self._give_back()

    def release(self, reservation: Reservation) -> None:
        """End the reservation of a call that spent nothing."""
        self.commit(reservation, _NOTHING)

    def charge(self, accounts: Mapping[str, SpendCap], spent: Spending) -> None:
        """Charge what was spent without a reservation."""
        with self._lock, self._transaction() as db:
            self._charge_all(db, accounts, spent)

    def raise_cap(self, account: str, times: int) -> None:
        """Raise the limits of an account by so many times its cap in all; what was raised before stays."""
        with self._lock, self._transaction() as db:
            db.execute(_RAISE, (account, times, self._wall()))

    def state(self, account: str) -> AccountState:
        """What is spent and reserved in an account."""
        with self._lock, self._transaction() as db:
            self._charge_dead(db)
            return _state(db, account)

    def balances(self, day: str, runs: Iterable[str]) -> Balances:
        """What is spent in the accounts of a day, those used last first, and of some runs; at most `MOST_BALANCES`."""
        with self._lock, self._transaction() as db:
            self._charge_dead(db)
            ((ledger,),) = db.execute("SELECT id FROM ledger").fetchall()
            named = db.execute(_OF_DAY, (f"day:{day}", f"source:*:{day}", MOST_BALANCES)).fetchall()
            of_runs = [row for run in runs for row in db.execute(_OF_RUN, (f"run:{run}",)).fetchall()]
            return Balances(ledger, {name: _state(db, name) for (name,) in (*named, *of_runs)[:MOST_BALANCES]})

    def _charge_dead(self, db: sqlite3.Connection) -> None:
        if self._path is None:
            return
        for (owner,) in db.execute("SELECT DISTINCT owner FROM open_call WHERE owner <> ?", (self._owner,)).fetchall():
            claim = Claim.take(_claim_path(self._path, owner))
            if claim is None:
                continue
            rows = db.execute(
                "DELETE FROM open_call WHERE owner = ? RETURNING account, calls, tokens, cost_usd", (owner,)
            ).fetchall()
            for name, calls, tokens, cost_usd in rows:
                known = [value if isfinite(value) else 0 for value in (tokens, cost_usd)]
                self._charge(db, name, Spending(calls=calls, tokens=known[0], cost_usd=known[1]))
            claim.release(is_file_gone=True)

    def _charge(self, db: sqlite3.Connection, account: str, spent: Spending) -> None:
        db.execute(_CHARGE, (account, spent.calls, spent.tokens, spent.cost_usd, self._wall()))

    def _charge_all(self, db: sqlite3.Connection, accounts: Iterable[str], spent: Spending) -> None:
        if spent != _NOTHING:
            for name in accounts:
                self._charge(db, name, spent)

    def _prune(self, db: sqlite3.Connection) -> None:
        now_s = self._wall()
        if now_s - self._pruned_s >= _PRUNED_EVERY_S:
            self._pruned_s = now_s
            db.execute(_PRUNE, (now_s - KEPT_S,))

    def _give_back(self) -> None:
        """An owner without open calls needs no lock, and leaves no file."""
        if self._claim is not None and not self._mine:
            self._claim.release(is_file_gone=True)
            self._claim = None

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = self._memory or _opened(self._path)
        try:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")
        finally:
            if db is not self._memory:
                db.close()


def _claim_path(path: Path, owner: str) -> Path:
    return path.with_name(f"{path.name}-{owner}")


def _opened(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # sources and runs are nobody else's business
    db = sqlite3.connect(path or ":memory:", timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        for table in _TABLES:
            db.execute(table)
        if db.execute("SELECT 1 FROM ledger").fetchone() is None:
            db.execute(_NAMED, (uuid.uuid4().hex,))
    except BaseException:
        db.close()
        raise
    return db


def _state(db: sqlite3.Connection, account: str) -> AccountState:
    *spent, raises = db.execute(_SPENT, (account,)).fetchone() or (0, 0, 0.0, 0)
    held = db.execute(_OPEN, (account,)).fetchone()
    return AccountState(spent=_spending(*spent), open_calls=_spending(*held), raises=raises)


def _spending(calls: int, tokens: float, cost_usd: float) -> Spending:
    return Spending(calls=calls, tokens=tokens, cost_usd=cost_usd)
