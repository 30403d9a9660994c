"""The background thread of a client: sweeps, counts and heartbeats; it also opens telemetry and the config stream."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, TypedDict

from recovery_ops.rules.events import InstanceHeartbeat
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.log_messages import TroubleLog
from recovery_ops.runtime.runs.retries import OnRetry, Retries
from recovery_ops.wire.names import SCHEMA_VERSION

if TYPE_CHECKING:
    from types import ModuleType

    from recovery_ops.runtime.config.effective import Reporting
    from recovery_ops.runtime.config.stream import ConfigStream
    from recovery_ops.runtime.telemetry.pipeline import Telemetry

ROUND_S = 0.25
REJECTIONS_S = 1.0
COUNTS_S = 10.0
HEARTBEAT_S = 15.0
SETTINGS_AFTER_S = 1.0
"""Settings are told, and runs begun again, when guards are declared and the server has been heard."""


STATUS_S = 2.0
"""How often the status file is written, in seconds."""


class BackgroundThread:
    """The background side of one `Recovery`."""

    def __init__(self, recovery: Engine, on_retry: OnRetry | None) -> None:
        self._recovery = recovery
        self._telemetry: Telemetry | None = None
        self._link: ConfigStream | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._begin()
        self._is_connected = False
        self._retries = Retries(recovery, on_retry)
        self._notices = TroubleLog(logging.getLogger(__name__))

    def _begin(self) -> None:
        self._began = self._recovery.clock.now()
        self._told_rejections_at = self._told_counts_at = self._began
        self._next_heartbeat_at = self._next_status_at = self._began
        self._told_status = "running"
        self._reporting: Reporting | None = None

    def connect(self, *, own_sink: bool) -> None:
        """Start the thread, and with a server the way of events out and of the desired state in."""
        self._is_connected = True
        recovery, identity = self._recovery, self._recovery.identity
        if identity.url and own_sink:
            from recovery_ops.runtime.connection import open_link, open_telemetry

            self._telemetry = open_telemetry(identity, recovery.clock)
            recovery.use_sink(self._telemetry)
            self._link = open_link(identity, recovery, self._telemetry)
        self._start()

    def round(self) -> None:
        """One round: what time changed, and what is due to be told."""
        recovery = self._recovery
        now = recovery.clock.now()
        recovery.sweep()
        if now - self._told_rejections_at >= REJECTIONS_S:
            self._tell_rejections(now)
        if now - self._told_counts_at >= COUNTS_S:
            self._tell_counts(now)
        if now >= self._next_heartbeat_at or self._posture()[0] != self._told_status:
            self._next_heartbeat_at = now + HEARTBEAT_S
            self._tell_heartbeat(now)
        if self._is_connected and now >= self._next_status_at:
            self._next_status_at = now + STATUS_S
            self._status_files().write(recovery, self.undelivered)
        if now - self._began >= SETTINGS_AFTER_S:
            self._tell_settings()
            if self._link is None or self._link.was_heard:  # what lies on disk may have been taken back since
                self._retries.round()

    def _status_files(self) -> ModuleType:
        """The module of status files, imported in the background: it needs more of Python than a call does."""
        with forks.not_while_importing():
            from recovery_ops.runtime.process import status_files
        return status_files

    def flush(self, timeout_s: float) -> bool:
        """Tell what was summed up so far, and hand everything on."""
        now = self._recovery.clock.now()
        self._tell_rejections(now)
        self._tell_counts(now)
        return self._telemetry.flush(timeout_s) if self._telemetry else True

    @property
    def undelivered(self) -> int:
        """Number of events that no server has received yet."""
        return self._telemetry.pending if self._telemetry else 0

    def close(self, timeout_s: float) -> None:
        """The last events of this process, then silence."""
        self._stop.set()
        if self._link is not None:
            self._link.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=1.0)
        now = self._recovery.clock.now()
        self._tell_rejections(now)
        self._tell_counts(now)
        if self._is_connected:
            self._tell_heartbeat(now, is_last=True)
            self._status_files().remove(self._recovery)
            self._is_connected = False
        if self._telemetry is not None:
            self._telemetry.close(timeout_s)

    def after_fork(self) -> None:
        """In the child: threads do not survive a fork, so the child starts its own."""
        self._stop = threading.Event()
        self._thread = None
        self._begin()
        self._retries.after_fork()
        if self._is_connected:
            self._start(ROUND_S)  # by then the other parts of the runtime have become the child's, too

    def _start(self, first_wait_s: float = 0.0) -> None:
        self._thread = threading.Thread(
            target=self._work, args=(first_wait_s,), name="recovery-ops-housekeeper", daemon=True
        )
        self._thread.start()

    def _work(self, first_wait_s: float) -> None:
        stop = self._stop
        stop.wait(first_wait_s)
        while not stop.is_set():
            try:
                self.round()
            except Exception as error:  # the agent must not feel our trouble; the next round tries again
                self._notices.once("round", "recovery-ops could not do its rounds (%r); calls are not affected", error)
            else:
                self._notices.over("recovery-ops does its rounds again", "round")
            stop.wait(ROUND_S)

    def _tell_rejections(self, now: float) -> None:
        recovery = self._recovery
        self._told_rejections_at = now
        with recovery.lock:
            for event in recovery.rejections.taken(now):
                recovery.emit(event)

    def _tell_counts(self, now: float) -> None:
        recovery, interval_s = self._recovery, now - self._told_counts_at
        self._told_counts_at = now
        with recovery.lock:
            for operation in recovery.operations.values():
                for cell in operation.cells.values():
                    counted = cell.counted(
                        operation.name, operation.place.breaker, interval_s, operation.standing.provider
                    )
                    if counted is not None:
                        recovery.emit(counted, source=cell.source)

    def _tell_settings(self) -> None:
        if self._reporting is None:
            with forks.not_while_importing():
                from recovery_ops.runtime.config.effective import Reporting

            self._reporting = Reporting(self._recovery)
        for event in self._reporting.news():
            self._recovery.emit(event)

    def _posture(self) -> tuple[str, bool, int]:
        """How it stands, whether new work is taken, and how many runs are in hand."""
        with self._recovery.lock:
            held, runs = self._recovery.pause(), len(self._recovery.runs_in_flight)
        if held is None:
            return "running", True, runs
        if held.is_stop:
            return "stopping" if runs else "stopped_by_operator", False, runs
        return "draining" if runs else "drained", False, runs

    def _tell_heartbeat(self, now: float, *, is_last: bool = False) -> None:
        recovery = self._recovery
        self._told_status, takes, runs = self._posture()
        status = "stopped" if is_last else self._told_status
        recovery.emit(
            InstanceHeartbeat(
                interval_s=HEARTBEAT_S,
                uptime_s=round(now - self._began, 3),
                revision=recovery.desired.revision,
                config_hash=recovery.desired.config_hash,
                schema_version=SCHEMA_VERSION,
                status=status,
                breakers_open=recovery.operations.open_breakers(),
                runs_in_flight=runs,
                takes_new_work=takes,
                takes_retries=self._retries.on_retry is not None,
                outbox_pending=self.undelivered,
                outbox_dropped=self._telemetry.dropped if self._telemetry else 0,
                **_spending(recovery),
            )
        )


class _Spent(TypedDict, total=False):
    """The fields of a heartbeat about spend accounts."""

    spend_ledger: str
    spent_calls: dict[str, int]
    spent_tokens: dict[str, int]
    spent_cost_usd: dict[str, float]
    cap_raises: dict[str, int]


def _spending(recovery: Engine) -> _Spent:
    """What the accounts of today and of runs under way have spent in all; nothing without caps."""
    accounts = recovery.spend_accounts
    if accounts is None or not recovery.desired.policy.spend_caps.is_on:
        return {}
    with recovery.lock:
        runs = {scopes[0].root_run_id for scopes in recovery.runs_in_flight.values() if scopes}
    found = accounts.balances(runs)
    if found is None:
        return {}
    states = found.accounts.items()
    return {
        "spend_ledger": found.ledger,
        "spent_calls": {name: one.spent.calls for name, one in states},
        "spent_tokens": {name: round(one.spent.tokens) for name, one in states},
        "spent_cost_usd": {name: round(one.spent.cost_usd, 6) for name, one in states},
        "cap_raises": {name: one.raises for name, one in states if one.raises},
    }
