"""The door under /v1/: each request has its clear answer, and nothing else ever comes out."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from itertools import product
from typing import Any

import httpx
import pytest
from django.db import OperationalError, connections
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)

from events import keys
from events.ingest import commits
from events.ingest.records import read_records
from events.ingest.trouble import TroubleLog
from events.models import Fact, Quarantine
from events.otlp import bodies, receiver
from events.otlp.sent import Batch, Sent
from tests.support.otlp import JSON, PROTOBUF, WHOLE_FAILURE, Door, protobuf, record, request
from tests.support.sentences import left_out

MIB = 2**20


def status_of(answer: httpx.Response) -> status_pb2.Status:
    """The google.rpc.Status of an answer, from either encoding."""
    if answer.headers["content-type"] == JSON:
        document = json.loads(answer.content)
        return status_pb2.Status(code=document["code"], message=document["message"])
    return status_pb2.Status.FromString(answer.content)


def small() -> bytes:
    return protobuf(request(record()))


def deflated(content: bytes, form: int) -> bytes:
    squeezer = zlib.compressobj(wbits=form)
    return squeezer.compress(content) + squeezer.flush()


CODINGS: dict[str, tuple[str | None, Callable[[bytes], bytes]]] = {
    "none": (None, bytes),
    "identity": ("identity", bytes),
    "gzip": ("gzip", gzip.compress),
    "gzip in capitals": ("GZIP", gzip.compress),
    "two gzip members": ("gzip", lambda whole: gzip.compress(whole[:50]) + gzip.compress(whole[50:])),
    "an empty gzip member": ("gzip", lambda whole: gzip.compress(b"") + gzip.compress(whole)),
    "deflate": ("deflate", zlib.compress),
    "deflate without its header": ("deflate", lambda whole: deflated(whole, -15)),
}


@pytest.mark.quick
def test_every_encoding_is_stored_and_answered_in_kind(door: Door, subtests: pytest.Subtests) -> None:
    for coding, encoding in product(CODINGS, [PROTOBUF, JSON, "application/json; charset=utf-8"]):
        with subtests.test(coding=coding, encoding=encoding):
            name, squeeze = CODINGS[coding]
            document, before = request(record(given=WHOLE_FAILURE), record(given=WHOLE_FAILURE)), Fact.objects.count()
            body = protobuf(document) if encoding == PROTOBUF else json.dumps(document).encode()
            answer = door.post(squeeze(body), headers={"content-type": encoding, "content-encoding": name})
            assert answer.status_code == 200
            assert answer.headers["content-type"] == encoding.partition(";")[0]
            assert answer.content == (b"" if encoding == PROTOBUF else b"{}")
            assert Fact.objects.count() == before + 2


def test_a_body_in_pieces_is_one_body(door: Door) -> None:
    content = small()
    answer = door.post([content[:10], content[10:11], b"", content[11:]])
    assert answer.status_code == 200
    assert Fact.objects.count() == 1


BAD_HEADS: dict[str, tuple[int, dict[str, Any]]] = {
    "no address": (404, {"path": "/v1/"}),
    "another address": (404, {"path": "/v1/profiles"}),
    "a slash at the end": (404, {"path": "/v1/logs/"}),
    "an address below": (404, {"path": "/v1/logs/1"}),
    "GET": (405, {"method": "GET"}),
    "HEAD": (405, {"method": "HEAD"}),
    "OPTIONS": (405, {"method": "OPTIONS"}),
    "PUT": (405, {"method": "PUT"}),
    "another environment": (400, {"path": "/v1/logs?environment=staging"}),
    "no type": (415, {"headers": {"content-type": None}}),
    "text": (415, {"headers": {"content-type": "text/plain"}}),
    "a form": (415, {"headers": {"content-type": "application/x-www-form-urlencoded"}}),
    "brotli": (415, {"headers": {"content-encoding": "br"}}),
    "gzip twice": (415, {"headers": {"content-encoding": "gzip, gzip"}}),
    "no key": (401, {"headers": {"authorization": None}}),
    "another kind of key": (401, {"headers": {"authorization": "Basic dTpw"}}),
    "a wrong key": (401, {"headers": {"authorization": "Bearer ro_00000000_wrong"}}),
    "a key that is no text": (401, {"headers": {"authorization": "Bearer \u00e9\u00e8"}}),
}


@pytest.mark.parametrize("what", BAD_HEADS)
@pytest.mark.parametrize("encoding", [PROTOBUF, JSON])
def test_a_bad_head_has_its_answer(door: Door, what: str, encoding: str) -> None:
    expected, options = BAD_HEADS[what]
    headers = {"content-type": encoding, **options.get("headers", {})}
    headers = {name: one if one is None else one.encode("latin-1") for name, one in headers.items()}
    answer = door.post(small(), **{**options, "headers": headers})
    assert answer.status_code == expected
    is_known = headers["content-type"] in (PROTOBUF.encode(), JSON.encode())
    assert answer.headers["content-type"] == (encoding if is_known else JSON)
    if options.get("method") != "HEAD":
        assert status_of(answer).message
    assert ("allow" in answer.headers) == (expected == 405)
    assert ("www-authenticate" in answer.headers) == (expected == 401)


def test_own_environment_in_the_address_is_stored(door: Door) -> None:
    assert door.post(small(), path="/v1/logs?environment=dev").status_code == 200
    assert Fact.objects.count() == 1


def test_a_key_without_the_scope_is_told_so(door: Door) -> None:
    _, token = keys.create_key("reader", ["read", "desired"], "dev")
    answer = Door(token).post(small())
    assert answer.status_code == 403
    assert status_of(answer).code == 7
    assert "`ingest`" in status_of(answer).message


def test_no_body_is_read_for_a_stranger(door: Door) -> None:
    def pieces() -> Iterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    assert door.post(pieces(), headers={"authorization": None}).status_code == 401


BAD_BODIES: dict[str, tuple[int, str, str | None, bytes]] = {
    "no protobuf": (400, PROTOBUF, None, b"\x0a\xff\xff" + b"\xff" * 60),
    "text as protobuf": (400, PROTOBUF, None, b"hello, this is a log line"),
    "protobuf cut short": (400, PROTOBUF, None, b"\x0a\x7f\x0a"),
    "no JSON": (400, JSON, None, b"\x00\x01\x02"),
    "JSON cut short": (400, JSON, None, b'{"resourceLogs": ['),
    "a list": (400, JSON, None, b"[]"),
    "a number": (400, JSON, None, b"17"),
    "empty JSON": (400, JSON, None, b""),
    "logs that are no list": (400, JSON, None, b'{"resourceLogs": {}}'),
    "a batch that is no object": (400, JSON, None, b'{"resourceLogs": [7]}'),
    "snake case": (400, JSON, None, b'{"resource_logs": []}'),
    "JSON without an end": (400, JSON, None, b"[" * 100_000),
    "no gzip": (400, PROTOBUF, "gzip", b"this is no gzip"),
    "empty gzip": (400, PROTOBUF, "gzip", b""),
    "gzip cut short": (400, PROTOBUF, "gzip", gzip.compress(b"x" * 1000)[:-9]),
    "gzip with a wrong checksum": (400, PROTOBUF, "gzip", gzip.compress(b"x" * 1000)[:-8] + bytes(8)),
    "gzip and then rubbish": (400, PROTOBUF, "gzip", gzip.compress(b"") + b"rubbish"),
    "gzip in a thousand parts": (400, PROTOBUF, "gzip", gzip.compress(b"") * 1000),
    "deflate cut short": (400, PROTOBUF, "deflate", zlib.compress(b"x" * 1000)[:-6]),
    "deflate with rubbish": (400, PROTOBUF, "deflate", b"\x08\x09\x0a\x0b"),
}


@pytest.mark.parametrize("what", BAD_BODIES)
def test_a_bad_body_has_its_answer(door: Door, what: str) -> None:
    expected, encoding, coding, body = BAD_BODIES[what]
    answer = door.post(body, headers={"content-type": encoding, "content-encoding": coding})
    assert answer.status_code == expected
    assert answer.headers["content-type"] == encoding
    status = status_of(answer)
    assert status.code == 3
    assert status.message
    if encoding == PROTOBUF:
        detail = error_details_pb2.BadRequest()
        assert status.details[0].Unpack(detail)
        assert detail.field_violations[0].description == status.message
    assert Fact.objects.count() == 0


def test_what_could_not_be_read_is_kept_without_its_secrets(door: Door) -> None:
    body = b'{"resourceLogs": 7, "key": "Bearer sk-' + b"a" * 40 + b'", "nul": "\x00"}'
    assert door.post(body, headers={"content-type": JSON}).status_code == 400
    kept = Quarantine.objects.get()
    assert (kept.environment, kept.size_bytes) == ("dev", len(body))
    assert "resourceLogs" in kept.content
    assert "sk-aaaa" not in kept.content


@pytest.mark.parametrize("body", [b"", b"\x0a\x00", b"\x0a\x04\x12\x02\x12\x00"])
def test_an_empty_request_succeeds(door: Door, body: bytes) -> None:
    answer = door.post(body)
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.fixture
def narrow(store: None) -> receiver.Receiver:
    """A receiver that takes 64 KiB a request, and 128 KiB at once."""
    return receiver.Receiver(most_bytes=2**16)


def test_a_large_body_is_refused_by_its_announced_size(door: Door, narrow: receiver.Receiver) -> None:
    answer = door.post(bytes(2**16 + 1), app=narrow)
    assert answer.status_code == 413
    assert status_of(answer).code == 8


def test_a_large_body_in_pieces_is_refused_while_it_comes(door: Door, narrow: receiver.Receiver) -> None:
    taken = itertools.count()

    def endless() -> Iterator[bytes]:
        while next(taken) < 1000:
            yield bytes(2**12)

    assert door.post(endless(), app=narrow).status_code == 413
    assert next(taken) < 1000


@pytest.mark.parametrize("bomb", [gzip.compress(bytes(200 * MIB), 1), gzip.compress(bytes(2**15)) * 50])
def test_a_bomb_is_refused_while_it_inflates(door: Door, narrow: receiver.Receiver, bomb: bytes) -> None:
    app = narrow if len(bomb) < 2**16 else receiver.Receiver(most_bytes=2 * MIB)
    answer = door.post(bomb, headers={"content-encoding": "gzip"}, app=app)
    assert answer.status_code == 413
    assert app.room.held_bytes == 0


def test_no_room_sheds_before_the_body_is_read(door: Door, narrow: receiver.Receiver) -> None:
    with narrow.room.share() as others:
        others.take(2**17 - 10)
        answer = door.post(small(), app=narrow)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert status_of(answer).code == 14
    assert door.post(small(), app=narrow).status_code == 200
    assert narrow.room.held_bytes == 0


@pytest.mark.parametrize("most", ["MOST_WAITING_ROWS", "MOST_WAITING"])
def test_what_waits_to_be_stored_sheds_before_the_body_is_read(
    door: Door, monkeypatch: pytest.MonkeyPatch, most: str
) -> None:
    def pieces() -> Iterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    assert door.post(small()).status_code == 200
    rows = [Sent("failure_classified", 10**18 + number, 0, 13, "", {}, "", "") for number in range(3)]
    waiting = [read_records([Batch({}, "t", [row])], "dev", 10**15) for row in rows]
    monkeypatch.setattr(commits, "GROUP_ROWS", 1)
    monkeypatch.setattr(commits, most, 2)
    holder = connections.create_connection("default")
    with holder.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        futures = [commits.writer.submit(one) for one in waiting]
        answer = door.post(pieces())
        cursor.execute("ROLLBACK")
    holder.close()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert status_of(answer).message
    assert [future.result(timeout=10) for future in futures] == [[], [], []]
    assert (door.post(small()).status_code, Fact.objects.count()) == (200, 5)


def test_a_body_that_stops_coming_is_given_up(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "IDLE_S", 0.01)

    async def stalling() -> AsyncIterator[bytes]:
        yield b"\x0a"
        await asyncio.Event().wait()

    answer = door.post(stalling())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert status_of(answer).message


@pytest.mark.parametrize(
    "fault",
    [
        OperationalError("database is locked"),
        OperationalError("database or disk is full"),
        OperationalError("server closed the connection unexpectedly"),
        RuntimeError("a fault of ours"),
        MemoryError(),
    ],
    ids=repr,
)
def test_a_fault_that_may_pass_is_503_and_logged_once(
    door: Door, fault: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> int:
        raise fault

    monkeypatch.setattr(commits, "_troubles", TroubleLog(commits.logger))
    with monkeypatch.context() as broken:
        broken.setattr(commits, "store_facts", fail)
        answers = [door.post(small()) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [503] * 3
    assert {answer.headers["retry-after"] for answer in answers} == {"1"}
    assert [entry.exc_info is not None for entry in caplog.records if entry.name == "events.ingest.commits"] == [True]
    assert door.post(small()).status_code == 200


def test_a_fault_while_decoding_is_503(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(receiver, "read_request", fail)
    answer = door.post(small())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_a_locked_database_is_503_and_nothing_is_claimed(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "WAIT_S", 0.3)
    door.post(small())
    holder = connections.create_connection("default")
    with holder.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        answer = door.post(small())
        cursor.execute("ROLLBACK")
    holder.close()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert door.post(small()).status_code == 200


def test_keys_that_cannot_be_read_are_503_never_401(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: str) -> None:
        raise keys.KeyStoreAway("the database is away")

    monkeypatch.setattr(keys, "_read", away)
    keys.forget_keys()
    answer = door.post(small())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def spans() -> bytes:
    message = ExportTraceServiceRequest()
    for name in ("a", "b"):
        message.resource_spans.add().scope_spans.add().spans.add(name=name)
    return bytes(message.SerializeToString())


def points() -> bytes:
    message = ExportMetricsServiceRequest()
    metrics = message.resource_metrics.add().scope_metrics.add().metrics
    metrics.add(name="a").gauge.data_points.add(as_int=1)
    metrics.add(name="b").histogram.data_points.add(count=1)
    metrics.add(name="c")
    return bytes(message.SerializeToString())


def test_what_traces_and_metrics_do_not_say_is_honestly_not_kept(door: Door) -> None:
    assert door.post(spans(), path="/v1/traces").content == b"", "ordinary spans earn no remark"
    metrics = ExportMetricsServiceResponse.FromString(door.post(points(), path="/v1/metrics").content)
    assert metrics.partial_success.rejected_data_points == 2
    assert left_out(metrics.partial_success.error_message, "2") == []
    span = {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "a"}]}]}]}
    assert door.post(path="/v1/traces", json=span).json() == {}
    assert door.post(b"", path="/v1/traces").content == b""
    assert door.post(b"rubbish", path="/v1/metrics").status_code == 400


def test_nobody_waits_for_metrics_which_are_never_stored(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    expected: list[str] = []
    expecting = commits.Writer.expecting

    def noted(writer: commits.Writer) -> AbstractContextManager[None]:
        expected.append("one")
        return expecting(writer)

    monkeypatch.setattr(commits.Writer, "expecting", noted)
    assert door.post(points(), path="/v1/metrics").status_code == 200
    assert expected == []
    assert door.post(protobuf(request(record()))).status_code == 200
    assert door.post(spans(), path="/v1/traces").status_code == 200
    assert expected == ["one", "one"]


def test_a_poisoned_record_is_set_aside_and_its_neighbours_stored(door: Door) -> None:
    poison = record(given={f"k{number}": number for number in range(2000)})
    answer = door.post(protobuf(request(record(), poison, record())))
    partial = ExportLogsServiceResponse.FromString(answer.content).partial_success
    assert answer.status_code == 200
    assert partial.rejected_log_records == 1
    assert "2001 attributes" in partial.error_message
    assert (Fact.objects.count(), Quarantine.objects.count()) == (2, 1)


def test_a_resource_that_cannot_be_read_is_set_aside_and_those_beside_it_are_stored(door: Door) -> None:
    spoilt = {"scopeLogs": "x"}
    for body, content_type in (
        (protobuf(request(record())) + b"\x0a\x02\x12\x7f", PROTOBUF),
        (json.dumps({"resourceLogs": [spoilt, *request(record())["resourceLogs"]]}).encode(), JSON),
    ):
        answer = door.post(body, headers={"content-type": content_type})
        assert answer.status_code == 200
        assert b"set aside: the record is in a resource that cannot be read" in answer.content
    assert Fact.objects.count() == 2
    kept = [(bytes(line.payload), line.encoding) for line in Quarantine.objects.order_by("id")]
    assert kept == [
        (b"\x0a\x02\x12\x7f", PROTOBUF),
        (json.dumps({"resourceLogs": [spoilt]}).encode(), JSON),
    ]


def test_a_warning_is_no_rejection(door: Door) -> None:
    answer = door.post(json=request(record(given={"recovery.failure.category": "blue"})))
    partial = answer.json()["partialSuccess"]
    assert partial["rejectedLogRecords"] == "0"
    assert "recovery.failure.category" in partial["errorMessage"]
    assert Fact.objects.get().category == "unknown"


def test_no_request_is_ever_redirected_or_answered_with_html(door: Door) -> None:
    paths = ["/v1", "/v1/", "/v1/logs", "/v1/logs/", "/v1//logs", "/v1/traces", "/v1/metrics", "/v1/%2e%2e/", "/v1/x"]
    for method, path in itertools.product(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"], paths):
        for headers in ({}, {"content-type": None}, {"authorization": None}, {"content-type": "text/html"}):
            answer = door.post(b"<html>", path=path, method=method, headers=headers)
            assert answer.status_code in {400, 401, 404, 405, 415}, (method, path, headers)
            assert answer.headers["content-type"] in {JSON, PROTOBUF}


def test_half_a_character_in_a_name_spoils_nothing(door: Door) -> None:
    odd = record("broken \ud83d name") | {"severityNumber": 17}
    answer = door.post(json.dumps(request(odd, record())).encode(), headers={"content-type": JSON})
    assert answer.status_code == 200
    assert Fact.objects.count() == 2


@pytest.mark.parametrize(
    "body",
    [
        b"\0" * 300_000,
        b"\x0a\0" * 50_001,
        b"\x0a\x03\x12\x01\x0b",
        b"\x0a\x7f",
        b"\xff" * 40,
    ],
    ids=["no field", "too many parts", "a group", "cut", "a number without end"],
)
def test_what_no_sender_writes_is_refused_for_good(door: Door, body: bytes) -> None:
    answer = door.post(body, headers={"content-type": PROTOBUF})
    assert answer.status_code == 400
    assert not Fact.objects.exists()
