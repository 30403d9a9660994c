"""The console's own metrics and traces as OpenTelemetry, pushed to a collector.

Off unless RECOVERY_OPS_OTLP_EXPORT_URL names one: then each process pushes what it reads every 15 s, and a span for
each page, each request to the API, each task, each request of facts and each stream. Facts themselves are counted: a
span for each would cost more than storing it. The address is the operator's own, like that of the database.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import urllib3
from celery import signals
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer

from recovery_ops import __version__
from recovery_ops.control.self_monitoring.readings import Reading, process_name, readings

logger = logging.getLogger(__name__)

EVERY_S = 15.0
TIMEOUT_S = 5.0
_SCOPE = InstrumentationScope("recovery_ops.console", __version__)
Push = Callable[[str, bytes], None]


def push_over_http(url: str, body: bytes) -> None:
    """Send one body; raise where nobody takes it. Redirects are not followed."""
    answer = urllib3.request(
        "POST",
        url,
        body=body,
        headers={"Content-Type": "application/x-protobuf"},
        timeout=TIMEOUT_S,
        retries=False,
        redirect=False,
    )
    if answer.status >= 300:
        raise OSError(f"answered with {answer.status}")


def resource() -> Resource:
    """Who speaks."""
    return Resource(
        {"service.name": "recovery-ops", "service.version": __version__, "service.instance.id": process_name()}
    )


def metrics_data(found: Sequence[Reading], *, since_ns: int, now_ns: int) -> MetricsData:
    """Readings as OpenTelemetry has them: counters are cumulative since the start of the process."""
    metrics = [_metric(one, since_ns, now_ns) for one in found if one.points]
    scope = ScopeMetrics(scope=_SCOPE, metrics=metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource=resource(), scope_metrics=[scope], schema_url="")])


def _metric(one: Reading, since_ns: int, now_ns: int) -> Metric:
    points = [
        NumberDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=since_ns if one.kind == "counter" else None,  # type: ignore[arg-type]  # a gauge has no start
            time_unix_nano=now_ns,
            value=value,
        )
        for labels, value in one.points
    ]
    data: Sum | Gauge = Gauge(points)
    if one.kind == "counter":
        data = Sum(points, aggregation_temporality=AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return Metric(name=one.name, description=one.help, unit=one.unit, data=data)


class _Spans(SpanExporter):
    def __init__(self, url: str, push: Push) -> None:
        self._url, self._push = f"{url}/v1/traces", push

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            self._push(self._url, encode_spans(spans).SerializeToString())
        except Exception as error:  # a collector that is away is no trouble of ours
            logger.info("spans could not be pushed: %r", error)
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS


@dataclass
class Telemetry:
    """What one process pushes. `push` stands in for the network in tests."""

    url: str
    push: Push = push_over_http
    tracer: Tracer = field(init=False)
    _since_ns: int = field(default_factory=lambda: int(timezone.now().timestamp() * 1e9))

    def __post_init__(self) -> None:
        self._provider = TracerProvider(resource=resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(_Spans(self.url, self.push)))
        self.tracer = self._provider.get_tracer(_SCOPE.name, _SCOPE.version)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="own telemetry", daemon=True)

    def start(self) -> None:
        """Push in a thread of its own, until the process ends."""
        self._thread.start()

    def close(self) -> None:
        """Push the spans that are left, and no more."""
        self._ended.set()
        self._provider.shutdown()

    def push_metrics(self) -> None:
        """Read everything and push it once."""
        now = timezone.now()
        data = metrics_data(readings(now), since_ns=self._since_ns, now_ns=int(now.timestamp() * 1e9))
        self.push(f"{self.url}/v1/metrics", encode_metrics(data).SerializeToString())

    def _go_on(self) -> None:
        while not self._ended.wait(EVERY_S):
            try:
                self.push_metrics()
            except Exception as error:  # neither a collector nor a database that is away ends it
                logger.info("metrics could not be pushed: %r", error)
            finally:
                connection.close()


_running: tuple[int, Telemetry] | None = None
_lock = threading.Lock()


def running() -> Telemetry | None:
    """This process's telemetry, begun by whoever asks first; None where no collector is named. A fork has its own."""
    global _running  # noqa: PLW0603  # one for each process
    if not settings.OTLP_EXPORT_URL:
        return None
    with _lock:
        if _running is None or _running[0] != os.getpid():
            found = Telemetry(settings.OTLP_EXPORT_URL)
            found.start()
            _running = (os.getpid(), found)
        return _running[1]


class TraceRequests:
    """Middleware: a span for each page and each request to the API, by the name of its address."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        found = running()
        if found is None:
            return self._get_response(request)
        with found.tracer.start_as_current_span(str(request.method), kind=SpanKind.SERVER) as span:
            answer = self._get_response(request)
            match = request.resolver_match
            if match is not None and match.view_name:
                span.update_name(f"{request.method} {match.view_name}")
            # The path itself would name breakers, runs and people.
            span.set_attribute("http.request.method", str(request.method))
            span.set_attribute("http.route", match.route if match is not None else "")
            span.set_attribute("http.response.status_code", answer.status_code)
            if answer.status_code >= 500:
                span.set_status(Status(StatusCode.ERROR))
            return answer


_open_tasks: dict[str, Any] = {}


def follow() -> None:
    """A span for each task of this process. Twice is once."""
    signals.task_prerun.connect(_began, dispatch_uid="own telemetry")
    signals.task_postrun.connect(_ended, dispatch_uid="own telemetry")


def _began(task_id: str = "", task: Any = None, **_: Any) -> None:
    found = running()
    if found is not None:
        _open_tasks[task_id] = found.tracer.start_span(str(task.name), kind=SpanKind.CONSUMER)


def _ended(task_id: str = "", state: str = "", **_: Any) -> None:
    span = _open_tasks.pop(task_id, None)
    if span is not None:
        if state == "FAILURE":
            span.set_status(Status(StatusCode.ERROR))
        span.end()
