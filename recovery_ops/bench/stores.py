"""Stores of a benchmark: empty ones on each engine, filled with a week of seeded facts by processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console

from recovery_ops.bench.cluster import cluster

ENGINES = ("sqlite", "postgresql")
ENVIRONMENT = "dev"
_DENSER = 4
"""Seeding takes longer than copying: so many of the facts are copies, in the same minutes."""
_ROOT = Path(__file__).resolve().parent.parent.parent
_STEP = timedelta(hours=2)
"""As in `growing`, which needs a Django that is set up."""

Environ = Mapping[str, str]
"""The variables that name a store."""


def last_border(now: datetime | None = None) -> datetime:
    """Where a week ends that `growing` can copy."""
    now = now or datetime.now(UTC)
    return now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=now.hour % (_STEP // timedelta(hours=1)))


@contextmanager
def stores(engine: str) -> Iterator[tuple[Environ, Callable[[str], Environ]]]:
    """An empty store, and a function that copies it, once it is filled, by a name and gives the copy's.

    Raises NoPostgres.
    """
    with tempfile.TemporaryDirectory(prefix="recovery-ops-bench-") as folder:
        small = Path(folder, "small")
        small.mkdir()

        def copied(name: str) -> Path:
            return shutil.copytree(small, Path(folder, name))

        if engine == "sqlite":
            yield _environ(small, ""), lambda name: _environ(copied(name), "")
            return
        with cluster() as database:
            url = database.new_database("small")
            yield (
                _environ(small, url),
                lambda name: _environ(copied(name), database.new_database(name, like="small")),
            )


def fill(environ: Environ, facts: int, end: datetime, screen: Console) -> None:
    """Put so many facts of the week before `end` into a store."""
    run(environ, screen, "manage", "migrate", "-v0")
    words = ("--facts", str(facts // _DENSER), "--days", "7", "--until", end.isoformat(), "--environment", ENVIRONMENT)
    run(environ, screen, "manage", "seed", *words)
    run(environ, screen, "recovery_ops.bench.growing", end.isoformat(), "denser", str(_DENSER))


def run(environ: Environ, screen: Console, module: str, *words: str) -> None:
    """Run one step; its progress goes to the terminal."""
    screen.print(f"{' '.join(words[-2:] if module != 'manage' else words[:1])} …")
    subprocess.run(_command(module, words), cwd=_ROOT, env=dict(environ), stdout=subprocess.DEVNULL, check=True)


def said(environ: Environ, module: str, *words: str) -> str:
    """What one step says."""
    command = _command(module, words)
    return subprocess.run(command, cwd=_ROOT, env=dict(environ), check=True, stdout=subprocess.PIPE, text=True).stdout


def told_by_line(environ: Environ, module: str, *words: str) -> Iterator[str]:
    """The same line by line, as it says them. Raises CalledProcessError where it does not come to its end."""
    command = _command(module, words)
    with subprocess.Popen(command, cwd=_ROOT, env=dict(environ), stdout=subprocess.PIPE, text=True) as process:
        yield from process.stdout or ()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def _environ(data: Path, url: str) -> Environ:
    own = {"RECOVERY_OPS_DATA": str(data), "RECOVERY_OPS_DATABASE_URL": url}
    return os.environ | own | {"RECOVERY_OPS_ENVIRONMENT": ENVIRONMENT}


def _command(module: str, words: tuple[str, ...]) -> list[str]:
    return [sys.executable, *(["manage.py"] if module == "manage" else ["-m", module]), *words]
