"""The files of SQLite after a clean stop: one file each, which is the whole store."""

from __future__ import annotations

import io
import shutil
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from celery import Celery
from django.core.management import call_command
from django.db import connection

from events import keys
from events.models import Fact
from recovery_ops.control.core.models.audit import AuditEntry
from tests.support import otlp
from tests.support.otlp_server import Process
from tests.support.processes import ROOT, Running, Server, copy_migrated_sqlite
from tests.support.stores import sqlite_at

pytestmark = pytest.mark.django_db
TRIP = {"reason": "Provider outage", "ahead": True}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    copy_migrated_sqlite(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def key(data: Path) -> dict[str, str]:
    """The header of a key of the store."""
    with sqlite_at(data / "db.sqlite3"):
        _, token = keys.create_key("agents", ["ingest", "read", "act"], "dev")
    return {"authorization": f"Bearer {token}"}


def send_events(client: httpx.Client, count: int = 20) -> int:
    """Send events; return how many were acknowledged."""
    answer = client.post("/v1/logs", json=otlp.request(*(otlp.record() for _ in range(count))))
    return count if answer.status_code == 200 else 0


def assert_main_file_is_whole(data: Path, *, events: int, audit_rows: int, are_all_told: bool = True) -> None:
    """One file is left, and a copy of it holds what was acknowledged."""
    assert sorted(path.name for path in data.glob("db.sqlite3*")) == ["db.sqlite3"]
    kept = data.parent / "kept.sqlite3"
    shutil.copy(data / "db.sqlite3", kept)
    with sqlite_at(kept):
        found = Fact.objects.count(), AuditEntry.objects.filter(verb="breaker.trip").count()
        assert found == (events, audit_rows) if are_all_told else found >= (events, audit_rows)
        call_command("verify_facts", stdout=io.StringIO())
        call_command("audit", "verify", stdout=io.StringIO())
        with connection.cursor() as cursor:
            assert cursor.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def use(url: str, key: dict[str, str]) -> tuple[int, int]:
    """Have every kind of thread use the store; return how many events and audit rows were acknowledged."""
    with httpx.Client(base_url=url, headers=key, timeout=30) as client:
        events = send_events(client)
        assert client.post("/api/v1/breakers/search/trip", json=TRIP).status_code == 200
        with ThreadPoolExecutor(4) as several:
            pages = several.map(client.get, ["/sign-in", "/readyz", "/api/v1/breakers", "/api/v1/runs"])
            assert [page.status_code for page in pages] == [200] * 4
        return events + send_events(client), 1


@pytest.mark.parametrize("kind", ["up", pytest.param("asgi", marks=pytest.mark.full)])
def test_clean_stop_leaves_one_whole_file(kind: str, data: Path, key: dict[str, str]) -> None:
    env = {"RECOVERY_OPS_DATA": str(data), "RECOVERY_OPS_SECRET_KEY": "x" * 50}
    with Server(data) if kind == "up" else Process(env) as server:
        events, audit_rows = use(server.url, key)
        assert server.end(signal.SIGTERM) in (0, -signal.SIGTERM)
    assert_main_file_is_whole(data, events=events, audit_rows=audit_rows)


class Load:
    """Clients that send events and read pages until the server is gone."""

    def __init__(self, url: str, key: dict[str, str]) -> None:
        self.url, self.key = url, key
        self.events = 0
        self._lock = threading.Lock()
        self.has_begun = threading.Event()

    def send(self) -> None:
        with suppress(httpx.HTTPError), self._client() as client:
            while True:
                acknowledged = send_events(client)
                with self._lock:
                    self.events += acknowledged
                if self.events > 500:
                    self.has_begun.set()

    def read(self, path: str) -> None:
        with suppress(httpx.HTTPError), self._client() as client:
            while True:
                client.get(path)

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=self.key, timeout=30)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["up", "asgi"])
def test_stop_under_load_leaves_one_whole_file(kind: str, data: Path, key: dict[str, str]) -> None:
    env = {"RECOVERY_OPS_DATA": str(data), "RECOVERY_OPS_SECRET_KEY": "x" * 50}
    with ThreadPoolExecutor(8) as clients, Server(data) if kind == "up" else Process(env) as server:
        load = Load(server.url, key)
        for _ in range(4):
            clients.submit(load.send)
        for path in ("/api/v1/runs", "/api/v1/breakers", "/api/v1/facts", "/sign-in"):
            clients.submit(load.read, path)
        assert load.has_begun.wait(60)
        assert server.end(signal.SIGTERM) in (0, -signal.SIGTERM)
    assert_main_file_is_whole(data, events=load.events, audit_rows=0, are_all_told=False)


@pytest.mark.full
@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_clean_stop_of_worker_leaves_one_file(pool: str, data: Path, redis_url: str) -> None:
    """A worker beside no server, in each way that Celery runs tasks, is stopped in the middle of them."""
    env = {
        "RECOVERY_OPS_DATA": str(data),
        "RECOVERY_OPS_DATABASE_URL": f"sqlite:///{data / 'db.sqlite3'}",
        "RECOVERY_OPS_SECRET_KEY": "x" * 50,
        "RECOVERY_OPS_BROKER_URL": redis_url,
    }
    worker = [sys.executable, "-m", "celery", "-A", "recovery_ops", "worker", "-P", pool, "-c", "2", "-l", "INFO"]
    asker = Celery("asker", broker=redis_url, set_as_current=False)
    with Running(worker, env=env, folder=ROOT) as running:
        running.said("ready")
        for _ in range(200):
            asker.send_task("recovery_ops.control.tasks.keep_escalations")
        running.said("succeeded in")
        assert running.end(signal.SIGTERM) == 0
    assert sorted(path.name for path in data.glob("db.sqlite3*")) == ["db.sqlite3"]


AGENTS = """
import sys, threading
from recovery_ops.runtime import Recovery, Workflow

said = {"environment": "dev", "url": "http://127.0.0.1:9", "key": "ro_x_y", "directory": sys.argv[1]}
agents = [Recovery(service=f"agent-{number}", **said) for number in range(3)]
is_ready = threading.Event()

def work():
    with Workflow("long", "1", recovery=agents[0]) as flow:
        flow.step("first", lambda: 1)
        is_ready.set()
        threading.Event().wait()

threading.Thread(target=work, daemon=True).start()
is_ready.wait()
"""


@pytest.mark.full
def test_agent_exit_leaves_no_log_beside_its_files(tmp_path: Path) -> None:
    with Running([sys.executable, "-c", AGENTS, str(tmp_path)], folder=ROOT) as agents:
        assert agents.wait() == 0, agents.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(path.suffix == ".outbox" for path in files) == 3
    assert sum(path.suffix == ".db" for path in files) == 1
    assert [path.name for path in files if path.name.endswith(("-wal", "-shm"))] == []


ENDLESS = """
import threading
from django.db import connection
from events import keys
from recovery_ops.server.sqlite_connections import close_all_connections

def count():
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM events_agentkey")
        is_ready.set()
        cursor.execute("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n")

is_ready = threading.Event()
threading.Thread(target=count, daemon=True).start()
is_ready.wait()
keys.create_key("agents", ["ingest"], "dev")
close_all_connections()
"""


@pytest.mark.full
def test_endless_query_is_interrupted_at_the_end(data: Path) -> None:
    words = [sys.executable, str(ROOT / "manage.py"), "shell", "--data", str(data), "--no-imports", "-c", ENDLESS]
    with Running(words) as shell:
        assert shell.wait() == 0, shell.text
    assert sorted(path.name for path in data.glob("db.sqlite3*")) == ["db.sqlite3"]
