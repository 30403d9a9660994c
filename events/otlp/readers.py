"""Has large requests read in a process of its own, where one process has all else to do.

On SQLite one process takes requests, stores facts and shows pages, and Python runs one thread at a time: reading is
close to half of what a request costs, and pages wait for it. So a second process is started when two large requests
are often to be read at once, and ended when it had nothing to do for a while. It gets a body and gives rows, and knows
nothing else; whatever goes wrong with it, the request is read here, as if it had never been.

What needs the database to be read – exceptions in logs, by the rules of the environment's policy; spans – is read here.
"""

from __future__ import annotations

import logging
import marshal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from operator import attrgetter
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import orjson
from django.conf import settings

from events.ingest.cleaning import Cleaner, cleaner_for
from events.ingest.masking import cleaner_of
from events.ingest.records import AgentName, Intake, Row
from events.ingest.trouble import TroubleLog
from events.otlp.bodies import Room, Share, inflate
from events.otlp.reading import read_log_records
from events.otlp.refused import Refused
from events.otlp.sent import Encoding
from recovery_ops.rules.policy.classification_rules import ClassificationRule
from recovery_ops.rules.policy.masking_rules import masking_document, parse_masking
from recovery_ops.rules.policy.settings import Problem

logger = logging.getLogger(__name__)

COMMAND = ("-m", "events.otlp.reader")
LEAST_BYTES = {False: 2**15, True: 2**12}
"""Smaller bodies, by whether they are compressed, are read where they are: asking somebody would cost as much."""
MOST_BYTES = 2**22
"""Larger ones, before and after inflating, are, too: what is held is counted there."""
CROWDED = 20
CROWDED_WITHIN_S = 5.0
"""So often two had to be read at once, within this time, before a process is started for it."""
LOOK_S = 1.0
STARTING_LOOK_S = 0.1
IDLE_S = 60.0
"""After so long without work the process ends; the next two large requests start it again."""
START_WITHIN_S = 30.0
ANSWER_WITHIN_S = 4.0
"""It takes a fraction of a second; who waited in vain has time left to be read here (`ingest.WAIT_S`)."""
START_AGAIN_S = 30.0
"""After it was lost, none is started for so long."""
_EXCEPTION = b"exception."
"""How the attributes of an exception begin."""
_COLUMNS = (
    *("environment", "uid", "event", "at_us", "received_us", "stated_us", "sequence_number", "severity"),
    *("operation", "breaker", "source", "is_foreground", "run", "category", "state", "provider", "model", "region"),
    *("trace_id", "span_id", "attributes_json", "body"),
)
_columns = attrgetter(*_COLUMNS)
"""The columns of a row, in their order, up to its agent."""


# -- what both processes say to each other -----------------------------------------------------------------------------

READY = repr((_COLUMNS, [one.name for one in fields(Row)], sys.version_info[:3], marshal.version)).encode()
"""What the process says when it reads. It is started from the files as they are then; where an upgrade was laid over
those of a server that runs, it would tell rows in another shape."""


class Asked(NamedTuple):
    """A request with log records, beside its body."""

    encoding: Encoding
    coding: str
    """How the body is compressed: `gzip`, `deflate` or empty."""
    environment: str
    received_us: int
    key_prefix: str
    most_bytes: int
    """The largest body, inflated."""


def answer(task: bytes, body: bytes) -> bytes:
    """In the reading process: what a request holds, or nothing where whoever asks has to read it.

    Whatever is wrong with a request is told where it is read again, with all that belongs to it.
    """
    *told, masking = marshal.loads(task)  # noqa: S302  # nosec B302  # our own parent
    asked = Asked(*told)
    try:
        body = _inflated(body, asked)
        intake = read_log_records(
            Encoding(asked.encoding),
            body,
            environment=asked.environment,
            received_us=asked.received_us,
            key_prefix=asked.key_prefix,
            rules=_no_rules,
            cleaner=_cleaner(masking),
        )
        return _packed(intake, len(body))
    except Exception:  # a request that is broken, too large, or needs a policy; or a fault of ours
        return b""


def _inflated(body: bytes, asked: Asked) -> bytes:
    if asked.coding:
        with Room(2 * MOST_BYTES).share() as share:
            body = inflate(body, asked.coding, share, most_bytes=min(asked.most_bytes, MOST_BYTES))
    if _EXCEPTION in body:
        raise LookupError("the rules of a policy are in the database")
    return body


def _no_rules() -> tuple[ClassificationRule, ...]:
    raise LookupError("the rules of a policy are in the database")


def _cleaner(masking: bytes) -> Cleaner:
    problems: list[Problem] = []
    cleaner = cleaner_for(parse_masking(orjson.loads(masking) if masking else None, "masking", problems))
    if problems:
        raise ValueError(f"what is hidden cannot be read: {problems}")
    return cleaner


def _packed(intake: Intake, size: int) -> bytes:
    """What was read of a body of so many bytes. Raises ValueError for what cannot be told in plain values."""
    places: dict[AgentName, int] = {}
    agents = [places.setdefault(row.agent, len(places)) for row in intake.rows]
    names = [tuple(name) for name in places]
    attributes = [row.attributes for row in intake.rows]
    refused = [(one.reason, one.content, one.encoding and one.encoding.value, one.size_bytes) for one in intake.refused]
    rows = (names, agents, list(map(_columns, intake.rows)), attributes)
    return marshal.dumps((size, (rows, refused, intake.ignored, dict(intake.remarks))))


def _unpack(told: Sequence[Any], intake: Intake) -> None:
    """Put what was told into an intake that is otherwise what was asked."""
    (names, agents, rows, attributes), refused, intake.ignored, remarks = told
    known = [AgentName(*name) for name in names]
    intake.rows = [
        Row(*columns, known[agent], given)  # type: ignore[call-arg]  # it takes the star for more than it is
        for columns, agent, given in zip(rows, agents, attributes, strict=True)
    ]
    intake.refused = [
        Refused(reason, content, kind and Encoding(kind), size) for reason, content, kind, size in refused
    ]
    intake.remarks = Counter(remarks)


# -- the process that asks ---------------------------------------------------------------------------------------------


class Lost(Exception):
    """The reading process is gone, or says nothing."""


class _Reader:
    """A process, and a socket to it for each thread that may ask at the same time. Raises Lost from the start on."""

    def __init__(self, lanes: int) -> None:
        pairs = [Pipe() for _ in range(lanes)]
        theirs = [pair[1].fileno() for pair in pairs]
        self._process = subprocess.Popen(  # our own command
            [sys.executable, *COMMAND, *map(str, theirs)],
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.DEVNULL,
            pass_fds=theirs,
            start_new_session=True,
        )
        for _, end in pairs:
            end.close()
        self._lanes = [pair[0] for pair in pairs]
        self._free: SimpleQueue[Connection] = SimpleQueue()
        self._asked_at: dict[Connection, float] = {}
        self._used_at = time.monotonic()
        self.is_lost = False

    def get_ready(self, is_over: threading.Event) -> bool:
        """Wait until it reads; False where it is over before. Raises Lost."""
        first = self._lanes[0]
        self.is_lost = True
        give_up_at = time.monotonic() + START_WITHIN_S
        try:
            first.send_bytes(settings.SECRET_KEY.encode())
            while not first.poll(STARTING_LOOK_S):
                if is_over.is_set():
                    return False
                if time.monotonic() > give_up_at:
                    raise Lost(f"it was not ready within {START_WITHIN_S:g} s")
            if first.recv_bytes() != READY:
                raise Lost("it is of another version than this server: restart that one")
        except (EOFError, OSError) as error:
            raise Lost("it ended while it started") from error
        self.is_lost = False
        for lane in self._lanes:
            self._free.put(lane)
        return True

    def ask(self, task: bytes, body: bytes) -> bytes | None:
        """Its answer; None where all lanes are taken. Raises Lost."""
        try:
            lane = self._free.get_nowait()
        except Empty:
            return None
        self._used_at = self._asked_at[lane] = time.monotonic()
        try:
            lane.send_bytes(task)
            lane.send_bytes(body)
            found = lane.recv_bytes()
        except (EOFError, OSError) as error:
            self.is_lost = True
            raise Lost("it ended, or was ended because it said nothing") from error
        finally:
            del self._asked_at[lane]
        self._free.put(lane)
        return found

    def is_wanted(self, now: float) -> bool:
        """Whether it is still wanted. What says nothing is killed: whoever waits for it, in whatever call, goes on."""
        if any(now - asked_at > ANSWER_WITHIN_S for asked_at in tuple(self._asked_at.values())):
            self.is_lost = True
        return not self.is_lost and now - self._used_at < IDLE_S

    def end(self) -> None:
        """End it: once what it was asked is answered, or at once where it is lost."""
        if not self.is_lost:
            with suppress(Empty):
                for _ in self._lanes:
                    self._free.get(timeout=ANSWER_WITHIN_S)
        self._process.kill()
        self._process.wait()
        while self._asked_at:
            time.sleep(0.01)  # a moment: those who waited are told by the end of their sockets
        for lane in self._lanes:
            lane.close()


class Readers:
    """Has requests read beside. At most one process at a time, and none where `is_allowed` is False."""

    def __init__(self, lanes: int, *, is_allowed: bool) -> None:
        self._lanes = lanes
        self._is_allowed = is_allowed
        self._lock = threading.Lock()
        self._troubles = TroubleLog(logger)
        self.ready = threading.Event()
        """Set while somebody reads beside us."""
        self._reading = 0
        self._crowded_at: deque[float] = deque(maxlen=CROWDED)
        self._reader: _Reader | None = None
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()
        self._start_again_at = 0.0

    def start(self) -> None:
        """Have a process started, if there is none and may be one; `ready` is set when it reads."""
        with self._lock:
            if self._is_allowed and self._thread is None and not self._is_over.is_set():
                thread = threading.Thread(target=self._keep, name="reader", daemon=True)
                thread.start()  # it waits for the lock before it leaves
                self._thread = thread

    def read_logs(self, asked: Asked, body: bytes, share: Share) -> Intake | None:
        """What a request holds; None where it has to be read here. Raises BodyRefused where there is no room for it."""
        reader = self._reader
        if reader is None or not _is_large(asked, body):
            return None
        cleaner = cleaner_of(asked.environment)
        masking = orjson.dumps(masking_document(cleaner.masking)) if cleaner.masking else b""
        intake = Intake(asked.environment, asked.received_us, asked.key_prefix, cleaner=cleaner)
        intake.encoding = asked.encoding
        try:
            told = reader.ask(marshal.dumps((asked.encoding.value, *asked[1:], masking)), body)
            if not told:
                return None
            size, content = marshal.loads(told)  # noqa: S302  # nosec B302  # our own child
            share.take(size if asked.coding else 0)
            _unpack(content, intake)
        except Lost:
            return None
        except (ValueError, TypeError, LookupError, EOFError) as error:
            reader.is_lost = True
            self._troubles.note("what was read beside cannot be understood", error)
            return None
        return intake

    @contextmanager
    def counted(self, asked: Asked, body: bytes) -> Iterator[None]:
        """Count who reads large requests at the same time; have a process started where that is often more than one."""
        if not _is_large(asked, body):
            yield
            return
        with self._lock:
            self._reading += 1
            is_wanted = self._reading > 1 and self._thread is None and self._is_often(time.monotonic())
        try:
            if is_wanted:
                self.start()
            yield
        finally:
            with self._lock:
                self._reading -= 1

    def close(self) -> None:
        """End the process, once what it was asked is answered."""
        with self._lock:
            self._is_over.set()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _is_often(self, now: float) -> bool:
        self._crowded_at.append(now)
        is_often = len(self._crowded_at) == CROWDED and now - self._crowded_at[0] < CROWDED_WITHIN_S
        return is_often and now >= self._start_again_at

    def _keep(self) -> None:
        """Start the process, look after it, end it."""
        reader = None
        try:
            reader = _Reader(self._lanes)
            if not reader.get_ready(self._is_over):
                return
            self._reader = reader
            self.ready.set()
            while not self._is_over.wait(LOOK_S) and reader.is_wanted(time.monotonic()):
                pass
            if reader.is_lost:
                raise Lost("it ended, or said nothing for too long")
        except (Lost, OSError) as error:
            self._troubles.note("the process that reads requests is lost; they are read here", error)
            self._start_again_at = time.monotonic() + START_AGAIN_S
        finally:
            self._reader = None
            self.ready.clear()
            if reader is not None:
                reader.end()
            with self._lock:
                self._crowded_at.clear()
                self._thread = None


def _is_large(asked: Asked, body: bytes) -> bool:
    return LEAST_BYTES[bool(asked.coding)] <= len(body) <= MOST_BYTES
