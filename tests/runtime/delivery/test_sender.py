from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from recovery_ops.runtime.http.transport import ASKED_CAP_S, Answer, asked_s
from recovery_ops.runtime.process.poll_intervals import Pace
from recovery_ops.runtime.telemetry.exporter import Exporter, Outcome, Timing, export_request, judge
from recovery_ops.runtime.telemetry.outbox import Entry, Outbox, Rank, Row
from recovery_ops.runtime.telemetry.outbox_file import Envelope
from recovery_ops.runtime.telemetry.pipeline import read_answer
from recovery_ops.runtime.testing import PushedClock
from tests.support.http_server import PROTOBUF, Reply, Request, answer, raw, reset, serving, silent_until, stored
from tests.support.processes import eventually

QUICK = Timing(
    timeout_s=5.0,
    linger_s=0.01,
    floor_s=0.001,
    first_s=0.002,
    cap_s=0.01,
    not_allowed_first_s=0.002,
    not_allowed_cap_s=0.01,
)
KEY = "ro_secret_key"


def encoded(resource: str) -> Envelope:
    named = Resource()
    named.attributes.add(key="service.instance.id").value.string_value = resource
    return Envelope(named.SerializeToString(), InstrumentationScope(name="recovery.runtime").SerializeToString())


def entry(uid: str, rank: Rank = Rank.EVENT, resource: str = "agent-1", size: int = 0) -> Entry:
    record = LogRecord(event_name="recovery.test")
    record.attributes.add(key="log.record.uid").value.string_value = uid
    record.body.string_value = "x" * size
    return Entry(uid, rank, record.SerializeToString(), 1, encoded(resource))


def entries(count: int) -> list[Entry]:
    return [entry(f"{number:04}") for number in range(count)]


Start = Callable[..., tuple[Exporter, Outbox]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a sender on an outbox with these entries; both are closed at the end."""
    opened: list[tuple[Exporter, Outbox]] = []

    def start_one(url: str, kept: list[Entry], timing: Timing = QUICK) -> tuple[Exporter, Outbox]:
        outbox = Outbox(tmp_path / f"{len(opened)}.outbox")
        outbox.add(kept)
        sender = Exporter(url, KEY, timing=timing)
        sender.start(outbox, read_answer)
        opened.append((sender, outbox))
        return opened[-1]

    yield start_one
    for sender, outbox in opened:
        sender.close()
        outbox.close()


def delivered(outbox: Outbox) -> None:
    eventually(lambda: outbox.pending == 0, what="delivery")


def test_a_batch_is_one_compressed_request_with_the_key(start: Start) -> None:
    with serving() as server:
        _, outbox = start(server.url, entries(5))
        delivered(outbox)
        (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/v1/logs")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == PROTOBUF
    assert request.headers["content-encoding"] == "gzip"
    assert request.uids == ["0000", "0001", "0002", "0003", "0004"]


def test_many_facts_go_in_order_in_batches_over_one_connection(start: Start) -> None:
    with serving() as server:
        _, outbox = start(server.url, entries(1300))
        delivered(outbox)
        assert server.uids == [f"{number:04}" for number in range(1300)]
        assert [len(request.uids) for request in server.requests] == [512, 512, 276]
        assert {request.connection for request in server.requests} == {1}


@pytest.mark.parametrize(
    "misbehaviour",
    [
        *(answer(status) for status in (404, 408, 409, 418, 429, 500, 501, 502, 503, 504, 529)),
        answer(401),
        answer(403),
        answer(503, retry_after="0"),
        answer(301, Location="/v1/logs/"),
        answer(302, Location="/sign-in"),
        answer(307, Location="http://127.0.0.1:1/v1/logs"),
        answer(200, b"<html>Welcome</html>", media_type="text/html"),
        answer(200, b"", media_type=""),
        answer(200, b"{}", media_type="application/json"),
        answer(200, b"\xff\xff\xff not protobuf"),
        answer(202),
        answer(204, media_type=""),
        answer(400, b"<html>nginx</html>", media_type="text/html"),
        reset,
        raw(b""),
        raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nhalf"),
        raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n\r\n" + b"\0" * 5_000_000),
    ],
)
def test_nothing_but_a_clear_yes_removes_anything(start: Start, misbehaviour: Reply) -> None:
    with serving(misbehaviour, misbehaviour) as server:
        _, outbox = start(server.url, entries(3))
        delivered(outbox)
        assert [request.uids for request in server.requests] == [["0000", "0001", "0002"]] * 3
        assert outbox.dropped == 0


def test_a_server_that_is_silent_is_asked_again(start: Start) -> None:
    gate = threading.Event()
    with serving(silent_until(gate, stored())) as server:
        _, outbox = start(
            server.url, entries(2), timing=Timing(timeout_s=0.05, linger_s=0.0, floor_s=0.001, first_s=0.001)
        )
        delivered(outbox)
        gate.set()
        assert [request.uids for request in server.requests] == [["0000", "0001"]] * 2


def test_no_server_at_all_is_only_a_wait(start: Start) -> None:
    with serving() as server:
        url = server.url
    sender, outbox = start(url, entries(2))
    assert sender.push(5.0) is False
    assert outbox.pending == 2


def refusing(bad: set[str], status: int = 400) -> Reply:
    """Refuses every batch that holds a bad record."""

    def reply(connection: object, request: Request) -> bool:
        chosen = answer(status) if bad & set(request.uids) else stored()
        return chosen(connection, request)  # type: ignore[arg-type]  # handed through

    return reply


@pytest.mark.parametrize("status", [400, 413])
@pytest.mark.parametrize("bad", [{"0000"}, {"0299"}, {"0137"}, {"0100", "0101"}, set()])
def test_a_bad_record_is_found_and_its_neighbours_go_out_in_order(start: Start, bad: set[str], status: int) -> None:
    with serving(otherwise=refusing(bad, status)) as server:
        _, outbox = start(server.url, entries(300))
        delivered(outbox)
        good = [uid for request in server.requests if not bad & set(request.uids) for uid in request.uids]
        assert good == [f"{number:04}" for number in range(300) if f"{number:04}" not in bad]
        assert {uid for uid, _ in outbox.aside()} == bad
        assert outbox.tallies["refused"] == len(bad)
        assert len(server.requests) <= 1 + 24 * len(bad)


def limited_to(records: int) -> Reply:
    def reply(connection: object, request: Request) -> bool:
        chosen = answer(413) if len(request.uids) > records else stored()
        return chosen(connection, request)  # type: ignore[arg-type]  # handed through

    return reply


def test_a_server_that_takes_only_small_batches_gets_small_batches(start: Start) -> None:
    with serving(otherwise=limited_to(100)) as server:
        _, outbox = start(server.url, entries(1500))
        delivered(outbox)
        assert outbox.tallies["refused"] == 0
        assert len(server.requests) < 40


def test_batches_grow_after_eight_deliveries(start: Start) -> None:
    limits = iter([256] * 6 + [128] * 9)

    def shrinking(connection: object, request: Request) -> bool:
        chosen = answer(413) if len(request.uids) > next(limits, 512) else stored()
        return chosen(connection, request)  # type: ignore[arg-type]  # handed through

    with serving(otherwise=shrinking) as server:
        _, outbox = start(server.url, entries(5000))
        delivered(outbox)
        sizes = [len(request.uids) for request in server.requests]
    assert sizes == [512, *[256] * 6, *[128] * 8, *[256] * 8, 512, 136]


def test_what_the_server_did_not_store_is_said_once_and_not_sent_again(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(otherwise=stored(1, "too old")) as server, caplog.at_level(logging.WARNING):
        sender, outbox = start(server.url, entries(600))
        delivered(outbox)
        eventually(lambda: sender.rejected == len(server.requests) == 2)
    assert len([record for record in caplog.records if "too old" in record.getMessage()]) == 1


@pytest.mark.parametrize(("status", "word"), [(401, "key"), (503, "503"), (301, "final address")])
def test_a_trouble_is_said_once_and_its_end_once(
    start: Start, caplog: pytest.LogCaptureFixture, status: int, word: str
) -> None:
    with serving(*[answer(status, Location="/elsewhere")] * 5) as server, caplog.at_level(logging.WARNING):
        _, outbox = start(server.url, entries(1))
        delivered(outbox)
        eventually(lambda: len(caplog.records) == 2)
    assert word in caplog.records[0].getMessage()
    assert "again" in caplog.records[1].getMessage()
    assert KEY not in caplog.text


def test_refused_key_is_another_trouble(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    with serving(answer(503), answer(401), answer(503)) as server, caplog.at_level(logging.WARNING):
        _, outbox = start(server.url, entries(1))
        delivered(outbox)
        eventually(lambda: len(caplog.records) == 3)
    assert ["503" in caplog.messages[0], "401" in caplog.messages[1], "again" in caplog.messages[2]] == [True] * 3


def test_an_urgent_fact_does_not_wait_for_company(start: Start) -> None:
    patient = Timing(linger_s=60.0)
    with serving() as server:
        sender, outbox = start(server.url, [], timing=patient)
        outbox.add([entry("calm")])
        sender.notify()
        outbox.add([entry("urgent", Rank.ALWAYS)])
        sender.notify(is_urgent=True)
        delivered(outbox)
        assert server.uids == ["calm", "urgent"]


def test_a_push_does_not_wait_for_the_pace_but_obeys_the_server(start: Start) -> None:
    slow = Timing(linger_s=0.0, floor_s=60.0, first_s=60.0, cap_s=60.0)
    with serving(answer(500), answer(503, retry_after="200")) as server:
        sender, outbox = start(server.url, entries(1), timing=slow)
        eventually(lambda: len(server.requests) == 1)
        assert sender.push(10.0) is False
        assert len(server.requests) == 2
        assert sender.push(10.0) is False
        assert (len(server.requests), outbox.pending) == (2, 1)


def test_the_pause_a_server_asks_for_is_kept_to_the_end_by_the_clock_that_was_given(tmp_path: Path) -> None:
    clock = PushedClock()
    outbox = Outbox(tmp_path / "a.outbox", clock=clock)
    outbox.add(entries(1))
    with serving(answer(503, retry_after="7")) as server:
        sender = Exporter(server.url, KEY, clock=clock, chance=lambda: 0.0, timing=QUICK)
        sender.start(outbox, read_answer)
        eventually(lambda: len(server.requests) == 1)
        assert sender.push(10.0) is False
        clock.push(6.9)
        assert sender.push(10.0) is False
        assert len(server.requests) == 1
        clock.push(0.2)
        assert sender.push(10.0) is True
        sender.close()
    outbox.close()


@pytest.mark.parametrize(
    ("reply", "first_s", "second_s"),
    [
        (answer(500), 4.0, 8.0),
        (answer(401), 40.0, 80.0),
        (answer(403), 40.0, 80.0),
        (answer(503, retry_after="100"), 125.0, 125.0),
        (answer(503, retry_after="1"), 4.0, 8.0),
        (answer(401, retry_after="100"), 125.0, 125.0),
    ],
    ids=["500", "401", "403", "503 longer", "503 shorter", "401 longer"],
)
def test_wait_depends_on_the_answer(tmp_path: Path, reply: Reply, first_s: float, second_s: float) -> None:
    clock = PushedClock()
    outbox = Outbox(tmp_path / "a.outbox", clock=clock)
    outbox.add(entries(1))
    slow = Timing(linger_s=0.0, floor_s=1.0, first_s=4.0, cap_s=60.0, not_allowed_first_s=40.0, not_allowed_cap_s=90.0)
    waits: list[float] = []
    with serving(otherwise=reply) as server:
        sender = Exporter(server.url, KEY, clock=clock, chance=lambda: 1.0, timing=slow)
        sender.start(outbox, read_answer)
        for _ in range(2):
            eventually(lambda: sender._failures > len(waits))
            waits.append(sender._rest_until - clock.now())
            clock.push(waits[-1])
            sender.notify(is_urgent=True)
        sender.close()
    outbox.close()
    assert waits == [first_s, second_s]


@pytest.mark.parametrize(("status", "first_s"), [(500, 4.0), (403, 40.0)])
def test_delivery_makes_the_next_wait_a_first_one(tmp_path: Path, status: int, first_s: float) -> None:
    clock = PushedClock()
    outbox = Outbox(tmp_path / "a.outbox", clock=clock)
    slow = Timing(linger_s=0.0, floor_s=1.0, first_s=4.0, cap_s=60.0, not_allowed_first_s=40.0, not_allowed_cap_s=90.0)
    waits: list[float] = []
    with serving(answer(status), stored(), answer(status)) as server:
        sender = Exporter(server.url, KEY, clock=clock, chance=lambda: 1.0, timing=slow)
        outbox.add([entry("one")])
        sender.start(outbox, read_answer)
        for uid in ("two", "three"):
            eventually(lambda: sender._failures > len(waits))
            waits.append(sender._rest_until - clock.now())
            if uid == "two":
                clock.push(waits[-1])
                sender.notify(is_urgent=True)
                delivered(outbox)
                outbox.add([entry(uid)])
                sender.notify(is_urgent=True)
        sender.close()
    outbox.close()
    assert waits == [first_s, first_s]


def test_facts_of_two_instances_keep_their_senders(start: Start) -> None:
    mixed = [entry("a1", resource="a"), entry("a2", resource="a"), entry("b1", resource="b"), entry("a3", resource="a")]
    with serving() as server:
        _, outbox = start(server.url, mixed)
        delivered(outbox)
        (request,) = server.requests
    whose = [resource.resource.attributes[0].value.string_value for resource, _ in request.exported]
    assert (whose, request.uids) == (["a", "a", "b", "a"], ["a1", "a2", "b1", "a3"])


def test_a_proxy_of_the_environment_is_not_for_this_machine(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with serving() as server:
        _, outbox = start(server.url, entries(1))
        delivered(outbox)


def test_a_proxy_of_the_environment_is_used_for_others(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with serving() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        _, outbox = start("http://console.example.invalid", entries(1))
        delivered(outbox)
        assert proxy.requests[0].target == "http://console.example.invalid/v1/logs"


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://x", "http://", "https://x/?a=1", "/v1/logs"])
def test_an_address_that_is_none_is_told_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="address of a server"):
        Exporter(url, KEY)


def test_a_key_that_is_none_is_told_at_once_and_not_shown() -> None:
    with pytest.raises(ValueError, match="characters that no key has") as caught:
        Exporter("http://x", "ro_secret\r\nX-Evil: 1")
    assert "secret" not in str(caught.value)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
            st.integers(0, 20_000),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_the_framed_request_is_what_protobuf_would_write(records: list[tuple[str, str, int]]) -> None:
    rows = tuple(Row(number, entry(uid, resource=who, size=size)) for number, (who, uid, size) in enumerate(records))
    request = ExportLogsServiceRequest.FromString(export_request(rows))
    found = [
        (resource.resource.SerializeToString(), record.SerializeToString())
        for resource in request.resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]
    assert found == [(row.entry.envelope.resource, row.entry.content) for row in rows]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5.0),
        ("0.5", 0.5),
        ("0", 0.0),
        ("Thu, 01 Jan 1970 00:17:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:10:00 GMT", None),
        ("999999", ASKED_CAP_S),
        *((text, None) for text in ("", "soon", "-1", "nan", "inf", "-inf", "Thu, 99 Jan 1970 00:00:00 GMT")),
    ],
)
def test_the_servers_word_on_when_to_come_back(text: str, expected: float | None) -> None:
    assert asked_s(text, wall=1000.0) == expected


def test_an_answer_in_another_case_is_still_a_yes() -> None:
    said = Answer(200, {"content-type": "Application/X-Protobuf; charset=binary"}, b"")
    assert judge(said, read_answer, 0.0).outcome is Outcome.DELIVERED


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 100))
def test_waits_grow_and_stay_within_their_bounds(chance: float, failures: int) -> None:
    pace = Pace(floor_s=0.2, first_s=0.4, cap_s=30.0, chance=lambda: chance)
    waits = [pace.next_s() for _ in range(failures + 1)]
    assert waits == sorted(waits)
    assert all(0.2 <= wait_s <= 30.0 for wait_s in waits)
    pace.succeeded()
    assert pace.next_s() <= 0.4


@given(st.floats(0, 1, exclude_max=True), st.floats(0, 300))
def test_the_servers_word_is_never_undercut(chance: float, asked: float) -> None:
    pace = Pace(floor_s=0.2, first_s=0.4, cap_s=30.0, chance=lambda: chance)
    assert asked <= pace.next_s(asked_s=asked) <= max(0.4, 1.25 * asked)


def test_push_after_a_pause_is_over_waits_for_nothing(tmp_path: Path) -> None:
    clock, slow = PushedClock(), Timing(linger_s=0.0, floor_s=60.0, first_s=60.0, cap_s=60.0)
    outbox = Outbox(tmp_path / "a.outbox", clock=clock)
    outbox.add(entries(1))
    with serving(answer(503, retry_after="100"), answer(500), stored()) as server:
        sender = Exporter(server.url, KEY, clock=clock, chance=lambda: 0.0, timing=slow)
        sender.start(outbox, read_answer)
        eventually(lambda: len(server.requests) == 1)
        assert sender.push(10.0) is False
        clock.push(101.0)
        assert sender.push(10.0) is False
        assert sender.push(10.0) is True
        sender.close()
    outbox.close()
