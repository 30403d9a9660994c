"""The console as docs/production runs it: by its units, on PostgreSQL and Redis, two web processes and two workers."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.agents import PostgresStore, manage_each
from tests.support.processes import ROOT, Running

EXAMPLES = ROOT / "docs" / "production"
_BIN = "/opt/recovery-ops/.venv/bin/"
KEY = "a-key-for-the-flows-that-signs-the-sessions-of-all-processes"


def command(unit: str, **changed: str) -> list[str]:
    """What the unit of this name starts, by this interpreter; `changed` are values of its options."""
    [line] = [
        one
        for one in (EXAMPLES / f"recovery-ops-{unit}.service").read_text().splitlines()
        if one.startswith("ExecStart=")
    ]
    program, *words = line.removeprefix("ExecStart=").split()
    for option, value in changed.items():
        words[words.index(f"--{option}") + 1] = value
    return [sys.executable, "-m", program.removeprefix(_BIN), *words]


@dataclass(frozen=True)
class Deployment:
    """Two addresses of one console, a look into its store, and the last line of each command that set it up."""

    webs: tuple[str, str]
    store: PostgresStore
    said: Sequence[str]
    processes: Mapping[str, Running]
    start: Callable[..., None]
    """Start those of `processes` that are named, or all of them; `kill` them before."""

    def kill(self, *names: str) -> None:
        """SIGKILL to these processes, or to every one, and to whatever they started."""
        doomed = [self.processes[name] for name in names or self.processes]
        for one in doomed:
            os.killpg(one.process.pid, signal.SIGKILL)
        for one in doomed:
            one.process.wait()


@contextmanager
def deployed(database_url: str, redis_url: str, data: Path, *commands: str, **env: str) -> Iterator[Deployment]:
    """Two of `recovery-ops-web`, two of `recovery-ops-worker` and one `recovery-ops-beat`, on a migrated store.

    Before them run what docs/operate/install.md lists, and then `commands` of `manage.py`.
    """
    told = {
        "RECOVERY_OPS_DATABASE_URL": database_url,
        "RECOVERY_OPS_BROKER_URL": redis_url,
        "RECOVERY_OPS_SECRET_KEY": KEY,
        "RECOVERY_OPS_DATA": str(data),
        "PYTHONUNBUFFERED": "1",
        **env,
    }
    _, *said = manage_each(data, "collectstatic --noinput", *commands, env=told)
    ports = [_free_port(), _free_port()]
    started = {f"web-{number}": command("web", port=port, workers="1") for number, port in enumerate(ports, 1)}
    started |= {f"worker-{number}": [*command("worker"), "-n", f"{number}@flows"] for number in (1, 2)}
    started["beat"] = [*command("beat"), "--schedule", str(data / "beat")]
    with ExitStack() as stack:
        processes: dict[str, Running] = {}

        def start(*names: str) -> None:
            for name in names or started:
                # By that name PostgreSQL knows whose connection it is.
                one = Running(started[name], env=told | {"PGAPPNAME": name}, folder=ROOT)
                processes[name] = stack.enter_context(one)
            for name in names or started:
                if name.startswith("web"):
                    processes[name].said("Uvicorn running on")

        start()
        yield Deployment(
            (f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"),
            PostgresStore(database_url),
            said,
            processes,
            start,
        )


def _free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return str(probe.getsockname()[1])
