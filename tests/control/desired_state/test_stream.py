"""The stream that agents follow, through a real server: what they hear, in which order, and when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from django.db import OperationalError, connection

from events import keys
from events.live.pulse import Pulse
from recovery_ops import wire
from recovery_ops.control.breakers.services import overrides as overrides_services
from recovery_ops.control.core.models.revisions import Revision
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.desired_state import stream
from recovery_ops.control.policies.services import policies
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person, trip
from tests.support.desired_stream import Follower, Served, door_of, following, served
from tests.support.processes import eventually
from tests.support.sentences import left_out

ELSEWHERE = Scope(operation="search_web", service="billing")


@pytest.fixture
def key(transactional_db: None) -> Iterator[str]:
    """A key of `dev` that may follow."""
    keys.forget_keys()
    yield keys.create_key("tests", ["desired"], "dev")[1]
    keys.forget_keys()


@pytest.fixture
def server(key: str) -> Iterator[Served]:
    with served() as found:
        yield found


def change(number: int) -> int:
    """One change of `dev`; its revision."""
    return trip(scope=Scope(operation=f"operation-{number}"), ahead=True).revision


def test_the_whole_state_comes_at_once_and_then_with_each_change(server: Served, key: str) -> None:
    with following(server.url, key) as follower:
        first = follower.next()
        assert (first.event, first.id, json.loads(first.data)["revision"]) == ("desired", "0", 0)
        for revision in (1, 2, 3):
            assert change(revision) == revision
            message = follower.next()
            assert message.id == str(revision)
            assert len(wire.parse_desired(json.loads(message.data)).overrides) == revision


def test_everybody_hears_of_every_change_in_order(server: Served, key: str) -> None:
    with contextlib.ExitStack() as stack:
        followers = [stack.enter_context(following(server.url, key, instance=f"r-{one}")) for one in range(8)]
        for follower in followers:
            follower.next()
        for number in range(5):
            change(number)
        for follower in followers:
            heard = revisions_until(follower, "5")
            assert heard == sorted(set(heard))


def revisions_until(follower: Follower, last: str) -> list[int]:
    heard = [follower.next().id]
    while heard[-1] != last:
        heard.append(follower.next().id)
    return [int(one) for one in heard]


def test_an_agent_hears_only_what_concerns_it(server: Served, key: str) -> None:
    trip(scope=ELSEWHERE, ahead=True)
    with following(server.url, key) as research, following(server.url, key, service="billing") as billing:
        assert [research.document()["overrides"], len(billing.document()["overrides"])] == [[], 1]
        with following(server.url, keys.create_key("other", ["desired"], "prod")[1]) as prod:
            assert prod.document()["environment"] == "prod"


def test_what_is_sent_is_what_would_be_answered(server: Served, key: str) -> None:
    trip(ahead=True)
    with following(server.url, key) as follower:
        for action in (
            lambda: overrides_services.disable(**asked(scope=Scope(service="research"), ahead=True)),
            lambda: policies.set_operation_policy(
                **asked(by=person(Role.EDITOR), operation="search_web", settings={"max_retries": 5}, ahead=True)
            ),
            lambda: overrides_services.end_expired("dev", now=datetime.now(UTC) + timedelta(days=40)),
        ):
            follower.next()
            action()
        sent = follower.document()
    now = datetime.fromtimestamp(sent["issued_at"], UTC)
    fresh = desired.document("dev", service="research", instance="r-0", group="", now=now)
    assert sent == fresh | {"issued_at": sent["issued_at"]}


@pytest.mark.parametrize("last_id", ["", "0", "1", "7", "ten", "-1", "9" * 40])
def test_who_comes_back_is_told_what_they_do_not_have(server: Served, key: str, last_id: str) -> None:
    change(0)
    change(1)
    with following(server.url, key, last_id=last_id) as follower:
        assert follower.next().id == "2"


def test_who_comes_back_with_the_newest_waits_for_the_next(server: Served, key: str) -> None:
    change(0)
    with following(server.url, key, last_id="1") as follower:
        eventually(lambda: b": " in follower.raw, what="a sign of life")
        change(1)
        assert follower.next().id == "2"


def test_a_state_that_was_turned_back_is_told_too(server: Served, key: str) -> None:
    change(0)
    change(1)
    with following(server.url, key) as follower:
        assert follower.next().id == "2"
        Revision.objects.filter(environment="dev").update(number=1)
        assert follower.next().id == "1"
        Revision.objects.all().delete()
        assert follower.next().id == "0"


def test_silence_is_filled_with_heartbeats_whatever_happens_elsewhere(key: str, settings: Any) -> None:
    settings.HEARTBEAT_S = 0.05
    with served() as server, following(server.url, key) as follower:
        follower.next()
        trip(environment="prod", by=person(environment="prod"), ahead=True)
        eventually(lambda: follower.raw.count(b": heartbeat\n\n") >= 3, what="heartbeats")
        assert follower.messages.empty()


def test_a_click_in_this_process_does_not_wait_for_the_next_look(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream.app._pulse, "_interval_s", 3600.0)
    with served(stream.app) as server, following(server.url, key) as follower:
        follower.next()
        change(0)
        assert follower.next().id == "1"


def test_a_database_that_is_away_for_a_while_ends_no_stream(
    server: Served, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    with following(server.url, key) as follower, connection.cursor() as cursor:
        follower.next()
        cursor.execute("ALTER TABLE control_revision RENAME TO away")
        try:
            eventually(lambda: "events.live.pulse" in [one.name for one in caplog.records], what="a failed look")
        finally:
            cursor.execute("ALTER TABLE away RENAME TO control_revision")
        change(0)
        assert follower.next().id == "1"


def test_at_the_end_of_the_server_every_stream_ends_at_once(key: str) -> None:
    with served() as server, following(server.url, key) as one, following(server.url, key) as other:
        one.next()
        server.end()
        assert one.has_ended.wait(5)
        assert other.has_ended.wait(5)
    assert one.raw.endswith(b"\n\n")


# -- who is not let in ------------------------------------------------------------------------------------------------


def answer(server: Served, method: str = "GET", query: str = "", **headers: str) -> tuple[int, dict[str, Any]]:
    found = httpx.request(method, f"{server.url}{query}", headers=headers, timeout=10)
    assert found.headers["content-type"] == "application/problem+json"
    return found.status_code, found.json()


def test_without_a_key_that_may_follow_there_is_no_stream(server: Served, key: str) -> None:
    other = keys.create_key("other", ["ingest", "read", "act"], "dev")[1]
    assert answer(server)[0] == 401
    assert answer(server, authorization="Bearer nonsense")[0] == 401
    assert answer(server, authorization=f"Bearer {other}")[0] == 403
    assert answer(server, method="POST", authorization=f"Bearer {key}")[0] == 405


@pytest.mark.parametrize("query", ["?instance=" + "x" * 201, "?service=a%00b", "?group=a%0Ab", "?environment=prod"])
def test_a_place_that_no_instance_can_have_is_refused(server: Served, key: str, query: str) -> None:
    status, problem = answer(server, query=query, authorization=f"Bearer {key}")
    assert (status, problem["status"]) == (400, 400)


def test_keys_that_cannot_be_read_are_503_never_401(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*args: object, **kwargs: object) -> None:
        raise OperationalError("the database went away")

    monkeypatch.setattr("django.db.models.query.QuerySet.first", away)
    assert answer(server, authorization="Bearer ro_unknown")[0] == 503


def test_a_key_that_was_revoked_ends_its_stream(key: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.HEARTBEAT_S = 0.02
    monkeypatch.setattr("recovery_ops.control.desired_state.stream.RECHECK_S", 0.0)
    with served() as server, following(server.url, key) as follower:
        follower.next()
        keys.revoke_key(key[:11])
        assert follower.has_ended.wait(10)


def test_a_full_process_says_so(key: str) -> None:
    with served(door_of(most_streams=1)) as server, following(server.url, key) as follower:
        follower.next()
        status, problem = answer(server, authorization=f"Bearer {key}")
        assert (status, left_out(problem["detail"], "1")) == (503, []), "other causes of a 503 tell no number"


# -- who does not read ------------------------------------------------------------------------------------------------
class Connection:
    """One request as a server passes it to the door; from the `stuck_from`th message on, it waits for room."""

    def __init__(self, key: str, stuck_from: int) -> None:
        self.scope = {
            "type": "http",
            "method": "GET",
            "query_string": b"service=research&instance=r-0",
            "headers": [(b"authorization", f"Bearer {key}".encode())],
        }
        self.sent: list[bytes] = []
        self.tried = 0
        self.room, self.gone = asyncio.Event(), asyncio.Event()
        self._stuck_from = stuck_from

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.tried += 1
        if self.tried >= self._stuck_from:
            await self.room.wait()
        self.sent.append(message.get("body", b""))

    @property
    def revisions(self) -> list[str]:
        return [one.split(b"\n")[0].decode() for one in self.sent if one.startswith(b"id: ")]


async def until(claim: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not claim():
            await asyncio.sleep(0.002)


def test_who_was_slow_gets_the_newest_alone(key: str) -> None:
    door = door_of()

    async def follow() -> list[str]:
        connection = Connection(key, stuck_from=4)  # the headers, a sign of life and the first document find room
        stream = asyncio.ensure_future(door(connection.scope, connection.receive, connection.send))
        await until(lambda: connection.revisions == ["id: 0"])
        await asyncio.to_thread(change, 1)
        await until(lambda: connection.tried == 4)
        for number in (2, 3):
            await asyncio.to_thread(change, number)
        await until(lambda: door._pulse.newest == {"dev": 3})
        assert connection.tried == 4, "nothing is put behind what waits"
        connection.room.set()
        await until(lambda: connection.revisions[-1] == "id: 3")
        connection.gone.set()
        await stream
        return connection.revisions

    assert asyncio.run(follow()) == ["id: 0", "id: 1", "id: 3"]


def test_who_takes_nothing_any_more_is_let_go(
    key: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stream, "SEND_TIMEOUT_S", 0.02)
    caplog.set_level("INFO", "recovery_ops.control.desired_state.stream")
    door = door_of()

    async def follow() -> None:
        connection = Connection(key, stuck_from=3)
        await door(connection.scope, connection.receive, connection.send)

    asyncio.run(follow())
    told = [one.levelname for one in caplog.records if one.name == "recovery_ops.control.desired_state.stream"]
    assert told == ["INFO"]
    assert door.open_streams == 0


def test_what_cannot_be_said_to_one_agent_ends_its_stream_alone(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    board = stream.Board()
    told = board.message

    def message(environment: str, who: Any) -> tuple[int, bytes]:
        found = told(environment, who)
        if who.instance == "r-1" and found[0] == 1:
            raise ValueError("no document for it")
        return found

    monkeypatch.setattr(board, "message", message)
    door = stream.DesiredDoor(board, Pulse(board.read, 0.005))
    with served(door) as server, contextlib.ExitStack() as stack:
        first, second, third = (
            stack.enter_context(following(server.url, key, instance=f"r-{one}")) for one in range(3)
        )
        for one in (first, second, third):
            one.next()
        change(0)
        assert (first.next().id, third.next().id) == ("1", "1")
        assert second.has_ended.wait(10)
