"""From a click to obedience: how long until every stream has a trip, and until every runtime obeys it."""

from __future__ import annotations

import http.client
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from recovery_ops.bench.cluster import NoPostgres, cluster
from recovery_ops.bench.crowd import Crowd
from recovery_ops.bench.figures import Figure, Report, percentile
from recovery_ops.bench.served import Restartable, Server, served
from recovery_ops.rules.facts import BreakerStateChanged, Fact
from recovery_ops.runtime import Recovery
from recovery_ops.runtime.recovery import Sink

ENGINES = ("sqlite", "postgresql")
AIM_MS = {"sqlite": 350.0, "postgresql": 100.0}
FOLLOWED_WITHIN_S = 30.0
OBEYED_WITHIN_S = 10.0
REST_S = 0.5
"""Between clicks. Forty runtimes that share this process and its disk are still telling of the last click, and saving
it, when the next one comes at once; forty machines would not be."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many follow, and how often they are told something new."""

    clients: int = 200
    runtimes: int = 10
    clicks: int = 10


class Obedience:
    """When the breaker of each runtime moved."""

    def __init__(self, runtimes: int) -> None:
        self._runtimes = runtimes
        self._moved: dict[str, float] = {}
        self._all_moved = threading.Event()

    def note(self, instance: str) -> None:
        """Its breaker has just moved."""
        self._moved[instance] = time.perf_counter()
        if len(self._moved) == self._runtimes:
            self._all_moved.set()

    def begin(self) -> float:
        """Wait for the next move of each from now on; returns what time it is."""
        self._moved.clear()
        self._all_moved.clear()
        return time.perf_counter()

    def times(self, began: float, within_s: float) -> list[float]:
        """The seconds until each had moved."""
        if not self._all_moved.wait(within_s):
            raise RuntimeError(f"{self._runtimes - len(self._moved)} of {self._runtimes} runtimes never obeyed")
        return [at - began for at in self._moved.values()]


class _Noting:
    """Notes when an instance's breaker moved, and hands every fact on to where it would have gone."""

    def __init__(self, sink: Sink | None, note: Callable[[], None]) -> None:
        self._sink, self._note = sink, note

    def emit(
        self, fact: Fact, source: str = "", is_foreground: bool = False, run: str = "", policy_version: str = ""
    ) -> None:
        if isinstance(fact, BreakerStateChanged):
            self._note()
        if self._sink is not None:
            self._sink.emit(fact, source, is_foreground, run, policy_version)


@dataclass(frozen=True, slots=True)
class Site:
    """Where agents follow and where people click: one process on SQLite, two on PostgreSQL, as in production."""

    following: Restartable
    clicking: Server

    @staticmethod
    @contextmanager
    def of(engine: str) -> Iterator[Site]:
        """A site with an empty store. Raises NoPostgres."""
        with ExitStack() as stack:
            url = stack.enter_context(cluster()).new_database("control") if engine == "postgresql" else ""
            following = stack.enter_context(Restartable(url))
            # Another process hears of the click only by what the database tells it.
            clicking = stack.enter_context(served(url)) if url else following.server
            yield Site(following, clicking)


def measure(size: Size = Size(), engine: str | None = None) -> list[Report]:
    """Trip and release over and over on each engine that there is; each time until the last one has it."""
    with _quiet("recovery_ops.runtime"):  # forty of them would tell that their server went away: that is measured
        return _measured(size, engine)


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Only errors are told meanwhile. Loggers are the process's own: afterwards all is as it was."""
    found = logging.getLogger(logger)
    level = found.level
    found.setLevel(logging.ERROR)
    try:
        yield
    finally:
        found.setLevel(level)


def _measured(size: Size, engine: str | None) -> list[Report]:
    reports = []
    for name in ENGINES if engine is None else (engine,):
        report = Report(f"click to obedience, {name}")
        reports.append(report)
        try:
            with Site.of(name) as site:
                _measure_crowd(report, site, size, AIM_MS[name])
                _measure_runtimes(report, site, size, AIM_MS[name])
        except NoPostgres as error:
            report.figures.append(Figure("click received", None, "ms", note=f"skipped: {error}"))
    return reports


def _measure_crowd(report: Report, site: Site, size: Size, aim_ms: float) -> None:
    accepted: list[float] = []
    received: list[float] = []
    last: list[float] = []
    _click(site.clicking, "trip")  # what is loaded once is loaded now
    _click(site.clicking, "release")
    empty_mb = site.following.server.rss_mb()
    with Crowd.of(site.following.server, size.clients) as crowd:
        first = crowd.connect()
        full_mb = site.following.server.rss_mb()
        for _ in range(size.clicks):
            for verb in ("trip", "release"):
                time.sleep(REST_S)
                began = crowd.listen()
                _click(site.clicking, verb)
                accepted.append(time.perf_counter() - began)
                times = crowd.heard(began)
                received += times
                last.append(max(times))
        crowd.leave()
        again = crowd.connect()
        site.following.restart()
        crowd.leave()
        restarted = crowd.connect()
    _add_times(report, "click accepted", accepted)
    _add_times(report, f"click received by {size.clients} stream clients", received, aim_ms)
    report.add("the last of them, worst click", 1000 * max(last), "ms")
    report.add("memory for an idle stream", 1024 * max(0.0, full_mb - empty_mb) / size.clients, "KiB", aim=40.0)
    report.add(f"{size.clients} come at once, the last has its document", 1000 * max(first), "ms")
    report.add(f"{size.clients} come back at once, the last has its document", 1000 * max(again), "ms")
    report.add("the same after a restart of the server", 1000 * max(restarted), "ms")


def _measure_runtimes(report: Report, site: Site, size: Size, aim_ms: float) -> None:
    applied: list[float] = []
    last: list[float] = []
    obedience = Obedience(size.runtimes)
    with TemporaryDirectory() as folder, ExitStack() as stack:
        for number in range(size.runtimes):
            stack.callback(_runtime(site.following.server, Path(folder), number, obedience).close)
        began = obedience.begin()
        _click(site.clicking, "trip")
        obedience.times(began, FOLLOWED_WITHIN_S)  # now all of them follow
        for click in range(2 * size.clicks):
            time.sleep(REST_S)
            began = obedience.begin()
            _click(site.clicking, "trip" if click % 2 else "release")
            times = obedience.times(began, OBEYED_WITHIN_S)
            applied += times
            last.append(max(times))
        site.following.restart()
        began = obedience.begin()
        _click(site.clicking, "release")
        back = obedience.times(began, FOLLOWED_WITHIN_S)
    _add_times(report, f"click obeyed by {size.runtimes} runtimes", applied, aim_ms)
    report.add("the last of those, worst click", 1000 * max(last), "ms")
    report.add("click right after a restart, the last runtime is back and obeys", 1000 * max(back), "ms")


def _runtime(server: Server, folder: Path, number: int, obedience: Obedience) -> Recovery:
    recovery = Recovery(
        "bench",
        instance=f"bench-{number}",
        url=server.url,
        key=server.key,
        directory=folder / str(number),  # each is a process of its own, as far as its files go
    )
    recovery.guard("search")(abs)
    name = recovery.instance.instance
    recovery.use_sink(_Noting(recovery._sink, lambda: obedience.note(name)))
    return recovery


def _add_times(report: Report, what: str, times: list[float], aim_ms: float | None = None) -> None:
    report.add(f"{what}, p50", 1000 * percentile(times, 0.5), "ms")
    report.add(f"{what}, p99", 1000 * percentile(times, 0.99), "ms", aim=aim_ms)


def _click(server: Server, verb: str) -> None:
    wanted: dict[str, object] = {"reason": "a measurement of how long a click takes"}
    if verb == "trip":
        wanted |= {"expires_in_s": 600.0, "ahead": True}
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    headers = {"authorization": f"Bearer {server.key}", "content-type": "application/json"}
    try:
        connection.request("POST", f"/api/v1/breakers/search/{verb}", body=json.dumps(wanted), headers=headers)
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status >= 400:
        raise RuntimeError(f"{verb}: {answer.status} {text.decode(errors='replace')}")
