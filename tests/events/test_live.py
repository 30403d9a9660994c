"""The stream for browsers: who is let in, what is sent, and that it ends at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from typing import Any
from unittest import mock

import httpx
import pytest
import uvicorn
from django.conf import settings
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client

from events.live.pulse import Pulse, let_go
from events.live.stream import LiveDoor
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.dashboard.live_stream import Newest, sees_of
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.rules.events import Escalated
from tests.support.live import Browser, refused
from tests.support.stories import NOW, Story

NEVER_S = 3600.0


class Facts:
    """Stands for the newest fact's id in each environment."""

    def __init__(self, newest: int = 1) -> None:
        self.newest = {"dev": newest}

    def read(self) -> dict[str, int]:
        return dict(self.newest)


def sees_dev(_: object) -> Callable[[str], bool]:
    return {"dev"}.__contains__


@contextlib.asynccontextmanager
async def connected(door: LiveDoor, headers: dict[str, str]) -> AsyncIterator[Browser]:
    browser = Browser(headers)
    stream = asyncio.ensure_future(door(browser.scope, browser.receive, browser.send))
    try:
        yield browser
    finally:
        browser.leave()
        await asyncio.wait_for(stream, 10)


@pytest.fixture
def person(transactional_db: None) -> User:
    return User.objects.create_user("ana", password="a long enough phrase")


@pytest.fixture
def signed_in(person: User) -> dict[str, str]:
    client = Client()
    client.force_login(person)
    return {"host": "localhost", "cookie": f"{settings.SESSION_COOKIE_NAME}={client.session.session_key}"}


@pytest.fixture
def facts() -> Facts:
    return Facts()


@pytest.fixture
def door(facts: Facts) -> LiveDoor:
    return LiveDoor(Pulse(facts.read, 0.002), sees_dev)


def test_a_signed_in_browser_hears_of_each_newest_fact(door: LiveDoor, facts: Facts, signed_in: dict[str, str]) -> None:
    async def follow() -> tuple[Browser, list[dict[str, str]]]:
        async with connected(door, signed_in) as browser:
            events = [await browser.next_event()]
            facts.newest["dev"] = 12
            events.append(await browser.next_event())
            return browser, events

    browser, events = asyncio.run(follow())
    assert browser.status == 200
    assert browser.headers[b"content-type"].startswith(b"text/event-stream")
    assert b"no-cache" in browser.headers[b"cache-control"]
    assert events[0]["id"] != events[1]["id"]
    assert json.loads(events[0]["data"])["at"].endswith("+00:00")


def test_no_message_is_larger_than_4_kb(signed_in: dict[str, str]) -> None:
    """Whatever has happened: it says that there is something new, and a page asks for what it shows of it."""
    facts = Facts(2**63 - 1)

    async def follow() -> list[bytes]:
        async with connected(LiveDoor(Pulse(facts.read, NEVER_S), sees_dev), signed_in) as browser:
            return [await browser.next_chunk(), await browser.next_chunk()]

    opening, pulse = asyncio.run(follow())
    assert b"event: pulse" in pulse
    assert max(len(opening), len(pulse)) <= 4_096


def test_a_browser_that_comes_back_is_not_told_what_it_knows(
    door: LiveDoor, facts: Facts, signed_in: dict[str, str]
) -> None:
    async def follow() -> tuple[str, str]:
        async with connected(door, signed_in) as browser:
            known = (await browser.next_event())["id"]
        async with connected(door, signed_in | {"last-event-id": known}) as browser:
            assert b"retry" in await browser.next_chunk()
            facts.newest["dev"] = 2
            return known, (await browser.next_event())["id"]

    known, newer = asyncio.run(follow())
    assert known != newer


def test_stream_of_foreign_environment_sends_no_pulse(
    door: LiveDoor, facts: Facts, signed_in: dict[str, str], settings: Any
) -> None:
    settings.HEARTBEAT_S = 0.1

    async def follow() -> tuple[list[bytes], bytes]:
        async with connected(door, signed_in) as browser:
            await browser.next_event()
            quiet = []
            for number in range(3):  # heartbeats come, however much is new elsewhere
                facts.newest["elsewhere"] = number
                quiet.append(await browser.next_chunk())
            facts.newest["dev"] = 2
            return quiet, await browser.next_chunk()

    quiet, pulse = asyncio.run(follow())
    assert quiet == [b": heartbeat\n\n"] * 3
    assert pulse.startswith(b"event: pulse\n")


def test_user_without_role_there_gets_no_pulse(person: User, signed_in: dict[str, str], settings: Any) -> None:
    settings.HEARTBEAT_S = 0.2
    RoleGrant.objects.create(user=person, environment="dev", role="viewer")

    async def follow() -> tuple[bytes, bytes]:
        async with connected(LiveDoor(Pulse(Newest(), 0.002), sees_of), signed_in) as browser:
            await browser.next_event()
            await asyncio.to_thread(_tell_of, "elsewhere")
            quiet = await browser.next_chunk()
            await asyncio.to_thread(_tell_of, "dev")
            return quiet, await browser.next_chunk()

    quiet, pulse = asyncio.run(follow())
    assert quiet == b": heartbeat\n\n"
    assert pulse.startswith(b"event: pulse\n")


def _tell_of(environment: str) -> None:
    Story(environment).tell(Escalated(operation="refund", queue="editors", reason="policy_denied"), at=30).store()
    let_go()


def test_a_question_that_a_task_puts_to_people_is_heard_of_without_a_newer_fact(signed_in: dict[str, str]) -> None:
    Story().tell(Escalated(operation="refund", queue="editors", reason="policy_denied"), at=30).store()

    async def follow() -> list[dict[str, str]]:
        async with connected(LiveDoor(Pulse(Newest(), 0.002), sees_dev), signed_in) as browser:
            events = [await browser.next_event()]
            await asyncio.to_thread(_put, NOW)
            return [*events, await browser.next_event()]

    before, after = asyncio.run(follow())
    assert before["id"] != after["id"]


def _put(now: datetime) -> None:
    open_escalations("dev", now)
    let_go()


def test_silence_is_filled_with_heartbeats(facts: Facts, signed_in: dict[str, str], settings: Any) -> None:
    settings.HEARTBEAT_S = 0.01

    async def follow() -> bytes:
        async with connected(LiveDoor(Pulse(facts.read, NEVER_S), sees_dev), signed_in) as browser:
            await browser.next_event()
            return await browser.next_chunk()

    assert asyncio.run(follow()) == b": heartbeat\n\n"


def test_close_ends_the_stream_and_refuses_the_next(door: LiveDoor, signed_in: dict[str, str]) -> None:
    async def follow() -> int:
        async with connected(door, signed_in) as browser:
            await browser.next_event()
            door.close()
            while await browser.next_chunk():
                pass
        late = Browser(signed_in)
        await asyncio.wait_for(door(late.scope, late.receive, late.send), 10)
        return late.status

    assert asyncio.run(follow()) == 503


def test_more_streams_than_there_are_places_are_told_to_come_later(facts: Facts, signed_in: dict[str, str]) -> None:
    door = LiveDoor(Pulse(facts.read, NEVER_S), sees_dev, most_streams=1)

    async def follow() -> tuple[int, bytes, int]:
        async with connected(door, signed_in) as first:
            await first.next_event()
            second = Browser(signed_in)
            await asyncio.wait_for(door(second.scope, second.receive, second.send), 10)
        async with connected(door, signed_in) as third:  # the place is free again
            await third.next_event()
        return second.status, second.headers[b"retry-after"], third.status

    assert asyncio.run(follow()) == (503, b"5", 200)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"host": "evil.example"}, 400),
        ({"host": ""}, 400),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"cookie": ""}, 401),
        ({"cookie": "recovery-session=made-up"}, 401),
    ],
)
def test_who_is_not_let_in(change: dict[str, str], status: int, door: LiveDoor, signed_in: dict[str, str]) -> None:
    code, document = refused(door, signed_in | change)
    assert (code, document["status"]) == (status, status)
    assert document["detail"]


def test_only_get_reads_a_stream(door: LiveDoor) -> None:
    assert refused(door, {"host": "localhost"}, method="POST")[0] == 405


def test_the_consoles_own_origin_is_let_in(door: LiveDoor, signed_in: dict[str, str]) -> None:
    async def follow() -> int:
        headers = signed_in | {
            "host": "localhost:8000",
            "origin": "http://localhost:8000",
            "sec-fetch-site": "same-origin",
        }
        async with connected(door, headers) as browser:
            await browser.next_event()
            return browser.status

    assert asyncio.run(follow()) == 200


def test_an_inactive_person_is_refused(door: LiveDoor, person: User, signed_in: dict[str, str]) -> None:
    person.is_active = False
    person.save()
    assert refused(door, signed_in)[0] == 401


def test_a_changed_password_ends_the_session(door: LiveDoor, person: User, signed_in: dict[str, str]) -> None:
    person.set_password("another long phrase")
    person.save()
    assert refused(door, signed_in)[0] == 401


def test_a_session_whose_person_is_gone_is_refused(door: LiveDoor, person: User, signed_in: dict[str, str]) -> None:
    person.delete()
    assert refused(door, signed_in)[0] == 401


def test_a_session_is_only_read_never_changed(door: LiveDoor, person: User, signed_in: dict[str, str]) -> None:
    from django.contrib.sessions.models import Session

    person.set_password("another long phrase")
    person.save()
    before = list(Session.objects.values_list("session_key", "session_data"))
    refused(door, signed_in)
    assert list(Session.objects.values_list("session_key", "session_data")) == before


def test_a_person_who_signs_out_meanwhile_is_let_go(
    facts: Facts, signed_in: dict[str, str], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.contrib.sessions.models import Session

    settings.HEARTBEAT_S = 0.01
    monkeypatch.setattr("events.live.stream.RECHECK_S", 0.0)

    async def follow() -> None:
        async with connected(LiveDoor(Pulse(facts.read, NEVER_S), sees_dev), signed_in) as browser:
            await browser.next_event()
            await asyncio.to_thread(Session.objects.all().delete)
            while await browser.next_chunk():
                pass

    asyncio.run(follow())


def test_sessions_that_cannot_be_read_are_503_never_401(door: LiveDoor, signed_in: dict[str, str]) -> None:
    away = mock.patch("django.contrib.sessions.backends.db.SessionStore.load", side_effect=OperationalError("away"))
    with away:
        status, document = refused(door, signed_in)
    assert status == 503
    assert "away" not in json.dumps(document)


@contextlib.contextmanager
def served(door: LiveDoor) -> Iterator[tuple[uvicorn.Server, str]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(door, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{listener.getsockname()[1]}/live/stream"
        finally:
            server.should_exit = True
            thread.join(10)
            assert not thread.is_alive()


def test_a_real_server_ends_with_open_streams(door: LiveDoor, signed_in: dict[str, str]) -> None:
    headers = {"cookie": signed_in["cookie"]}
    with served(door) as (server, address), httpx.stream("GET", address, headers=headers, timeout=10) as answer:
        chunks = answer.iter_text()
        assert any("event: pulse" in chunk for chunk in chunks)
        door.close()
        server.should_exit = True
        assert not [chunk for chunk in chunks if "event" in chunk]
