"""A volume of its own for a store, which can be full as a disk is: a tmpfs that is made as small as what it holds.

It takes root and Linux. `beside_the_others` is what a process is started with so that its mounts are its own, and are
gone with it, however it ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

_MOST = "8g"
_TRIES = 20
_MARK = "RECOVERY_OPS_DRILL_MOUNTS"


def beside_the_others() -> tuple[list[str], dict[str, str]]:
    """The words before a command and what its environment has to say, where a process may mount; else nothing."""
    program = shutil.which("unshare")
    if os.geteuid() != 0 or program is None or shutil.which("mount") is None:
        return [], {}
    words = [program, "--mount", "--propagation", "private"]
    can = subprocess.run([*words, "true"], check=False, capture_output=True).returncode == 0
    return (words, {_MARK: "1"}) if can else ([], {})


class Room:
    """A volume at this (empty) folder, of `owner`. `is_there` says whether this machine let us have one."""

    def __init__(self, place: Path, owner: int | None = None) -> None:
        self._place = place
        options = f"size={_MOST},mode=0700,uid={os.geteuid() if owner is None else owner}"
        self.is_there = os.environ.get(_MARK) == "1" and _mount("-t", "tmpfs", "-o", options, "tmpfs", str(place))

    def fill(self) -> None:
        """Leave no room for a byte more. Raises RuntimeError where others write faster than it can be made small."""
        for _ in range(_TRIES):
            found = os.statvfs(self._place)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            if self._resize(str(used)):
                return
        raise RuntimeError("the volume could not be made as small as what it holds")

    def empty(self) -> None:
        """Let it grow again."""
        self._resize(_MOST)

    def close(self) -> None:
        """Take it away, with all that lies there."""
        if self.is_there:
            subprocess.run(["umount", "--lazy", str(self._place)], check=False, capture_output=True)
            self.is_there = False

    def _resize(self, size: str) -> bool:
        return _mount("-o", f"remount,size={size}", str(self._place))


def _mount(*words: str) -> bool:
    return subprocess.run(["mount", *words], check=False, capture_output=True).returncode == 0
