"""From a click to obedience: how long until every agent has a trip, over real streams and with real runtimes."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from recovery_ops.bench.figures import Report, percentile
from recovery_ops.bench.served import Server, served
from recovery_ops.rules.facts import BreakerStateChanged, Fact
from recovery_ops.runtime import Recovery

RUNTIMES = 40
CLICKS = 10


class _Sink:
    """Notes when an instance's breaker moved."""

    def __init__(self, moved: dict[str, float], name: str, done: threading.Event) -> None:
        self._moved, self._name, self._done = moved, name, done

    def emit(
        self, fact: Fact, source: str = "", is_foreground: bool = False, run: str = "", policy_version: str = ""
    ) -> None:
        if isinstance(fact, BreakerStateChanged):
            self._moved[self._name] = time.perf_counter()
            if len(self._moved) == RUNTIMES:
                self._done.set()


def measure(clicks: int = CLICKS) -> Report:
    """Trip and reset over and over; each time until the last of the runtimes has moved its breaker."""
    report = Report("click to applied")
    applied: list[float] = []
    last: list[float] = []
    accepted: list[float] = []
    with served() as server, TemporaryDirectory() as folder, ExitStack() as stack:
        moved: dict[str, float] = {}
        done = threading.Event()
        for number in range(RUNTIMES):
            recovery = Recovery("bench", instance=f"bench-{number}", url=server.url, key=server.key, directory=folder)
            stack.callback(recovery.close)
            recovery.guard("search")(lambda: None)
            recovery.use_sink(_Sink(moved, recovery.instance.instance, done))
        _until_followed(server)
        for click in range(clicks):
            for verb in ("trip", "reset"):
                moved.clear()
                done.clear()
                began = time.perf_counter()
                _click(server, verb, click)
                accepted.append(time.perf_counter() - began)
                if not done.wait(10.0):
                    raise RuntimeError(f"{RUNTIMES - len(moved)} of {RUNTIMES} runtimes never applied a {verb}")
                times = [at - began for at in moved.values()]
                applied += times
                last.append(max(times))
    report.add("click accepted, p95", 1000 * percentile(accepted, 0.95), "ms", aim=300.0)
    report.add(f"applied by {RUNTIMES} runtimes, median", 1000 * percentile(applied, 0.5), "ms")
    report.add(f"applied by {RUNTIMES} runtimes, p99", 1000 * percentile(applied, 0.99), "ms", aim=350.0)
    report.add("the last of them, worst click", 1000 * max(last), "ms")
    return report


def _click(server: Server, verb: str, number: int) -> None:
    wanted = {"reason": "a measurement of how long a click takes", "ahead": True}
    if verb == "trip":
        wanted["expires_in_s"] = 600
    _ask(server, "POST", f"/api/v1/breakers/search/{verb}", wanted)


def _until_followed(server: Server) -> None:
    """Wait until every runtime is connected: until each has applied a first click."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        fleet = _ask(server, "GET", "/api/v1/fleet")
        if len(fleet.get("results", fleet.get("agents", []))) >= RUNTIMES:
            time.sleep(1.0)
            return
        time.sleep(0.2)


def _ask(server: Server, method: str, path: str, body: dict[str, object] | None = None) -> dict[str, list[object]]:
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    headers = {"authorization": f"Bearer {server.key}", "content-type": "application/json"}
    connection.request(method, path, body=json.dumps(body) if body else None, headers=headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status >= 400:
        raise RuntimeError(f"{method} {path}: {answer.status} {text.decode(errors='replace')}")
    found: dict[str, list[object]] = json.loads(text)
    return found
