"""Which desired state this process obeys: judges each document that comes, applies it, tells of it and saves it."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from recovery_ops.rules.desired_state import Desired, Override, Pause, Shed
from recovery_ops.rules.events import DesiredStateApplied, DesiredStateRejected, Event
from recovery_ops.rules.policy.model import Policy
from recovery_ops.runtime.config.server_clock import ServerClock
from recovery_ops.runtime.process.log_messages import TroubleLog

_Timed = TypeVar("_Timed", Override, Shed)

LIMIT_BYTES = 4 * 1024 * 1024
SKEW_S = 2.0
"""Clocks that differ by less are left alone: so much a Date header cannot tell."""
_REASON_LENGTH = 1000


class ConfigReceiver:
    """Applies documents in the order of their revisions, and never goes back.

    Except once: a server with a new database counts from the beginning again. It is believed when it gives the same
    lower revision on two connections in a row (a replica that lags, or a proxy with an old copy, does not).

    Overrides, pauses and shed load state their times by the server's clock. When that is more than 2 s away from this
    machine's, they are converted before they are applied, and again when the difference has changed by as much, so that
    they begin and end when they were meant to.

    What cannot be read or applied changes nothing: DesiredStateRejected says why, once for each document and reason.
    """

    def __init__(
        self,
        *,
        on_desired: Callable[[Desired], Sequence[str]],
        emit: Callable[[Event], None],
        store: Path | None,
        server_clock: ServerClock,
    ) -> None:
        self._on_desired = on_desired
        self._emit = emit
        self._store = store
        self._server_clock = server_clock
        self._notices = TroubleLog(logging.getLogger(__name__))
        self._lock = threading.RLock()
        self._desired: Desired | None = None
        self._known: tuple[object, Policy] | None = None
        self._clamped: tuple[str, ...] = ()
        self._offset_used_s = 0.0
        self._is_told = True
        self.was_heard = False
        """Whether the server has told this process its state: what lies on disk may be another instance's, or old."""
        self._lower: tuple[int, str] | None = None
        self._last_rejection: tuple[int, str, str] | None = None

    @property
    def revision(self) -> int:
        """The revision obeyed; 0 before there was any."""
        return self._desired.revision if self._desired else 0

    @property
    def config_hash(self) -> str:
        """The hash of the document obeyed; empty before there was any."""
        return self._desired.config_hash if self._desired else ""

    def restore(self) -> None:
        """Obey the last known document, from disk, until the server has been heard."""
        if self._store is None or not self._store.exists():
            return
        try:
            if self._store.stat().st_size > 2 * LIMIT_BYTES:
                raise ValueError("it is too long")
            kept = json.loads(self._store.read_bytes())
            document, offset_s = kept["document"], float(kept.get("server_offset_s", 0.0))
            if math.isfinite(offset_s):
                self._server_clock.recall(offset_s)
            with self._lock:
                self._obey(self._parsed(document), None)
        except Exception as error:  # a damaged file, or one of another version: as if there were none
            self._notices.once(
                "restore", "recovery-ops: the last desired state in %s cannot be used: %s", self._store, error
            )

    def consider(self, text: str | bytes, *, hint: str = "") -> bool:
        """Judge a document; False if the connection is to be ended and the server asked again, to be believed.

        `hint` is the revision that the document was announced with.
        """
        document: object = None
        with self._lock:
            try:
                document = json.loads(text)
                desired = self._parsed(document)
            except Exception as error:  # whatever a lying server can make a parser raise
                self._reject(*_named(document, hint), f"{type(error).__name__}: {error}")
                return True
            self._server_clock.note_issued(desired.issued_at)
            if not self._is_believed(desired):
                return False
            self.was_heard = True
            if (desired.revision, desired.config_hash) != (self.revision, self.config_hash) or self._desired is None:
                self._obey(desired, document)
            else:
                self.keep_time()
                self._tell()
            return True

    def keep_time(self) -> None:
        """Convert the overrides anew if the difference of the clocks has changed."""
        with self._lock:
            desired = self._desired
            if desired is None or not (desired.overrides or desired.shed or desired.sheds_ahead or desired.pauses):
                return
            if abs(self._server_clock.offset_s - self._offset_used_s) > SKEW_S:
                self._apply(desired)

    def reject(self, reason: str) -> None:
        """A document came that was not even whole or of bounded length."""
        with self._lock:
            self._reject(0, "", reason)

    def after_fork_in_child(self) -> None:
        """The child obeys what its parent obeyed, and tells so itself; the file stays the parent's."""
        self._lock = threading.RLock()
        self._store = None
        self._is_told = self.was_heard = False

    def _parsed(self, document: object) -> Desired:
        # Here, because it takes a while to load and only the link's thread needs it.
        from recovery_ops.wire import parse_desired

        desired = parse_desired(document, known=self._known)
        if isinstance(document, dict):
            self._known = (document.get("policy"), desired.policy)
        return desired

    def _is_believed(self, desired: Desired) -> bool:
        if self._desired is None or desired.revision >= self._desired.revision:
            self._lower = None
            return True
        seen, self._lower = self._lower, (desired.revision, desired.config_hash)
        if seen != self._lower:
            return False
        self._lower = None
        logging.getLogger(__name__).warning(
            "recovery-ops: the server counts revisions anew (%d after %d): its state is taken over",
            desired.revision,
            self._desired.revision,
        )
        return True

    def _obey(self, desired: Desired, document: object) -> None:
        """Apply, tell, and only then save: an override must not wait for a disk."""
        try:
            self._apply(desired)
        except Exception as error:  # what applies it is not ours; the old state stays
            self._reject(desired.revision, desired.config_hash, f"{type(error).__name__}: {error}")
            return
        self._desired, self._is_told, self._last_rejection = desired, False, None
        self._tell()
        if document is not None:
            self._save(document)

    def _apply(self, desired: Desired) -> None:
        offset_s = self._server_clock.offset_s
        self._clamped = tuple(self._on_desired(_in_local_time(desired, offset_s)))
        self._offset_used_s = offset_s

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            self._emit(DesiredStateApplied(revision=self.revision, config_hash=self.config_hash, clamped=self._clamped))

    def _reject(self, revision: int, config_hash: str, reason: str) -> None:
        rejection = (revision, config_hash, reason[:_REASON_LENGTH])
        if rejection != self._last_rejection:
            self._last_rejection = rejection
            self._emit(
                DesiredStateRejected(
                    revision=revision, config_hash=config_hash, reason=rejection[2], kept_revision=self.revision
                )
            )

    def _save(self, document: object) -> None:
        if self._store is None:
            return
        kept = {"document": document, "server_offset_s": round(self._server_clock.offset_s, 3)}
        # Two of one service in one process share the file they save in, not the one they write.
        beside = self._store.with_name(f"{self._store.name}.{os.getpid()}-{id(self):x}.new")
        try:
            self._store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            text = json.dumps(kept)  # not `dump`: piece by piece, in Python, it takes four times as long
            with open(beside, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self._store)
            self._notices.over("recovery-ops: the desired state can be saved again", "save")
        except (OSError, ValueError) as error:
            self._notices.once("save", "recovery-ops: the desired state cannot be saved in %s: %s", self._store, error)
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)


def _named(document: object, hint: str) -> tuple[int, str]:
    """The revision and hash of a document that may not be one."""
    given: Mapping[str, Any] = document if isinstance(document, dict) else {}
    revision = given.get("revision")
    if not isinstance(revision, int) or isinstance(revision, bool) or not 0 <= revision < 2**63:
        revision = int(hint) if hint.isascii() and hint.isdigit() and len(hint) < 19 else 0
    return revision, str(given.get("config_hash", ""))[:128]


def _in_local_time(desired: Desired, offset_s: float) -> Desired:
    """The same state with the times of its overrides, its pauses and of shed load by this machine's clock."""
    if abs(offset_s) <= SKEW_S:
        return desired
    return replace(
        desired,
        overrides=tuple(_moved(one, offset_s) for one in desired.overrides),
        shed=None if desired.shed is None else _moved(desired.shed, offset_s),
        sheds_ahead=tuple(_moved(one, offset_s) for one in desired.sheds_ahead),
        pauses=tuple(_moved_end(one, offset_s) for one in desired.pauses),
    )


def _moved_end(one: Pause, offset_s: float) -> Pause:
    return one if one.expires_at is None else replace(one, expires_at=one.expires_at - offset_s)


def _moved(one: _Timed, offset_s: float) -> _Timed:
    return replace(one, starts_at=one.starts_at - offset_s, expires_at=one.expires_at - offset_s)
