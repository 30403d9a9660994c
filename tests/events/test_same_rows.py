"""The same events leave the same rows in every table, whatever they travel as: JSON or protobuf, squeezed or not."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db.models import ForeignKey, Model
from google.protobuf import json_format  # type: ignore[import-untyped]  # protobuf ships no types
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from events import keys
from events.ingest.cardinality import known_names
from events.ingest.reporters import reporters
from events.models import Agent, AgentKey, Fact
from events.otlp import receiver
from events.runs.fold import RunFold
from recovery_ops.wire import names
from tests.support.examples import examples
from tests.support.otlp import JSON, PROTOBUF, Door, attributes, protobuf, record, request, value
from tests.support.spans import NOW_US, as_protobuf, exception, said, span, texts, traces

CODINGS: dict[str | None, Callable[[bytes], bytes]] = {None: bytes, "gzip": gzip.compress, "deflate": zlib.compress}
TRACES = [f"{number:032x}" for number in (1, 2)]
OWN_KEYS = ("id", "content", "payload", "encoding", "size_bytes")
"""Numbers of our own, and what the quarantine keeps as it came."""

Sent = tuple[str, dict[str, Any]]
"""To which address, and what, as OTLP/JSON writes it."""
ours = st.sampled_from(
    [
        *("recovery.failure.category", "recovery.operation.name", "recovery.breaker.name", "recovery.breaker.state"),
        *("recovery.sequence_number", "recovery.retry.delay", "recovery.policy.version", "session.id"),
        *("recovery.calls.attempts", "recovery.calls.successes", "gen_ai.request.model", "gen_ai.provider.name"),
    ]
)
words = st.sampled_from(["overloaded", "timeout", "open", "closed", "search", "529"])
values = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | texts
ours_said = st.dictionaries(ours, words | values, max_size=6)
events = st.sampled_from([f"recovery.{one.name}" for one in names.EVENTS.values()])


@st.composite
def logs(draw: st.DrawFn) -> Sent:
    """Our events, events of others, logged exceptions; with an id and without."""
    records = []
    for number in range(draw(st.integers(1, 4))):
        name = draw(events | texts)
        more = draw(ours_said | said) | draw(st.sampled_from([{}, exception("httpx.ReadTimeout", "too late")]))
        uid = {"log.record.uid": None} if draw(st.booleans()) else {}
        trace = {"traceId": draw(st.sampled_from(TRACES)), "spanId": f"{number + 1:016x}"}
        time_ns = str(NOW_US * 1000 - draw(st.integers(0, 10**12)))
        severity = draw(st.integers(0, 24))
        records.append(
            record(name, given=more | uid, timeUnixNano=time_ns, severityNumber=severity, body=value(draw(texts)))
            | draw(st.sampled_from([{}, trace]))
        )
    return "/v1/logs", request(*records)


@st.composite
def spans(draw: st.DrawFn) -> Sent:
    """A trace of a few spans, some failed, some with exceptions."""
    made: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 4))):
        raised = [exception("openai.RateLimitError", draw(texts))] if draw(st.booleans()) else []
        parent = draw(st.sampled_from([None, *made]))
        status = {"code": draw(st.integers(0, 2)), "message": draw(texts)}
        trace = draw(st.sampled_from(TRACES))
        made.append(span(draw(texts), given=draw(said), raised=raised, status=status, parent=parent, traceId=trace))
    return "/v1/traces", traces(*made)


@st.composite
def points(draw: st.DrawFn) -> Sent:
    """A metric of one kind or another."""
    point = {"attributes": attributes(draw(said)), "timeUnixNano": str(NOW_US * 1000)}
    kinds: dict[str, dict[str, Any]] = {
        "gauge": {"asDouble": 1.5},
        "sum": {"asInt": "3"},
        "histogram": {"count": "3", "bucketCounts": ["3"]},
    }
    kind = draw(st.sampled_from(sorted(kinds)))
    metric = {"name": draw(texts), kind: {"dataPoints": [point | kinds[kind]] * draw(st.integers(0, 3))}}
    return "/v1/metrics", {"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}


def written(path: str, document: dict[str, Any], encoding: str) -> bytes:
    if encoding == JSON:
        return json.dumps(document).encode()
    if path == "/v1/traces":
        return as_protobuf(document)
    if path == "/v1/logs":
        return protobuf(document)
    return bytes(json_format.ParseDict(document, ExportMetricsServiceRequest()).SerializeToString())


def kept() -> dict[str, list[str]]:
    """Every row of every table of facts, by the names of its instances instead of their numbers."""
    instances = {one.pk: f"{one.service}/{one.instance}" for one in Agent.objects.all()}
    return {model.__name__: sorted(_told(model, instances)) for model in models()}


def _told(model: type[Model], instances: dict[int, str]) -> list[str]:
    columns = [field for field in model._meta.concrete_fields if field.name not in OWN_KEYS]
    agents = {field.attname for field in columns if isinstance(field, ForeignKey) and field.related_model is Agent}

    def told(name: str, value: Any) -> Any:
        if name in agents:
            return instances[value]
        return _told_fold(value, instances) if name == "fold" else value

    rows = model._default_manager.values(*(field.attname for field in columns))
    return [repr({name: told(name, value) for name, value in row.items()}) for row in rows]


def _told_fold(packed: str, instances: dict[int, str]) -> Any:
    """A fold of a run, by the names of its instances."""
    fold = RunFold.of(packed)
    fold.origin[2] = instances[fold.origin[2]]
    if fold.begun is not None:
        fold.begun[2] = instances[fold.begun[2]]
    return replace(fold, lives={instances[int(agent)]: life for agent, life in fold.lives.items()})


def models() -> list[type[Model]]:
    return [model for model in apps.get_app_config("events").get_models() if model is not AgentKey]


def clear() -> None:
    for model in sorted(models(), key=lambda one: one is Agent):
        model._default_manager.all().delete()
    keys.forget_keys()
    reporters.forget()
    known_names.forget()


@settings(
    max_examples=examples(6, 12),
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(drawn=st.lists(logs() | spans() | points(), min_size=1, max_size=4))
def test_whatever_it_travels_as_leaves_the_same_rows(
    door: Door, monkeypatch: pytest.MonkeyPatch, drawn: list[Sent]
) -> None:
    found: dict[tuple[str, str | None], Any] = {}
    with monkeypatch.context() as patch:
        patch.setattr(receiver, "time", SimpleNamespace(time_ns=lambda: NOW_US * 1000))
        for encoding in (JSON, PROTOBUF):
            for coding, squeeze in CODINGS.items():
                clear()
                for path, document in drawn:
                    body = squeeze(written(path, document, encoding))
                    headers = {"content-type": encoding, "content-encoding": coding}
                    assert door.post(body, path=path, headers=headers).status_code == 200
                found[encoding, coding] = kept()
    plain = found[JSON, None]
    for how, rows in found.items():
        assert {table for table in plain if rows[table] != plain[table]} == set(), how


def test_the_rows_of_a_run_are_told_by_the_names_of_its_instances(door: Door) -> None:
    begun = request(record("recovery.run_started", given={"session.id": "r-1"}, timeUnixNano=str(NOW_US * 1000)))
    numbers, rows = set(), []
    for _ in range(2):
        clear()
        assert door.post(json=begun).status_code == 200
        numbers.add(Agent.objects.get().pk)
        rows.append(kept()["Run"])
    assert len(numbers) == 2
    assert rows[0] == rows[1]
    assert len(rows[0]) == 1


def test_what_is_drawn_is_stored_and_what_is_compared_is_every_table(door: Door) -> None:
    late = {"recovery.failure.category": "overloaded", "recovery.operation.name": "search"}
    assert door.post(json=request(record(given=late), record("", severityNumber=17))).status_code == 200
    failed = span("chat", status={"code": 2}, raised=[exception("KeyError")])
    assert door.post(json=traces(failed), path="/v1/traces").status_code == 200
    rows = kept()
    assert len(rows["Fact"]) == Fact.objects.count() == 3
    assert {"MinuteSum", "SpanSum", "Agent", "SpanMark", "KnownName"} <= {name for name, told in rows.items() if told}
    assert len(rows) > 15
