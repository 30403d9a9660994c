"""Traces in any order and batching."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction

from events.derived.open_parents import OpenParent
from events.derived.traces import settle
from events.ingest.records import Intake
from events.issues.models import FailureSum, InstanceFailureSum
from events.models import Agent, BreakerState, Fact, MinuteSum, SpanMark, SpanSum
from events.otlp import reading
from events.otlp.sent import Encoding, Signal
from events.projections import verification
from events.runs.models import Run, RunFailure
from events.store.partitions import is_partitioned
from events.store.writes import store_facts
from tests.support.spans import NOW_US, failed, span, traces

NOW = datetime.fromtimestamp(NOW_US / 1e6, UTC)


Span = dict[str, Any]


def read(*spans: Span, environment: str = "dev") -> Intake:
    """One request."""
    body = json.dumps(traces(*spans)).encode()
    return reading.read_request(Signal.TRACES, Encoding.JSON, body, environment=environment, received_us=NOW_US)


def store(*intakes: Intake) -> None:
    """Requests, stored in one transaction."""
    with transaction.atomic():
        store_facts(*settle(intakes))


def deliver(*spans: Span) -> None:
    """One request, stored in one transaction."""
    store(read(*spans))


def clear() -> None:
    sums = (MinuteSum, SpanSum, FailureSum, InstanceFailureSum)
    for model in (Fact, BreakerState, RunFailure, Run, *sums, SpanMark, OpenParent, Agent):
        model.objects.all().delete()
    if is_partitioned():
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM events_factid")


def failures() -> list[str]:
    return sorted(Fact.objects.filter(event="failure_classified").values_list("span_id", flat=True))


def check() -> None:
    """The sums count what is stored."""
    folded, _ = verification.refold()
    found = list(verification.differences(folded, NOW))
    assert found == [], found
    assert sum(MinuteSum.objects.values_list("failures", flat=True)) == len(failures())


def outlived() -> list[Span]:
    """A parent that fails by itself after one child failed and another, later, went well; so both failed."""
    parent = failed("turn", ago_s=4.0, given={"error.type": "Own"})
    below = failed("call", ago_s=6.0, parent=parent, given={"error.type": "Below"})
    return [parent, below, span("call", ago_s=5.0, parent=parent)]
