"""From a click to obedience: how long until every stream has a trip, and until every runtime obeys it."""

from __future__ import annotations

import http.client
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from recovery_ops.bench import yardstick
from recovery_ops.bench.cluster import NoPostgres, cluster
from recovery_ops.bench.crowd import CrowdApart, Returned
from recovery_ops.bench.figures import Figure, Report, percentile
from recovery_ops.bench.polling import NotAnswered, Pollers
from recovery_ops.bench.served import Restartable, Server, served
from recovery_ops.bench.yardstick import Yardstick
from recovery_ops.rules.events import BreakerStateChanged, Event
from recovery_ops.runtime import Recovery
from recovery_ops.runtime.engine import Sink

ENGINES = ("sqlite", "postgresql")
AIM_MS = {"sqlite": 350.0, "postgresql": 100.0}
"""Until 99 of 100 have it, on the machine on which that was stated (docs/decisions/0023)."""
OPAMP_AIM_MS = 200.0
POLL_S = 30.0
"""How often an OpAMP client speaks that nobody told otherwise."""
FOLLOWED_WITHIN_S = 30.0
OBEYED_WITHIN_S = 10.0
REST_S = 0.5
"""Between clicks. Forty runtimes that share this process and its disk are still telling of the last click, and saving
it, when the next one comes at once; forty machines would not be."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many follow, how many ask by OpAMP and how often, and how often they are told something new."""

    clients: int = 200
    runtimes: int = 10
    clicks: int = 10
    pollers: int = 100
    poll_s: float = POLL_S


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
        self, fact: Event, source: str = "", is_foreground: bool = False, run: str = "", policy_version: str = ""
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

    def cpu_s(self) -> float:
        """Processor seconds that its processes have used so far."""
        servers = {server.pid: server for server in (self.following.server, self.clicking)}
        return sum(server.cpu_s() for server in servers.values())

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
        return _measured(size, engine, yardstick.measured())


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


def _measured(size: Size, engine: str | None, machine: Yardstick) -> list[Report]:
    reports = []
    for name in ENGINES if engine is None else (engine,):
        report = Report(f"click to obedience, {name}")
        reports.append(report)
        try:
            with Site.of(name) as site:
                _measure_site(report, site, size, AIM_MS[name] / machine.share)
                _measure_pollers(report, site, size, OPAMP_AIM_MS / machine.share)
            share = (
                f"{machine.share:.0%} of the machine of the aims ({AIM_MS[name]:.0f} ms, OpAMP {OPAMP_AIM_MS:.0f} ms)"
            )
            report.add("this machine: one core inflates and reads", machine.per_s, "/s", note=share)
        except NoPostgres as error:
            report.figures.append(Figure("click received", None, "ms", note=f"skipped: {error}"))
    return reports


@dataclass(slots=True)
class _Clicked:
    """What became of the clicks, in seconds: of each stream, of each runtime, and of the last of them."""

    accepted: list[float] = field(default_factory=list)
    received: list[float] = field(default_factory=list)
    applied: list[float] = field(default_factory=list)

    def click(self, site: Site, verb: str, crowd: CrowdApart, obedience: Obedience) -> tuple[float, float]:
        """One click that all streams and all runtimes hear of; returns when the last of either had it."""
        began = crowd.listen()
        obedience.begin()
        _click(site.clicking, verb)
        self.accepted.append(time.perf_counter() - began)
        received, applied = crowd.heard(began), obedience.times(began, OBEYED_WITHIN_S)
        self.received += received
        self.applied += applied
        return max(received), max(applied)


def _measure_site(report: Report, site: Site, size: Size, aim_ms: float) -> None:
    """Streams and runtimes follow at the same time, and every figure is of both."""
    clicked, last = _Clicked(), list[tuple[float, float]]()
    obedience = Obedience(size.runtimes)
    _click(site.clicking, "trip")  # what is loaded once is loaded now
    _click(site.clicking, "release")
    empty_mb = site.following.server.rss_mb()
    with TemporaryDirectory() as folder, ExitStack() as stack:
        crowd = stack.enter_context(CrowdApart.of(site.following.server, size.clients))
        first = crowd.connect()
        full_mb = site.following.server.rss_mb()
        for number in range(size.runtimes):
            stack.callback(_runtime(site.following.server, Path(folder), number, obedience).close)
        began = obedience.begin()
        _click(site.clicking, "trip")
        obedience.times(began, FOLLOWED_WITHIN_S)  # now all of them follow
        busy_s = site.cpu_s()
        for click in range(2 * size.clicks):
            time.sleep(REST_S)
            last.append(clicked.click(site, "trip" if click % 2 else "release", crowd, obedience))
        busy_s = site.cpu_s() - busy_s
        crowd.leave()
        again = crowd.connect()
        returned = _measure_return(site, crowd)
        began = obedience.begin()
        _click(site.clicking, "release")
        back = obedience.times(began, FOLLOWED_WITHIN_S)
    _add_times(report, "click accepted", clicked.accepted)
    _add_times(report, f"click received by {size.clients} stream clients", clicked.received, aim_ms)
    report.add("the last of them, worst click", 1000 * max(received for received, _ in last), "ms")
    each_ms = 1000 * busy_s / (2 * size.clicks)
    report.add("processor time of the servers for a click", each_ms, "ms", note="with all that agents tell of it")
    _add_times(report, f"click obeyed by {size.runtimes} runtimes beside them", clicked.applied, aim_ms)
    report.add("the last of those, worst click", 1000 * max(applied for _, applied in last), "ms")
    report.add("memory for an idle stream", 1024 * max(0.0, full_mb - empty_mb) / size.clients, "KiB", aim=40.0)
    report.add(f"{size.clients} come at once, the last has its document", 1000 * max(first), "ms")
    report.add(f"{size.clients} come back at once, the last has its document", 1000 * max(again), "ms")
    _add_return(report, size, returned)
    report.add("click right after a restart, the last runtime is back and obeys", 1000 * max(back), "ms")


def _measure_pollers(report: Report, site: Site, size: Size, aim_ms: float) -> None:
    """Agents of OpAMP that speak each in its own moment: only what begins with their message is the server's doing."""
    asked = f"{size.pollers} OpAMP agents, each speaking every {size.poll_s:g} s"
    try:
        with Pollers.of(site.following.server, size.pollers, size.poll_s) as pollers:
            pollers.expect()
            _click(site.clicking, "trip")
            polled = pollers.polled()
    except NotAnswered as error:  # what was measured before is told all the same
        report.figures.append(Figure(f"{asked}: message answered, p99", None, "ms", note=f"too slow to tell: {error}"))
        return
    _add_times(report, f"{asked}: message answered", polled.answered, aim_ms)
    _add_times(report, "from the message of each to its applied being noted", polled.since_message, aim_ms)
    report.add("messages that were put off (503) and said again", polled.put_off, "times", aim=0.0)
    _add_times(report, "the same from the click, with the wait until it speaks", polled.since_click)


def _measure_return(site: Site, crowd: CrowdApart) -> Returned:
    """The server restarts under everybody; who is cut off comes back by itself, also while nobody listens yet."""
    crowd.come_back_alone()
    crowd.listen()
    site.following.restart()
    up_at = time.perf_counter()
    crowd.heard(up_at, FOLLOWED_WITHIN_S)
    return crowd.returned(up_at)


def _add_return(report: Report, size: Size, returned: Returned) -> None:
    report.add(f"a restart under {size.clients} streams that come back alone, tried in vain", returned.in_vain, "times")
    report.add("their attempts in the busiest second", returned.busiest, "/s")
    report.add("of these the server answered, in the busiest second", returned.busiest_answered, "/s")
    half, most = (1000 * percentile(returned.after_s, share) for share in (0.5, 0.99))
    report.add("after it answers again half of them have their document", half, "ms")
    report.add("the same, 99 of 100", most, "ms")


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
