"""The data directories of the servers that run for this user, so that commands work on them. Standard library only."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

NEEDS_STORE = frozenset({"account", "audit", "backup", "export", "key", "quarantine", "replay", "verify_facts"})
"""Commands that read what a server has stored."""
_NEEDS_NO_DATA = frozenset(
    {"", "bench", "check", "drill", "help", "initial_migrations", "lint", "makemigrations", "test", "up", "version"}
)
_DATABASE = "RECOVERY_OPS_DATABASE_URL"


class NoData(Exception):
    """No data directory can be chosen, or it holds no database. The text says what to do."""


@contextmanager
def registered(data: Path) -> Iterator[None]:
    """Let commands of this user find `data` for the length of the block. Without a writable home they do not."""
    entry = _registry() / hashlib.sha256(str(data).encode()).hexdigest()[:16]
    with suppress(OSError):
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        entry.write_text(f"{data}\n", encoding="utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            entry.unlink()


def running() -> list[Path]:
    """The data directories of all running servers of this user, sorted. Entries of killed servers are removed."""
    found = []
    with suppress(OSError):
        for entry in _registry().iterdir():
            data = Path(entry.read_text(encoding="utf-8").strip())
            if _is_locked(data / "server.lock"):
                found.append(data)
            else:
                entry.unlink(missing_ok=True)
    return sorted(found)


def choose_data(argv: Sequence[str], *, default: Path) -> None:
    """Set RECOVERY_OPS_DATA for a command that names none: the only running server's, else `default`, which is printed.

    Raises `NoData` where several servers run, or where the directory has no database for a command that reads it.
    """
    command = argv[1] if len(argv) > 1 else ""
    if command in _NEEDS_NO_DATA or command.startswith("-") or {"-h", "--help"} & set(argv):
        return
    given = os.environ.get("RECOVERY_OPS_DATA")
    data = Path(given).expanduser().absolute() if given else _found(command, default)
    if command in NEEDS_STORE and not os.environ.get(_DATABASE) and not (data / "db.sqlite3").is_file():
        raise NoData(
            f"{data} holds no database. Start the console there with `python3 manage.py up --data {data}`, "
            "or name the directory of another server with --data."
        )


def explain_database_error(error: Exception) -> str:
    """One sentence about an error of the database or the file system; empty for every other error."""
    data = os.environ.get("RECOVERY_OPS_DATA", "the data directory")
    if isinstance(error, OSError):
        return f"Cannot use {error.filename or data}: {error.strerror or error}."
    django_errors = sys.modules.get("django.db.utils")
    if django_errors is None or not isinstance(error, django_errors.DatabaseError):
        return ""
    place = f"the database of {_DATABASE}" if os.environ.get(_DATABASE) else data
    return (
        f"Cannot use {place}: {str(error).strip()}. `python3 manage.py migrate` brings the database up to date; "
        "--data names another directory."
    )


def _found(command: str, default: Path) -> Path:
    servers = running()
    if len(servers) > 1:
        names = "\n".join(f"  --data {data}" for data in servers)
        raise NoData(f"{len(servers)} servers run. Name the one that `{command}` is for:\n{names}")
    data = servers[0] if servers else default
    os.environ["RECOVERY_OPS_DATA"] = str(data)
    print(f"Data directory: {data} ({'the running server' if servers else 'the default'}).", file=sys.stderr)
    return data


def _registry() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(state) / "recovery-ops" / "servers"


def _is_locked(path: Path) -> bool:
    """Whether a server holds this lock. Looking at it does not keep another server from taking it for long."""
    try:
        with path.open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
