"""Status files: the state of each process of a machine, which `python -m recovery_ops.runtime status` prints."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any

from recovery_ops.rules.policy.masking_rules import Masking
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.process.files import file_name
from recovery_ops.runtime.snapshots import snapshot

FOLDER = "status"
KEPT_S = 86_400.0
"""Seconds for which the file of a process that has ended is shown."""


def path_of(recovery: Engine) -> Path | None:
    """The status file of a client; None without `RECOVERY_OPS_DIR` or `directory=`: then nothing is written."""
    identity = recovery.identity
    if identity.directory is None:
        return None
    return identity.directory / FOLDER / f"{file_name(identity.instance.instance)}-{os.getpid()}.json"


def write(recovery: Engine, undelivered: int) -> None:
    """Replace the status file. Never raises: a full disk is no reason to stop."""
    path = path_of(recovery)
    if path is None:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        found = snapshot(recovery, undelivered) | {"host": socket.gethostname()}
        masked = _masked(found, recovery.desired.policy.masking)
        part.write_text(json.dumps(masked), encoding="utf-8")
        part.replace(path)


def _masked(value: Any, masking: Masking) -> Any:
    """The state with every name as the environment's masking rules show it."""
    if isinstance(value, str):
        return masking.masked(value)
    if isinstance(value, dict):
        return {masking.masked(name): _masked(one, masking) for name, one in value.items()}
    return value


def remove(recovery: Engine) -> None:
    """The client is closed: it has no status any more."""
    path = path_of(recovery)
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def read(directory: Path, now: float) -> list[dict[str, Any]]:
    """The processes of a directory, each with `is_alive`. Files of processes that ended a day ago are removed."""
    found = []
    for path in sorted((directory / FOLDER).glob("*.json")):
        try:
            one = json.loads(path.read_text(encoding="utf-8"))
            age_s = now - path.stat().st_mtime
        except (OSError, ValueError):
            continue
        if not isinstance(one, dict):
            continue
        one["is_alive"] = _is_alive(one)
        if not one["is_alive"] and age_s > KEPT_S:
            with contextlib.suppress(OSError):
                path.unlink()
            continue
        found.append(one)
    return found


def _is_alive(one: dict[str, Any]) -> bool:
    """Whether its process runs; of another machine's nothing is known, so it counts as running."""
    if one.get("host") != socket.gethostname():
        return True
    try:
        os.kill(int(one["pid"]), 0)
    except PermissionError:
        return True
    except (OSError, KeyError, TypeError, ValueError, OverflowError):
        return False
    return True
