"""The examples of docs/production on one machine: its units without systemd, behind its nginx, upgraded by its script.

Only places differ: nothing here needs a user, a directory or a port of the whole machine.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.processes import PATIENCE_S, ROOT, Running, clean_environment, eventually

EXAMPLES = ROOT / "docs" / "production"
HOST = "recovery.example.org"
WEBS = ("recovery-ops-web@01", "recovery-ops-web@02")
BACKGROUND = ("recovery-ops-worker", "recovery-ops-beat")
_BIN = "/opt/recovery-ops/.venv/bin/"
_WRAPPED = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx-error.log; {user}
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


def _free_prefix() -> int:
    """So that with two digits more it is a port that nobody listens on, below those that the kernel gives away."""
    while True:
        prefix = random.SystemRandom().randrange(110, 320)
        try:
            for last in ("01", "02", "43", "80"):
                socket.create_server(("127.0.0.1", int(f"{prefix}{last}"))).close()
        except OSError:
            continue
        return prefix


@dataclass
class Machine:
    """What the units, the environment file, nginx and the upgrade name, in one folder; `current` is what is run.

    A unit's process is told to end, waited for and started as systemd would, which waits for no answer of it.
    """

    folder: Path
    given: Mapping[str, str]
    """Values of the environment file that are other ones here."""
    prefix: int = field(default_factory=_free_prefix)
    """Stands for the 80 of ports 8001 and 8002."""
    processes: dict[str, Running] = field(default_factory=dict)
    key: str = ""
    outages: list[str] = field(default_factory=list)
    """Web processes that a script ended while no other one was ready."""
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        (self.folder / "environment").write_text("".join(f"{name}='{value}'\n" for name, value in self.env.items()))
        self.bin.mkdir()
        (self.folder / "data").mkdir(exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def current(self) -> Path:
        """The link to the version that is run."""
        return self.folder / "current"

    @property
    def env(self) -> dict[str, str]:
        """The environment of the units."""
        lines = (EXAMPLES / "recovery-ops.env").read_text().splitlines()
        said = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        return {**said, **self.given, "RECOVERY_OPS_DATA": str(self.folder / "data")}

    def here(self, text: str) -> str:
        """An example with the places of this machine."""
        text = re.sub(r"(127\.0\.0\.1:|--port )80(?=\d\d|%i|\$)", rf"\g<1>{self.prefix}", text)
        places = {
            "/etc/recovery-ops.env": f"{self.folder}/environment",
            "/var/lib/recovery-ops": f"{self.folder}/data",
            "/var/backups": str(self.folder),
            "/etc/ssl": str(self.folder),
            "listen 80;": f"listen 127.0.0.1:{self.prefix}80;",
            "listen 443 ": f"listen 127.0.0.1:{self.prefix}43 ",
        }
        for there, place in places.items():
            text = text.replace(there, place)
        return re.sub(r"/opt/recovery-ops(?=[\s/;]|$)", str(self.current), text)

    def command(self, unit: str) -> list[str]:
        """What a unit starts, by this interpreter."""
        name, at, instance = unit.partition("@")
        text = self.here((EXAMPLES / f"{name}{at}.service").read_text()).replace("%i", instance)
        [line] = [one for one in text.splitlines() if one.startswith("ExecStart=")]
        program, *words = line.removeprefix("ExecStart=").split()
        # Its schedule would lie in the directory that it runs in, which is not this test's.
        words += ["--schedule", str(self.folder / "beat")] if unit == "recovery-ops-beat" else []
        return [sys.executable, "-m", Path(program).name, *words]

    def restart(self, unit: str) -> None:
        """`systemctl restart`: also starts what does not run."""
        if unit in self.processes:
            self.processes[unit].end(signal.SIGTERM)
        env = self.env | {"PYTHONUNBUFFERED": "1", "PGAPPNAME": unit}
        self.processes[unit] = self._stack.enter_context(
            Running(self.command(unit), env=env, folder=self.current.resolve())
        )

    def port(self, web: str) -> int:
        return int(f"{self.prefix}{web.rpartition('@')[2]}")

    def is_ready(self, web: str) -> bool:
        """Whether a web process says that it can store."""
        try:
            return httpx.get(f"http://127.0.0.1:{self.port(web)}/readyz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def wait_for_webs(self) -> None:
        for web in WEBS:
            eventually(lambda web=web: self.is_ready(web), what=web)  # type: ignore[misc]  # bound on purpose

    @contextmanager
    def systemctl(self) -> Iterator[None]:
        """A `systemctl` for the scripts of this machine, as long as the context lasts; and a `runuser`."""
        asked, answered = self.folder / "asked", self.folder / "answered"
        for pipe in (asked, answered):
            os.mkfifo(pipe)
        _program(self.bin / "systemctl", f'echo "$*" >{asked}; read code <{answered}; exit "$code"')
        _program(self.bin / "runuser", 'shift 3; exec "$@"')
        serving = threading.Thread(target=self._serve, args=(asked, answered), daemon=True)
        serving.start()
        try:
            yield
        finally:
            asked.write_text("end\n")
            serving.join()

    def _serve(self, asked: Path, answered: Path) -> None:
        while (words := asked.read_text().split()) != ["end"]:
            if words[0] == "restart":
                if words[1] in WEBS and not any(self.is_ready(web) for web in WEBS if web != words[1]):
                    self.outages.append(words[1])
                self.restart(words[1])
            is_running = self.processes[words[-1]].process.poll() is None
            answered.write_text(f"{0 if words[0] == 'restart' or is_running else 3}\n")

    def script(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of the examples to its end."""
        program = self.folder / name
        program.write_text(self.here((EXAMPLES / name).read_text()))
        env = clean_environment({"PATH": f"{self.bin}:{os.environ['PATH']}"})
        return subprocess.run(
            ["sh", str(program), *words], env=env, capture_output=True, text=True, timeout=300, check=False
        )


@contextmanager
def in_front(machine: Machine, nginx: str) -> Iterator[httpx.Client]:
    """The nginx of the example; yield a client that comes to it by TLS, and believes no other certificate."""
    certify(machine.folder)
    (machine.folder / "site.conf").write_text(machine.here((EXAMPLES / "nginx.conf").read_text()))
    user = "user root;" if os.geteuid() == 0 else ""
    conf = machine.folder / "nginx.conf"
    conf.write_text(_WRAPPED.format(folder=machine.folder, user=user))
    words = [nginx, "-p", str(machine.folder), "-c", str(conf), "-e", f"{machine.folder}/nginx-error.log"]
    checked = subprocess.run([*words, "-t"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    with Running(words), client_of(machine) as client:
        eventually(lambda: _answers(client), what="nginx")
        yield client


def client_of(machine: Machine) -> httpx.Client:
    """One that meets the address by its name."""
    trusted = ssl.create_default_context(cafile=str(machine.folder / f"{HOST}.pem"))
    mounts = _Named(verify=trusted)
    url = f"https://127.0.0.1:{machine.prefix}43"
    return httpx.Client(base_url=url, headers={"Host": HOST}, transport=mounts, timeout=PATIENCE_S)


class _Named(httpx.HTTPTransport):
    """The certificate has to be that of the name, wherever the name leads to here."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions = {**request.extensions, "sni_hostname": HOST}
        return super().handle_request(request)


def certify(folder: Path) -> None:
    """A certificate for the name of the example, where the example looks for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
    pem = serialization.Encoding.PEM
    (folder / f"{HOST}.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(pem))
    words = (pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / f"{HOST}.key").write_bytes(key.private_bytes(*words))


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code > 0
    except httpx.TransportError:
        return False


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
