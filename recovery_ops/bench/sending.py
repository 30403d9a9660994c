"""Senders that keep a server of facts busy: each a process with one connection, batch after batch.

Batches are encoded and compressed before the clock starts: what is measured is the server, and senders share its cores.
"""

from __future__ import annotations

import gzip
import http.client
import multiprocessing
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import chain, islice
from multiprocessing.connection import Connection
from typing import Any, Self
from urllib.parse import urlsplit

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from recovery_ops import wire
from recovery_ops.rules.enums import Category, Evidence
from recovery_ops.rules.events import FailureClassified, Record

BATCH = 500
LOGS, TRACES = "logs", "traces"
_FAILED_EACH = 10
"""One of so many spans failed."""
_CATEGORIES = (Category.OVERLOADED, Category.TIMEOUT, Category.SERVER_ERROR, Category.RATE_LIMITED)
_PLACE = re.compile(rb"00000000-0000-7000-8000-[0-9a-f]{12}")
_SPAN_PLACE = re.compile(rb"<the trace's id>|<a span>")
_STEP_NS = 1_000_000
"""How far two records of one sender lie apart."""


@dataclass(slots=True)
class Sent:
    """What came of it: how long each batch took that was accepted, in seconds, and how many were not."""

    times_s: list[float] = field(default_factory=list)
    refused: int = 0

    @property
    def records(self) -> int:
        """How many records were acknowledged."""
        return len(self.times_s) * BATCH


class Waiting:
    """What all senders were told to do, and are doing."""

    def __init__(self, futures: Sequence[Future[Sent]]) -> None:
        self._futures = futures

    def wait(self, timeout_s: float) -> bool:
        """Wait for so long at most; whether all are done."""
        return not wait(self._futures, timeout_s).not_done

    def result(self) -> Sent:
        """Wait for all of them, and join what they say."""
        told = [one.result() for one in self._futures]
        return Sent([one_s for each in told for one_s in each.times_s], sum(each.refused for each in told))


class Senders:
    """Processes that wait to be told what to do. A context: they end with it."""

    def __init__(self, count: int) -> None:
        self.count = count
        context = multiprocessing.get_context("spawn")
        self._threads = ThreadPoolExecutor(count)
        self._pipes: list[Connection] = []
        self._processes = []
        for number in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_obey, args=(theirs, number), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def __enter__(self) -> Self:
        self.prepare(0, 0.0)
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.terminate()
            process.join()
        self._threads.shutdown()

    def prepare(self, batches: int, spread_s: float, signal: str = LOGS) -> None:
        """Have each make so many batches anew, of facts that happened in the last so many seconds, or of spans."""
        self._tell([("prepare", batches, spread_s, signal)] * self.count).result()

    def start(self, urls: Sequence[str], key: str, seconds: float, *, goes_on: bool = False) -> Waiting:
        """Send from all of them for so long, to one of these servers by turns; each from its first batch on, or, where
        it `goes_on`, from where it stopped.
        """
        told = [("send", urls[number % len(urls)], key, seconds, goes_on) for number in range(self.count)]
        return self._tell(told)

    def _tell(self, what: Sequence[tuple[Any, ...]]) -> Waiting:
        asked = zip(self._pipes, what, strict=True)
        return Waiting([self._threads.submit(_ask, pipe, one) for pipe, one in asked])


def _ask(pipe: Connection, what: tuple[Any, ...]) -> Sent:
    pipe.send(what)
    sent: Sent = pipe.recv()
    return sent


def _obey(pipe: Connection, sender: int) -> None:
    """What a sender's process does until its pipe is closed."""
    made: list[bytes] = []
    left: Iterator[bytes] = iter(())
    began_ns, signal = 0, LOGS
    while True:
        try:
            what, *rest = pipe.recv()
        except EOFError:
            return
        if what == "prepare":
            batches, spread_s, signal = rest
            began_ns = time.time_ns()
            step_ns = int(spread_s * 1e9 / (batches * BATCH)) if batches else _STEP_NS
            first_ns = began_ns - batches * BATCH * step_ns
            making = bodies(sender, began_ns, first_ns, step_ns) if signal == LOGS else span_bodies(sender, began_ns)
            made = list(islice(making, batches))
            pipe.send(Sent())
        else:
            url, key, seconds, goes_on = rest
            if not goes_on:
                # Should there be too few, the rest is made on the way; at a new time, so that no uid comes twice.
                later_ns = began_ns + len(made) * 1_000_000_000
                left = chain(made, bodies(sender, later_ns) if signal == LOGS else span_bodies(sender, later_ns))
            pipe.send(_send(url, key, seconds, left, signal))


def bodies(sender: int, began_ns: int, at_ns: int = 0, step_ns: int = _STEP_NS) -> Iterator[bytes]:
    """Compressed batches without end, each record with a uid and a time of its own.

    One batch is encoded and told again and again. Uids are as of `began_ns`; the facts happened from `at_ns` on (as of
    `began_ns` where that is 0), one each `step_ns`.
    """
    first_ns = at_ns or began_ns - BATCH * _STEP_NS
    before_ns = [first_ns + number * _STEP_NS for number in range(BATCH)]
    parts = re.split(
        b"|".join(re.escape(_fixed(one)) for one in before_ns) + b"|" + _PLACE.pattern, _batch(sender, before_ns)
    )
    number = 0
    while True:
        head = f"{(began_ns // 1_000_000 + number // 4096) & 0xFFFF_FFFF_FFFF:012x}"
        start = f"{head[:8]}-{head[8:]}-7{sender % 4096:03x}-8000-"
        told = [parts[0]]
        for time_part, uid_part in zip(parts[1::2], parts[2::2], strict=True):
            told += (_fixed(first_ns + number * step_ns), time_part, f"{start}{number:012x}".encode(), uid_part)
            number += 1
        yield gzip.compress(b"".join(told), 1)


def span_bodies(sender: int, began_ns: int) -> Iterator[bytes]:
    """Compressed batches of spans without end, each a trace of its own: one batch is encoded and told again."""
    parts = _SPAN_PLACE.split(_batch_of_spans(sender, time.time_ns()))
    number = 0
    while True:
        told = [parts[0]]
        for between, after in zip(parts[1::2], parts[2::2], strict=True):
            number += 1
            trace = began_ns.to_bytes(8) + sender.to_bytes(2) + number.to_bytes(6)
            told += (trace, between, number.to_bytes(8), after)
        yield gzip.compress(b"".join(told), 1)


def _fixed(time_ns: int) -> bytes:
    """A time as protobuf writes it."""
    return time_ns.to_bytes(8, "little")


def _send(url: str, key: str, seconds: float, made: Iterator[bytes], signal: str) -> Sent:
    address, sent = urlsplit(url), Sent()
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    headers = {
        "authorization": f"Bearer {key}",
        "content-type": "application/x-protobuf",
        "content-encoding": "gzip",
    }
    until = time.perf_counter() + seconds
    for body in made:
        began = time.perf_counter()
        if began >= until:
            break
        connection.request("POST", f"/v1/{signal}", body=body, headers=headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status == 200:
            sent.times_s.append(time.perf_counter() - began)
        else:
            sent.refused += 1
    connection.close()
    return sent


def _batch(sender: int, times_ns: Sequence[int]) -> bytes:
    """A batch as an agent sends it: classified failures, each different."""
    request = ExportLogsServiceRequest()
    resource = request.resource_logs.add()
    for name, value in (("service.name", "bench"), ("service.instance.id", f"bench-{sender}")):
        resource.resource.attributes.append(KeyValue(key=name, value=AnyValue(string_value=value)))
    scope = resource.scope_logs.add()
    scope.scope.name = wire.names.SCOPE_NAME
    scope.log_records.extend(_record(number, at_ns) for number, at_ns in enumerate(times_ns))
    encoded: bytes = request.SerializeToString()
    return encoded


def _batch_of_spans(sender: int, at_ns: int) -> bytes:
    """A batch as an instrumentation sends it: calls of models that took a tenth of a second."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    for name, value in (("service.name", "bench"), ("service.instance.id", f"bench-{sender}")):
        resource.resource.attributes.append(KeyValue(key=name, value=AnyValue(string_value=value)))
    resource.scope_spans.add().spans.extend(_span(number, at_ns) for number in range(BATCH))
    encoded: bytes = request.SerializeToString()
    return encoded


def _span(number: int, at_ns: int) -> Span:
    span = Span(trace_id=b"<the trace's id>", span_id=b"<a span>", name="chat helios-large", kind=Span.SPAN_KIND_CLIENT)
    span.start_time_unix_nano, span.end_time_unix_nano = at_ns - 100_000_000, at_ns
    said = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "helios",
        "gen_ai.request.model": f"helios-{number % 40}",
        "gen_ai.usage.input_tokens": 700,
        "gen_ai.usage.output_tokens": 50,
    }
    if number % _FAILED_EACH == 0:
        said |= {"error.type": "529", "http.response.status_code": 529}
        span.status.code, span.status.message = Status.STATUS_CODE_ERROR, "the provider is overloaded"
    span.attributes.extend(KeyValue(key=name, value=_any(value)) for name, value in said.items())
    return span


def _record(number: int, at_ns: int) -> LogRecord:
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
    uid = f"00000000-0000-7000-8000-{number:012x}"
    event = wire.encode(
        Record(event=fact, uid=uid, sequence_number=number, at_ns=at_ns, source="main_agent", run=f"r{number}")
    )
    record = LogRecord(
        time_unix_nano=event.at_ns,
        event_name=event.event_name,
        severity_number=SeverityNumber.SEVERITY_NUMBER_WARN,
        body=_any(event.body),
    )
    record.attributes.extend(KeyValue(key=name, value=_any(value)) for name, value in event.attributes.items())
    return record


def _any(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(string_value=str(value))
