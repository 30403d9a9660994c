"""What was derived from plain OpenTelemetry is marked so wherever it is shown, with its trace and span."""

from __future__ import annotations

import csv
import json
import re
from io import StringIO
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from events.capacity.models import CapacityEvent
from events.derived.traces import settle
from events.models import Fact
from events.otlp import reading
from events.otlp.sent import Encoding, Signal
from events.store.writes import store_facts
from recovery_ops.rules.roles import Role
from recovery_ops.server import environment
from tests.support.otlp import attributes
from tests.support.pages import signed_in, text_of
from tests.support.spans import CHAT, TRACE, traces

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("now")]
RUN, SPAN = "run-7", "00f067aa0ba902b7"


@pytest.fixture
def derived() -> Fact:
    """A model's call that was overloaded, told by a span alone, a minute ago."""
    now_us = int(timezone.now().timestamp() * 1e6)
    start_ns = (now_us - 60_000_000) * 1000
    given = {**CHAT, "error.type": "529", "gen_ai.conversation.id": RUN}
    span: dict[str, Any] = {
        "traceId": TRACE,
        "spanId": SPAN,
        "name": "chat gpt-4o",
        "kind": 3,
        "status": {"code": 2},
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(start_ns + 10**9),
        "attributes": attributes(given),
    }
    body = json.dumps(traces(span)).encode()
    intake = reading.read_request(Signal.TRACES, Encoding.JSON, body, environment="dev", received_us=now_us)
    with transaction.atomic():
        store_facts(*settle([intake]))
    return Fact.objects.get(event="failure_classified")


def test_causes_say_how_much_was_derived_and_can_be_narrowed_to_it(derived: Fact) -> None:
    client = signed_in(Role.VIEWER)
    page = client.get("/failures")
    assert "; derived" in text_of(page)
    assert "?told_by=derived" in page.content.decode()
    [first, row] = csv.reader(StringIO(client.get("/failures?format=csv").content.decode()))
    assert row[first.index("derived")] == "1"


def test_an_occurrence_names_its_trace_and_span(derived: Fact, settings: Any) -> None:
    client = signed_in(Role.VIEWER)
    listed = client.get("/failures").content.decode()
    [address] = re.findall(r'href="(/failures/(?!unclassified)[^"?]+)"', listed)
    assert f"derived from a span: trace {TRACE} span {SPAN}" in text_of(client.get(address))
    settings.TRACE_URL = "https://traces.example/{trace_id}?span={span_id}"
    assert f'href="https://traces.example/{TRACE}?span={SPAN}"' in client.get(address).content.decode()


def test_a_runs_ladder_marks_what_its_agent_did_not_tell(derived: Fact) -> None:
    client = signed_in(Role.VIEWER)
    assert f"derived from a span: trace {TRACE} span {SPAN}" in text_of(client.get(f"/runs/{RUN}"))
    [first, row] = csv.reader(StringIO(client.get("/runs?format=csv").content.decode()))
    assert row[first.index("derived steps")] == "1"


def test_a_capacity_event_marks_its_failures_on_the_page_and_in_the_api(derived: Fact) -> None:
    event = CapacityEvent.objects.create(
        environment="dev",
        provider="openai",
        model="gpt-4o",
        failures=1,
        started_us=derived.at_us,
        last_us=derived.at_us,
    )
    client = signed_in(Role.VIEWER)
    assert f"derived from a span: trace {TRACE}" in text_of(client.get(f"/capacity/{event.pk}"))
    said = client.get(f"/api/v1/capacity/events/{event.pk}").json()
    expected = {"fact_id": derived.pk, "kind": "span", "trace_id": TRACE, "span_id": SPAN}
    assert said["derived_failures"] == [expected]


@pytest.mark.parametrize("url", ["javascript:alert(1)//{trace_id}", "https://traces.example/"])
def test_an_address_of_traces_has_to_be_one(url: str) -> None:
    with pytest.raises(environment.Misconfigured):
        environment.trace_url(url)
