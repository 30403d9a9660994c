"""What runs beside the calls: sweeps, counts and heartbeats, in one daemon thread a process; telemetry and the link."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from recovery_ops.rules.facts import InstanceHeartbeat
from recovery_ops.runtime import forks
from recovery_ops.runtime.notices import Notices
from recovery_ops.runtime.retrying import Retries
from recovery_ops.wire.names import SCHEMA_VERSION

if TYPE_CHECKING:
    from recovery_ops.runtime.desired.link import Link
    from recovery_ops.runtime.in_force import Reporting
    from recovery_ops.runtime.recovery import Recovery
    from recovery_ops.runtime.telemetry import Telemetry

ROUND_S = 0.25
REJECTIONS_S = 1.0
COUNTS_S = 10.0
HEARTBEAT_S = 15.0
SETTINGS_AFTER_S = 1.0
"""Settings are told, and runs begun again, when guards are declared and the server has been heard."""


class Housekeeper:
    """The background side of one `Recovery`."""

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        self._telemetry: Telemetry | None = None
        self._link: Link | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._began = recovery.clock.now()
        self._told_rejections_at = self._told_counts_at = self._began
        self._next_heartbeat_at = self._began
        self._told_posture = (True, False)
        self._is_connected = False
        self._reporting: Reporting | None = None
        self._retries = Retries(recovery)
        self._notices = Notices(logging.getLogger(__name__))

    def connect(self, *, own_sink: bool) -> None:
        """Start the thread, and with a server the way of facts out and of the desired state in."""
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
        if now >= self._next_heartbeat_at or self._posture()[:2] != self._told_posture:
            self._next_heartbeat_at = now + HEARTBEAT_S
            self._tell_heartbeat(now)
        if now - self._began >= SETTINGS_AFTER_S:
            self._tell_settings()
            if self._link is None or self._link.was_heard:  # what lies on disk may have been taken back since
                self._retries.round()

    def flush(self, timeout_s: float) -> bool:
        """Tell what was summed up so far, and hand everything on."""
        now = self._recovery.clock.now()
        self._tell_rejections(now)
        self._tell_counts(now)
        return self._telemetry.flush(timeout_s) if self._telemetry else True

    @property
    def undelivered(self) -> int:
        """How many facts no server has taken yet."""
        return self._telemetry.pending if self._telemetry else 0

    def close(self, timeout_s: float) -> None:
        """The last facts of this process, then silence."""
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
        if self._telemetry is not None:
            self._telemetry.close(timeout_s)

    def after_fork(self) -> None:
        """In the child: threads do not survive a fork, so the child starts its own."""
        self._stop = threading.Event()
        self._thread = None
        self._reporting = None
        self._retries.after_fork()
        if self._is_connected:
            self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="recovery-ops-housekeeper", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        stop = self._stop
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
            for fact in recovery.rejections.taken(now):
                recovery.emit(fact)

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
                from recovery_ops.runtime.in_force import Reporting

            self._reporting = Reporting(self._recovery)
        for fact in self._reporting.news():
            self._recovery.emit(fact)

    def _posture(self) -> tuple[bool, bool, int]:
        """Whether new work is taken, whether none is taken and none is left, and how many runs are in hand."""
        with self._recovery.lock:
            takes, runs = self._recovery.takes_new_work, len(self._recovery.runs_in_flight)
        return takes, not takes and not runs, runs

    def _tell_heartbeat(self, now: float, *, is_last: bool = False) -> None:
        recovery = self._recovery
        takes, is_drained, runs = self._posture()
        self._told_posture = takes, is_drained
        status = "stopped" if is_last else "running" if takes else "drained" if is_drained else "draining"
        recovery.emit(
            InstanceHeartbeat(
                interval_s=HEARTBEAT_S,
                uptime_s=round(now - self._began, 3),
                revision=recovery.desired.revision,
                config_hash=recovery.desired.config_hash,
                schema_version=SCHEMA_VERSION,
                status=status,
                breakers_open=recovery.breakers_not_flowing(),
                runs_in_flight=runs,
                takes_new_work=takes,
                takes_retries=recovery.on_retry is not None,
                outbox_pending=self.undelivered,
                outbox_dropped=self._telemetry.dropped if self._telemetry else 0,
            )
        )
