"""A file that filled its disk, and of which all is delivered, begins anew: it gives its room back."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recovery_ops.runtime.telemetry.outbox import Outbox
from recovery_ops.runtime.testing import PushedClock
from tests.support.outbox import drained, entries, in_a_process

pytestmark = pytest.mark.default

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="limits of files are of POSIX")

_ROOM = 100_000
"""The file that is there cannot be written any more, a new one can."""
_NO_ROOM = 20_000
"""Not even the tables of a new file fit."""
_FILLS = """
box = Outbox(path)
for number in range(60): box.add([entry(str(number), Rank.ALWAYS)], last_sequence=number)
"""
_FILLS_AND_REFUSES = f"{_FILLS}\nfor _ in range(3): box.set_aside(box.take(records=1), 'old')"
_THREE = [("0", "old"), ("1", "old"), ("2", "old")]
_UIDS = ["0", "1", "2"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "box" / "agent-1.outbox"


def _held_bytes(path: Path) -> int:
    return sum(found.stat().st_size for found in path.parent.iterdir())


@posix_only
def test_what_is_set_aside_later_stands_beside_what_was_set_aside_before(path: Path) -> None:
    in_a_process(path, _FILLS_AND_REFUSES)
    found, said = in_a_process(
        path,
        """
        box = Outbox(path)
        print(len(drained(box)), path.stat().st_size)
        box.add([entry(f"new{number}") for number in range(3)])
        for _ in range(3): box.set_aside(box.take(records=1), "new")
        print(*(word for told in box.aside() for word in told), box.tallies["refused"], box.pending)
        """,
        most_bytes=_ROOM,
    )
    assert (found[0], int(found[1]) < _ROOM) == ("57", True), said
    told = [*_THREE, *((f"new{number}", "new") for number in range(3))]
    assert found[2:] == [*(word for one in told for word in one), "6", "0"], said
    assert path.stat().st_mode & 0o077 == 0


@posix_only
def test_where_there_are_too_many_aside_the_oldest_go(path: Path) -> None:
    in_a_process(path, _FILLS_AND_REFUSES)
    found, said = in_a_process(
        path,
        """
        from recovery_ops.runtime.telemetry import outbox_file
        outbox_file.ASIDE_LIMIT = 4
        box = Outbox(path)
        drained(box)
        box.add([entry(f"new{number}") for number in range(3)])
        for _ in range(3): box.set_aside(box.take(records=1), "new")
        print(*(uid for uid, _ in box.aside()))
        """,
        most_bytes=_ROOM,
    )
    assert found == ["2", "new0", "new1", "new2"], said


@posix_only
def test_without_room_for_a_new_file_the_old_one_stays_until_there_is_some(path: Path) -> None:
    in_a_process(path, _FILLS_AND_REFUSES)
    before = _held_bytes(path)
    found, said = in_a_process(
        path,
        """
        clock = PushedClock()
        box = Outbox(path, clock=clock)
        print(len(drained(box)))
        print(*(uid for uid, _ in box.aside()), box.pending)
        clock.push(2)
        box.add([entry("waits")], last_sequence=60)
        print(box.is_durable, *(uid for uid, _ in box.aside()), len(drained(box)))
        box.add([entry("later")], last_sequence=61)
        print(sum(file.stat().st_size for file in path.parent.iterdir()))
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        clock.push(2)
        box.add([entry("last")], last_sequence=62)
        print(box.is_durable, *(uid for uid, _ in box.aside()), box.tallies["refused"])
        """,
        most_bytes=_NO_ROOM,
    )
    assert found[:10] == ["57", *_UIDS, "0", "False", *_UIDS, "1"], said
    assert int(found[10]) <= before
    assert found[11:] == ["True", *_UIDS, "3"], said
    assert _held_bytes(path) < before / 2
    found, said = in_a_process(path, "box = Outbox(path)\nprint(*drained(box), box.last_sequence, *box.aside()[0])")
    assert found == ["later", "last", "62", "0", "old"], said


@posix_only
def test_without_room_for_a_new_file_and_nothing_aside_the_old_one_makes_room(path: Path) -> None:
    in_a_process(path, _FILLS)
    before = _held_bytes(path)
    found, said = in_a_process(
        path,
        """
        clock = PushedClock()
        box = Outbox(path, clock=clock)
        print(len(drained(box)))
        print(sum(file.stat().st_size for file in path.parent.iterdir()))
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        clock.push(2)
        box.add([entry("new")])
        print(box.is_durable, *drained(box))
        box.add([entry("last")])
        """,
        most_bytes=_NO_ROOM,
    )
    assert (found[0], found[2:]) == ("60", ["True", "new"]), said
    assert int(found[1]) < before / 2
    found, said = in_a_process(path, "box = Outbox(path)\nprint(*drained(box), box.last_sequence)")
    assert found == ["last", "59"], said


def _has_small_disks() -> bool:
    words = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    try:
        return subprocess.run(words, capture_output=True, timeout=30, check=False).returncode == 0
    except OSError:
        return False


@posix_only
@pytest.mark.parametrize("refused", [0, 3])
def test_a_file_that_filled_its_disk_to_the_last_byte_makes_its_own_room(path: Path, refused: int) -> None:
    if not _has_small_disks():
        pytest.skip("not on this machine: a disk of a megabyte")
    path.parent.mkdir()
    found, said = in_a_process(
        path,
        f"""
        clock = PushedClock()
        box = Outbox(path, clock=clock)
        box.add([entry(str(number)) for number in range(3)])
        for _ in range({refused}): box.set_aside(box.take(records=1), "old")
        while box.is_durable: box.add([entry("fact", Rank.ALWAYS, 3000)], last_sequence=7)
        try:
            with open(path.parent / "other", "wb", 0) as other:
                while True: other.write(bytes(1000))
        except OSError:
            pass
        drained(box)
        clock.push(2)
        box.add([entry("new")], last_sequence=8)
        print(box.is_durable, box.tallies["refused"], *(uid for uid, _ in box.aside()))
        box.close()
        again = Outbox(path)
        print(again.last_sequence, *(uid for uid, _ in again.aside()), *drained(again))
        """,
        on_a_disk_of="1m",
    )
    aside = _UIDS[:refused]
    assert found == ["True", str(refused), *aside, "8", *aside, "new"], said


def test_a_record_that_is_set_aside_as_the_disk_fails_is_counted_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_full = False

    class Filling(sqlite3.Connection):
        """Takes one record that is set aside, and nothing after it."""

        def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
            nonlocal is_full
            if is_full and sql.startswith("BEGIN"):
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            done = super().execute(sql, *given)
            is_full = is_full or (sql == "COMMIT" and is_armed)
            return done

    is_armed = False
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **more: connect(*given, **more, factory=Filling))
    clock = PushedClock()
    outbox = Outbox(path, clock=clock)
    outbox.add(entries(3))
    batch = outbox.take(records=1)
    assert batch is not None
    is_armed = True
    outbox.set_aside(batch, "odd")
    assert (outbox.pending, outbox.tallies["refused"], outbox.aside()) == (2, 1, [("0", "odd")])
    is_armed = is_full = False
    clock.push(2)
    assert (drained(outbox), outbox.pending) == (["1", "2"], 0)
    outbox.close()
