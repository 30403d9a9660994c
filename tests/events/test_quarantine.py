"""What was set aside: kept within bounds and without secrets, taken in again after a fix, or let go; always counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import DataError, transaction
from hypothesis import given
from hypothesis import strategies as st

from events.ingest import commits, quarantine, records
from events.ingest.quarantine import drop, replay, request_of_row
from events.ingest.records import Row
from events.ingest.reporters import reporters
from events.models import Fact, MinuteSum, Quarantine, Tally
from events.otlp.reading import read_request
from events.otlp.refused import PAYLOAD_BYTES
from events.otlp.request_masking import blot
from events.otlp.sent import Encoding, Signal
from events.store import writes
from tests.support.otlp import JSON, PROTOBUF, WHOLE_FAILURE, Door, new_uid, protobuf, record, request
from tests.support.spans import failed, logged, traces

NOW_US = 1_795_000_000_000_000
SECRET = "sk-" + "a" * 40
NO_SUCH_VALUE = "no such value"
"""What the database says of a row that it does not take."""


def many(count: int = 1100) -> dict[str, object]:
    return {f"k{number}": number for number in range(count)}


def tallies() -> dict[str, int]:
    return dict(Tally.objects.filter(environment="dev").values_list("name", "count"))


@pytest.mark.parametrize("encoding", [PROTOBUF, JSON])
def test_a_record_is_a_fact_after_the_fix(door: Door, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = new_uid()
    bad = record(
        given={"log.record.uid": uid, "recovery.operation.name": "search", **WHOLE_FAILURE, **many()}, ago_s=90
    )
    document = request(record(given=WHOLE_FAILURE), bad)
    body = protobuf(document) if encoding == PROTOBUF else json.dumps(document).encode()
    door.post(body, headers={"content-type": encoding})
    assert replay(Quarantine.objects.all(), now_us=NOW_US) == quarantine.Settled(stored=0, settled=0, left=1)
    assert (Quarantine.objects.get().tries, Fact.objects.count()) == (1, 1)
    monkeypatch.setattr(records, "MOST_ATTRIBUTES", 2000)
    assert replay(Quarantine.objects.all(), now_us=NOW_US) == quarantine.Settled(stored=1, settled=1, left=0)
    fact = Fact.objects.get(operation="search")
    assert fact.uid == bytes.fromhex(uid.replace("-", ""))
    assert fact.at_us == int(bad["timeUnixNano"]) // 1000
    assert sum(MinuteSum.objects.values_list("failures", flat=True)) == 2
    assert Quarantine.objects.count() == 0
    assert tallies() == {"set_aside": 1, "replayed": 1}


@pytest.mark.parametrize("encoding", [PROTOBUF, JSON])
def test_a_record_that_could_not_even_be_read_is_replayed(
    door: Door, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value: dict[str, Any] = {"stringValue": "bottom"}
    for _ in range(40):
        value = {"arrayValue": {"values": [value]}}
    deep = record(attributes=[{"key": "deep", "value": value}])
    document = request(deep)
    body = protobuf(document) if encoding == PROTOBUF else json.dumps(document).encode()
    door.post(body, headers={"content-type": encoding})
    assert Fact.objects.count() == 0
    monkeypatch.setattr("events.otlp.sent.DEEPEST", 60)
    assert replay(Quarantine.objects.all(), now_us=NOW_US).stored == 1
    assert Fact.objects.select_related("agent").get().agent.service == "billing"


def test_a_span_and_a_whole_body_are_replayed(door: Door) -> None:
    door.post(b'{"resourceSpans": 7}', path="/v1/traces", headers={"content-type": JSON})
    line = Quarantine.objects.get()
    assert (line.signal, line.encoding) == ("traces", JSON)
    assert replay([line], now_us=NOW_US).left == 1
    line.payload = b'{"resourceSpans": []}'  # as if the reader had learnt to read it
    line.save()
    assert replay([line], now_us=NOW_US) == quarantine.Settled(stored=0, settled=1, left=0)


def test_what_facts_are_derived_from_is_replayed_in_a_transaction(door: Door) -> None:
    """As the page and the command do it: what is asked about the sender on the way must not close their connection."""
    for document, path in ((traces(failed()), "/v1/traces"), (request(logged()), "/v1/logs")):
        door.post(b"[]", path=path, headers={"content-type": JSON})
        Quarantine.objects.update(payload=json.dumps(document).encode())  # as if the reader had learnt to read it
        reporters.forget()
        with transaction.atomic():
            assert replay(Quarantine.objects.all(), now_us=NOW_US).left == 0
    assert sorted(Fact.objects.values_list("event", flat=True)) == ["failure_classified"] * 2 + ["log"]


def test_what_the_database_refused_is_the_same_fact_after_the_fix(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = new_uid()
    said = {
        "log.record.uid": uid,
        "recovery.operation.name": "search",
        "recovery.failure.category": "timeout",
        "gen_ai.request.model": "large",
        "session.id": "run-1",
        "more": ["a", 1, True, {"b": 2.5}],
    }

    def poisoned(rows: list[Row]) -> int:
        if any(row.uid == bytes.fromhex(uid.replace("-", "")) for row in rows):
            raise DataError(NO_SUCH_VALUE)
        return writes.store_facts(rows)

    with monkeypatch.context() as patch:
        patch.setattr(commits, "store_facts", poisoned)
        door.post(json=request(record(given=said, ago_s=300), record()))
    assert Fact.objects.count() == 1
    assert NO_SUCH_VALUE in Quarantine.objects.get().reason
    door.post(json=request(record(given=said, ago_s=300)))
    usual: dict[str, Any] = dict(Fact.objects.filter(operation="search").values().get())
    Fact.objects.filter(operation="search").delete()
    replay(Quarantine.objects.all(), now_us=NOW_US)
    again: dict[str, Any] = dict(Fact.objects.filter(operation="search").values().get())
    unlike = {name for name in usual if usual[name] != again[name]}
    assert unlike <= {"id", "received_us", "at_us"}


def test_too_much_is_shown_in_part_and_cannot_be_replayed(door: Door) -> None:
    door.post(b"[" + b"1," * PAYLOAD_BYTES, headers={"content-type": JSON})
    line = Quarantine.objects.get()
    assert (bytes(line.payload), line.encoding, len(line.content)) == (b"", "", 4096)
    assert replay([line], now_us=NOW_US).left == 1


def test_what_is_dropped_or_let_go_is_counted(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "ROWS", 3)
    for place in (quarantine, records):
        monkeypatch.setattr(place, "KEPT_EACH", 2)
    for _ in range(3):
        door.post(json=request(*(record(given=many()) for _ in range(4))))
    assert Quarantine.objects.count() == 3
    assert drop(Quarantine.objects.all(), now_us=NOW_US).settled == 3
    assert tallies() == {"set_aside": 12, "let_go": 9, "dropped": 3}


@pytest.mark.parametrize("encoding", [PROTOBUF, JSON])
def test_no_secret_is_kept_for_a_replay(door: Door, encoding: str) -> None:
    said = {"api_key": "hunter2", "message": f"no answer with {SECRET}", "note": "Authorization: Bearer " + "x" * 30}
    document = request(record(given={**said, **many()}))
    body = protobuf(document) if encoding == PROTOBUF else json.dumps(document).encode()
    door.post(body, headers={"content-type": encoding})
    door.post(body[:-3], headers={"content-type": encoding})
    assert Quarantine.objects.count() == 2
    for line in Quarantine.objects.all():
        kept = bytes(line.payload).decode("latin-1") + line.content
        assert not [word for word in ("hunter2", SECRET, "x" * 30) if word in kept]
        assert "no answer with" in kept


@pytest.mark.parametrize("start", ["", '{"broken": x ', '{"broken": "x ', '{"a": "b" '])
def test_secret_in_quotes_of_no_json_is_kept_nowhere(door: Door, start: str) -> None:
    for written in ('password="{}"', "password='{}'", 'api_key: "{}"', 'api_key="{}'):
        body = (start + written.format("wordsOfASecret")).encode()
        assert door.post(body, headers={"content-type": JSON}).status_code == 400
    kept = [bytes(line.payload).decode() + line.content for line in Quarantine.objects.all()]
    assert len(kept) == 4
    assert [one for one in kept if "OfASec" in one] == []


@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: f"{text} password={text} {SECRET}".encode()))
def test_blotting_changes_no_length_of_protobuf(content: bytes) -> None:
    blotted = blot(content, Encoding.PROTOBUF)
    assert len(blotted) == len(content)
    assert SECRET.encode() not in blotted


@given(st.text(max_size=200), st.text(max_size=50))
def test_blotted_json_is_json(text: str, key: str) -> None:
    document = [{"key": key, "value": {"stringValue": f'{text} "password": "{text}" {SECRET}'}}, {"api_key": text}]
    blotted = blot(json.dumps(document).encode(), Encoding.JSON)
    assert SECRET.encode() not in blotted
    assert json.loads(blotted)[0]["key"] == key or "=" in key or ":" in key or not key.isprintable()


@pytest.mark.django_db
def test_a_row_written_down_again_is_the_row() -> None:
    said = {"recovery.breaker.name": "b", "recovery.breaker.state": "open", "recovery.sequence_number": 7, "x": 1.5}
    body = json.dumps(request(record("recovery.breaker_state_changed", given=said))).encode()

    def read(body: bytes) -> Row:
        [row] = read_request(Signal.LOGS, Encoding.JSON, body, environment="dev", received_us=2 * 10**15).rows
        return row

    row = read(body)
    assert read(request_of_row(row)) == row
