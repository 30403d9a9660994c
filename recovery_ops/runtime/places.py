"""Where the files of the agent's side lie, which this process may write, how one is put out of the way or replaced."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from pathlib import Path
from urllib.parse import quote

from recovery_ops.rules.facts import Instance
from recovery_ops.runtime.claims import Claim

OUTBOX_SUFFIX = ".outbox"
_JOURNALS = ("-wal", "-shm", "-journal")
_PART, _ANEW = ".part", ".anew"
_MOST_PER_INSTANCE = 64
_LONGEST_NAME = 120


def state_directory() -> Path:
    """`RECOVERY_OPS_DIR`, else where the platform keeps the state of programs; never the working directory."""
    said = os.environ.get("RECOVERY_OPS_DIR")
    if said:
        return Path(said)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "recovery-ops"


def default_path(instance: Instance, url: str, *, directory: Path | None = None) -> Path:
    """The outbox file of an instance, in a directory that only this service, environment and server share.

    What dead processes leave in it is sent with the key of whoever finds it: so it must never hold anyone else's.
    """
    whose = "\0".join((instance.service, instance.environment, url.rstrip("/")))
    mark = hashlib.sha256(whose.encode("utf-8", "replace")).hexdigest()[:12]
    folder = f"{_file_name(instance.service)[:40]}-{mark}"
    return (directory or state_directory()) / folder / f"{_file_name(instance.instance)}{OUTBOX_SUFFIX}"


def checkpoint_path(instance: Instance, *, directory: Path | None = None) -> Path:
    """The file in which the workflows of a service and environment are kept, by whichever instance runs them."""
    mark = hashlib.sha256(f"{instance.service}\0{instance.environment}".encode("utf-8", "replace")).hexdigest()[:12]
    name = f"{_file_name(instance.service)[:40]}-{mark}"
    return (directory or state_directory()) / "checkpoints" / f"{name}.db"


def _file_name(text: str) -> str:
    """The text with nothing in it that a file system could misread, and not too long for one."""
    name = quote(text.encode("utf-8", "replace"), safe="").replace(".", "%2E")
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:100]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def claim_first_free(path: Path) -> Claim:
    """The claim on the file, or on `<name>~2.outbox` and so on where other processes of the same instance live."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    stem = path.name.removesuffix(OUTBOX_SUFFIX)
    for number in range(1, _MOST_PER_INSTANCE + 1):
        name = path.name if number == 1 else f"{stem}~{number}{OUTBOX_SUFFIX}"
        claim = Claim.take(path.with_name(name))
        if claim is not None:
            return claim
    raise OSError(f"{_MOST_PER_INSTANCE} processes already use this instance id: give each its own")


def marked(path: Path, mark: str) -> Path:
    """The path of a forked child: its parent's, with the mark of the child."""
    return path.with_name(f"{path.name.removesuffix(OUTBOX_SUFFIX)}{mark}{OUTBOX_SUFFIX}")


def set_aside_damaged(path: Path) -> None:
    """Move a damaged database to `<name>.damaged`, over the one that may lie there already."""
    with contextlib.suppress(OSError):
        os.replace(path, path.with_name(path.name + ".damaged"))
    discard_replacement(path)
    _remove_journals(path)


def reserve_replacement(path: Path, size_bytes: int) -> None:
    """Keep room on the disk where a replacement of this database is to be made. Raises OSError if there is none."""
    part = path.with_name(path.name + _PART)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with open(descriptor, "ab") as file:
        missing = size_bytes - os.fstat(descriptor).st_size
        # Zeros that are written: what is only made longer takes no room, and so keeps none.
        file.write(bytes(max(0, missing)))


def replacement_of(path: Path) -> Path:
    """Where a database that is to replace this one is made, in the room kept for it; private to the account."""
    part = path.with_name(path.name + _PART)
    os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
    return part


def discard_replacement(path: Path) -> None:
    """Nothing is to be kept any more, and what was kept or half made takes room."""
    with contextlib.suppress(OSError):
        path.with_name(path.name + _PART).unlink(missing_ok=True)


def promise_replacement(path: Path) -> None:
    """The one that was made counts from now on, whoever dies; `keep_promise` puts it in its place.

    It gets a name of its own before the old database goes, for that one is two files, and no system renames over two
    at once: a new database beside the journal of the old is spoilt by it, an old one without its journal lacks what
    was in there.
    """
    part = path.with_name(path.name + _PART)
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(part, path.with_name(path.name + _ANEW))
    # Some systems open no directories: there the order of names after a power cut is the file system's own.
    with contextlib.suppress(OSError):
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def keep_promise(path: Path) -> None:
    """Put a promised replacement in its place: before every opening, for whoever promised it may have died.

    Only for whoever has the claim and no connection. Raises OSError where something of the old one does not go.
    """
    anew = path.with_name(path.name + _ANEW)
    if anew.exists():
        for suffix in _JOURNALS:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        os.replace(anew, path)


def remove_database(path: Path) -> None:
    """Remove a database, what SQLite puts beside it, and the room kept for another."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
    discard_replacement(path)
    _remove_journals(path)


def _remove_journals(path: Path) -> None:
    for suffix in _JOURNALS:
        with contextlib.suppress(OSError):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
