"""How many records a second are committed, deduplicated, folded and summed, beside decoding and inserting alone."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from recovery_ops.bench.cluster import Cluster, NoPostgres, cluster
from recovery_ops.bench.figures import Report, percentile
from recovery_ops.bench.sending import BATCH, LOGS, TRACES, Senders, Sent
from recovery_ops.bench.served import Server, one_more_web, served
from recovery_ops.bench.usage import cpu_s_of, rss_mb_of
from recovery_ops.bench.yardstick import REFERENCE_PER_S
from recovery_ops.bench.yardstick import typical as typical_yardstick

ENGINES = ("sqlite", "postgresql")
SENDERS = 8
WARM_S = 1.0
WARM_BATCHES = 40
ROUND_S = 20.0
"""With us and without us take turns, so that a machine that is slower for a while is slower for both."""
RAW_MOST_S = 30.0
SPANS_S = 5.0
SLICE_S = 5.0
"""So often the senders stop for as long as the yardstick takes: a virtual machine is another one each minute."""
AIM_PER_S = 40_000.0
AIM_CPU_S = 0.35
AIM_SHARE = 0.6
"""Records committed a second, and processor time for ten thousand, both on the machine of `yardstick.REFERENCE_PER_S`;
and the share of what the same processes commit without us."""
_RUN_IN_MB_EACH_S = 75
"""What either side writes a second at most: some 60,000 facts with their indexes."""
_STEP_S = 0.2
_SPARE = 1.4
"""How many more batches are made than the warm-up says are needed."""
_COUNT = "SELECT count(*), count(DISTINCT uid) FROM events_fact WHERE event = 'failure_classified'"


@dataclass(slots=True)
class Ran:
    """What the rounds of one side used and gave; `there` is on the machine of the aims, by the yardstick beside it."""

    sent: Sent = field(default_factory=Sent)
    lasted_s: float = 0.0
    lasted_there_s: float = 0.0
    cpu_s: float = 0.0
    cpu_there_s: float = 0.0
    slowest: float = math.inf
    rss_mb: list[float] = field(default_factory=list)

    def add(self, sent: Sent, lasted_s: float, cpu_s: float, share: float) -> None:
        """Add a slice, in which the machine had this share of the speed of the one of the aims."""
        self.sent.times_s += sent.times_s
        self.sent.refused += sent.refused
        self.lasted_s += lasted_s
        self.lasted_there_s += lasted_s * share
        self.cpu_s += cpu_s
        self.cpu_there_s += cpu_s * share
        self.slowest = min(self.slowest, sent.records / lasted_s)

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.sent.records / self.lasted_s

    @property
    def cpu_s_each_10k(self) -> float:
        """Processor seconds of server and database for ten thousand records."""
        return self.cpu_s / max(1, self.sent.records) * 10_000

    @property
    def aim_per_s(self) -> float:
        """The rate that was stated there, as this machine would have reached it meanwhile."""
        return AIM_PER_S * self.lasted_there_s / self.lasted_s

    @property
    def aim_cpu_s(self) -> float:
        """The processor time that was stated there, as this machine would have taken it meanwhile."""
        return AIM_CPU_S * self.cpu_s / max(self.cpu_there_s, 1e-9)


@dataclass(frozen=True, slots=True)
class _Side:
    """What takes facts, one process or several, and how to ask what they and their database have used."""

    title: str
    urls: Sequence[str]
    key: str
    cpu_s: Callable[[], float]
    rss_mb: Callable[[], float]


def measure(
    seconds: float = 10.0, engine: str | None = None, screen: Console | None = None, count: int = SENDERS
) -> list[Report]:
    """Send for so long to us, and in turns to the same without us, on each engine that there is."""
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    reports = []
    with Progress(*columns, console=screen or Console(stderr=True), transient=True) as progress, ExitStack() as stack:
        senders = stack.enter_context(Senders(count))
        for name in ENGINES if engine is None else (engine,):
            try:
                where = stack.enter_context(cluster()) if name == "postgresql" else None
            except NoPostgres:
                if engine is not None:
                    raise
                continue
            run_in_mb = _run_in(where, seconds, progress) if where else 0
            report = _measure(name, where, senders, seconds, progress)
            if where:
                report.add("written before, so that memory and log are there", run_in_mb, "MB")
            reports.append(report)
    return reports


def _run_in(where: Cluster, seconds: float, progress: Progress) -> int:
    """Have a cluster that has written as much as it will while it is measured; return how much that was."""
    size_mb = math.ceil(_RUN_IN_MB_EACH_S * (seconds + min(seconds, RAW_MOST_S)))
    bar = progress.add_task("postgresql: as if it had run before", total=size_mb)
    written_mb = where.run_in(size_mb, lambda done_mb: progress.update(bar, completed=done_mb))
    progress.remove_task(bar)
    return written_mb


def _measure(name: str, where: Cluster | None, senders: Senders, seconds: float, progress: Progress) -> Report:
    report = Report(f"ingest, {name}")
    url = where.new_database("ours") if where else ""
    with ExitStack() as stack:
        webs = [stack.enter_context(served(url))]
        if where:
            webs.append(stack.enter_context(one_more_web(webs[0], url)))
        raw_side = stack.enter_context(_raw(name, where, len(webs)))
        empty = _size_bytes(webs[0], where)
        ran, raw, warm = _take_turns(_ours(name, webs, where), raw_side, senders, seconds, progress)
        stored, different = _stored(webs[0], url)
        size = _size_bytes(webs[0], where) - empty
        spans, raw_spans, _ = _take_turns(_ours(name, webs, where), raw_side, senders, SPANS_S, progress, TRACES)
    acked = ran.sent.records + warm.records
    _add_speed(report, ran, raw, senders.count)
    report.add("spans taken in", spans.rate, "/s", beside=raw_spans.rate, note=f"{SPANS_S:.0f} s, one in ten failed")
    report.add("share of spans that are stored without us", spans.rate / raw_spans.rate, "")
    report.add("batches of spans answered with anything but 200", spans.sent.refused, "batches")
    report.add("bytes for each fact", size / max(1, stored), "B", note="table, indexes, sums")
    note = f"{len(webs)} web processes, {len(ran.rss_mb)} looks" if len(webs) > 1 else f"of {len(ran.rss_mb)} looks"
    report.add("server memory, most", max(ran.rss_mb), "MB", aim=350.0, note=note)
    report.add("server memory, at the end", ran.rss_mb[-1], "MB")
    report.add("acknowledged and lost", max(0, acked - different), "records", aim=0.0)
    report.add("stored twice", stored - different, "records", aim=0.0)
    report.add("batches answered with anything but 200", ran.sent.refused, "batches")
    return report


def _ours(name: str, webs: Sequence[Server], where: Cluster | None) -> _Side:
    used = _used(lambda: sum(web.cpu_s() for web in webs), where)
    urls = [web.url for web in webs]
    return _Side(f"{name}: with us", urls, webs[0].key, used, lambda: sum(web.rss_mb() for web in webs))


def _add_speed(report: Report, ran: Ran, raw: Ran, count: int) -> None:
    note, share = f"{count} senders, gzip, {ran.lasted_s:.0f} s", ran.lasted_there_s / ran.lasted_s
    report.add(
        "records committed",
        ran.rate,
        "/s",
        beside=raw.rate,
        aim=ran.aim_per_s,
        note=note,
    )
    report.add("share of what is committed without us", ran.rate / raw.rate, "", aim=AIM_SHARE)
    if ran.lasted_s >= 2 * SLICE_S:
        report.add(f"records committed, slowest {SLICE_S:.0f} s", ran.slowest, "/s")
    report.add("without us: decode and insert", raw.rate, "/s", note="same processes, threads and indexes, no folding")
    report.add(
        "CPU for 10,000 records",
        ran.cpu_s_each_10k,
        "s",
        beside=raw.cpu_s_each_10k,
        aim=ran.aim_cpu_s,
        note="server and database",
    )
    report.add(
        "this machine: one core inflates and reads",
        REFERENCE_PER_S * share,
        "/s",
        note=f"{share:.0%} of the machine of the aims ({AIM_PER_S:,.0f} /s, {AIM_CPU_S} s)",
    )
    for title, share in (("median", 0.5), ("p90", 0.9), ("p99", 0.99)):
        report.add(f"answer time, {title}", 1000 * percentile(ran.sent.times_s, share), "ms")
    report.add("answer time, longest", 1000 * max(ran.sent.times_s), "ms")


def _take_turns(
    ours: _Side, raw: _Side, senders: Senders, seconds: float, progress: Progress, signal: str = LOGS
) -> tuple[Ran, Ran, Sent]:
    """Run both, in rounds. What is said of the warm-up is of ours alone."""
    senders.prepare(WARM_BATCHES, WARM_S, signal)
    warm = [senders.start(side.urls, side.key, WARM_S).result() for side in (ours, raw)]
    found = (Ran(), Ran())
    is_long = seconds > ROUND_S  # what has to hold for long is one round
    rounds = 1 if is_long else max(1, round(seconds / 5))
    rates = [each.records / WARM_S for each in warm]
    for _ in range(rounds):
        lasts_s = (seconds / rounds, min(seconds, RAW_MOST_S) / rounds)
        most = max(rate * each_s for rate, each_s in zip(rates, lasts_s, strict=True))
        senders.prepare(1 + math.ceil(_SPARE * most / BATCH / senders.count), seconds, signal)
        for each, side, each_s in zip(found, (ours, raw), lasts_s, strict=True):
            _run(each, side, senders, each_s, progress)
        rates = [each.rate for each in found]
    return found[0], found[1], warm[0]


def _run(ran: Ran, side: _Side, senders: Senders, seconds: float, progress: Progress) -> None:
    """Send for so long to one side, and add what came of it."""
    bar = progress.add_task(side.title, total=seconds)
    slices = max(1, round(seconds / SLICE_S))
    began = time.perf_counter()
    before, cpu_s = typical_yardstick().share, side.cpu_s()
    for number in range(slices):
        started = time.perf_counter()
        waiting = senders.start(side.urls, side.key, seconds / slices, goes_on=number > 0)
        while not waiting.wait(_STEP_S):
            progress.update(bar, completed=min(seconds, time.perf_counter() - began))
            ran.rss_mb.append(side.rss_mb())
        lasted_s = time.perf_counter() - started
        after, used_s = typical_yardstick().share, side.cpu_s()  # what the database does after its answers is counted
        ran.add(waiting.result(), lasted_s, used_s - cpu_s, (before + after) / 2)
        before, cpu_s = after, used_s
    progress.remove_task(bar)


def _used(cpu_s: Callable[[], float], where: Cluster | None) -> Callable[[], float]:
    return lambda: cpu_s() + (where.cpu_s() if where else 0.0)


def _stored(server: Server, url: str) -> tuple[int, int]:
    """How many facts there are, and how many different ones."""
    if url:
        with psycopg.connect(url) as connection:
            found = connection.execute(_COUNT).fetchone()
    else:
        database = sqlite3.connect(server.data / "db.sqlite3")
        found = database.execute(_COUNT).fetchone()
        database.close()
    return (int(found[0]), int(found[1])) if found else (0, 0)


def _size_bytes(server: Server, where: Cluster | None) -> int:
    if where:
        return where.size_bytes("ours")
    database = sqlite3.connect(server.data / "db.sqlite3")
    pages, size = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    database.close()
    return int(pages * size)


@contextmanager
def _raw(name: str, where: Cluster | None, processes: int) -> Iterator[_Side]:
    """Run as many processes without us."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="recovery-ops-bench-"))
        database = where.new_database("raw") if where else str(Path(folder) / "raw.sqlite3")
        running = [stack.enter_context(_raw_process(database)) for _ in range(processes)]
        pids = [pid for pid, _ in running]
        used = _used(lambda: sum(map(cpu_s_of, pids)), where)
        urls = [f"http://127.0.0.1:{port}" for _, port in running]
        yield _Side(f"{name}: without us", urls, "", used, lambda: sum(map(rss_mb_of, pids)))


@contextmanager
def _raw_process(database: str) -> Iterator[tuple[int, str]]:
    """One of them: its pid and its port."""
    command = [sys.executable, "-m", "recovery_ops.bench.raw", database]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = process.stdout.readline().strip() if process.stdout else ""
        if not port:
            raise RuntimeError("the server to compare with did not start")
        yield process.pid, port
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
