"""Where the files of the agent's side lie, which this process may write, how one is put out of the way."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from pathlib import Path
from urllib.parse import quote

from recovery_ops.rules.events import Instance
from recovery_ops.runtime.process.file_lock import Claim

OUTBOX_SUFFIX = ".outbox"
_JOURNALS = ("-wal", "-shm", "-journal")
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
    folder = f"{file_name(instance.service)[:40]}-{mark}"
    return (directory or state_directory()) / folder / f"{file_name(instance.instance)}{OUTBOX_SUFFIX}"


def checkpoint_path(instance: Instance, *, directory: Path | None = None) -> Path:
    """The file in which the workflows of a service and environment are kept, by whichever instance runs them."""
    mark = hashlib.sha256(f"{instance.service}\0{instance.environment}".encode("utf-8", "replace")).hexdigest()[:12]
    name = f"{file_name(instance.service)[:40]}-{mark}"
    return (directory or state_directory()) / "checkpoints" / f"{name}.db"


def file_name(text: str) -> str:
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
    _remove_journals(path)


def remove_database(path: Path) -> None:
    """Remove a database and what SQLite puts beside it."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
    _remove_journals(path)


def _remove_journals(path: Path) -> None:
    for suffix in _JOURNALS:
        with contextlib.suppress(OSError):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
