from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from recovery_ops.rules.enums import Category, Evidence, State, Trigger
from recovery_ops.rules.events import (
    BreakerStateChanged,
    CallsCounted,
    Event,
    FailureClassified,
    HookFailed,
    Instance,
    Record,
    RunStarted,
)
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.telemetry.exporter import Exporter
from recovery_ops.runtime.telemetry.outbox import Outbox
from recovery_ops.runtime.telemetry.pipeline import Telemetry, without_tracing
from recovery_ops.runtime.testing import PushedClock
from recovery_ops.wire import decode
from tests.support.http_server import attributes, resource_of, serving
from tests.support.processes import eventually

AGENT = Instance(service="research", instance="agent-1", version="1.2", environment="dev")
FAILED = FailureClassified(
    operation="search", category=Category.TIMEOUT, evidence=Evidence.EXCEPTION_TYPE, retryable=True, attempt=1
)
OPENED = BreakerStateChanged(
    operation="search",
    breaker="search",
    state=State.OPEN,
    previous_state=State.CLOSED,
    trigger=Trigger.CONSECUTIVE_FAILURES,
)
Open = Callable[..., Telemetry]


@pytest.fixture
def open_telemetry() -> Iterator[Open]:
    """Open telemetries that are closed at the end of the test."""
    opened: list[Telemetry] = []

    def open_one(outbox: Outbox | None = None, send: Exporter | None = None, **options: object) -> Telemetry:
        clock = options.pop("clock", None) or Clock()
        opened.append(Telemetry(AGENT, outbox=outbox, clock=clock, send=send, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for telemetry in opened:
        telemetry.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent-1.outbox"


def records_of(telemetry: Telemetry) -> list[Record]:
    read: list[Record] = []
    telemetry.add_reader(read.append)
    return read


def test_a_fact_arrives_as_the_event_it_is(open_telemetry: Open, path: Path) -> None:
    with serving() as server:
        telemetry = open_telemetry(Outbox(path), Exporter(server.url, "key"), group="blue")
        telemetry.emit(FAILED, "main_agent", True, "run-7", "v3")
        assert telemetry.flush(20.0)
        ((resource, record),) = server.requests[0].exported
    assert record.event_name == "recovery.failure_classified"
    assert record.severity_number == 13
    decoded = decode(record.event_name, attributes(record))
    assert decoded is not None
    assert (decoded.event, decoded.warnings) == (FAILED, ())
    found = attributes(record)
    assert (found["session.id"], found["recovery.query_source"], found["recovery.policy.version"]) == (
        "run-7",
        "main_agent",
        "v3",
    )
    assert found["recovery.is_foreground"] is True
    assert (
        resource_of(resource).items()
        >= {
            "service.name": "research",
            "service.instance.id": "agent-1",
            "service.version": "1.2",
            "deployment.environment.name": "dev",
            "recovery.group": "blue",
            "telemetry.sdk.language": "python",
        }.items()
    )
    (scope,) = resource.scope_logs
    assert scope.scope.name == "recovery.runtime"


def test_the_time_is_that_of_the_emit(open_telemetry: Open) -> None:
    clock = PushedClock(wall=1_700_000_000.0)
    telemetry = open_telemetry(clock=clock)
    read = records_of(telemetry)
    telemetry.emit(FAILED)
    clock.push(3600)
    assert telemetry.flush(20.0)
    (record,) = read
    assert record.at_ns == 1_700_000_000_000_000_000


def test_global_provider_gets_what_a_server_gets(
    open_telemetry: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(exported))
    monkeypatch.setattr("opentelemetry._logs.get_logger", provider.get_logger)
    clock = PushedClock(wall=1_700_000_000.0)
    with serving() as server:
        own = open_telemetry(Outbox(path), Exporter(server.url, "key"), clock=clock)
        through = open_telemetry(clock=clock, through_global_provider=True)
        for telemetry in (own, through):
            telemetry.emit(FAILED, "main_agent", True, "run-7", "v3")
            assert telemetry.flush(20.0)
        ((_, sent),) = server.requests[0].exported
    (record,) = (one.log_record for one in exported.get_finished_logs())
    assert record.event_name == sent.event_name
    assert record.timestamp == sent.time_unix_nano == 1_700_000_000_000_000_000
    assert record.severity_number is not None
    assert record.severity_number.value == sent.severity_number
    assert record.body == (sent.body.string_value or None)
    assert record.attributes is not None
    unlike = {"log.record.uid", "recovery.sequence_number"}
    assert set(record.attributes) - unlike == set(attributes(sent)) - unlike
    for name, value in attributes(sent).items():
        assert name in unlike or record.attributes[name] == value


def test_records_are_numbered_and_named_in_order(open_telemetry: Open) -> None:
    telemetry = open_telemetry()
    read = records_of(telemetry)
    for number in range(1500):
        telemetry.emit(RunStarted(name=str(number)))
    assert telemetry.flush(20.0)
    assert [record.sequence_number for record in read] == list(range(1, 1501))
    uids = [record.uid for record in read]
    assert uids == sorted(set(uids))


def test_numbers_go_on_after_a_restart(open_telemetry: Open, path: Path) -> None:
    first = open_telemetry(Outbox(path))
    first.emit(FAILED)
    first.emit(FAILED)
    first.close()
    second = open_telemetry(Outbox(path))
    read = records_of(second)
    second.emit(FAILED)
    assert second.flush(20.0)
    assert [record.sequence_number for record in read] == [3]


def test_the_current_span_is_the_callers(open_telemetry: Open) -> None:
    telemetry = open_telemetry()
    read = records_of(telemetry)
    span = NonRecordingSpan(SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1)))
    with trace.use_span(span):
        telemetry.emit(FAILED)
    telemetry.emit(FAILED)
    assert telemetry.flush(20.0)
    assert [(record.trace_id, record.span_id) for record in read] == [(f"{0xABC:032x}", f"{0xDEF:016x}"), ("", "")]


def test_the_span_travels(open_telemetry: Open, path: Path) -> None:
    span = NonRecordingSpan(SpanContext(0xABC, 0xDEF, is_remote=False))
    with serving() as server:
        telemetry = open_telemetry(Outbox(path), Exporter(server.url, "key"))
        with trace.use_span(span):
            telemetry.emit(OPENED)
        telemetry.flush(20.0)
        ((_, record),) = server.requests[0].exported
    assert (record.trace_id.hex(), record.span_id.hex()) == (f"{0xABC:032x}", f"{0xDEF:016x}")


def test_without_a_server_facts_are_in_the_file(open_telemetry: Open, path: Path) -> None:
    outbox = Outbox(path)
    telemetry = open_telemetry(outbox)
    telemetry.emit(FAILED)
    assert telemetry.flush(20.0)
    assert (outbox.pending, telemetry.pending, telemetry.dropped) == (1, 1, 0)


def test_facts_that_are_neither_on_disk_nor_sent_are_not_called_safe(open_telemetry: Open) -> None:
    with serving() as server:
        url = server.url
    telemetry = open_telemetry(None, Exporter(url, "key"))
    telemetry.emit(FAILED)
    assert telemetry.flush(20.0) is False
    assert telemetry.pending == 1


@pytest.mark.parametrize("fact", [OPENED, FAILED])
def test_facts_reach_the_server_without_a_flush(open_telemetry: Open, path: Path, fact: Event) -> None:
    with serving() as server:
        telemetry = open_telemetry(Outbox(path), Exporter(server.url, "key"))
        telemetry.emit(fact)
        eventually(lambda: len(server.uids) == 1 and telemetry.pending == 0)


class Stuck(Outbox):
    """An outbox whose disk hangs until the gate opens."""

    gate: threading.Event

    def add(self, *args: object, **options: object) -> None:
        self.gate.wait(20.0)
        super().add(*args, **options)  # type: ignore[arg-type]  # passed through


def test_a_queue_that_is_full_refuses_facts_but_not_transitions_and_counts(open_telemetry: Open, path: Path) -> None:
    outbox = Stuck(path)
    outbox.gate = threading.Event()
    telemetry = open_telemetry(outbox, queue_limit=100)
    telemetry.emit(RunStarted(name="the one it hangs on"))
    eventually(lambda: telemetry.pending == 0)
    for _ in range(150):
        telemetry.emit(FAILED)
    for _ in range(120):
        telemetry.emit(OPENED)
    assert (telemetry.dropped, telemetry.pending) == (50 + 20, 200)
    outbox.gate.set()
    assert telemetry.flush(20.0)
    telemetry.emit(RunStarted())
    assert telemetry.flush(20.0)
    assert outbox.tallies == {"dropped_failure": 50, "dropped_always": 20}
    assert (telemetry.dropped, outbox.pending) == (70, 202)


@pytest.mark.parametrize("broken", [None, "text", object()])
def test_emit_never_raises(open_telemetry: Open, path: Path, broken: object) -> None:
    telemetry = open_telemetry(Outbox(path))
    telemetry.emit(broken)  # type: ignore[arg-type]  # that is the point
    telemetry.emit(FAILED)
    assert telemetry.flush(20.0)
    assert (telemetry.dropped, telemetry.pending) == (1, 1)


def test_after_close_facts_are_counted_as_lost(open_telemetry: Open, path: Path) -> None:
    telemetry = open_telemetry(Outbox(path))
    telemetry.close()
    telemetry.emit(FAILED)
    assert telemetry.dropped == 1


def test_texts_and_numbers_that_protobuf_cannot_hold_do_not_stop_anything(open_telemetry: Open, path: Path) -> None:
    odd = CallsCounted(
        operation="surrogate \udc80 and ☃",
        interval_s=float("nan"),
        calls=2**70,
        attempts=1,
        successes=0,
        failures={"time\ud800out": 1},
        latency_counts=(2**64, -(2**63)),
    )
    with serving() as server:
        telemetry = open_telemetry(Outbox(path), Exporter(server.url, "key"))
        telemetry.emit(odd)
        telemetry.emit(FAILED)
        telemetry.flush(20.0)
        (_, first), (_, second) = server.requests[0].exported
    assert attributes(first)["recovery.operation.name"] == "surrogate ? and ☃"
    assert attributes(first)["recovery.calls"] == str(2**70)
    assert attributes(second)["recovery.sequence_number"] == 2


def test_the_applications_limits_do_not_cut_our_attributes(
    open_telemetry: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "5")
    monkeypatch.setenv("OTEL_ATTRIBUTE_COUNT_LIMIT", "2")
    with serving() as server:
        telemetry = open_telemetry(Outbox(path), Exporter(server.url, "key"))
        telemetry.emit(HookFailed(hook="on_wait", error_type="ValueError", message="m" * 500))
        telemetry.flush(20.0)
        ((_, record),) = server.requests[0].exported
    assert attributes(record)["recovery.message"] == "m" * 500
    assert record.dropped_attributes_count == 0


def test_a_reader_that_raises_harms_nobody(open_telemetry: Open, caplog: pytest.LogCaptureFixture) -> None:
    def read_badly(record: Record) -> None:
        raise ValueError("no")

    telemetry = open_telemetry()
    telemetry.add_reader(read_badly)
    read = records_of(telemetry)
    telemetry.emit(FAILED)
    telemetry.emit(FAILED)
    assert telemetry.flush(20.0)
    assert len(read) == 2
    assert len(caplog.records) == 1


def test_threads_emit_at_once_and_nothing_is_lost_or_doubled(open_telemetry: Open, path: Path) -> None:
    outbox = Outbox(path)
    telemetry = open_telemetry(outbox)
    read = records_of(telemetry)

    def emit_many() -> None:
        for number in range(300):
            telemetry.emit(OPENED if number % 50 == 0 else FAILED)

    threads = [threading.Thread(target=emit_many) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert telemetry.flush(20.0)
    assert len({record.uid for record in read}) == outbox.pending == 1800


def test_our_own_sending_makes_no_spans_of_the_applications() -> None:
    found: list[object] = []

    def sending() -> None:
        without_tracing()
        found.append(context.get_value(context._SUPPRESS_INSTRUMENTATION_KEY))

    thread = threading.Thread(target=sending)
    thread.start()
    thread.join()
    assert found == [True]
    assert context.get_value(context._SUPPRESS_INSTRUMENTATION_KEY) is None
