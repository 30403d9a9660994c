"""Kill the server whenever you like: what it acknowledged is there, once; and two servers count no fact twice."""

from __future__ import annotations

import random
import sqlite3
import threading
import uuid
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.support.otlp import PROTOBUF, protobuf, record, request
from tests.support.otlp_server import Process, manage
from tests.support.processes import eventually
from tests.support.sentences import left_out

BATCH = 20


class Sender:
    """Sends batches one after another and remembers which uids were acknowledged, until it is told to stop."""

    def __init__(self, url: str, token: str) -> None:
        self.acknowledged: list[str] = []
        self.unanswered: list[bytes] = []
        self._url, self._token = url, token
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _send(self) -> None:
        with httpx.Client(timeout=60) as client:
            while not self._stop.is_set():
                uids = [str(uuid.uuid4()) for _ in range(BATCH)]
                body = protobuf(request(*(record(given={"log.record.uid": uid}) for uid in uids)))
                if post(client, self._url, self._token, body) != 200:
                    self.unanswered.append(body)
                    return
                self.acknowledged += uids


def post(client: httpx.Client, url: str, token: str, body: bytes) -> int:
    """The status of the answer, 0 for none."""
    headers = {"authorization": f"Bearer {token}", "content-type": PROTOBUF}
    try:
        return client.post(f"{url}/v1/logs", content=body, headers=headers).status_code
    except httpx.TransportError:
        return 0


def send_all(url: str, token: str, bodies: list[bytes], statuses: list[int]) -> None:
    """Send all of these in an order of this sender's own; a 503 again, like any exporter."""
    with httpx.Client(timeout=60) as client:
        for body in random.sample(bodies, len(bodies)):
            while (status := post(client, url, token, body)) == 503:
                pass  # a deadlock that PostgreSQL resolved; the next try finds the rest done
            statuses.append(status)


def prepared(env: dict[str, str]) -> str:
    """Migrate; return a key."""
    manage("migrate", "--verbosity", "0", env=env)
    return manage("key", "create", "--name", "tests", "--scope", "ingest", env=env).splitlines()[-1]


def test_a_kill_loses_and_doubles_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    env = {"RECOVERY_OPS_DATA": str(tmp_path), "RECOVERY_OPS_SECRET_KEY": "x" * 50}
    token = prepared(env)
    acknowledged: list[str] = []
    unanswered: list[bytes] = []
    for _ in range(3):
        with Process(env) as server:
            senders = [Sender(server.url, token) for _ in range(2)]
            enough = random.randint(2, 30) * BATCH
            eventually(lambda: sum(len(one.acknowledged) for one in senders) >= enough)  # noqa: B023  (called here)
            server.process.kill()
            for sender in senders:
                sender.stop()
                acknowledged += sender.acknowledged
                unanswered += sender.unanswered
    with Process(env) as server, httpx.Client() as client:
        assert [post(client, server.url, token, body) for body in unanswered] == [200] * len(unanswered)
    with sqlite3.connect(tmp_path / "db.sqlite3") as database:
        stored = [str(uuid.UUID(bytes=uid)) for (uid,) in database.execute("SELECT uid FROM events_fact")]
    database.close()
    assert len(stored) == len(set(stored))
    assert set(acknowledged) <= set(stored)
    assert len(stored) == len(acknowledged) + BATCH * len(unanswered)
    assert left_out(manage("verify_facts", env=env), str(len(stored))) == []


@pytest.mark.full
def test_two_servers_on_postgres_fold_each_fact_once(tmp_path: Path, postgres_url: str) -> None:
    env = {
        "RECOVERY_OPS_DATA": str(tmp_path),
        "RECOVERY_OPS_SECRET_KEY": "x" * 50,
        "RECOVERY_OPS_DATABASE_URL": postgres_url,
    }
    token = prepared(env)
    kinds = ["failure_classified", "breaker_state_changed", "degradation_started", "degradation_ended"]
    given = {"recovery.operation.name": "search", "recovery.breaker.state": "open", "recovery.duration": 0.5}
    records = [record(kinds[index % 4], given=given, ago_s=index % 7) for index in range(400)]
    bodies = [protobuf(request(*records[start : start + 25])) for start in range(0, 400, 25)]
    statuses: list[int] = []
    with Process(env) as one, Process(env) as other:
        urls = [one.url, other.url] * 2
        threads = [threading.Thread(target=send_all, args=(url, token, bodies, statuses)) for url in urls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [200] * 4 * len(bodies)
    with psycopg.connect(postgres_url) as database:
        [(count, distinct)] = database.execute("SELECT count(*), count(DISTINCT uid) FROM events_fact").fetchall()
    assert (count, distinct) == (400, 400)
    assert left_out(manage("verify_facts", env=env), "400") == []


@pytest.mark.full
def test_a_database_that_drops_its_connections_costs_another_try(tmp_path: Path, postgres_url: str) -> None:
    env = {
        "RECOVERY_OPS_DATA": str(tmp_path),
        "RECOVERY_OPS_SECRET_KEY": "x" * 50,
        "RECOVERY_OPS_DATABASE_URL": postgres_url,
    }
    token = prepared(env)
    body = protobuf(request(record()))
    drop = """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
    """
    with Process(env) as server, httpx.Client(timeout=60) as client:
        assert post(client, server.url, token, body) == 200
        for _ in range(2):
            with psycopg.connect(postgres_url, autocommit=True) as database:
                assert database.execute(drop).fetchall()
            statuses = [post(client, server.url, token, body) for _ in range(5)]
            assert set(statuses) <= {200, 503}
            assert statuses[-1] == 200
