"""One server for one data directory: a lock that the kernel lets go however the holder ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Occupied(Exception):
    """Another server has this directory. `holder` is what it wrote about itself, perhaps nothing yet."""

    def __init__(self, data: Path, holder: str) -> None:
        self.data, self.holder = data, holder
        who = f" ({holder})" if holder else ""
        super().__init__(
            f"Recovery Ops already runs on {data}{who}. Stop that one, or give this one another directory with --data."
        )


@contextmanager
def occupy(data: Path, note: str) -> Iterator[None]:
    """Hold `data` for the length of the block and leave `note` for whoever comes second; raise Occupied if taken.

    The file goes away with the block. After a kill it stays, unlocked, and is simply taken over.
    """
    path = data / "server.lock"
    handle = _take(path)
    try:
        os.truncate(handle, 0)
        os.write(handle, note.encode())
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is locked: whoever has opened it by now notices that it is gone
        os.close(handle)


def _take(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 200).decode(errors="replace").strip()
            os.close(handle)
            raise Occupied(path.parent, holder) from None
        if _is_same_file(handle, path):
            return handle
        os.close(handle)  # the former holder removed it after we opened it


def _is_same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
