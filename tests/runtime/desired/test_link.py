from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.events import DesiredStateApplied, DesiredStateRejected, Event
from recovery_ops.runtime.config.stream import PATH, STREAM_PATH, ConfigStream, Timing
from recovery_ops.runtime.http.transport import Transport
from recovery_ops.runtime.process.clock import Clock
from tests.support.acceptance import document, trip
from tests.support.http_server import Reply, Stream, answer, event, raw, reset, serving, silent_until
from tests.support.http_server import document as json_answer
from tests.support.processes import ROOT, Running, eventually

QUICK = Timing(
    first_byte_s=5.0,
    silence_s=5.0,
    answer_s=5.0,
    poll_s=0.01,
    poll_for_s=0.2,
    floor_s=0.001,
    first_s=0.002,
    cap_s=0.02,
    not_for_us_first_s=0.002,
    not_for_us_cap_s=0.02,
)
KEY = "ro_secret_key"


class Followed(ConfigStream):
    """A link that notes what it applied and told."""

    def __init__(self, url: str, store: Path | None = None, timing: Timing = QUICK, **more: Any) -> None:
        self.obeyed: list[Desired] = []
        self.told: list[Event] = []
        super().__init__(
            url,
            KEY,
            service="research",
            instance="agent-1",
            group="blue",
            store=store,
            on_desired=self._obey,
            emit=self.told.append,
            timing=timing,
            **more,
        )

    def _obey(self, desired: Desired) -> list[str]:
        self.obeyed.append(desired)
        return []

    @property
    def revisions(self) -> list[int]:
        return [one.revision for one in self.obeyed]


Follow = Callable[..., Followed]


@pytest.fixture
def follow() -> Iterator[Follow]:
    """Start links that are closed at the end of the test."""
    opened: list[Followed] = []

    def follow_one(url: str, **options: Any) -> Followed:
        opened.append(Followed(url, **options))
        opened[-1].start()
        return opened[-1]

    yield follow_one
    for link in opened:
        link.close()


def streaming(stream: Reply, **others: Reply) -> Any:
    return serving(routes={STREAM_PATH: stream, **others}, otherwise=answer(404))


def test_what_the_stream_says_is_obeyed_at_once(follow: Follow) -> None:
    stream = Stream(event(document(1), revision=1, name="desired"))
    with streaming(stream) as server:
        link = follow(server.url)
        eventually(lambda: link.revisions == [1])
        stream.say(b": heartbeat\n\n")
        stream.say(event(document(2), revision=2, name="desired"))
        eventually(lambda: link.revisions == [1, 2])
        assert link.is_connected
        assert link.config_hash == document(2)["config_hash"]
        (request,) = server.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["accept"] == "text/event-stream"
    assert parse_qs(request.target.partition("?")[2]) == {
        "service": ["research"], "instance": ["agent-1"], "group": ["blue"],
    }  # fmt: skip


def test_a_message_in_pieces_is_one_message_and_half_a_message_is_none(follow: Follow) -> None:
    whole = event(document(1), revision=1)
    stream = Stream(whole[:20], whole[20:200], whole[200:], event(document(2), revision=2)[:-20])
    with streaming(stream) as server:
        link = follow(server.url)
        eventually(lambda: link.revisions == [1])
        stream.cut()
        eventually(lambda: stream.count >= 2)
        assert link.revisions == [1]
        assert server.requests[-1].headers["last-event-id"] == "1"


def test_events_that_are_not_for_us_are_passed_over(follow: Follow) -> None:
    stream = Stream(event({"x": 1}, name="advice"), event(document(1), name="desired"))
    with streaming(stream) as server:
        link = follow(server.url)
        eventually(lambda: link.revisions == [1])
    assert not [fact for fact in link.told if isinstance(fact, DesiredStateRejected)]


@pytest.mark.parametrize(
    "misbehaviour",
    [
        *(answer(status) for status in (401, 403, 404, 408, 429, 500, 502, 503, 504)),
        answer(503, retry_after="0"),
        answer(301, Location="/api/v1/desired/stream/"),
        answer(302, Location="https://login.example.invalid/"),
        reset,
        raw(b""),
        raw(b"\x16\x03\x01 not http"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {half"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + b"data: " + b"x" * 5_000_000),
        raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + b"data: \xff\xfe\n\n"),
    ],
)
def test_a_server_that_misbehaves_costs_only_time(follow: Follow, misbehaviour: Reply) -> None:
    good = Stream(event(document(1), revision=1))
    with serving(misbehaviour, misbehaviour, misbehaviour, otherwise=good) as server:
        link = follow(server.url)
        eventually(lambda: link.revisions == [1])
        eventually(lambda: link.is_connected)
        assert {request.path for request in server.requests} == {STREAM_PATH}


@pytest.mark.parametrize(
    ("reply", "first_s", "second_s"),
    [
        (answer(503), 4.0, 8.0),
        (answer(401), 40.0, 80.0),
        (answer(503, retry_after="100"), 125.0, 125.0),
        (answer(503, retry_after="1"), 4.0, 8.0),
    ],
    ids=["503", "401", "503 longer", "503 shorter"],
)
@pytest.mark.parametrize("is_polling", [False, True])
def test_wait_depends_on_the_answer(reply: Reply, first_s: float, second_s: float, is_polling: bool) -> None:
    slow = Timing(floor_s=1.0, first_s=4.0, cap_s=60.0, not_for_us_first_s=40.0, not_for_us_cap_s=90.0)
    with serving(otherwise=reply) as server:
        link = Followed(server.url, timing=slow, chance=lambda: 1.0)
        transport = Transport(server.url, KEY, Clock())
        if is_polling:
            link._poll_instead("nothing comes through")
        waits = [link._round(transport) for _ in range(2)]
        assert {request.path for request in server.requests} == {PATH if is_polling else STREAM_PATH}
        transport.close()
    assert waits == [first_s, second_s]


@pytest.mark.parametrize("content", ["not json", "{}", '{"schema_version": 1, "revision": 9, "requires": ["x"]}'])
def test_garbage_is_rejected_once_and_the_next_document_counts(follow: Follow, content: str) -> None:
    stream = Stream(event(document(1)), event(content, revision=9), event(content, revision=9), event(document(2)))
    with streaming(stream) as server:
        link = follow(server.url)
        eventually(lambda: link.revisions == [1, 2])
    (rejection,) = [fact for fact in link.told if isinstance(fact, DesiredStateRejected)]
    assert (rejection.revision, rejection.kept_revision) == (9, 1)


def test_a_key_that_may_not_is_said_once_and_without_the_key(follow: Follow, caplog: pytest.LogCaptureFixture) -> None:
    with serving(*[answer(403)] * 4, otherwise=Stream(event(document(1)))) as server, caplog.at_level(logging.WARNING):
        link = follow(server.url)
        eventually(lambda: link.revisions == [1])
    assert len([record for record in caplog.records if "403" in record.getMessage()]) == 1
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    "refusal",
    [
        answer(405),
        answer(501),
        answer(200, b"<html>portal</html>", media_type="text/html"),
        json_answer({"hello": 1}),
    ],
)
def test_where_there_is_no_stream_it_polls_with_the_etag_and_tries_the_stream_again(
    follow: Follow, refusal: Reply
) -> None:
    with streaming(refusal, **{PATH: json_answer(document(1), ETag='"one"')}) as server:
        link = follow(server.url)
        eventually(lambda: link.revisions == [1] and link.is_connected)
        server.routes[PATH] = answer(304, media_type="")
        eventually(lambda: len(server.of(STREAM_PATH)) > 1)
        asked = server.of(PATH)
        assert asked[0].headers.get("if-none-match") is None
        assert {request.headers.get("if-none-match") for request in asked[1:]} == {'"one"'}
        server.routes[PATH] = json_answer(document(2), ETag='"two"')
        eventually(lambda: link.revisions == [1, 2])


@pytest.mark.parametrize("says_headers", [True, False])
def test_a_proxy_that_holds_the_stream_back_is_found_out(follow: Follow, says_headers: bool) -> None:
    gate = threading.Event()
    held = Stream() if says_headers else silent_until(gate, answer(504))
    patient = Timing(first_byte_s=0.05, poll_s=0.01, poll_for_s=60.0, floor_s=0.001)
    with streaming(held, **{PATH: json_answer(document(1))}) as server:
        link = follow(server.url, timing=patient)
        eventually(lambda: link.revisions == [1])
        gate.set()


def test_a_stream_that_falls_silent_is_opened_again(follow: Follow) -> None:
    stream = Stream(event(document(1), revision=1))
    impatient = Timing(first_byte_s=2.0, silence_s=0.05, floor_s=0.001, first_s=0.002)
    with streaming(stream) as server:
        link = follow(server.url, timing=impatient)
        eventually(lambda: len(server.requests) >= 3)
        assert link.revisions == [1]
        assert server.of(PATH) == []


def test_an_older_document_is_ignored_and_a_counter_that_began_anew_believed(follow: Follow) -> None:
    first, lagging, new = Stream(event(document(57))), Stream(event(document(50))), Stream(event(document(3)))
    with serving(first, lagging, first, new, otherwise=new) as server:
        link = follow(server.url)
        eventually(lambda: link.revisions == [57])
        first.cut()
        eventually(lambda: first.count == 2)
        assert link.revisions == [57]
        first.cut()
        eventually(lambda: link.revisions == [57, 3])
        assert len(server.requests) == 5


def test_the_last_known_state_holds_before_and_without_a_server(follow: Follow, tmp_path: Path) -> None:
    store = tmp_path / "desired.json"
    with streaming(Stream(event(document(7)))) as server:
        follow(server.url, store=store)
        eventually(store.exists)
        url = server.url
    again = follow(url, store=store)
    assert again.revisions == [7]
    assert again.told == [DesiredStateApplied(revision=7, config_hash=document(7)["config_hash"])]
    assert not again.is_connected


def test_what_lies_on_disk_may_be_what_another_instance_was_told(follow: Follow, tmp_path: Path) -> None:
    """They share the file. Whoever named its revision would not be sent what is for them alone in it."""
    store = tmp_path / "desired.json"
    with streaming(Stream(event(document(7)))) as server:
        follow(server.url, store=store)
        eventually(store.exists)
    mine = document(7, overrides=[trip()])
    stream = Stream(event(mine, revision=7))
    with streaming(stream) as server:
        link = follow(server.url, store=store)
        eventually(lambda: link.config_hash == mine["config_hash"])
        assert "last-event-id" not in server.requests[0].headers
        stream.cut()
        eventually(lambda: len(server.requests) >= 2)
        assert server.requests[1].headers["last-event-id"] == "7"


def test_the_servers_clock_is_known_from_its_date(follow: Follow) -> None:
    stream = Stream(event(document(1, issued_at=0.0)), date="Thu, 01 Jan 2099 00:00:00 GMT")
    with streaming(stream) as server:
        link = follow(server.url)
        eventually(lambda: link.revisions == [1])
        assert link.server_offset_s > 365 * 86_400


def test_closing_does_not_wait_for_the_server(follow: Follow) -> None:
    with streaming(Stream(event(document(1)))) as server:
        link = follow(server.url)
        eventually(lambda: link.is_connected)
        link.close(20.0)
        assert not link.is_connected
        assert link.revision == 1
        assert not [
            thread for thread in threading.enumerate() if thread.name == "recovery-ops-link" and thread.is_alive()
        ]


def test_a_check_can_be_forced(follow: Follow) -> None:
    with serving(routes={PATH: json_answer(document(4))}, otherwise=answer(404)) as server:
        link = Followed(server.url)
        assert link.force_check()
        assert link.revisions == [4]
        server.routes[PATH] = answer(500)
        assert not link.force_check()


FORK = """
import os, sys, time
from recovery_ops.runtime.config.stream import ConfigStream
obeyed, told = [], []
link = ConfigStream(sys.argv[1], "key", service="s", instance="agent-1", store=None,
            on_desired=lambda desired: obeyed.append(desired.revision) or [], emit=told.append)
link.start()
while not link.is_connected: time.sleep(0.005)
child = os.fork()
if child == 0:
    while link.revision != 2: time.sleep(0.005)
    assert [fact.revision for fact in told[1:]] in ([1, 2], [2]), told
    link.close()
    os._exit(0)
while link.revision != 2: time.sleep(0.005)
assert os.waitpid(child, 0)[1] == 0
link.close()
print("both obey", flush=True)
"""


def test_a_forked_child_follows_for_itself() -> None:
    stream = Stream(event(document(1), revision=1))
    with streaming(stream) as server:
        with Running([sys.executable, "-c", FORK, server.url], env={"PYTHONPATH": str(ROOT)}) as running:
            eventually(lambda: len(server.requests) == 2, what="the child's connection")
            stream.say(event(document(2), revision=2))
            running.said("both obey")
        instances = [parse_qs(request.target.partition("?")[2])["instance"][0] for request in server.requests]
    assert instances[0] == "agent-1"
    assert instances[1].startswith("agent-1~")
