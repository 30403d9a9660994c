"""Agents with the real runtime that follow the desired state: `follower.py URL KEY FOLDER COUNT`, until stdin ends."""

from __future__ import annotations

import sys
from pathlib import Path

from recovery_ops.runtime import Recovery


def main(url: str, key: str, folder: str, count: str) -> None:
    """Follow; each instance with files of its own, as a process of its own would have them."""
    followers = [
        Recovery("drill", instance=f"follower-{number}", url=url, key=key, directory=Path(folder) / str(number))
        for number in range(int(count))
    ]
    sys.stdin.read()
    for one in followers:
        one.flush()
        one.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
