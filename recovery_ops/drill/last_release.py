"""The last released version, taken out of the history of this checkout, to run beside this one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from recovery_ops.drill.world import ROOT

_APPS = {"control": "recovery_ops/control/migrations", "events": "events/migrations"}


@dataclass(frozen=True, slots=True)
class Release:
    """A checkout of a released version, its tag, and the last migration of each app."""

    root: Path
    tag: str
    leaves: dict[str, str]


@contextmanager
def last_release() -> Iterator[Release | None]:
    """The newest tag `v…` of this history; None before the first release, and where there is no history."""
    tag = _git("describe", "--tags", "--abbrev=0", "--match", "v*")
    if not tag:
        yield None
        return
    with TemporaryDirectory(prefix="recovery-ops-release-") as folder:
        packed = subprocess.Popen(["git", "archive", tag], cwd=ROOT, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", folder], stdin=packed.stdout, check=True)
        if packed.stdout is not None:
            packed.stdout.close()
        if packed.wait():
            yield None
            return
        root = Path(folder)
        yield Release(root, tag, {app: _leaf(root / place) for app, place in _APPS.items()})


def _leaf(place: Path) -> str:
    """The last migration of an app; they are numbered, and `makemigrations --check` allows one leaf."""
    return max(path.stem for path in place.glob("0*.py"))


def _git(*words: str) -> str:
    """What git prints; nothing where there is no git, or no history."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
