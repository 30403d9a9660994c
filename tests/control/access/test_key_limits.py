"""How often a key may ask, over HTTP: each door says it in the way that its clients understand, and others go on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from django.test import Client
from django.utils import timezone
from google.protobuf import json_format  # type: ignore[import-untyped]
from opentelemetry._opamp.proto import opamp_pb2

from events import keys
from events.ingest.commits import writer
from events.models import AgentKey, Fact
from recovery_ops.control.access.services import keys as key_actions
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.desired_stream import following, served
from tests.support.otlp import Door, record, request
from tests.support.pages import REASON, signed_in, text_of
from tests.support.processes import eventually

pytestmark = pytest.mark.django_db(transaction=True)

SCOPES = ("read", "act", "desired", "ingest")
BURST = int(keys.BURST_S)


class Clock:
    """The clock of the keys' pace, which a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(keys, "clock", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Clock]:
    """One request a second of each scope, four at once."""
    settings.KEY_REQUESTS_PER_S = dict.fromkeys(SCOPES, 1)
    keys.forget_keys()
    yield Clock(monkeypatch)
    keys.forget_keys()


def client_of(*scopes: str, **more: Any) -> Client:
    return Client(headers={"Authorization": f"Bearer {keys.create_key('k', list(scopes), 'dev', **more)[1]}"})


def opamp(client: Client) -> Any:
    body = json_format.ParseDict({"instanceUid": "AAAAAAAAAAAAAAAAAAAAAA=="}, opamp_pb2.AgentToServer())
    return client.post("/v1/opamp", body.SerializeToString(), "application/x-protobuf")


ASKS = {
    "read": lambda client: client.get("/api/v1/status"),
    "act": lambda client: client.post("/api/v1/breakers/none/trip", {"reason": REASON}, "application/json"),
    "desired": lambda client: client.get("/api/v1/desired?service=billing"),
    "opamp": opamp,
}


@pytest.mark.parametrize("door", ASKS)
def test_who_asks_too_often_is_answered_429_and_when_to_come_again(clock: Clock, door: str) -> None:
    ask, scope = ASKS[door], "desired" if door == "opamp" else door
    client, other = client_of(scope, "read"), client_of(scope, "read")
    for _ in range(BURST):
        assert ask(client).status_code not in (429, 401, 403, 503)
    refused = ask(client)
    assert refused.status_code == 429
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert int(refused.headers["Retry-After"]) >= 1
    assert refused.json()["status"] == 429
    assert re.search(r"\b1\b", refused.json()["detail"]), "how many a second are the most"
    assert ask(other).status_code != 429, "another key goes on"
    clock.now += 1
    assert ask(client).status_code != 429
    assert ask(client).status_code == 429


def test_facts_are_answered_503_so_that_no_exporter_drops_them(clock: Clock) -> None:
    try:
        door = Door(keys.create_key("agents", ["ingest"], "dev")[1])
        for _ in range(BURST):
            assert door.post(json=request(record())).status_code == 200
        refused = door.post(json=request(record()))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert re.search(r"\b1\b", refused.json()["message"]), "how many a second are the most"
        assert Fact.objects.count() == BURST
        clock.now += 1
        assert door.post(json=request(record())).status_code == 200
    finally:
        writer.close(timeout_s=10)


@pytest.mark.parametrize(("own", "served_at_once"), [(3, 3 * BURST), (0, 40)])
def test_a_key_may_have_a_limit_of_its_own(clock: Clock, own: int, served_at_once: int) -> None:
    client = client_of("desired", requests_per_s=own)
    answers = [ASKS["desired"](client).status_code for _ in range(served_at_once)]
    assert set(answers) == {200}
    assert (ASKS["desired"](client).status_code == 429) is bool(own)


def test_a_stream_counts_as_one_request_and_so_many_may_be_open(clock: Clock, settings: Any) -> None:
    settings.STREAMS_PER_KEY = 2
    _, token = keys.create_key("agents", ["desired"], "dev")
    _, other = keys.create_key("others", ["desired"], "dev")

    def opened(server_url: str) -> httpx.Response:
        return httpx.get(server_url, headers={"Authorization": f"Bearer {token}"}, timeout=20)

    with served() as server:
        with following(server.url, token) as first, following(server.url, token) as second:
            assert (first.next().event, second.next().event) == ("desired", "desired")
            refused = opened(server.url)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert re.search(r"\b2\b", refused.json()["detail"]), "how many may be open"
            with following(server.url, other) as third:
                assert third.next().event == "desired"
        clock.now += 100
        for _ in range(BURST):
            with following(server.url, token) as again:  # the places of those that left are free
                assert again.next().event == "desired"
        refused = opened(server.url)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert re.search(r"\b1\b", refused.json()["detail"]), "how many a second are the most"


def test_a_stream_that_goes_on_is_not_ended_for_asking_too_often(
    clock: Clock, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recovery_ops.control.desired_state.stream.RECHECK_S", 0.0)
    settings.HEARTBEAT_S = 0.05
    _, token = keys.create_key("agents", ["desired"], "dev")
    with served() as server, following(server.url, token) as follower:
        assert follower.next().event == "desired"
        eventually(lambda: follower.raw.count(b": heartbeat") > 3 * BURST)
        assert not follower.has_ended.is_set()


def test_a_limit_is_set_where_a_key_is_made_and_goes_on_with_its_successor() -> None:
    admin = person(Role.ADMIN, "eva")
    made = key_actions.make_key(**asked(by=admin), name="fleet", scopes=["desired"], days=30, requests_per_s=7).object
    assert made.key.requests_per_s == 7
    successor = key_actions.rotate_key(**asked(by=admin), prefix=made.key.prefix).object
    assert successor.key.requests_per_s == 7
    with pytest.raises(CommandRejected) as refused:
        key_actions.make_key(**asked(by=admin), name="fleet", scopes=["desired"], requests_per_s=-1)
    assert "requests_per_s" in refused.value.fields


def test_the_page_asks_for_it_and_shows_it() -> None:
    client = signed_in(Role.ADMIN, "eva")
    form = {"name": "fleet", "scopes": ["desired"], "days": "30", "requests_per_s": "7", "reason": REASON}
    answer = client.post("/settings/keys/new", form)
    assert answer.status_code == 200
    assert AgentKey.objects.get().requests_per_s == 7
    assert "7/s" in text_of(client.get("/settings/keys"))


def test_both_keys_open_during_an_overlap_and_the_old_one_nothing_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through HTTP, with both tokens, at each moment; what is remembered of the old one does not outlive it."""
    keys.forget_keys()
    admin, now = person(Role.ADMIN, "eva"), timezone.now()
    old = key_actions.make_key(**asked(by=admin, now=now), name="script", scopes=["read", "desired"], days=30).object
    tokens = {"old": old.token}

    def answered(which: str) -> tuple[int, int]:
        client = Client(headers={"Authorization": f"Bearer {tokens[which]}"})
        return client.get("/api/v1/status").status_code, client.get("/api/v1/desired").status_code

    assert answered("old") == (200, 200)
    new = key_actions.rotate_key(**asked(by=admin, now=now), prefix=old.key.prefix, overlap_s=3600.0).object
    tokens["new"] = new.token
    assert tokens["old"] != tokens["new"]
    assert (answered("old"), answered("new")) == ((200, 200), (200, 200))

    class Later(datetime):
        """An hour and a second from now."""

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return now + timedelta(hours=1, seconds=1)

    monkeypatch.setattr(keys, "datetime", Later)
    assert (answered("old"), answered("new")) == ((401, 401), (200, 200))
    keys.forget_keys()
    assert (answered("old"), answered("new")) == ((401, 401), (200, 200))
