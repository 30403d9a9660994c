"""Sends what waits in the outbox to the server, in order, until the server says that it has it."""

from __future__ import annotations

import gzip
import logging
import random
import threading
from collections.abc import Callable, Iterator
from enum import Enum, auto
from itertools import groupby
from typing import TYPE_CHECKING

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.runtime.http.addresses import checked_key, checked_url
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.process.log_messages import TroubleLog
from recovery_ops.runtime.process.poll_intervals import Pace
from recovery_ops.runtime.telemetry.outbox import Batch, Outbox, Row

if TYPE_CHECKING:
    from recovery_ops.runtime.http.transport import Answer, Transport

PATH = "/v1/logs"
MEDIA_TYPE = "application/x-protobuf"
BATCH_RECORDS = 512
BATCH_BYTES = 4 * 1024 * 1024
_ANSWER_BYTES = 4 * 1024 * 1024
_GZIP_LEVEL = 3
_SMOOTH_DELIVERIES = 8
"""After so many deliveries without a refusal a batch may be twice as large again: a limit may be the server's own."""
_LOOK_AGAIN_S = 30.0
"""How often an idle sender asks the outbox all the same: a neighbour may have died and left something."""

_never_closed: list[object] = []

ReadAnswer = Callable[[bytes], tuple[int, str]]
"""Reads an encoded ExportLogsServiceResponse: how many records were rejected, and why; ValueError if it is none."""


class Outcome(Enum):
    """What an answer means for the batch."""

    DELIVERED = auto()
    REFUSED = auto()
    """For what it says: somewhere in the batch is a record that the server will never take."""
    NOT_ALLOWED = auto()
    LATER = auto()


@dataclass(frozen=True, slots=True)
class Judgement:
    """An outcome, why, how many records a delivered batch lost, and the pause that the server asks for."""

    outcome: Outcome
    why: str = ""
    rejected: int = 0
    asked_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The sender's times, in seconds."""

    timeout_s: float = 10.0
    linger_s: float = 0.2
    """How long an event waits for company; urgent ones do not."""
    floor_s: float = 0.2
    first_s: float = 0.4
    cap_s: float = 30.0
    not_allowed_first_s: float = 2.0
    not_allowed_cap_s: float = 60.0


class Exporter:
    """One daemon thread, one request at a time. Nothing of it is ever in the caller's thread.

    Only 200 with the right content type and a body that can be read is a yes, and only a yes removes anything from
    the outbox. 400 and 413 are about the batch: it is halved until the bad record stands alone and is set aside.
    401 and 403 keep everything and ask again each minute at most; so does everything else, at its own pace and
    never sooner than the server's Retry-After. A batch that is sent again carries the same uids.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
        timing: Timing | None = None,
    ) -> None:
        self.url = checked_url(url)
        self._key = checked_key(key)
        self._clock = clock or Clock()
        self._timing = timing or Timing()
        times = self._timing
        self._pace = Pace(floor_s=times.floor_s, first_s=times.first_s, cap_s=times.cap_s, chance=chance)
        self._pace_not_allowed = Pace(
            floor_s=times.not_allowed_first_s / 2,
            first_s=times.not_allowed_first_s,
            cap_s=times.not_allowed_cap_s,
            chance=chance,
        )
        self._notices = TroubleLog(logging.getLogger(__name__))
        self.rejected = 0
        """Records that the server took note of and did not store, by its own word (`partial_success`)."""
        self._outbox: Outbox | None = None
        self._read_answer: ReadAnswer | None = None
        self._prepare_thread: Callable[[], None] = _nothing
        self._begin()

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._transport: Transport | None = None
        self._is_closing = False
        self._is_urgent = False
        self._is_pushed = False
        self._failures = 0
        self._look_next_at = self._clock.now()
        self._rest_until = 0.0
        self._is_rest_asked_for = False
        self._most = BATCH_RECORDS
        self._smooth_deliveries = 0

    def start(self, outbox: Outbox, read_answer: ReadAnswer, prepare_thread: Callable[[], None] | None = None) -> None:
        """Begin to send what is in the outbox. `prepare_thread` runs first in the sender's thread."""
        with self._changed:
            self._outbox, self._read_answer = outbox, read_answer
            self._prepare_thread = prepare_thread or _nothing
            if self._thread is None and not self._is_closing:
                self._thread = threading.Thread(target=self._run, name="recovery-ops-sender", daemon=True)
                self._thread.start()

    def notify(self, *, is_urgent: bool = False) -> None:
        """There is something new in the outbox."""
        with self._changed:
            self._is_urgent = self._is_urgent or is_urgent
            self._changed.notify_all()

    def push(self, timeout_s: float) -> bool:
        """Try now, whatever the sender's own pace says (but not before a pause the server asked for is over).

        True once everything that waited is delivered; False as soon as a try has failed, or at the timeout.
        """
        with self._changed:
            outbox, failures = self._outbox, self._failures
            if outbox is None or self._thread is None:
                return False
            self._is_pushed = True
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: outbox.pending == 0 or self._failures > failures or self._is_silenced() or self._is_closing,
                timeout_s,
            )
            self._is_pushed = False
            return outbox.pending == 0

    def close(self, timeout_s: float = 2.0) -> None:
        """Stop after the request that is under way; what is not delivered stays in the outbox."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def after_fork_in_child(self) -> None:
        """The thread and the connections are the parent's; `start` begins anew."""
        transport, was_closing = self._transport, self._is_closing
        self._begin()
        self._is_closing = was_closing
        # The pool has locks that the parent's thread may have held: here it is neither used nor ever taken apart.
        _never_closed.append(transport)

    # The thread.

    def _run(self) -> None:
        try:
            with forks.not_while_importing():
                from recovery_ops.runtime.http.transport import Transport

                self._prepare_thread()
            self._transport = Transport(self.url, self._key, self._clock)
            while self._wait_for_work():
                self._work()
        except Exception:
            logging.getLogger(__name__).exception("recovery-ops: nothing can be sent by this process; events are kept")
        finally:
            if self._transport is not None:
                self._transport.close()
            with self._changed:
                self._is_closing = True
                self._changed.notify_all()

    def _work(self) -> None:
        try:
            self._send_next()
        except Exception:
            # A defect of ours must neither end the thread nor make it spin.
            logging.getLogger(__name__).exception("recovery-ops: a batch of events could not be handled; it is kept")
            self._rest(Judgement(Outcome.LATER, "defect"))

    def _wait_for_work(self) -> bool:
        """Wait until something is to be sent and may be sent; False when the sender is to stop."""
        outbox = self._outbox
        with self._changed:
            while not self._is_closing and outbox is not None:
                now = self._clock.now()
                if now < self._rest_until and (self._is_rest_asked_for or not self._is_pushed):
                    self._changed.wait(self._rest_until - now)
                elif outbox.pending:
                    self._linger(outbox)
                    return not self._is_closing
                elif now >= self._look_next_at:
                    self._look_next_at = now + _LOOK_AGAIN_S
                    return True
                else:
                    self._changed.notify_all()
                    self._changed.wait(self._look_next_at - now)
            return False

    def _linger(self, outbox: Outbox) -> None:
        self._changed.wait_for(
            lambda: self._is_urgent or self._is_pushed or self._is_closing or outbox.pending >= BATCH_RECORDS,
            self._timing.linger_s,
        )
        self._is_urgent = False

    def _is_silenced(self) -> bool:
        return self._is_rest_asked_for and self._clock.now() < self._rest_until

    def _send_next(self) -> None:
        outbox = self._outbox
        batch = outbox.take(records=self._most, size_bytes=BATCH_BYTES) if outbox is not None else None
        if outbox is None or batch is None:
            return
        judged = self._post(batch)
        if judged.outcome is Outcome.DELIVERED:
            outbox.delivered(batch)
            self._note_delivery(judged)
        elif judged.outcome is Outcome.REFUSED:
            self._narrow(outbox, batch, judged)
        else:
            outbox.give_back(batch)
            self._rest(judged)

    def _post(self, batch: Batch) -> Judgement:
        from recovery_ops.runtime.http.transport import NoAnswer

        if self._transport is None or self._read_answer is None:
            return Judgement(Outcome.LATER, "not started")
        headers = {"Content-Type": MEDIA_TYPE, "Content-Encoding": "gzip"}
        body = gzip.compress(export_request(batch.rows), _GZIP_LEVEL, mtime=0)
        try:
            answer = self._transport.ask(
                "POST", PATH, headers=headers, body=body, timeout_s=self._timing.timeout_s, limit_bytes=_ANSWER_BYTES
            )
        except NoAnswer as error:
            return Judgement(Outcome.LATER, str(error))
        return judge(answer, self._read_answer, self._clock.wall())

    def _note_delivery(self, judged: Judgement) -> None:
        self._pace.succeeded()
        self._pace_not_allowed.succeeded()
        self._notices.over("recovery-ops: events are delivered again", "later", "not allowed")
        self._smooth_deliveries += 1
        if self._smooth_deliveries >= _SMOOTH_DELIVERIES:
            self._most, self._smooth_deliveries = min(2 * self._most, BATCH_RECORDS), 0
        if judged.rejected:
            self.rejected += judged.rejected
            self._notices.once(
                "rejected", "recovery-ops: the server did not store %d records: %s", judged.rejected, judged.why
            )

    def _narrow(self, outbox: Outbox, batch: Batch, judged: Judgement) -> None:
        """Halve the batch; a record that stands alone is the bad one. The neighbours go out as they were."""
        self._smooth_deliveries = 0
        if len(batch.rows) > 1:
            outbox.give_back(batch)
            self._most = len(batch.rows) // 2
            return
        outbox.set_aside(batch, judged.why)
        self._most = BATCH_RECORDS
        self._notices.once("refused", "recovery-ops: the server refuses a record, it is set aside: %s", judged.why)

    def _rest(self, judged: Judgement) -> None:
        is_allowed = judged.outcome is not Outcome.NOT_ALLOWED
        wait_s = (self._pace if is_allowed else self._pace_not_allowed).next_s(asked_s=judged.asked_s)
        topic = "later" if is_allowed else "not allowed"
        self._notices.once(topic, "recovery-ops: events wait in the outbox: %s%s: %s", self.url, PATH, judged.why)
        with self._changed:
            self._failures += 1
            self._rest_until = self._clock.now() + wait_s
            self._is_rest_asked_for = judged.asked_s is not None
            self._is_pushed = False
            self._changed.notify_all()


def judge(answer: Answer, read_answer: ReadAnswer, wall: float) -> Judgement:
    """What an answer to a batch means; `wall` is now, in seconds since the epoch."""
    status, asked = answer.status, answer.asked_s(wall)
    if status == 200:
        if answer.media_type != MEDIA_TYPE:
            return Judgement(Outcome.LATER, f"200, but with {answer.media_type or 'no content type'}: no OTLP receiver")
        try:
            rejected, why = read_answer(answer.body)
        except ValueError:
            return Judgement(Outcome.LATER, "200, but with a body that is no OTLP response")
        return Judgement(Outcome.DELIVERED, why, rejected)
    # A 400 in HTML is a proxy's or a wrong server's: it says nothing of the records. A 413 is about size in any case.
    if status == 413 or (status == 400 and answer.media_type in (MEDIA_TYPE, "application/json")):
        return Judgement(Outcome.REFUSED, f"HTTP {status}")
    if status in (401, 403):
        return Judgement(Outcome.NOT_ALLOWED, f"HTTP {status}: the key is not valid or may not ingest", asked_s=asked)
    hint = f" to {answer.headers.get('location', 'nowhere')}: give the final address" if 300 <= status < 400 else ""
    return Judgement(Outcome.LATER, f"HTTP {status}{hint}", asked_s=asked)


def export_request(rows: tuple[Row, ...]) -> bytes:
    """An encoded ExportLogsServiceRequest of rows that are encoded already.

    A protobuf message is the concatenation of its fields, so the stored parts only need their frames: nothing is
    decoded, and what a process encoded before it died goes out byte for byte.
    """
    return b"".join(_resource_logs(rows))


def _resource_logs(rows: tuple[Row, ...]) -> Iterator[bytes]:
    for envelope, group in groupby(rows, key=lambda row: row.entry.envelope):
        records = b"".join(_framed(2, row.entry.content) for row in group)
        scope_logs = _framed(1, envelope.scope) + records
        yield _framed(1, _framed(1, envelope.resource) + _framed(2, scope_logs))


def _framed(field: int, content: bytes) -> bytes:
    """A length-delimited field: its tag, the length as a varint, the content."""
    length, frame = len(content), bytearray([field << 3 | 2])
    while length > 0x7F:
        frame.append(length & 0x7F | 0x80)
        length >>= 7
    frame.append(length)
    return bytes(frame) + content


def _nothing() -> None:
    """No preparation."""
