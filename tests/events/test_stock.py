"""A stock OpenTelemetry SDK, without a line of ours, is a full citizen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from events.capacity.detection import look, look_back
from events.capacity.models import CapacityEvent
from events.models import Agent, BreakerState, Fact, MinuteSum
from tests.support.otlp import Door
from tests.support.otlp_server import served


@pytest.fixture
def url(store: None) -> Iterator[str]:
    """The address of a real server."""
    with served() as url:
        yield url


class Stock:
    """An SDK as its documentation sets it up."""

    def __init__(self, url: str, token: str, compression: Compression = Compression.Gzip) -> None:
        headers = {"authorization": f"Bearer {token}"}
        exporter = OTLPLogExporter(endpoint=f"{url}/v1/logs", headers=headers, compression=compression)
        self._provider = LoggerProvider(
            resource=Resource({"service.name": "pilot", "service.instance.id": "pilot-1"}), shutdown_on_exit=False
        )
        self._provider.add_log_record_processor(BatchLogRecordProcessor(exporter, schedule_delay_millis=50))
        self.logger: Logger = self._provider.get_logger("pilot")

    def emit(self, event_name: str, severity: SeverityNumber = SeverityNumber.WARN, **rest: Any) -> None:
        self.logger.emit(LogRecord(event_name=event_name, timestamp=time.time_ns(), severity_number=severity, **rest))

    def end(self) -> None:
        assert self._provider.force_flush()
        self._provider.shutdown()


@pytest.mark.parametrize("compression", list(Compression))
def test_its_events_are_stored_and_folded_like_any_other(door: Door, url: str, compression: Compression) -> None:
    stock = Stock(url, door.token, compression)
    for number in range(1500):
        stock.emit(
            "failure.classified",
            attributes={"recovery.component.name": "search", "recovery.failure.category": "rate_limit", "n": number},
        )
    stock.emit("breaker-state", attributes={"circuitbreaker.name": "search", "circuitbreaker.state": "forced-open"})
    stock.emit("", SeverityNumber.DEBUG)
    stock.end()
    assert Fact.objects.filter(event="failure_classified", operation="search").count() == 1500
    assert sum(MinuteSum.objects.values_list("failures", flat=True)) == 1500
    assert BreakerState.objects.get().state == "forced_open"
    assert Agent.objects.get().service == "pilot"
    assert Fact.objects.count() == 1501


def test_its_exceptions_are_logs_without_secrets(door: Door, url: str) -> None:
    stock = Stock(url, door.token)
    try:
        raise ConnectionError("no answer to Authorization: Bearer sk-" + "a" * 40)
    except ConnectionError as error:
        stock.emit("", SeverityNumber.ERROR, exception=error)
    stock.end()
    log, failure = Fact.objects.order_by("id")
    assert (log.event, failure.event, failure.category) == ("log", "failure_classified", "network")
    for fact in (log, failure):
        assert fact.attributes["exception.type"] == "ConnectionError"
        assert "sk-aaaa" not in str(fact.attributes)


def test_equal_records_without_a_uid_are_one(door: Door, url: str) -> None:
    stock = Stock(url, door.token)
    for _ in range(2):
        moment = 1_700_000_000_000_000_000
        record = LogRecord(event_name="recovery.exhausted", timestamp=moment, observed_timestamp=moment)
        stock.logger.emit(record)
    stock.end()
    assert Fact.objects.count() == 1


def test_its_spans_are_failures_capacity_errors_and_model_fallbacks(door: Door, url: str) -> None:
    exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces", headers={"authorization": f"Bearer {door.token}"})
    provider = TracerProvider(resource=Resource({"service.name": "pilot"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=50))
    tracer = provider.get_tracer("pilot")
    asked = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o"}
    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
        tool = {"gen_ai.tool.name": "look"}
        with suppress(TimeoutError), tracer.start_as_current_span("execute_tool", attributes=tool):
            raise TimeoutError("no answer in 5 s")
        with tracer.start_as_current_span("chat gpt-4o", attributes=asked) as chat:
            with tracer.start_as_current_span("POST", kind=SpanKind.CLIENT) as call:
                call.set_attribute("http.response.status_code", 529)
            chat.set_attribute("gen_ai.response.model", "gpt-4o-mini-2024-07-18")
    provider.force_flush()
    provider.shutdown()
    failures = Fact.objects.filter(event="failure_classified").values_list("operation", "category", "model")
    assert sorted(failures) == [("gpt-4o", "overloaded", "gpt-4o"), ("look", "timeout", "")]
    assert Fact.objects.get(event="model_fallback").model == "gpt-4o-mini-2024-07-18"
    assert sum(MinuteSum.objects.values_list("overloaded", flat=True)) == 1


def chatting(url: str, token: str, *, requests: int, attempts: int) -> None:
    """One process whose calls of a model fail: so many traces, each with so many attempts; nobody names a session."""
    exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces", headers={"authorization": f"Bearer {token}"})
    provider = TracerProvider(resource=Resource({"service.name": "pilot"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=50))
    tracer = provider.get_tracer("pilot")
    asked = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o"}
    for _ in range(requests):
        with tracer.start_as_current_span("POST /answer", kind=SpanKind.SERVER):
            for _ in range(attempts):
                with tracer.start_as_current_span("chat gpt-4o", kind=SpanKind.CLIENT, attributes=asked) as chat:
                    chat.set_attribute("http.response.status_code", 529)
                    chat.set_attribute("error.type", "529")
                    chat.set_status(StatusCode.ERROR)
    assert provider.force_flush()
    provider.shutdown()


@pytest.mark.parametrize(("requests", "attempts", "events"), [(6, 1, 1), (3, 2, 1), (1, 12, 0)])
def test_one_process_that_names_no_session_shows_an_outage_by_its_requests(
    door: Door, url: str, client: Client, admin_user: User, requests: int, attempts: int, events: int
) -> None:
    chatting(url, door.token, requests=requests, attempts=attempts)
    failures = Fact.objects.filter(event="failure_classified")
    assert [(one.category, one.run) for one in failures] == [("overloaded", "")] * (requests * attempts)
    assert Agent.objects.count() == 1
    for looks in (look, look, look_back):
        looks("dev", timezone.now())
        assert CapacityEvent.objects.count() == events
    client.force_login(admin_user)
    shown = client.get("/api/v1/capacity/events", headers={"accept": "application/json"}).json()["events"]
    assert [(one["provider"], one["model"]) for one in shown] == [("openai", "gpt-4o")] * events
