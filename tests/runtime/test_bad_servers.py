"""A server that is slow, gone or lying changes nothing but the freshness of the desired state, seen from the agent."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recovery_ops import wire
from recovery_ops.rules.desired_state import Override
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.model import BUILT_IN
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.runtime import CircuitOpen, Recovery, RecoveryExhausted
from tests.support.http_server import Reply, Server, Stream, answer, document, event, raw, reset, serving, silent_until
from tests.support.processes import eventually

QUICK_S = 5.0
"""Far more than calls need on any machine, far less than any timeout of ours."""


def desired(revision: int, *, is_tripped: bool = False, **changed: Any) -> dict[str, Any]:
    override = Override(
        id="ov",
        mode=State.FORCED_OPEN,
        scope=Scope(operation="search"),
        reason="down",
        by="ana",
        starts_at=0.0,
        expires_at=4e9,
        revision=revision,
    )
    made = wire.desired_document(
        environment="dev",
        revision=revision,
        policy={},
        policy_version="1",
        overrides=[override] if is_tripped else [],
        resets=[],
        issued_at=0.0,
    )
    return made | changed


HUGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: " + b"x" * 5_000_000
LIES: dict[str, Reply] = {
    "a page": answer(200, b"<html>sign in</html>", media_type="text/html"),
    "a redirect": answer(302, location="http://127.0.0.1:9/"),
    "an error": answer(500, b"oops"),
    "a refusal": answer(401, b"{}", media_type="application/json"),
    "no HTTP": raw(b"220 smtp.example ESMTP\r\n"),
    "half an answer": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"),
    "an event without end": raw(HUGE),
    "a reset": reset,
    "rubbish in a stream": Stream(event("not JSON", revision=9)),
    "a policy that is none": Stream(event(desired(9, policy={"guards": {"turns": -1}}), revision=9)),
    "a newer schema it must obey": Stream(event(desired(9, requires=["telepathy"]), revision=9)),
    "an override of nothing": Stream(event(desired(9, overrides=[{"mode": "melted"}]), revision=9)),
    "deep nesting": Stream(event("[" * 100_000, revision=9)),
}


@contextmanager
def agent(url: str, directory: Path) -> Iterator[tuple[Recovery, Callable[[], str]]]:
    recovery = Recovery("agent", instance="a-1", url=url, key="k", directory=directory, reraise=False)
    search = recovery.guard("search", idempotent=True, max_retries=0)(lambda: "found")
    try:
        yield recovery, search
    finally:
        began = time.monotonic()
        recovery.close(0.5)
        assert time.monotonic() - began < QUICK_S


def works_as_ever(recovery: Recovery, search: Callable[[], str]) -> None:
    """Calls succeed, fail and are refused by the rules that hold, at once."""
    began = time.monotonic()
    fails = recovery.guard("other", idempotent=True, max_retries=0)(_fail)
    with recovery.run("task", source="main_agent"):
        for _ in range(50):
            assert search() == "found"
        for _ in range(5):
            with pytest.raises(RecoveryExhausted):
                fails()
        with pytest.raises(CircuitOpen):
            fails()
    assert time.monotonic() - began < QUICK_S


def _fail() -> None:
    raise TimeoutError


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies(lie: str, tmp_path: Path) -> None:
    with serving(otherwise=LIES[lie]) as server, agent(server.url, tmp_path) as (recovery, search):
        eventually(lambda: len(server.requests) >= 1, what="it was asked")
        works_as_ever(recovery, search)
        assert recovery.desired.revision == 0
        assert recovery.desired.policy == BUILT_IN


def test_a_server_that_says_nothing(tmp_path: Path) -> None:
    gate = threading.Event()
    with serving(otherwise=silent_until(gate, reset)) as server, agent(server.url, tmp_path) as (recovery, search):
        eventually(lambda: len(server.requests) >= 1, what="it was asked")
        works_as_ever(recovery, search)
        gate.set()


def test_a_server_that_is_gone(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with agent(url, tmp_path) as (recovery, search):
        works_as_ever(recovery, search)
        assert recovery.flush(0.2)  # it is on disk, and that is safe


def test_what_was_known_holds_when_the_server_goes_and_when_the_agent_comes_back(tmp_path: Path) -> None:
    with serving(routes={"/api/v1/desired/stream": Stream(event(desired(3, is_tripped=True), revision=3))}) as server:
        with agent(server.url, tmp_path) as (recovery, search):
            eventually(lambda: recovery.desired.revision == 3, what="the trip arrived")
            with pytest.raises(CircuitOpen):
                search()
            server.close()
            with pytest.raises(CircuitOpen):
                search()
            eventually(lambda: _kept(tmp_path) == 3, what="it was saved")
        with agent(server.url, tmp_path) as (recovery, search), pytest.raises(CircuitOpen):
            search()


def _kept(directory: Path) -> int:
    for path in directory.rglob("desired.json"):
        return int(json.loads(path.read_text())["document"]["revision"])
    return 0


def test_a_liar_that_mends_its_ways_is_believed(tmp_path: Path) -> None:
    good = document(desired(4, is_tripped=True))
    stream = Stream(event(desired(4, is_tripped=True), revision=4))

    def routes(server: Server) -> None:
        server.routes |= {"/api/v1/desired/stream": stream, "/api/v1/desired": good}

    with serving(otherwise=LIES["an error"]) as server, agent(server.url, tmp_path) as (recovery, search):
        eventually(lambda: len(server.requests) >= 1, what="it was asked")
        assert search() == "found"
        routes(server)
        eventually(lambda: recovery.desired.revision == 4, timeout_s=30.0, what="the truth was believed")
        with pytest.raises(CircuitOpen):
            search()
