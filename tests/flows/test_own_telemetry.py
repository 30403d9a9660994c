"""A console pushes what it says of itself to a receiver of OpenTelemetry that is really there, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.processes import Server, eventually
from tests.support.webhook_receiver import Receiver, receiver

SECRET = "a-breaker-that-nobody-is-told-of"


def spans(told: Receiver) -> Iterator[Any]:
    for got in list(told.got):
        if got.path == "/v1/traces":
            for part in ExportTraceServiceRequest.FromString(got.body).resource_spans:
                assert {one.key: one.value.string_value for one in part.resource.attributes}[
                    "service.name"
                ] == "recovery-ops"
                for scope in part.scope_spans:
                    yield from scope.spans


def metrics(told: Receiver) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for got in list(told.got):
        if got.path == "/v1/metrics":
            for part in ExportMetricsServiceRequest.FromString(got.body).resource_metrics:
                for scope in part.scope_metrics:
                    found |= {one.name: one for one in scope.metrics}
    return found


def test_spans_and_metrics_of_a_console_arrive(start_server: Callable[..., Server]) -> None:
    with receiver() as told:
        server = start_server(env={"RECOVERY_OPS_OTLP_EXPORT_URL": f"http://{told.host}"})
        assert httpx.get(f"{server.url}/sign-in").status_code == 200
        assert httpx.get(f"{server.url}/breakers/{SECRET}").status_code == 302
        assert httpx.post(f"{server.url}/v1/logs", json={}).status_code == 401

        wanted = {"GET sign-in": 200, "GET breaker": 302, "POST /v1/logs": 401}
        tasks = "recovery_ops.control.tasks."

        def has_arrived() -> bool:
            names = {one.name for one in spans(told)}
            return wanted.keys() <= names and any(name.startswith(tasks) for name in names) and bool(metrics(told))

        eventually(has_arrived, what="spans of pages, facts and tasks, and metrics")
        for one in spans(told):
            assert one.end_time_unix_nano >= one.start_time_unix_nano > 0
            if one.name in wanted:
                said = {each.key: each.value.int_value for each in one.attributes}
                assert said["http.response.status_code"] == wanted[one.name]
        assert not any(SECRET.encode() in got.body for got in told.got)
        measured = metrics(told)
        assert measured["recovery_ops_facts_total"].sum.is_monotonic
        assert {"recovery_ops_agents", "recovery_ops_task_age_seconds"} & set(measured)
        assert server.end() == 0
    assert {got.path for got in told.got} == {"/v1/traces", "/v1/metrics"}
    assert {got.headers["content-type"] for got in told.got} == {"application/x-protobuf"}
