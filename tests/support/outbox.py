""""""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from recovery_ops.runtime.telemetry.outbox import Entry, Outbox, Rank
from recovery_ops.runtime.telemetry.outbox_file import Envelope

ENVELOPE = Envelope(b"resource", b"scope")


def entry(name: str, rank: Rank = Rank.EVENT, size: int = 100, envelope: Envelope = ENVELOPE) -> Entry:
    return Entry(name, rank, name.encode().ljust(size, b"."), 7, envelope)


def entries(count: int, rank: Rank = Rank.EVENT, *, size: int = 100, prefix: str = "") -> list[Entry]:
    return [entry(f"{prefix}{number}", rank, size) for number in range(count)]


def drained(outbox: Outbox) -> list[str]:
    """Deliver everything; the uids in the order in which they went."""
    uids = []
    while (batch := outbox.take()) is not None:
        uids += [row.entry.uid for row in batch.rows]
        outbox.delivered(batch)
    return uids


_IN_A_PROCESS = """
import logging, os, resource, sys
from pathlib import Path
from recovery_ops.runtime.telemetry.outbox import Outbox, Rank
from recovery_ops.runtime.testing import PushedClock
from tests.support.outbox import drained, entry

logging.basicConfig()
path, room = Path(sys.argv[1]), int(sys.argv[2])
if room:
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
"""
"""A file that may not grow is to SQLite a disk that is full."""


def in_a_process(path: Path, statements: str, *, most_bytes: int = 0, on_a_disk_of: str = "") -> tuple[list[str], str]:
    """What the statements print, a word a line, and what is logged; the process dies without closing anything."""
    script = f"{_IN_A_PROCESS}{dedent(statements)}\nsys.stdout.flush()\nos._exit(0)\n"
    words = [sys.executable, "-c", script, str(path), str(most_bytes)]
    if on_a_disk_of:
        mounted = f'mount -t tmpfs -o size={on_a_disk_of} tmpfs "$0" && exec "$@"'
        words = ["unshare", "-rm", "sh", "-c", mounted, str(path.parent), *words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr
