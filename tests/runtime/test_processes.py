"""What only whole processes can show: kills, forks, exits, and what an import costs."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.http_server import Server, attributes, resource_of, serving, silent_until, stored
from tests.support.processes import ROOT, Running, clean_environment, eventually

pytestmark = pytest.mark.default

PRELUDE = """
import os, signal, sys, time
from pathlib import Path
from recovery_ops.rules.events import BreakerStateChanged, Instance, RunStarted
from recovery_ops.rules.enums import State, Trigger
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.telemetry.outbox import Outbox
from recovery_ops.runtime.telemetry.exporter import Exporter
from recovery_ops.runtime.telemetry.pipeline import Telemetry

def telemetry(path, url=None, instance="agent-1"):
    send = Exporter(url, "key") if url else None
    return Telemetry(Instance(service="s", instance=instance), outbox=Outbox(Path(path)), clock=Clock(), send=send)

def moved(name):
    return BreakerStateChanged(
        breaker=name, state=State.OPEN, previous_state=State.CLOSED, trigger=Trigger.FAILURE_RATE
    )
"""


def run(code: str, *arguments: object, expect: int = 0) -> str:
    """Run code in a process of its own, warnings as errors; what it said."""
    # Newer Pythons warn of every fork of a process with threads; that it works is what is shown here.
    warnings = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
    words = [sys.executable, *warnings, "-c", PRELUDE + code, *map(str, arguments)]
    environment = clean_environment({"PYTHONPATH": str(ROOT)})
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == expect, done.stderr
    assert expect or not done.stderr, done.stderr
    return done.stdout


def names(server: Server) -> list[str]:
    """The breakers or runs that the exported facts are about, in the order of arrival."""
    found = [attributes(record) for request in server.of("/v1/logs") for _, record in request.exported]
    return [one.get("recovery.breaker.name") or one["recovery.run.name"] for one in found]


def test_a_kill_loses_nothing_that_was_flushed_and_the_next_process_sends_it_once(tmp_path: Path) -> None:
    path = tmp_path / "agent-1.outbox"
    said = run(
        """
t = telemetry(sys.argv[1])
uids = []
t.add_reader(lambda record: uids.append(record.uid))
for number in range(5): t.emit(RunStarted(name=str(number)))
assert t.flush(20)
print(" ".join(uids), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""",
        path,
        expect=-signal.SIGKILL,
    )
    with serving() as server:
        run(
            "t = telemetry(sys.argv[1], sys.argv[2]); t.emit(RunStarted(name='next')); assert t.flush(20); t.close()",
            path,
            server.url,
        )
        assert names(server) == ["0", "1", "2", "3", "4", "next"]
        assert server.uids[:5] == said.split()
        numbers = [attributes(record)["recovery.sequence_number"] for _, record in server.requests[-1].exported]
        assert numbers[-1] == 6


def test_a_transition_survives_a_kill_without_a_flush(tmp_path: Path) -> None:
    """At once is not in the same instant: this waits for the thread to say that the row is there, not for a flush."""
    path = tmp_path / "agent-1.outbox"
    run(
        """
box = Outbox(Path(sys.argv[1]))
t = Telemetry(Instance(service="s", instance="agent-1"), outbox=box, clock=Clock(), send=None)
t.emit(moved("search"))
while not box.pending: time.sleep(0.001)
os.kill(os.getpid(), signal.SIGKILL)
""",
        path,
        expect=-signal.SIGKILL,
    )
    with serving() as server:
        run(
            "t = telemetry(sys.argv[1], sys.argv[2]); t.emit(moved('own')); assert t.flush(20); t.close()",
            path,
            server.url,
        )
        assert names(server) == ["search", "own"]


STORM = """
t = telemetry(sys.argv[1], sys.argv[2])
uids = []
t.add_reader(lambda record: uids.append(record.uid))
for number in range(10_000):
    t.emit(RunStarted(name=str(number)))
    assert t.flush(20)
    print(*uids, flush=True)
    uids.clear()
"""


def test_whatever_the_moment_of_the_kill_what_was_called_safe_arrives(tmp_path: Path) -> None:
    path, safe = tmp_path / "agent-1.outbox", []
    with serving() as server:
        for lines in (1, 2, 3, 5, 8):
            words = [sys.executable, "-c", PRELUDE + STORM, str(path), server.url]
            with Running(words, env={"PYTHONPATH": str(ROOT)}) as running:
                running.said(rf"(\S+\n){{{lines}}}")
                running.end(signal.SIGKILL)
            safe += running.text.split()
        run(
            "t = telemetry(sys.argv[1], sys.argv[2]); t.emit(moved('x')); assert t.flush(20); t.close()",
            path,
            server.url,
        )
        assert set(safe) <= set(server.uids)
    assert len(safe) >= 19


def test_another_instance_sends_what_a_dead_one_left_under_its_name(tmp_path: Path) -> None:
    run("t = telemetry(sys.argv[1]); t.emit(moved('left')); t.flush(20); os._exit(0)", tmp_path / "agent-1.outbox")
    with serving() as server:
        code = "t = telemetry(sys.argv[1], sys.argv[2], 'agent-2'); signal.pause()"
        words = [sys.executable, "-c", PRELUDE + code, str(tmp_path / "agent-2.outbox"), server.url]
        with Running(words, env={"PYTHONPATH": str(ROOT)}):
            eventually(lambda: names(server) == ["left"], what="the dead one's fact")
        ((resource, _),) = server.requests[0].exported
        assert resource_of(resource)["service.instance.id"] == "agent-1"


def test_a_process_that_just_ends_has_sent_its_facts(tmp_path: Path) -> None:
    with serving() as server:
        run(
            "t = telemetry(sys.argv[1], sys.argv[2]); t.emit(RunStarted(name='short'))",
            tmp_path / "a.outbox",
            server.url,
        )
        assert names(server) == ["short"]


LAST = """
import atexit
atexit.register(lambda: print(time.monotonic() - began))
t = telemetry(sys.argv[1], sys.argv[2])
t.emit(RunStarted(name="x"))
began = time.monotonic()
"""


def test_a_process_ends_in_time_when_its_server_hangs(tmp_path: Path) -> None:
    gate = threading.Event()
    with serving(otherwise=silent_until(gate, stored())) as server:
        took_s = float(run(LAST, tmp_path / "a.outbox", server.url))
        gate.set()
    assert took_s < 4


FORK = """
t = telemetry(sys.argv[1], sys.argv[2])
t.emit(moved("before"))
t.emit(RunStarted(name="queued in the parent"))
child = os.fork()
if child == 0:
    t.emit(moved("child"))
    ok = t.flush(20)
    t.close()
    os._exit(0 if ok else 1)
t.emit(moved("parent"))
assert t.flush(20)
_, status = os.waitpid(child, 0)
assert status == 0, status
t.close()
"""


NOTHING_LATER = """
from recovery_ops.rules.policy.masking_rules import Masking
from recovery_ops.runtime.telemetry.pipeline import _Encoder
from recovery_ops.rules.events import Record
encoder = _Encoder(Instance(service="s", instance="i"), "", lambda: Masking())
loaded = set(sys.modules)
encoder([Record(event=moved("first"), uid="0" * 32, sequence_number=1, at_ns=1, run="")])
print(sorted(set(sys.modules) - loaded))
"""


def test_encoder_loads_nothing_once_it_is_made() -> None:
    """A fork during an import in another thread leaves the child a module that it can never import."""
    assert run(NOTHING_LATER).strip() == "[]"


def test_parent_and_child_each_send_their_own_facts_as_themselves(tmp_path: Path) -> None:
    with serving() as server:
        run(FORK, tmp_path / "agent-1.outbox", server.url)
        found = [
            (resource_of(resource)["service.instance.id"], attributes(record))
            for request in server.requests
            for resource, record in request.exported
        ]
    parents = [one for who, one in found if who == "agent-1"]
    children = [(who, one) for who, one in found if who != "agent-1"]
    assert [one.get("recovery.breaker.name", one.get("recovery.run.name")) for one in parents] == [
        "before", "queued in the parent", "parent",
    ]  # fmt: skip
    ((who, one),) = children
    assert who.startswith("agent-1~")
    assert (one["recovery.breaker.name"], one["recovery.sequence_number"]) == ("child", 1)


MANY_FORKS = """
t = telemetry(sys.argv[1], sys.argv[2])
children = []
for number in range(12):
    for _ in range(40): t.emit(RunStarted(name="parent"))
    child = os.fork()
    if child == 0:
        t.emit(moved("child")); t.flush(20); t.close(); os._exit(0)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
assert t.flush(20)
t.close()
"""


def test_forks_in_the_middle_of_writing_hang_nobody_and_lose_nothing(tmp_path: Path) -> None:
    with serving() as server:
        run(MANY_FORKS, tmp_path / "agent-1.outbox", server.url)
        found = names(server)
    assert (found.count("child"), found.count("parent")) == (12, 480)
    assert len(set(server.uids)) == len(server.uids)


def test_two_processes_of_one_instance_id_do_not_mix(tmp_path: Path) -> None:
    code = """
t = telemetry(sys.argv[1], sys.argv[2])
for n in range(200): t.emit(RunStarted(name=sys.argv[3]))
assert t.flush(20)
t.close()
"""
    with serving() as server:
        arguments = [sys.executable, "-c", PRELUDE + code, str(tmp_path / "agent-1.outbox"), server.url]
        environment = {"PYTHONPATH": str(ROOT)}
        with Running([*arguments, "a"], env=environment) as one, Running([*arguments, "b"], env=environment) as other:
            assert (one.wait(), other.wait()) == (0, 0)
        found = names(server)
    assert (found.count("a"), found.count("b")) == (200, 200)
    assert len(set(server.uids)) == 400


def test_the_applications_own_provider_can_have_the_facts() -> None:
    said = run(
        """
from opentelemetry._logs import set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
exporter = InMemoryLogRecordExporter()
provider = LoggerProvider()
provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
set_logger_provider(provider)
t = Telemetry(Instance(service="s", instance="i"), outbox=None, clock=Clock(), send=None, through_global_provider=True)
t.emit(moved("search"), "main_agent", True, "run-1", "v1")
assert t.flush(20)
t.close()
(found,) = exporter.get_finished_logs()
print(found.log_record.event_name, found.log_record.attributes["session.id"], found.instrumentation_scope.name)
"""
    )
    assert said.split() == ["recovery.breaker_state_changed", "run-1", "recovery.runtime"]


def test_opentelemetry_switched_off_is_said_and_harms_nothing(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-c",
        PRELUDE + "t = telemetry(sys.argv[1]); t.emit(moved('x')); print(t.flush(20), t.pending); t.close()",
    ]
    environment = clean_environment({"PYTHONPATH": str(ROOT), "OTEL_SDK_DISABLED": "true"})
    done = subprocess.run(
        [*words, str(tmp_path / "a.outbox")], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["True", "0"]
    assert done.stderr.count("OTEL_SDK_DISABLED") == 1


@pytest.mark.parametrize(
    "module", ["telemetry", "telemetry.outbox", "telemetry.exporter", "config.stream", "process.clock"]
)
def test_an_import_loads_neither_opentelemetry_nor_http(module: str) -> None:
    said = run(
        f"""
import recovery_ops.runtime.{module}
heavy = ("opentelemetry", "google", "urllib3", "http.client", "email", "django")
print([name for name in sys.modules if name.split(".")[0] in heavy or name in heavy])
"""
    )
    assert said.strip() == "[]"
