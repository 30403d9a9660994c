"""Failures that become others' errors while other processes store failures of the same kind in the same minute."""

from __future__ import annotations

import json
from collections.abc import Callable

from django.db.models import Sum

from events.issues.models import FAILURE_MINUTES, FailureSum, InstanceFailureSum
from events.otlp import reading
from events.otlp.sent import Encoding, Signal
from tests.support.concurrency import THREADS, at_once, engine
from tests.support.otlp import RESOURCE, attributes
from tests.support.spans import NOW_US, exception, failed, traces
from tests.support.traces import Span, check, store

__all__ = ["engine"]  # the fixture
TRACES = 4


def deliver_of(instance: str, one: Span) -> None:
    document = traces(one)
    resource = {**RESOURCE, "service.instance.id": instance}
    document["resourceSpans"][0]["resource"]["attributes"] = attributes(resource)
    body = json.dumps(document).encode()
    store(reading.read_request(Signal.TRACES, Encoding.JSON, body, environment="dev", received_us=NOW_US))


def test_corrections_beside_other_processes_lose_no_failure(engine: Callable[[], None]) -> None:
    def work(number: int) -> None:
        for turn in range(TRACES):
            trace = f"{number * 100 + turn + 1:032x}"
            agent = failed("work", ago_s=9.5, raised=[exception("KeyError")], traceId=trace)
            child = failed("work", parent=agent, ago_s=9.0, raised=[exception("KeyError")], traceId=trace)
            for one in (agent, child):
                deliver_of(f"i-{number}", one)

    assert at_once(engine, work) == [None] * THREADS
    engine()
    check()
    for table in (FailureSum, InstanceFailureSum):
        for minutes in FAILURE_MINUTES:
            counted = table.objects.filter(minutes=minutes).aggregate(Sum("failures"))
            assert counted["failures__sum"] == TRACES * THREADS
