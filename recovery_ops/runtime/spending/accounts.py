"""The spend accounts of one client: its ledger, and settling that never blocks an event loop.

A thread settles at once. In a task, and under the runtime's lock, settling is left to a thread of its own: a
transaction on a disk that syncs takes milliseconds, and every other task of the loop would wait for it. That thread is
no daemon, so that the process does not end before it.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from recovery_ops.rules.policy.spend_settings import SpendCaps
from recovery_ops.rules.spending import AccountState, SpendCap, Spending, account_caps, account_day
from recovery_ops.runtime.aio.libraries import is_in_task
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.process.files import default_path, set_aside_damaged
from recovery_ops.runtime.process.identity import Identity
from recovery_ops.runtime.process.log_messages import TroubleLog
from recovery_ops.runtime.runs.context import RunContext
from recovery_ops.runtime.spending.ledger import Balances, Reservation, SpendLedger

FILE = "spending.db"
_MOST_TOLD = 10_000
_LOG = logging.getLogger(__name__)


class SpendMeter:
    """An open reservation, and what its attempt is known to have spent. Changed under the runtime's lock."""

    __slots__ = ("cost_usd", "is_settled", "ledger", "reservation", "tokens")

    def __init__(self, reservation: Reservation, ledger: SpendLedger) -> None:
        self.reservation, self.ledger = reservation, ledger
        self.tokens, self.cost_usd, self.is_settled = 0, 0.0, False

    def add(self, tokens: int, cost_usd: float) -> None:
        """The model answered."""
        self.tokens += tokens
        self.cost_usd += cost_usd


class SpendAccounts(forks.InChild):
    """Accounts in a file that the processes of this service, environment and server share on this machine."""

    def __init__(self, identity: Identity, clock: Clock) -> None:
        self.path = default_path(identity.instance, identity.url, directory=identity.directory).with_name(FILE)
        self._clock = clock
        self._ledger = SpendLedger(self.path, wall=clock.wall)
        self._notices = TroubleLog(_LOG)
        self._told: dict[tuple[str, ...], None] = {}
        self.asked_at: dict[str, float] = {}
        """When this process asked a person, by ticket, on its clock."""
        self._forget()
        forks.follow(self)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_settling = False

    def after_fork_in_child(self) -> None:
        """What waits to be settled is the parent's."""
        self._forget()

    def limits(
        self, caps: SpendCaps, scope: RunContext | None, source: str, *, has_cheaper: bool
    ) -> dict[str, SpendCap]:
        """The accounts that a call counts for, with their limits."""
        run = scope.root_run_id if scope is not None else ""
        return account_caps(caps, run=run, source=source, at_s=self._clock.wall(), has_cheaper=has_cheaper)

    def reserve(
        self, limits: Mapping[str, SpendCap], bound: Spending, outer: SpendMeter | None, owed: Callable[[], Spending]
    ) -> tuple[Reservation, SpendLedger]:
        """Reserve a call; blocks this thread for a transaction."""
        self._settle_waiting()
        inside, ledger = outer.reservation.id if outer is not None else "", self._ledger
        try:
            try:
                return ledger.reserve(limits, bound, instead_of=inside, owed=owed), ledger
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                self._notices.once("damaged", "recovery-ops: spend accounts begin anew, the file is damaged: %s", error)
                set_aside_damaged(self.path)
                return ledger.reserve(limits, bound, owed=owed), ledger
        except (OSError, sqlite3.Error) as error:
            self._notices.once("ledger", "recovery-ops: spend caps hold for this process alone: %s", error)
            self._ledger = SpendLedger(wall=self._clock.wall)
            return self._ledger.reserve(limits, bound, owed=owed), self._ledger

    def raise_cap(self, account: str, times: int) -> bool:
        """Raise the limits of an account, and say whether that was written; blocks this thread for a transaction."""
        try:
            self._ledger.raise_cap(account, times)
        except (OSError, sqlite3.Error) as error:
            self._notices.once("raising", "recovery-ops: a spend cap was not raised: %s", error)
            return False
        return True

    def state(self, account: str) -> AccountState:
        """What is spent and reserved in an account; blocks this thread for a transaction."""
        self._settle_waiting()
        return self._ledger.state(account)

    def balances(self, runs: Iterable[str]) -> Balances | None:
        """What is spent today and in some runs; None where it cannot be read. Blocks this thread for a transaction."""
        self._settle_waiting()
        try:
            return self._ledger.balances(account_day(self._clock.wall()), runs)
        except (OSError, sqlite3.Error) as error:
            self._notices.once("balances", "recovery-ops: spend accounts cannot be reported: %s", error)
            return None

    def settle(self, meter: SpendMeter, actual: Spending, owed: Callable[[], Spending] | None = None) -> None:
        """Charge a call and end its reservation; without `owed`, of a call that was not made, never in this thread."""
        self._do(lambda: meter.ledger.commit(meter.reservation, actual, owed), later=owed is None)

    def charge(self, limits: Mapping[str, SpendCap], spent: Spending) -> None:
        """Charge what was spent without a reservation."""
        self._do(lambda: self._ledger.charge(limits, spent), later=False)

    def is_news(self, *key: str) -> bool:
        """Whether this is asked for the first time."""
        with self._lock:
            if key in self._told:
                return False
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
                self.asked_at.clear()
            self._told[key] = None
            return True

    def _do(self, what: Callable[[], None], *, later: bool) -> None:
        self._waiting.append(what)
        if not later and not is_in_task():
            self._settle_waiting()
            return
        with self._lock:
            if self._is_settling:
                return
            self._is_settling = True
        try:
            threading.Thread(target=self._run, name="recovery-ops-spending").start()
        except RuntimeError:  # the interpreter ends
            self._run()

    def _run(self) -> None:
        while True:
            self._settle_waiting()
            with self._lock:
                if not self._waiting:
                    self._is_settling = False
                    return

    def _settle_waiting(self) -> None:
        while self._waiting:
            try:
                what = self._waiting.popleft()
            except IndexError:  # another thread was first
                return
            try:
                what()
            except (OSError, sqlite3.Error) as error:
                self._notices.once("settling", "recovery-ops: a model call was not charged: %s", error)
