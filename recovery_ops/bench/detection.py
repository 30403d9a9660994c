"""How soon an outage is seen, end to end: a real server, worker and scheduler; facts over OTLP, asked for by the API.

From the moment at which the burst's fifth failure is acknowledged to the first answer that has the event. Each burst is
another provider's, and begins at another moment between two looks.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from recovery_ops.bench.cluster import NoPostgres, cluster
from recovery_ops.bench.figures import Figure, Report, percentile
from recovery_ops.bench.served import ROOT, Server, environment_of, served
from recovery_ops.wire import names

BURSTS = 6
AIM_S = 10.0
GIVEN_UP_S = 60.0
_ASK_EVERY_S = 0.05
_PERIOD_S, _UNEVEN_S = 5.0, 1.7
"""Each burst begins so much later in the schedule's period than the one before: they wait as long as anybody may."""
FAILURES = 5


class NotHere(Exception):
    """What is needed is not on this machine."""


def measure(engine: str | None = None, bursts: int = BURSTS) -> list[Report]:
    """On SQLite in one process, and on PostgreSQL and Redis with a worker and a scheduler of their own."""
    reports = []
    for name, place in (("sqlite", served), ("postgresql", _deployed)):
        if engine not in (None, name):
            continue
        where = "SQLite, one process" if name == "sqlite" else "PostgreSQL and Redis, a worker and a scheduler"
        report = Report(f"an outage seen, {where}")
        reports.append(report)
        try:
            with place() as server:
                times = []
                for number in range(bursts):
                    # The one before was seen at a look, so this is how far into the next period it begins.
                    time.sleep(number * _UNEVEN_S % _PERIOD_S)
                    times.append(seen_after_s(server, f"burst-{number}"))
        except (NoPostgres, NotHere) as error:
            report.figures.append(Figure("seen after", None, "s", note=f"skipped: {error}"))
            continue
        note = "from the fifth failure's acknowledgement to the API's first answer with the event"
        report.add("seen after, p50", percentile(times, 0.5), "s", aim=AIM_S, note=note)
        report.add("seen after, worst", max(times), "s", aim=AIM_S, note=f"of {bursts} bursts")
    return reports


def seen_after_s(server: Server, provider: str) -> float:
    """Send a burst of five failures from two runs; return how long after the last 200 the event was there.

    Raises RuntimeError where it was not there after a minute.
    """
    for number in range(FAILURES):
        _ask(server, "POST", "/v1/logs", _failure(provider, number))
    acknowledged_at = time.perf_counter()
    while (waited_s := time.perf_counter() - acknowledged_at) < GIVEN_UP_S:
        if events_of(server, provider):
            return time.perf_counter() - acknowledged_at
        time.sleep(_ASK_EVERY_S)
    raise RuntimeError(f"no event of {provider} after {waited_s:.0f} s")


def events_of(server: Server, provider: str) -> list[dict[str, Any]]:
    """The capacity events of a provider, as the API tells them."""
    found: list[dict[str, Any]] = _ask(server, "GET", f"/api/v1/capacity/events?provider={provider}")["events"]
    return found


def _failure(provider: str, number: int) -> bytes:
    said = {
        names.UID: str(uuid4()),
        names.OPERATION: "ask",
        names.RUN: f"{provider}-{number % 2}",
        names.ATTRIBUTES["category"]: "overloaded",
        names.ATTRIBUTES["provider"]: provider,
    }
    record = {
        "timeUnixNano": str(time.time_ns()),
        "eventName": "recovery.failure_classified",
        "severityNumber": names.WARN,
        "attributes": _attributes(said),
    }
    resource = {"attributes": _attributes({names.SERVICE_NAME: "bench", names.SERVICE_INSTANCE_ID: "bench-1"})}
    return json.dumps({"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": [record]}]}]}).encode()


def _attributes(said: dict[str, str]) -> list[dict[str, object]]:
    return [{"key": name, "value": {"stringValue": value}} for name, value in said.items()]


def _ask(server: Server, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    headers = {"authorization": f"Bearer {server.key}", "content-type": "application/json"}
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{method} {path}: {answer.status} {text.decode(errors='replace')[:500]}")
    found: dict[str, Any] = json.loads(text)
    return found


# -- PostgreSQL, Redis, and processes of their own ---------------------------------------------------------------------


@contextmanager
def _deployed() -> Iterator[Server]:
    with ExitStack() as stack:
        database_url = stack.enter_context(cluster()).new_database("detection")
        broker_url = stack.enter_context(a_redis())
        server = stack.enter_context(served(database_url, broker_url))
        env = environment_of(server.data, database_url, broker_url)
        celery = [sys.executable, "-m", "celery", "-A", "recovery_ops"]
        stack.enter_context(running([*celery, "worker", "--concurrency", "2"], env, server.data))
        beat = [*celery, "beat", "--schedule", str(server.data / "beat-of-its-own")]
        stack.enter_context(running(beat, env, server.data))
        seen_after_s(server, "warming-up")  # a worker takes some seconds to start, which is no part of seeing
        yield server


@contextmanager
def a_redis() -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        raise NotHere("Redis is not on this machine")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with running([program, *words], dict(os.environ), ROOT):
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def running(command: list[str], env: dict[str, str], folder: Path) -> Iterator[None]:
    process = subprocess.Popen(  # our own command
        command,
        env=env | {"PYTHONPATH": str(ROOT)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
