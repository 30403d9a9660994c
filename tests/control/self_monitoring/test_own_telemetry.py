"""What the console says of itself: metrics for Prometheus and OpenTelemetry, spans, and the dead man's switch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.conf import LazySettings
from django.db import transaction
from django.test import Client, RequestFactory
from django.urls import resolve
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from events.ingest.commits import GROUP_ROWS
from events.ingest.records import read_records
from events.models import Agent
from events.moments import to_us
from events.otlp.sent import Batch, Sent
from events.store.writes import store_facts
from recovery_ops.control.core.models.heartbeats import Beat
from recovery_ops.control.core.models.revisions import Revision
from recovery_ops.control.notifications.models.notifications import Delivery
from recovery_ops.control.notifications.transport import Answer, Unreached, post
from recovery_ops.control.self_monitoring import dead_man_switch as dead_man
from recovery_ops.control.self_monitoring import request_spans as doors
from recovery_ops.control.self_monitoring import telemetry
from recovery_ops.control.self_monitoring.prometheus import exposition
from recovery_ops.control.self_monitoring.readings import LAG_FACTS, Reading, newest_facts, readings
from recovery_ops.server import environment
from recovery_ops.server.health import NotReady
from tests.support.actions import small_fleet
from tests.support.channels import channel
from tests.support.pages import signed_in
from tests.support.stories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

TOKEN = "a-token-of-the-tests"
ADDRESS = "https://ping.example.org/abc"


def values(name: str) -> dict[tuple[str, ...], float]:
    """The points of one metric by the values of their labels."""
    [found] = [one for one in readings(NOW) if one.name == f"recovery_ops_{name}"]
    return {tuple(labels.values()): value for labels, value in found.points}


def scrape(token: str = TOKEN) -> Any:
    return Client().get("/metrics", headers={"authorization": f"Bearer {token}"})


def test_without_a_token_there_are_no_metrics() -> None:
    assert scrape("").status_code == scrape().status_code == 404
    assert signed_in().get("/metrics").status_code == 404


def test_metrics_are_for_who_knows_the_token(settings: LazySettings) -> None:
    settings.METRICS_TOKEN = TOKEN
    assert (scrape("another").status_code, scrape("").status_code, Client().get("/metrics").status_code) == (401,) * 3
    assert signed_in().get("/metrics").status_code == 401
    small_fleet()
    answer = scrape()
    assert (answer.status_code, answer["Content-Type"].partition(";")[0]) == (200, "text/plain")
    kinds = [line.split()[2:] for line in answer.text.splitlines() if line.startswith("# TYPE")]
    values = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    assert values['recovery_ops_agents{environment="dev",state="reporting"}'] == "3"
    assert ["recovery_ops_facts_total", "counter"] in kinds
    assert Client().post("/metrics").status_code in (403, 405)


def test_a_short_token_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_OPS_METRICS_TOKEN", "short")
    with pytest.raises(environment.Misconfigured, match="RECOVERY_OPS_METRICS_TOKEN"):
        environment.shared_secret("RECOVERY_OPS_METRICS_TOKEN")


def test_names_cannot_break_out_of_their_labels() -> None:
    hostile = Reading(name="x", kind="gauge", help="y", points=(({"environment": 'a"} 1\nevil 2 \\'}, 3.0),))
    *comments, line = exposition([hostile]).splitlines()
    assert comments == ["# HELP x y", "# TYPE x gauge"]
    assert line == 'x{environment="a\\"} 1\\nevil 2 \\\\"} 3'


def test_who_is_behind_the_desired_state_is_counted() -> None:
    small_fleet()
    small_fleet(1, "quiet")
    Revision.objects.create(environment="dev", number=4, changed_at=NOW)
    assert values("desired_revision") == {("dev",): 4}
    assert values("agents_behind") == {("dev",): 3}
    assert values("desired_revision_lag") == {("dev",): 4}
    assert values("agents")["quiet", "reporting"] == 1
    for revisions in ((1, 3, 4), (3, 1, 4), (4, 3, 1)):
        for number, revision in enumerate(revisions):
            Agent.objects.filter(environment="dev", instance=f"r-{number}").update(revision=revision)
        assert (values("agents_behind"), values("desired_revision_lag")["dev",]) == ({("dev",): 2}, 3)


@pytest.mark.parametrize("count", [400, GROUP_ROWS])
def test_facts_that_come_late_show_however_many_are_stored_at_once(count: int) -> None:
    """Those have the lower numbers."""
    now_us, hour_us = to_us(NOW), 3_600_000_000
    at_us = [now_us - number - (hour_us if number % 4 == 0 else 0) for number in range(count)]
    records = [Sent("failure", at * 1000, 0, 13, "", {"log.record.uid": str(uuid4())}, "", "") for at in at_us]
    with transaction.atomic():
        store_facts(read_records([Batch({"service.name": "billing"}, "t", records)], "dev", now_us).rows)
    small_fleet()
    assert len(newest_facts("dev")) == LAG_FACTS
    assert values("fact_lag_seconds")[("dev",)] > 3_000


def test_tasks_that_are_late_or_failed_show() -> None:
    Beat.objects.create(name="events.tasks.sweep", at=NOW - timedelta(days=1))
    Beat.objects.create(name="recovery_ops.control.tasks.send_messages", at=NOW, took_s=0.25)
    trouble = values("task_trouble")
    assert (trouble[("sweep facts",)], trouble[("send messages",)]) == (1.0, 0.0)
    assert values("task_age_seconds")[("sweep facts",)] == 86400.0
    assert values("task_duration_seconds") == {("send messages",): 0.25}


def test_delivery_delay_is_that_of_the_oldest_due() -> None:
    to = channel()

    def delivery(state: str, due_in_s: float) -> None:
        moments = {"made_at": NOW - timedelta(hours=1), "not_before": NOW + timedelta(seconds=due_in_s)}
        Delivery.objects.create(environment="dev", channel=to, origin="x", lane="x", state=state, **moments)

    delivery(Delivery.SENT, -900)
    assert values("delivery_delay_seconds") == {(): 0.0}
    delivery(Delivery.WAITING, 30)
    assert values("delivery_delay_seconds") == {(): 0.0}
    delivery(Delivery.CLAIMED, -40)
    delivery(Delivery.WAITING, -70)
    assert values("delivery_delay_seconds") == {(): 70.0}
    assert values("deliveries")[("waiting",)] == 2.0


# -- OpenTelemetry ----------------------------------------------------------------------------------------------------
def test_the_same_readings_are_pushed_as_opentelemetry() -> None:
    small_fleet()
    sent: list[tuple[str, bytes]] = []
    own = telemetry.Telemetry("http://collector:4318", lambda url, body: sent.append((url, body)))
    own.push_metrics()
    own.close()
    [(url, body)] = sent
    assert url == "http://collector:4318/v1/metrics"
    [found] = ExportMetricsServiceRequest.FromString(body).resource_metrics
    assert "service.name" in {one.key for one in found.resource.attributes}
    metrics = {one.name: one for one in found.scope_metrics[0].metrics}
    facts = metrics["recovery_ops_facts_total"]
    assert (facts.sum.is_monotonic, len(facts.sum.data_points)) == (True, 4)
    assert metrics["recovery_ops_agents"].gauge.data_points[0].as_int == 3


def test_a_request_is_a_span_by_the_name_of_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, bytes]] = []
    own = telemetry.Telemetry("http://collector:4318", lambda url, body: sent.append((url, body)))
    monkeypatch.setattr(telemetry, "running", lambda: own)

    def view(request: Any) -> Any:
        request.resolver_match = resolve("/breakers/a-secret-name")
        return Answered()

    telemetry.TraceRequests(view)(RequestFactory().get("/breakers/a-secret-name"))
    own.close()
    [(url, body)] = sent
    assert url == "http://collector:4318/v1/traces"
    [span] = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans
    assert span.name == "GET breaker"
    assert b"a-secret-name" not in body


@pytest.mark.parametrize(("path", "name"), [("/v1/logs", "POST /v1/logs"), ("/v1/a-secret-name", "POST elsewhere")])
def test_a_request_of_facts_and_a_stream_are_spans_until_they_end(
    monkeypatch: pytest.MonkeyPatch, path: str, name: str
) -> None:
    sent: list[tuple[str, bytes]] = []
    own = telemetry.Telemetry("http://collector:4318", lambda url, body: sent.append((url, body)))
    monkeypatch.setattr(doors, "running", lambda: own)
    told: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 503})

    async def send(message: Any) -> None:
        told.append(message["status"])

    async def receive() -> Any:
        raise AssertionError

    async def ask() -> None:
        await doors.traced(app)({"type": "http", "method": "POST", "path": path}, receive, send)

    asyncio.run(ask())
    own.close()
    [(_, body)] = sent
    [span] = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans
    assert (span.name, told, span.status.code) == (name, [503], 2)
    assert b"a-secret-name" not in body


class Answered:
    """An answer, as far as a span looks at it."""

    status_code = 500


def test_a_collector_that_is_away_is_no_trouble_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(url: str, body: bytes) -> None:
        raise OSError("connection refused")

    own = telemetry.Telemetry("http://collector:4318", away)
    with own.tracer.start_as_current_span("anything"):
        pass
    own.close()


def test_where_no_collector_is_named_nothing_is_begun() -> None:
    assert telemetry.running() is None


# -- the dead man's switch --------------------------------------------------------------------------------------------
class Ear:
    """Somebody who listens for pings."""

    def __init__(self, status: int = 200, *, is_away: bool = False) -> None:
        self.heard: list[str] = []
        self._status, self._is_away = status, is_away

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        if self._is_away:
            raise Unreached("It could not be reached.")
        self.heard.append(url)
        return Answer(status=self._status, headers={}, text="")


@pytest.fixture
def storing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row can be written: to try it takes a connection of its own, and so no test's transaction."""
    monkeypatch.setattr(dead_man, "write_and_forget", lambda: None)


@pytest.mark.django_db(transaction=True)
def test_it_is_pinged_while_all_is_well(settings: LazySettings) -> None:
    settings.DEAD_MAN_URL = ADDRESS
    ear = Ear()
    assert dead_man.ping_while_well(NOW, send=ear)
    assert ear.heard == [ADDRESS]
    assert Beat.objects.get(name=dead_man.HEARD).at == NOW


@pytest.mark.usefixtures("storing")
def test_nothing_is_pinged_where_nobody_listens(settings: LazySettings) -> None:
    ear = Ear()
    assert not dead_man.ping_while_well(NOW, send=ear)
    settings.DEAD_MAN_URL = ADDRESS
    assert not dead_man.ping_while_well(NOW, send=Ear(500))
    assert not dead_man.ping_while_well(NOW, send=Ear(is_away=True))
    assert ear.heard == []


@pytest.mark.usefixtures("storing")
@pytest.mark.parametrize(("ago_s", "failed"), [(86_400, False), (0, True)])
def test_it_falls_silent_while_a_task_is_late_or_fails(settings: LazySettings, ago_s: int, failed: bool) -> None:
    settings.DEAD_MAN_URL = ADDRESS
    at = NOW - timedelta(seconds=ago_s)
    Beat.objects.create(name="events.tasks.sweep", at=at, failed_at=at if failed else None, failure="KeyError()")
    ear = Ear()
    assert not dead_man.ping_while_well(NOW, send=ear)
    assert ear.heard == []


def test_it_falls_silent_while_nothing_can_be_stored(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DEAD_MAN_URL = ADDRESS

    def full() -> None:
        raise NotReady("disk")

    monkeypatch.setattr(dead_man, "write_and_forget", full)
    [trouble] = dead_man.troubles(NOW)
    assert "disk" in trouble
    assert not dead_man.ping_while_well(NOW, send=Ear())


@pytest.mark.usefixtures("storing")
def test_it_does_not_lead_into_our_own_network(settings: LazySettings, caplog: pytest.LogCaptureFixture) -> None:
    settings.DEAD_MAN_URL = "https://169.254.169.254/latest/meta-data"
    assert not dead_man.ping_while_well(NOW, send=post)
    assert "link-local" in caplog.text
