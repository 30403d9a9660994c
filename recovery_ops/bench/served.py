"""A server of our own in a process of its own, with an empty store that goes away afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent.parent
_TICKS = os.sysconf("SC_CLK_TCK")
STOP_WITHIN_S = 15.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers; `key` may do everything in the environment `dev`."""

    url: str
    key: str
    pid: int
    data: Path

    def cpu_s(self) -> float:
        """Processor seconds used so far (Linux; 0 where that cannot be read)."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def rss_mb(self) -> float:
        """Resident memory (Linux; 0 where that cannot be read)."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:
            return 0.0
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


@contextmanager
def served() -> Iterator[Server]:
    """Start `manage.py up --no-demo` on a free port; stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="recovery-ops-bench-") as folder:
        data = Path(folder)
        env = os.environ | {"RECOVERY_OPS_DATA": folder}
        command = [sys.executable, str(_ROOT / "manage.py"), "up", "--no-demo", "--port", "0"]
        process = subprocess.Popen(  # our own command
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env, start_new_session=True
        )
        try:
            url = _address(process)
            yield Server(url, _key(env), process.pid, data)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()


def _address(process: subprocess.Popen[str]) -> str:
    lines = []
    for line in process.stdout or ():
        lines.append(line)
        if line.strip().startswith("console"):
            return line.split()[1].rstrip("/")
    raise RuntimeError("the server did not start:\n" + "".join(lines))


def _key(env: dict[str, str]) -> str:
    command = [sys.executable, str(_ROOT / "manage.py"), "key", "create", "--name", "bench"]
    command += ["--scope", "ingest,desired,read,act"]
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=True)  # our own command
    return found.stdout.strip().splitlines()[-1]
