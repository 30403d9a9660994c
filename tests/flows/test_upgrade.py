"""The upgrade of docs/production, step by step as its script has it, under facts that come through its nginx."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from recovery_ops.drill.last_release import Release, last_release
from recovery_ops.drill.story import Story, body_of
from tests.flows.production import BACKGROUND, WEBS, Machine, client_of, in_front
from tests.support.agents import manage_each
from tests.support.processes import clean_environment, eventually
from tests.support.production import copied

BATCH, SENDERS = 20, 2
MAY_BE_ANSWERED = {200, 502, 503}
"""What an exporter sends again: our own 503, and 502 of a proxy whose web process ended below a request."""


@dataclass
class Load:
    """Agents that send until they are told to end, each batch until it is acknowledged."""

    statuses: Counter[int] = field(default_factory=Counter)
    acknowledged: set[bytes] = field(default_factory=set)
    _is_over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def sent_to(self, machine: Machine, key: str) -> Iterator[None]:
        """Send as long as the context lasts; it ends when all is acknowledged."""
        threads = [threading.Thread(target=self._send, args=(machine, key, seed)) for seed in range(SENDERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join()

    def _send(self, machine: Machine, key: str, seed: int) -> None:
        story = Story(seed)
        kind = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
        with client_of(machine) as client:
            while not self._is_over.is_set():
                told = story.batch(BATCH)
                records: list[LogRecord] = [record for _, record in told]
                body = body_of(records, f"i-{seed}")
                headers = kind | {"authorization": f"Bearer {key}"}
                while (status := client.post("/v1/logs", content=body, headers=headers, timeout=60).status_code) != 200:
                    self.statuses[status] += 1
                    time.sleep(0.05)
                self.statuses[200] += 1
                self.acknowledged.update(uid for uid, _ in told)


@pytest.fixture
def earlier() -> Iterator[Release | None]:
    with last_release() as found:
        yield found


@pytest.fixture
def machine(migrated_postgres_url: str, redis_url: str, tmp_path: Path, earlier: Release | None) -> Iterator[Machine]:
    """The last release runs, at its schema; before the first release it is this version."""
    given = {"RECOVERY_OPS_DATABASE_URL": migrated_postgres_url, "RECOVERY_OPS_BROKER_URL": redis_url}
    with Machine(tmp_path, given) as made:
        old = earlier.root if earlier else copied(tmp_path / "old")
        (old / ".venv").symlink_to(sys.prefix)
        made.current.symlink_to(old)
        back = [f"migrate {app} {leaf} --verbosity 1" for app, leaf in earlier.leaves.items()] if earlier else []
        # Before it goes back: this version makes keys of this schema.
        made.key, *_ = manage_each(tmp_path / "data", "key create --name a --scope ingest", *back, env=made.env)
        words = [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"]
        subprocess.run(words, cwd=old, env=clean_environment(made.env), check=True)
        for unit in (*WEBS, *BACKGROUND):
            made.restart(unit)
        made.wait_for_webs()
        yield made


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """This version, installed beside."""
    place = copied(tmp_path / "new")
    (place / ".venv").symlink_to(sys.prefix)
    return place


def test_an_upgrade_step_by_step_is_no_outage(machine: Machine, nginx: str, new: Path, earlier: Release | None) -> None:
    before, load = dict(machine.processes), Load()
    with in_front(machine, nginx) as client, load.sent_to(machine, machine.key):
        eventually(lambda: load.statuses[200] > 0, what="facts of the old version")
        with machine.systemctl():
            done = machine.script("upgrade.sh", str(new))
        assert done.returncode == 0, done.stderr
        accepted = load.statuses[200]
        eventually(lambda: load.statuses[200] > accepted, what="facts of the new version")
        assert client.get("/sign-in").status_code == 200
    assert machine.outages == []
    assert load.statuses.keys() <= MAY_BE_ANSWERED, load.statuses
    assert stored(machine) == Counter(load.acknowledged)
    assert machine.current.resolve() == new
    for unit in (*WEBS, *BACKGROUND):
        assert machine.processes[unit] is not before[unit]
        assert Path(os.readlink(f"/proc/{machine.processes[unit].process.pid}/cwd")) == new
    dump = subprocess.run(["pg_restore", "--list", str(machine.folder / "recovery-ops.dump")], capture_output=True)
    assert b"TABLE DATA public events_fact" in dump.stdout


def test_a_version_that_does_not_start_takes_no_second_process(machine: Machine, new: Path) -> None:
    """What runs of the old version goes on, and the script says that it was not done."""
    (new / "recovery_ops" / "asgi.py").write_text("raise RuntimeError('this version does not start')\n")
    second = machine.processes[WEBS[1]]
    with machine.systemctl():
        done = machine.script("upgrade.sh", str(new))
    assert done.returncode == 1
    assert machine.processes[WEBS[1]] is second
    assert machine.is_ready(WEBS[1])
    assert not machine.is_ready(WEBS[0])


def test_what_is_no_link_is_not_overwritten(tmp_path: Path) -> None:
    with Machine(tmp_path, {}) as machine:
        machine.current.mkdir()
        done = machine.script("upgrade.sh", str(tmp_path))
    assert (done.returncode, "is no link" in done.stderr) == (1, True)


def stored(machine: Machine) -> Counter[bytes]:
    """How often each fact is there."""
    with psycopg.connect(machine.env["RECOVERY_OPS_DATABASE_URL"]) as database:
        return Counter(bytes(uid) for (uid,) in database.execute("SELECT uid FROM events_fact"))
