"""How many records a second are committed, deduplicated, folded and summed, beside decoding and inserting alone."""

from __future__ import annotations

import gzip
import http.client
import multiprocessing
import sqlite3
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from recovery_ops import wire
from recovery_ops.bench.figures import Report, percentile
from recovery_ops.bench.served import Server, served
from recovery_ops.rules.facts import FailureClassified, Record
from recovery_ops.rules.words import Category, Evidence
from recovery_ops.runtime.clock import UuidSource

BATCH = 500
SENDERS = 4
_CATEGORIES = (Category.OVERLOADED, Category.TIMEOUT, Category.SERVER_ERROR, Category.RATE_LIMITED)


def measure(seconds: float = 10.0) -> Report:
    """Send from several processes for so long; then the same batches decoded and inserted with nothing else."""
    report = Report("ingest")
    with served() as server:
        _warm(server)
        began, cpu = time.perf_counter(), server.cpu_s()
        with multiprocessing.get_context("spawn").Pool(SENDERS) as pool:
            told = pool.starmap(_send, [(server.url, server.key, number, seconds) for number in range(SENDERS)])
        lasted, cpu = time.perf_counter() - began, server.cpu_s() - cpu
        acked = sum(len(times) for times, _ in told) * BATCH
        times = [one for each, _ in told for one in each]
        refused = sum(count for _, count in told)
        stored = _stored(server)
        rss = server.rss_mb()
    raw = _raw_rate(min(seconds, 5.0))
    lasted = min(lasted, seconds)
    report.add("records committed", acked / lasted, "/s", beside=raw, aim=40_000.0, note=f"{SENDERS} senders, gzip")
    report.add("raw: decode and insert", raw, "/s", note="one process, same indexes, no folding")
    report.add("answer time, median", 1000 * percentile(times, 0.5), "ms")
    report.add("answer time, p99", 1000 * percentile(times, 0.99), "ms")
    report.add("server CPU per 10,000 records", cpu / max(1, acked) * 10_000, "s", aim=0.35)
    report.add("server memory", rss, "MB", aim=350.0)
    report.add("acknowledged but not stored", max(0, acked - stored), "records", aim=0.0)
    report.add("batches answered with anything but 200", refused, "batches")
    return report


def batch(number: int, sender: int, uids: UuidSource) -> ExportLogsServiceRequest:
    """A batch as an agent sends it: classified failures, each different."""
    request = ExportLogsServiceRequest()
    resource = request.resource_logs.add()
    for name, value in (("service.name", "bench"), ("service.instance.id", f"bench-{sender}")):
        resource.resource.attributes.append(KeyValue(key=name, value=AnyValue(string_value=value)))
    scope = resource.scope_logs.add()
    scope.scope.name = wire.names.SCOPE_NAME
    for index in range(BATCH):
        scope.log_records.append(_record(number * BATCH + index, uids))
    return request


def _record(number: int, uids: UuidSource) -> LogRecord:
    fact = FailureClassified(
        operation=f"operation_{number % 40}",
        breaker=f"operation_{number % 40}",
        category=_CATEGORIES[number % 4],
        evidence=Evidence.HTTP_STATUS,
        retryable=True,
        attempt=1 + number % 3,
        status_code=529,
        error_type="529",
        message="the provider is overloaded",
        provider="helios",
        model="helios-large",
    )
    at_ns = time.time_ns()
    event = wire.encode(
        Record(fact=fact, uid=uids(at_ns), sequence_number=number, at_ns=at_ns, source="main_agent", run=f"r{number}")
    )
    record = LogRecord(
        time_unix_nano=event.at_ns,
        event_name=event.event_name,
        severity_number=SeverityNumber.SEVERITY_NUMBER_WARN,
        body=_any(event.body),
    )
    record.attributes.extend(KeyValue(key=name, value=_any(value)) for name, value in event.attributes.items())
    return record


def _any(value: object) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(string_value=str(value))


def _warm(server: Server) -> None:
    _send(server.url, server.key, 99, 0.5)


def _send(url: str, key: str, sender: int, seconds: float) -> tuple[list[float], int]:
    """Batches one after the other over one connection; the time of each answer, and how many were not 200."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    headers = {
        "authorization": f"Bearer {key}",
        "content-type": "application/x-protobuf",
        "content-encoding": "gzip",
    }
    uids, times, refused = UuidSource(), [], 0
    # Made beforehand: what is measured is the server, and the sender shares its cores.
    ready = [gzip.compress(batch(n, sender, uids).SerializeToString(), 1) for n in range(int(40 * seconds) + 4)]
    until = time.perf_counter() + seconds
    for body in ready:
        began = time.perf_counter()
        if began >= until:
            break
        connection.request("POST", "/v1/logs", body=body, headers=headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status == 200:
            times.append(time.perf_counter() - began)
        else:
            refused += 1
    connection.close()
    return times, refused


def _stored(server: Server) -> int:
    database = sqlite3.connect(server.data / "db.sqlite3")
    try:
        return int(database.execute("SELECT count(*) FROM events_fact").fetchone()[0])
    finally:
        database.close()


def _raw_rate(seconds: float) -> float:
    """The same bodies, decoded into rows and inserted under the same indexes, and nothing else."""
    uids = UuidSource()
    bodies = [gzip.compress(batch(n, 0, uids).SerializeToString(), 1) for n in range(int(60 * seconds))]
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(Path(folder) / "raw.sqlite3", isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE fact (id INTEGER PRIMARY KEY, uid BLOB UNIQUE, at INT, name TEXT, rest TEXT)")
        database.execute("CREATE INDEX by_time ON fact (at)")
        database.execute("CREATE INDEX by_name ON fact (name, at)")
        began, done = time.perf_counter(), 0
        for body in bodies:
            request = ExportLogsServiceRequest.FromString(gzip.decompress(body))
            rows = [_row(record) for record in request.resource_logs[0].scope_logs[0].log_records]
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT OR IGNORE INTO fact (uid, at, name, rest) VALUES (?, ?, ?, ?)", rows)
            database.execute("COMMIT")
            done += len(rows)
            if time.perf_counter() - began > seconds:
                break
        rate = done / (time.perf_counter() - began)
        database.close()
    return rate


def _row(record: LogRecord) -> tuple[bytes, int, str, str]:
    values = {pair.key: _plain(pair.value) for pair in record.attributes}
    return str(values["log.record.uid"]).encode(), record.time_unix_nano, record.event_name, repr(values)


def _plain(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None
