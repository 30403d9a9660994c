"""How fast messages go out, and how soon an outage is seen meanwhile: by one worker, and by two.

A real outbox on PostgreSQL, a Redis, a scheduler and workers as `docs/production` starts them, and a receiver that
takes its time for each message. The second worker comes and goes in one deployment, in turns, so that its share is of
one run. SQLite has one process, and in it the one worker that it can have.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import redis

from recovery_ops.bench.cluster import NoPostgres, cluster
from recovery_ops.bench.detection import NotHere, a_redis, running, seen_after_s
from recovery_ops.bench.figures import Figure, Report
from recovery_ops.bench.served import Server, commanded, environment_of, served

MESSAGES = 200
WAITS_S = (0.0, 0.25)
"""How long the receiver takes for a message: as good as nothing, and what a vendor's address takes."""
ROUNDS = 2
WITHIN_S = 300.0


@dataclass(slots=True)
class Receiver:
    """Listens on a free port. `arrived` is when each message came, on the monotonic clock, by its number."""

    wait_s: float = 0.0
    arrived: dict[str, float] = field(default_factory=dict)
    twice: int = 0
    host: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, body: bytes) -> None:
        """Note a message, after so long."""
        number = str(json.loads(body)["id"])
        time.sleep(self.wait_s)
        with self.lock:
            self.twice += number in self.arrived
            self.arrived[number] = time.monotonic()


@contextmanager
def receiving() -> Iterator[Receiver]:
    """One that answers as long as the context lasts, and that processes started meanwhile may send to."""
    told = Receiver()

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing to the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        told.host = f"127.0.0.1:{server.server_address[1]}"
        before = os.environ.get("RECOVERY_OPS_NOTIFY_HOSTS")
        os.environ["RECOVERY_OPS_NOTIFY_HOSTS"] = told.host
        try:
            yield told
        finally:
            os.environ.pop("RECOVERY_OPS_NOTIFY_HOSTS")
            if before is not None:
                os.environ["RECOVERY_OPS_NOTIFY_HOSTS"] = before
            server.shutdown()


@dataclass(frozen=True, slots=True)
class Sent:
    """What a round came to: messages a second from the first to the last, and when an outage was seen meanwhile."""

    per_s: float
    seen_s: float


@dataclass(slots=True)
class _Round:
    """Puts messages into the outbox of one console, and watches them arrive."""

    server: Server
    database_url: str
    receiver: Receiver
    messages: int
    number: int = 0

    def measured(self, wait_s: float) -> Sent:
        """Raises RuntimeError where not all of them arrive."""
        self.number += 1
        self.receiver.wait_s = wait_s
        self.receiver.arrived.clear()
        words = ["-m", "recovery_ops.bench.queued", self.receiver.host, str(self.messages), f"round-{self.number}"]
        commanded(self.server, *words, database_url=self.database_url)
        _until(lambda: bool(self.receiver.arrived), "the first message")
        seen_s = seen_after_s(self.server, f"round-{self.number}")
        _until(lambda: len(self.receiver.arrived) >= self.messages, "the last message")
        moments = sorted(self.receiver.arrived.values())
        return Sent((len(moments) - 1) / max(moments[-1] - moments[0], 1e-9), seen_s)


def measure(engine: str | None = None, messages: int = MESSAGES, rounds: int = ROUNDS) -> list[Report]:
    """On SQLite with the worker inside, and on PostgreSQL and Redis with one worker and with two, in turns."""
    reports = []
    if engine in (None, "sqlite"):
        reports.append(_in_one_process(messages, rounds))
    if engine in (None, "postgresql"):
        reports.append(_by_workers(messages, rounds))
    return reports


def _in_one_process(messages: int, rounds: int) -> Report:
    report = Report("work, SQLite, the worker inside")
    with receiving() as told, served() as server:
        turn = _Round(server, "", told, messages)
        turn.measured(0.0)  # the first is slower: everything is loaded
        for wait_s in WAITS_S:
            sent = [turn.measured(wait_s) for _ in range(rounds)]
            _add(report, wait_s, "the worker inside", sent, None)
        report.add("messages that came twice", told.twice, "messages", aim=0.0)
    return report


def _by_workers(messages: int, rounds: int) -> Report:
    report = Report(f"work, PostgreSQL and Redis, workers of {os.cpu_count()} processes")
    try:
        with receiving() as told, _deployed() as (server, database_url, second):
            turn = _Round(server, database_url, told, messages)
            turn.measured(0.0)
            for wait_s in WAITS_S:
                one, two = [], []
                for _ in range(rounds):
                    one.append(turn.measured(wait_s))
                    with second():
                        two.append(turn.measured(wait_s))
                _add(report, wait_s, "one worker", one, None)
                _add(report, wait_s, "two workers", two, one)
            report.add("messages that came twice", told.twice, "messages", aim=0.0)
    except (NoPostgres, NotHere) as error:
        report.figures.append(Figure("messages sent", None, "/s", note=f"skipped: {error}"))
    return report


def _add(report: Report, wait_s: float, who: str, sent: list[Sent], beside: list[Sent] | None) -> None:
    where = f"the receiver takes {wait_s:g} s" if wait_s else "the receiver takes no time"
    rate = sum(one.per_s for one in sent) / len(sent)
    other = sum(one.per_s for one in beside) / len(beside) if beside else None
    note = f"of {len(sent)} rounds, {min(one.per_s for one in sent):.3g} to {max(one.per_s for one in sent):.3g}"
    report.add(f"{who}, {where}", rate, "/s", beside=other, note=note)
    report.add(f"{who}: an outage seen meanwhile, worst", max(one.seen_s for one in sent), "s")


@contextmanager
def _deployed() -> Iterator[tuple[Server, str, Callable[[], ExitStack]]]:
    """A console with a worker and a scheduler of its own, its database, and what starts one worker more."""
    with ExitStack() as stack:
        database_url = stack.enter_context(cluster()).new_database("work")
        broker_url = stack.enter_context(a_redis())
        server = stack.enter_context(served(database_url, broker_url))
        env = environment_of(server.data, database_url, broker_url)
        celery = [sys.executable, "-m", "celery", "-A", "recovery_ops"]

        def worker(number: int) -> ExitStack:
            words = [*celery, "worker", "--loglevel", "WARNING", "--hostname", f"worker-{number}@bench"]
            with ExitStack() as own:
                own.enter_context(running(words, env, server.data))
                _until(lambda: _readers(broker_url) >= number, f"worker {number}")
                return own.pop_all()

        stack.enter_context(worker(1))
        beat = [*celery, "beat", "--schedule", str(server.data / "beat-of-its-own")]
        stack.enter_context(running(beat, env, server.data))
        yield server, database_url, lambda: worker(2)


def _readers(broker_url: str) -> int:
    """How many workers wait for a task at this moment."""
    try:
        with redis.Redis.from_url(broker_url) as client:
            return int(client.info("clients")["blocked_clients"])
    except redis.ConnectionError:
        return 0


def _until(is_so: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + WITHIN_S
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError(f"{what} was not there within {WITHIN_S:g} s")
        time.sleep(0.02)
