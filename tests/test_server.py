"""The running process: its doors, its place beside others, its end."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from tests.support.processes import ROOT, Running, Server, eventually

StartServer = Callable[..., Server]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests that only ask it something."""
    with Server(tmp_path_factory.mktemp("server") / "data", is_first_start=True) as running:
        yield running


def test_says_that_it_lives_and_that_it_can_store(server: Server) -> None:
    assert httpx.get(f"{server.url}/healthz").json() == {"status": "alive"}
    ready = httpx.get(f"{server.url}/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
    assert ready.headers["cache-control"] == "no-store"


def test_an_endpoint_that_ends_in_a_slash_leads_to_the_same_doors(server: Server) -> None:
    # An exporter puts the path of its signal behind whatever it was given.
    answer = httpx.post(f"{server.url}//v1/logs", json={})
    assert (answer.status_code, answer.headers["content-type"]) == (401, "application/json")


def test_serves_plotly_from_the_installed_package(server: Server) -> None:
    script = httpx.get(f"{server.url}/static/plotly/plotly.min.js")
    assert script.status_code == 200
    assert script.headers["content-type"].startswith("text/javascript")
    assert "no-cache" in script.headers["cache-control"] or "max-age=0" in script.headers["cache-control"]


def test_a_page_carries_a_policy_without_inline_scripts(server: Server) -> None:
    policy = httpx.get(f"{server.url}/no-such-page").headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy


def test_too_large_a_page_request_is_refused_in_json(server: Server) -> None:
    with httpx.Client(base_url=server.url) as client:
        answer = client.post("/no-such-page", content=(b"x" * 2**20 for _ in range(17)))
    assert (answer.status_code, answer.json()["title"]) == (413, "Body too large")


@pytest.mark.full
def test_while_the_store_is_locked_it_lives_but_is_not_ready(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server()
    with sqlite3.connect(tmp_path / "data" / "db.sqlite3", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = httpx.get(f"{server.url}/readyz", timeout=30)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert httpx.get(f"{server.url}/healthz", timeout=10).status_code == 200
        other.execute("ROLLBACK")
    other.close()
    eventually(lambda: httpx.get(f"{server.url}/readyz").status_code == 200, what="readiness")


def test_a_busy_port_is_told_in_one_sentence_and_nothing_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [
            sys.executable,
            str(ROOT / "manage.py"),
            "up",
            "--no-demo",
            "--data",
            str(tmp_path),
            "--port",
            str(port),
        ]
        with Running(command) as running:
            assert running.wait() == 1
    assert f"Port {port} on 127.0.0.1 is in use by another program. Choose another with --port" in running.text
    assert "Traceback" not in running.text
    assert not (tmp_path / "db.sqlite3").exists()
    assert not (tmp_path / "server.lock").exists()


@pytest.mark.full
def test_a_second_server_on_the_same_data_says_who_has_it(start_server: StartServer, tmp_path: Path) -> None:
    first = start_server()
    command = [
        sys.executable,
        str(ROOT / "manage.py"),
        "up",
        "--no-demo",
        "--port",
        "0",
        "--data",
        str(tmp_path / "data"),
    ]
    with Running(command) as second:
        assert second.wait() == 1
    assert f"already runs on {tmp_path / 'data'} (process {first.process.pid})" in second.text
    assert httpx.get(f"{first.url}/healthz").status_code == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_cleanly_and_the_next_start_goes_on(
    start_server: StartServer, tmp_path: Path, number: signal.Signals
) -> None:
    first = start_server()
    with httpx.Client(base_url=first.url) as idle:  # a browser that keeps its connection open
        idle.get("/healthz")
        assert first.end(number) == 0
    assert not (tmp_path / "data" / "server.lock").exists()
    assert not list((tmp_path / "data").glob("*-wal"))
    assert "Traceback" not in first.text
    second = start_server()
    assert second.sign_in == first.sign_in
    assert "applying" not in second.text


@pytest.mark.full
def test_an_open_stream_ends_with_the_server_and_holds_nothing_up(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server()
    cookies = {"recovery-session": signed_in(tmp_path / "data")}
    with httpx.stream("GET", f"{server.url}/live/stream", cookies=cookies, timeout=10) as stream:
        assert stream.status_code == 200
        received = stream.iter_raw()
        next(received)
        assert server.end() == 0
        list(received)  # it ended in order: an answer that was cut off would raise here
    assert "Cancel" not in server.text
    assert "Traceback" not in server.text


def test_after_a_kill_the_next_start_goes_on(start_server: StartServer) -> None:
    first = start_server()
    first.end(signal.SIGKILL)
    assert start_server().sign_in == first.sign_in


@pytest.mark.full
def test_a_second_signal_ends_it_at_once(start_server: StartServer) -> None:
    server = start_server()
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port)) as unfinished:
        unfinished.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nfive ")
        eventually(lambda: "alive" in httpx.get(f"{server.url}/healthz").text)  # so it has read that request, too
        server.process.send_signal(signal.SIGINT)
        eventually(lambda: not accepts(server.url), what="the closed port")
        assert server.end(signal.SIGINT, timeout_s=30) == 130


@pytest.mark.full
def test_an_unfinished_request_delays_the_end_by_seconds_only(start_server: StartServer) -> None:
    server = start_server()
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port)) as unfinished:
        unfinished.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nfive ")
        eventually(lambda: "alive" in httpx.get(f"{server.url}/healthz").text)
        assert server.end(timeout_s=30) == 0


@pytest.mark.full
def test_it_keeps_its_store_in_postgresql_when_told_to(start_server: StartServer, postgres_url: str) -> None:
    server = start_server(env={"RECOVERY_OPS_DATABASE_URL": postgres_url})
    assert "PostgreSQL, database test_" in server.text
    assert httpx.get(f"{server.url}/readyz").status_code == 200
    assert server.end() == 0


@pytest.mark.full
def test_connections_that_the_database_drops_are_replaced(start_server: StartServer, postgres_url: str) -> None:
    server = start_server(env={"RECOVERY_OPS_DATABASE_URL": postgres_url})
    assert httpx.get(f"{server.url}/readyz").status_code == 200
    with psycopg.connect(postgres_url, autocommit=True) as other:
        others = "datname = current_database() AND pid <> pg_backend_pid()"
        other.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
    assert httpx.get(f"{server.url}/readyz").status_code == 200


@pytest.mark.full
def test_production_is_any_asgi_server_with_several_workers(tmp_path: Path, postgres_url: str, redis_url: str) -> None:
    env = {
        "RECOVERY_OPS_DATA": str(tmp_path),
        "RECOVERY_OPS_DATABASE_URL": postgres_url,
        "RECOVERY_OPS_BROKER_URL": redis_url,
    }
    for command in (["migrate"], ["collectstatic", "--no-input"]):
        with Running([sys.executable, str(ROOT / "manage.py"), *command], env=env) as prepared:
            assert prepared.wait() == 0, prepared.text
    command = [sys.executable, "-m", "uvicorn", "recovery_ops.asgi:application", "--workers", "2", "--port", "0"]
    with Running(command, env=env, folder=ROOT) as running:
        url = running.said(r"running on (http://\S+)")[1]
        eventually(lambda: accepts(url) and httpx.get(f"{url}/readyz").status_code == 200, what="readiness")
        names = json.loads((tmp_path / "static" / "staticfiles.json").read_text())["paths"]
        script = httpx.get(f"{url}/static/{names['plotly/plotly.min.js']}", headers={"accept-encoding": "br"})
        assert "immutable" in script.headers["cache-control"]
        assert script.headers["content-encoding"] == "br"
        assert running.end(signal.SIGTERM) in {0, -signal.SIGTERM}


def signed_in(data: Path) -> str:
    """Return the session of somebody who has just signed in."""
    code = """
from django.contrib.auth import get_user_model, login
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
request = HttpRequest()
request.session = SessionStore()
login(request, get_user_model().objects.get())
request.session.save()
print("session", request.session.session_key)
"""
    command = [sys.executable, str(ROOT / "manage.py"), "shell", "--data", str(data), "--no-imports", "-c", code]
    with Running(command) as running:
        return running.said(r"session (\S+)")[1]


def accepts(url: str) -> bool:
    """Say whether something listens there."""
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname, address.port or 80), timeout=2).close()
    except OSError:
        return False
    return True


@pytest.mark.full
def test_a_port_of_their_own_takes_facts_and_shows_nothing_else(start_server: StartServer) -> None:
    server = start_server("--otlp-port", "0")
    url = server.said(r"facts\s+(http://\S+?)/v1/logs")[1]
    assert url != server.url
    with httpx.Client(base_url=url) as client:
        assert client.get("/healthz").json() == {"status": "alive"}
        assert client.get("/readyz").status_code == 200
        for path in ("/", "/sign-in", "/api/v1/desired", "/static/app.css", "/live/stream"):
            answer = client.get(path)
            assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")
        assert client.post("/v1/logs", headers={"content-type": "application/json"}).status_code == 401
    assert httpx.post(f"{server.url}/v1/logs").status_code == 415
    assert httpx.get(f"{server.url}/sign-in").status_code == 200


@pytest.mark.full
def test_a_process_may_take_facts_alone(tmp_path: Path) -> None:
    env = {"RECOVERY_OPS_DATA": str(tmp_path), "RECOVERY_OPS_SECRET_KEY": "x" * 50}
    words = ["-m", "uvicorn", "recovery_ops.asgi:facts", "--port", "0", "--no-access-log"]
    with Running([sys.executable, *words], env=env, folder=ROOT) as process:
        url = process.said(r"running on (http://\S+)")[1]
        assert httpx.get(f"{url}/healthz").status_code == 200
        assert httpx.get(f"{url}/sign-in").status_code == 404
        assert process.end() == 0
