"""The version before the newest migration, taken out of the history of this checkout, to run beside the new one."""

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
class Earlier:
    """A checkout of what was there before, its commit, and where its migrations end, by app."""

    root: Path
    commit: str
    leaves: dict[str, str]


@contextmanager
def before_the_newest_migration() -> Iterator[Earlier | None]:
    """The commit before the one that brought the newest migration; None where there is no such history here."""
    added = _git("log", "-1", "--format=%H", "--diff-filter=A", "--", *(f"{place}/0*.py" for place in _APPS.values()))
    commit = _git("rev-parse", "--short", f"{added}^") if added else ""
    if not commit:
        yield None
        return
    with TemporaryDirectory(prefix="recovery-ops-earlier-") as folder:
        packed = subprocess.Popen(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", folder], stdin=packed.stdout, check=True)
        if packed.stdout is not None:
            packed.stdout.close()
        if packed.wait():
            yield None
            return
        root = Path(folder)
        yield Earlier(root, commit, {app: _leaf(root / place) for app, place in _APPS.items()})


def _leaf(place: Path) -> str:
    """The last migration of an app; they are numbered, and a test holds us to one leaf."""
    return max(path.stem for path in place.glob("0*.py"))


def _git(*words: str) -> str:
    """What git says; nothing where there is no git, or no history."""
    try:
        said = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return said.stdout.strip()
