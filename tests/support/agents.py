"""A provider that does as it is told, and real agents beside it, for the flows."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

import psycopg

from tests.support.processes import ROOT, Running, clean_environment


class Provider:
    """The demonstration's provider without its script: everything goes well until told otherwise."""

    def __init__(self, url: str) -> None:
        self.url = url

    def make(self, service: str, **trouble: float) -> None:
        """From now on this share of the service's requests ends this way (`_500=0.5`); the rest go well."""
        named = {name.removeprefix("_"): share for name, share in trouble.items()}
        body = json.dumps({"service": service, "trouble": named}).encode()
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/weather", data=body), timeout=30).close()

    def calls(self, service: str) -> int:
        """How many requests came in for it."""
        with urllib.request.urlopen(f"{self.url}/calls", timeout=30) as answer:
            return int(json.load(answer).get(service, 0))


@contextmanager
def provider() -> Iterator[Provider]:
    """One that listens on a free port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "recovery_ops.demo.provider", "--calm"],
        cwd=ROOT,
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        yield Provider(process.stdout.readline().strip())
        process.kill()


class Console(Protocol):
    """Where agents send their facts."""

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""


def agent(server: Console, key: str, told: Provider, instance: str, folder: Path) -> Running:
    """A real agent process of the demonstration, as quick as the flows need it."""
    argv = [sys.executable, "-m", "recovery_ops.demo.agent", "--provider", told.url]
    argv += ["--service", "research-agent", "--instance", instance, "--pause-s", "0.2"]
    env = {"RECOVERY_OPS_URL": server.url, "RECOVERY_OPS_KEY": key, "RECOVERY_OPS_DIR": str(folder)}
    return Running(argv, env=env, folder=ROOT, keeps_input=True)


def manage(data: Path, *words: str) -> str:
    """Run a command beside the running server; its last line."""
    argv = [sys.executable, str(ROOT / "manage.py"), *words, "--data", str(data)]
    done = subprocess.run(argv, env=clean_environment(), capture_output=True, text=True, check=True, timeout=180)
    return done.stdout.strip().splitlines()[-1]


def manage_each(data: Path, *commands: str, env: Mapping[str, str] | None = None) -> list[str]:
    """Run several commands beside the running server in one process, which starts once; the last line of each."""
    script = (
        "import io, sys; from django import setup; from django.core.management import call_command; setup()\n"
        "for words in sys.argv[1:]:\n"
        "    said = io.StringIO(); call_command(*words.split(), stdout=said)\n"
        "    print(said.getvalue().strip().splitlines()[-1])"
    )
    settled = {"DJANGO_SETTINGS_MODULE": "recovery_ops.settings", "RECOVERY_OPS_DATA": str(data), **(env or {})}
    argv = [sys.executable, "-c", script, *commands]
    done = subprocess.run(
        argv, cwd=ROOT, env=clean_environment(settled), capture_output=True, text=True, check=True, timeout=180
    )
    return done.stdout.splitlines()


class Store(Protocol):
    """Looks into what a console has stored, as a check that does not go through our own code."""

    def count(self, query: str) -> int:
        """The number a query finds."""


class SqliteStore:
    """Looks into the server's SQLite file from outside, as a check that does not go through our own code."""

    def __init__(self, data: Path) -> None:
        self._path = data / "db.sqlite3"

    def count(self, query: str) -> int:
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=30)) as database:
            return int(database.execute(query).fetchone()[0] or 0)


class PostgresStore:
    """The same in PostgreSQL."""

    def __init__(self, url: str) -> None:
        self._url = url

    def count(self, query: str) -> int:
        with psycopg.connect(self._url) as database:
            [found] = database.execute(query.encode()).fetchone() or (0,)
        return int(found or 0)
