"""Hostile and broken requests cost no more than they hold, and spoil nothing that stands beside them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test.utils import CaptureQueriesContext

from events.ingest import quarantine
from events.ingest.cleaning import Cleaner, cleaner_for
from events.ingest.quarantine import lines_of, prepare, set_aside
from events.ingest.records import Intake
from events.models import Fact, Quarantine
from events.otlp.reading import read_request
from events.otlp.refused import BEGINNING_BYTES, KEPT_BYTES, KEPT_EACH, PAYLOAD_BYTES
from events.otlp.sent import Encoding, Signal
from events.projections.stated import alike, text_of
from recovery_ops.rules.policy.masking_rules import parse_masking
from tests.support.otlp import JSON, Door, attributes, protobuf, record, request
from tests.support.sentences import left_out
from tests.support.spans import as_protobuf, exception, failed, logged, traces

pytestmark = pytest.mark.django_db

NOW_US = 1_795_000_000_000_000
LARGE = {"service.name": "big", "blob": "x" * 1_000_000}
MANY = [{"key": f"k{number}", "value": {}} for number in range(1100)]
UNREADABLE = {"eventName": "x", "body": {"stringValue": "b" * 500}, "attributes": MANY}


def read(body: bytes, encoding: Encoding = Encoding.JSON, signal: Signal = Signal.LOGS) -> Intake:
    return read_request(signal, encoding, body, environment="dev", received_us=NOW_US)


def deep() -> dict[str, Any]:
    value: dict[str, Any] = {"stringValue": "bottom"}
    for _ in range(40):
        value = {"arrayValue": {"values": [value]}}
    return value


def as_sent(document: dict[str, Any], encoding: Encoding) -> bytes:
    return protobuf(document) if encoding is Encoding.PROTOBUF else json.dumps(document).encode()


def kept(intake: Intake) -> int:
    return sum(len(one.content) for one in intake.refused)


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("bad", [{"eventName": "x", "attributes": [{"key": "d", "value": deep()}]}, UNREADABLE])
def test_what_is_refused_beside_a_large_resource_is_not_kept_again_and_again(
    encoding: Encoding, bad: dict[str, Any]
) -> None:
    intake = read(as_sent(request(*[bad] * 300, record(), resource=LARGE), encoding), encoding)
    assert (len(intake.refused), len(intake.rows)) == (300, 1)
    assert kept(intake) <= KEPT_BYTES + BEGINNING_BYTES
    assert intake.refused[0].size_bytes > len(LARGE["blob"])
    assert not intake.refused[0].is_whole


def test_spans_that_are_refused_beside_a_large_resource_are_not_kept_again_and_again() -> None:
    document = traces(*[{"name": "x", "attributes": [{"key": "d", "value": deep()}]}] * 300)
    document["resourceSpans"][0]["resource"]["attributes"] = attributes(LARGE)
    for encoding in Encoding:
        body = as_protobuf(document) if encoding is Encoding.PROTOBUF else json.dumps(document).encode()
        intake = read(body, encoding, Signal.TRACES)
        assert len(intake.refused) == 300
        assert kept(intake) <= KEPT_BYTES + BEGINNING_BYTES


def test_small_ones_are_kept_whole_as_far_as_there_is_room_and_then_in_part_and_all_are_counted(door: Door) -> None:
    size = 5_000
    bad = [{**UNREADABLE, "body": {"stringValue": f"{number:03d}" + "b" * size}} for number in range(8)]
    answer = door.post(json=request(*bad, record()))
    assert answer.json()["partialSuccess"]["rejectedLogRecords"] == "8"
    lines = list(Quarantine.objects.order_by("id"))
    assert [bool(one.encoding) for one in lines][:3] == [True] * 3
    assert not lines[-1].encoding
    assert len({one.reason for one in lines}) == 1
    assert Fact.objects.count() == 1


def test_secrets_are_hidden_before_the_one_writer_has_to(monkeypatch: pytest.MonkeyPatch) -> None:
    intake = prepare(read(json.dumps(request(UNREADABLE, UNREADABLE)).encode()))

    def never(*_: object, **__: object) -> bytes:
        raise AssertionError("the writer hides nothing")

    monkeypatch.setattr(quarantine, "blot", never)
    monkeypatch.setattr(quarantine, "blot_start", never)
    set_aside([intake])
    assert Quarantine.objects.count() == len(lines_of(intake)) == 2


def test_of_more_than_are_kept_the_reasons_are_counted(django_assert_max_num_queries: Any) -> None:
    intake = read(json.dumps(request(*[UNREADABLE] * (KEPT_EACH + 5))).encode())
    assert len(intake.refused) == KEPT_EACH + 5
    assert [one.content for one in intake.refused[KEPT_EACH:]] == [b""] * 5
    with django_assert_max_num_queries(20) as asked:
        set_aside([intake])
    assert isinstance(asked, CaptureQueriesContext)
    assert Quarantine.objects.count() == KEPT_EACH


def test_a_resource_is_read_once_for_all_its_scopes_and_not_at_all_for_empty_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[object] = []

    class Watching(Cleaner):
        def map(self, given: Any, most: int, depth: int = 0) -> dict[str, object]:
            seen.extend([given] if "service.name" in given else [])
            return super().map(given, most, depth)

    def scopes(*names: str, holds: bool) -> bytes:
        one = [record(given={"log.record.uid": None})] if holds else []
        parts = [{"scope": {"name": name}, "logRecords": one} for name in names]
        return json.dumps(
            {"resourceLogs": [{"resource": {"attributes": attributes({"service.name": "s"})}, "scopeLogs": parts}]}
        ).encode()

    monkeypatch.setattr("events.otlp.reading.cleaner_of", lambda _: Watching())
    assert len(read(scopes(*"abc", holds=True)).rows) == 3
    assert len(seen) == 1
    assert not read(scopes(*"abc", holds=False)).rows
    assert len(seen) == 1


def test_two_scopes_of_one_resource_still_tell_two_records_apart() -> None:
    one = {"timeUnixNano": "1795000000000000000", "eventName": "x", "attributes": []}
    parts = [{"scope": {"name": name}, "logRecords": [one]} for name in ("a", "b", "a")]
    body = json.dumps({"resourceLogs": [{"resource": {"attributes": []}, "scopeLogs": parts}]}).encode()
    first, second, third = (row.uid for row in read(body).rows)
    assert first == third != second


@pytest.mark.parametrize(
    ("path", "document"),
    [("/v1/logs", request(record())), ("/v1/traces", traces(failed(given={"gen_ai.tool.name": "search"})))],
)
def test_half_a_pair_of_surrogates_in_the_name_of_a_scope_spoils_nothing(
    door: Door, path: str, document: dict[str, Any]
) -> None:
    [part] = next(iter(document.values()))
    part["scopeLogs" if "scopeLogs" in part else "scopeSpans"][0]["scope"] = {"name": "\ud800x"}
    assert door.post(json.dumps(document).encode(), path=path, headers={"content-type": JSON}).status_code == 200
    assert Fact.objects.filter(event="failure_classified").count() == 1


@pytest.mark.parametrize("pair", [{"key": "d", "value": deep()}, {"key": "d", "value": {"intValue": "abc"}}, 7])
def test_one_attribute_of_a_resource_that_cannot_be_read_refuses_nobodys_records(door: Door, pair: object) -> None:
    document = request(record())
    other = request(record(), resource={"service.name": "other"})["resourceLogs"]
    document["resourceLogs"][0]["resource"]["attributes"].append(pair)
    document["resourceLogs"] += other
    assert door.post(json=document).status_code == 200
    assert set(Fact.objects.values_list("agent__service", flat=True)) == {"billing", "other"}


def test_a_number_of_thousands_of_digits_and_bytes_that_are_no_text_cost_the_record_they_are_in_at_most(
    door: Door,
) -> None:
    body = json.dumps(request(record(), record(severityNumber=77777777), record(eventName="odd"))).encode()
    body = body.replace(b"77777777", b"9" * 5000).replace(b"odd", b"\xff\xfe")
    answer = door.post(body, headers={"content-type": JSON})
    assert (answer.status_code, answer.json()["partialSuccess"]["rejectedLogRecords"]) == (200, "1")
    assert Fact.objects.count() == 2


HIDING = parse_masking({"attributes": ["exception.message"]}, "masking", [])


@pytest.mark.parametrize("encoding", list(Encoding))
def test_what_is_hidden_of_an_exception_is_hidden_of_the_failure_that_it_tells(
    encoding: Encoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("events.otlp.reading.cleaner_of", lambda _: cleaner_for(HIDING))
    log = logged("ValueError", "customer secretname lost", timeUnixNano=str(NOW_US * 1000))
    told = read(as_sent(request(log), encoding), encoding)
    document = traces(failed(given={"gen_ai.tool.name": "a"}, raised=[exception("ValueError", "secretname lost")]))
    body = as_protobuf(document) if encoding is Encoding.PROTOBUF else json.dumps(document).encode()
    for row in [*told.rows, *read(body, encoding, Signal.TRACES).rows]:
        assert "secretname" not in row.attributes_json
    [failure] = [row for row in told.rows if row.event == "failure_classified"]
    assert failure.attributes["recovery.message"] == "[masked]"


def test_both_encodings_tell_the_same_failure_of_a_logged_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    for cleaner in (cleaner_for(HIDING), cleaner_for(parse_masking(None, "masking", []))):
        monkeypatch.setattr("events.otlp.reading.cleaner_of", lambda _, kept=cleaner: kept)
        log = logged("ValueError", "529 overloaded_error", timeUnixNano=str(NOW_US * 1000))
        log["attributes"].append({"key": "gen_ai.tool.name", "value": {"doubleValue": "NaN"}})
        both = [read(as_sent(request(log), encoding), encoding).rows for encoding in Encoding]
        told = [
            [(one.event, one.uid, one.operation, one.category, one.attributes_json) for one in rows] for rows in both
        ]
        assert told[0] == told[1]


def test_equal_exceptions_without_ids_are_one_failure_however_they_are_sent(door: Door) -> None:
    log = logged("TimeoutError", "timed out", timeUnixNano=record()["timeUnixNano"])
    for some in ([log, log], [log], [log, log]):
        assert door.post(json=request(*some)).status_code == 200
    assert [Fact.objects.filter(event=name).count() for name in ("log", "failure_classified")] == [1, 1]


@pytest.mark.parametrize(
    ("given", "from_jsonb"),
    [
        ({"bb": 1, "a": [2, {"d": 1, "c": 2}]}, {"a": [2, {"c": 2, "d": 1}], "bb": 1}),
        (-0.0, 0.0),
        (1e16, 10**16),
        ({"q": 1.25e17}, {"q": 125000000000000000}),
        (1e300, 1e300),
    ],
)
def test_a_value_is_the_same_text_as_either_database_gives_it_back(given: object, from_jsonb: object) -> None:
    assert text_of(given, 400) == text_of(from_jsonb, 400)
    assert json.dumps(alike(given)) == json.dumps(alike(from_jsonb))


def test_the_bounds_fit_each_other() -> None:
    assert quarantine.CONTENT_CHARS < BEGINNING_BYTES < PAYLOAD_BYTES < KEPT_BYTES


def test_a_sender_hears_that_records_without_time_and_uid_cannot_be_told_apart(door: Door) -> None:
    one = record(given={"log.record.uid": None}, timeUnixNano="0", observedTimeUnixNano="0")
    for _ in range(2):
        said = door.post(json=request(one)).json()["partialSuccess"]
        assert said["rejectedLogRecords"] == "0"
        assert left_out(said["errorMessage"], "1", "log.record.uid") == []
    assert Fact.objects.count() == 1


def test_a_byte_order_mark_and_a_number_that_is_none_are_read_together(door: Door) -> None:
    body = json.dumps(request(record(given={"n": 1.5}))).encode().replace(b"1.5", b"NaN")
    assert door.post(b"\xef\xbb\xbf" + body, headers={"content-type": JSON}).status_code == 200
    assert Fact.objects.count() == 1
