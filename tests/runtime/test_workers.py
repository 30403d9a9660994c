"""Real pre-forking servers, Celery's and gunicorn: the master makes the `Recovery`, the children use it."""

from __future__ import annotations

import json
import signal
import socket
import sys
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recovery_ops import wire
from recovery_ops.rules.desired_state import Override
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.scope import Scope
from tests.support.http_server import Server, Stream, attributes, event, resource_of, serving
from tests.support.processes import ROOT, Running, eventually

pytestmark = pytest.mark.default

AGENT = """
from recovery_ops.runtime import CircuitOpen, Recovery

recovery = Recovery("worker", instance="master", url={url!r}, key="k", directory={directory!r})  # before any fork

@recovery.guard("search", idempotent=True, max_retries=0)
def search(number):
    raise TimeoutError(f"call {{number}}")

def attempt(number):
    try:
        with recovery.run("task", source="main_agent"):
            search(number)
    except CircuitOpen:
        return "refused"
    except TimeoutError:
        return "failed"
"""

CELERY = """
from pathlib import Path
from celery import Celery

app = Celery("agent", broker="filesystem://", backend={results!r})
app.conf.update(
    broker_transport_options={{"data_folder_in": {queue!r}, "data_folder_out": {queue!r}, "control_folder": {queue!r}}},
    broker_connection_retry_on_startup=True, worker_prefetch_multiplier=1, worker_hijack_root_logger=False,
)

@app.task(name="work")
def work(number):
    import os, time
    time.sleep(0.1)  # so that both children get something to do
    return [os.getpid(), attempt(number)]
"""

# This process is no worker, whatever an earlier test that ran tasks in it has left in Celery's process-wide flag.
PATIENTLY: dict[str, Any] = {"timeout": 60, "interval": 0.05, "disable_sync_subtasks": False}

GUNICORN = """
def application(environ, start_response):
    import os, json
    start_response("200 OK", [("Content-Type", "application/json"), ("Connection", "close")])
    return [json.dumps([os.getpid(), attempt(environ["QUERY_STRING"])]).encode()]
"""


def tripped() -> bytes:
    """The desired state in which an operator has tripped the operation."""
    override = Override(
        id="ov-1",
        mode=State.FORCED_OPEN,
        scope=Scope(operation="search"),
        reason="down",
        by="ana",
        starts_at=0.0,
        expires_at=4e9,
        revision=2,
    )
    document = wire.desired_document(
        environment="dev", revision=2, policy={}, policy_version="1", overrides=[override], resets=[], issued_at=0.0
    )
    return event(document, revision=2)


@contextmanager
def console() -> Iterator[tuple[Server, Stream]]:
    stream = Stream()
    with serving(routes={"/api/v1/desired/stream": stream}) as server:
        yield server, stream


def failures(server: Server) -> dict[str, list[dict[str, Any]]]:
    """The failures that were exported, by instance."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for request in server.of("/v1/logs"):
        for resource, record in request.exported:
            if record.event_name == "recovery.failure_classified":
                found[resource_of(resource)["service.instance.id"]].append(attributes(record))
    return found


def check_children(server: Server, pids: set[int], failed: int) -> None:
    """Each child is an instance of its own, and nothing is lost or told twice."""
    eventually(lambda: sum(map(len, failures(server).values())) >= failed, what="every failure arrived")
    by_instance = failures(server)
    assert sum(map(len, by_instance.values())) == failed
    assert len(set(server.uids)) == len(server.uids)
    assert set(by_instance) == {name for name in by_instance if name.startswith("master~")}
    assert {int(name.split("~")[1].split("-")[0]) for name in by_instance} <= pids


@pytest.mark.full
def test_celery_prefork(tmp_path: Path) -> None:
    from celery import Celery

    queue = tmp_path / "queue"
    queue.mkdir()
    results = f"file://{_made(tmp_path / 'results')}"
    said = {"queue": str(queue), "results": results, "directory": str(tmp_path / "state")}
    with console() as (server, stream):
        source = (AGENT + CELERY).format(url=server.url, **said)
        (tmp_path / "agent.py").write_text(source)
        worker = [sys.executable, "-m", "celery", "-A", "agent", "worker", "-P", "prefork", "-c", "2", "-l", "WARNING"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        with Running([*worker, *quiet], env={"PYTHONPATH": str(ROOT)}, folder=tmp_path) as running:
            app = Celery("agent", broker="filesystem://", backend=said["results"])
            app.conf.broker_transport_options = {
                "data_folder_in": str(queue),
                "data_folder_out": str(queue),
                "control_folder": str(queue),
            }
            done = [app.send_task("work", [number]) for number in range(6)]
            found = [one.get(**PATIENTLY) for one in done]
            pids = {pid for pid, _ in found}
            assert {outcome for _, outcome in found} <= {"failed", "refused"}
            check_children(server, pids, sum(outcome == "failed" for _, outcome in found))
            # The master and both children follow the desired state on connections of their own.
            eventually(lambda: stream.count >= 3, what="three instances follow")
            stream.say(tripped())
            eventually(
                lambda: all(app.send_task("work", [9]).get(**PATIENTLY)[1] == "refused" for _ in range(2)),
                what="the trip reached the children",
            )
            assert running.end(signal.SIGTERM, timeout_s=30) == 0, running.text


def test_gunicorn_prefork(tmp_path: Path) -> None:
    pytest.importorskip("gunicorn")
    with console() as (server, stream):
        source = (AGENT + GUNICORN.replace("{", "{{").replace("}", "}}")).format(
            url=server.url, directory=str(tmp_path / "state")
        )
        (tmp_path / "agent.py").write_text(source)
        port = _free_port()
        argv = [
            sys.executable,
            "-m",
            "gunicorn",
            "agent:application",
            "--preload",
            "-w",
            "2",
            "-b",
            f"127.0.0.1:{port}",
        ]
        with Running(argv, env={"PYTHONPATH": str(ROOT)}, folder=tmp_path) as running:
            running.said(r"Booting worker[^\n]*\n(?s:.*)Booting worker")

            def ask(number: int) -> tuple[int, str]:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/?{number}", timeout=30) as answer:
                    pid, outcome = json.load(answer)
                return pid, outcome

            found = [ask(number) for number in range(4)]
            check_children(server, {pid for pid, _ in found}, sum(outcome == "failed" for _, outcome in found))
            eventually(lambda: stream.count >= 3, what="three instances follow")
            stream.say(tripped())
            eventually(lambda: all(ask(9)[1] == "refused" for _ in range(4)), what="the trip reached the children")
            assert running.end(signal.SIGTERM, timeout_s=30) == 0, running.text


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
