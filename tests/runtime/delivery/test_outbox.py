from __future__ import annotations

import logging
import os
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.events import Instance
from recovery_ops.runtime.telemetry.orphaned_outboxes import KEEP_EMPTY_S
from recovery_ops.runtime.telemetry.outbox import Outbox, Rank, default_path
from recovery_ops.runtime.telemetry.outbox_file import ROW_OVERHEAD_BYTES, Envelope, OutboxFile, dropped_name
from recovery_ops.runtime.testing import PushedClock
from tests.support.outbox import drained, entries, entry, in_a_process

FAILURE, EVENT, ALWAYS = Rank
Open = Callable[..., Outbox]


@pytest.fixture
def open_outbox() -> Iterator[Open]:
    """Open outboxes that are closed at the end of the test."""
    opened: list[Outbox] = []

    def open_one(path: Path | None, **options: object) -> Outbox:
        opened.append(Outbox(path, **options))  # type: ignore[arg-type]  # passed through
        return opened[-1]

    yield open_one
    for outbox in opened:
        outbox.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "box" / "agent-1.outbox"


@pytest.mark.parametrize("is_on_disk", [True, False])
def test_facts_come_out_in_the_order_in_which_they_went_in(open_outbox: Open, path: Path, is_on_disk: bool) -> None:
    outbox = open_outbox(path if is_on_disk else None)
    outbox.add(entries(700, prefix="a"))
    outbox.add([entry("last", Rank.ALWAYS)])
    assert outbox.pending == 701
    first = outbox.take(records=3)
    assert first is not None
    assert [row.entry for row in first.rows] == entries(3, prefix="a")
    outbox.give_back(first)
    assert drained(outbox) == [*(f"a{number}" for number in range(700)), "last"]
    assert (outbox.pending, outbox.take()) == (0, None)


def test_a_batch_is_bounded_in_bytes_but_never_empty(open_outbox: Open, path: Path) -> None:
    outbox = open_outbox(path)
    outbox.add([entry("large", size=5000), *entries(10, size=400)])
    first = outbox.take(size_bytes=1000)
    assert first is not None
    assert len(first.rows) == 1
    outbox.delivered(first)
    second = outbox.take(size_bytes=1000)
    assert second is not None
    assert len(second.rows) == 2


def test_what_was_kept_is_there_after_a_restart(open_outbox: Open, path: Path) -> None:
    outbox = open_outbox(path)
    outbox.add(entries(5), last_sequence=41, lost={Rank.EVENT: 3})
    outbox.close()
    again = open_outbox(path)
    assert (again.path, again.pending, again.last_sequence, again.dropped) == (path, 5, 41, 3)
    assert drained(again) == ["0", "1", "2", "3", "4"]


def test_what_is_always_kept_is_on_disk_at_once_and_the_rest_with_the_first_commit_after_a_second(
    open_outbox: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    connect = sqlite3.connect

    def noted(*given: Any, **more: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*given, **more)
        db.set_trace_callback(said.append)
        return db

    monkeypatch.setattr(sqlite3, "connect", noted)
    clock = PushedClock()
    outbox = open_outbox(path, clock=clock)
    found = []
    for after_s, rank in [
        (0, EVENT),
        (0.5, EVENT),
        (0.1, ALWAYS),
        (0.5, FAILURE),
        (0.4, EVENT),
        (0.2, EVENT),
        (0.1, EVENT),
    ]:
        clock.push(after_s)
        said.clear()
        outbox.add([entry(f"{clock.now()}", rank)])
        assert said.index("COMMIT") > 0
        found.append([one.partition("=")[2] for one in said if one.startswith("PRAGMA synchronous")])
    assert found == [[how] for how in ("FULL", "NORMAL", "FULL", "NORMAL", "NORMAL", "FULL", "NORMAL")]


def test_nobody_else_can_read_the_file(open_outbox: Open, path: Path) -> None:
    outbox = open_outbox(path)
    outbox.add([entry("private")])
    assert {found.stat().st_mode & 0o077 for found in path.parent.iterdir()} == {0}


def test_each_process_has_a_file_of_its_own(open_outbox: Open, path: Path) -> None:
    first, second = open_outbox(path), open_outbox(path)
    assert first.path == path
    assert second.path == path.with_name("agent-1~2.outbox")
    first.add([entry("one")])
    second.add([entry("two")])
    assert (drained(first), drained(second)) == (["one"], ["two"])


def test_what_a_dead_process_left_goes_first(open_outbox: Open, path: Path) -> None:
    dead = open_outbox(path.with_name("dead.outbox"))
    theirs = Envelope(b"their resource", b"scope")
    dead.add([entry("theirs", envelope=theirs)])
    dead.close()
    living = open_outbox(path)
    living.add([entry("ours")])
    batch = living.take()
    assert batch is not None
    assert [(row.entry.uid, row.entry.envelope) for row in batch.rows] == [("theirs", theirs)]
    living.delivered(batch)
    assert drained(living) == ["ours"]


def test_files_of_several_dead_processes_follow_at_once(open_outbox: Open, path: Path) -> None:
    for name in ("dead-1", "dead-2", "dead-3"):
        dead = open_outbox(path.with_name(f"{name}.outbox"))
        dead.add([entry(name)])
        dead.close()
    ours = open_outbox(path, clock=PushedClock())
    ours.add([entry("ours")])
    assert drained(ours) == ["dead-1", "dead-2", "dead-3", "ours"]


def test_what_the_living_keep_is_not_touched(open_outbox: Open, path: Path) -> None:
    neighbour = open_outbox(path.with_name("neighbour.outbox"))
    neighbour.add([entry("theirs")])
    ours = open_outbox(path)
    assert ours.take() is None
    assert neighbour.pending == 1


def test_a_neighbour_that_dies_later_is_found_within_half_a_minute(open_outbox: Open, path: Path) -> None:
    clock = PushedClock()
    neighbour, ours = open_outbox(path.with_name("n.outbox")), open_outbox(path, clock=clock)
    neighbour.add([entry("theirs")])
    assert ours.take() is None
    neighbour.close()
    clock.push(31)
    assert drained(ours) == ["theirs"]


def test_the_empty_file_of_the_dead_is_kept_for_an_hour_for_its_sequence(open_outbox: Open, path: Path) -> None:
    clock = PushedClock(wall=time.time())
    gone = open_outbox(path.with_name("gone.outbox"))
    gone.add([entry("x")], last_sequence=9)
    drained(gone)
    gone.close()
    ours = open_outbox(path, clock=clock)
    assert ours.take() is None
    assert gone.path is not None
    assert gone.path.exists()
    clock.push(KEEP_EMPTY_S + 60)
    assert ours.take() is None
    assert [found.name for found in path.parent.iterdir() if found.name.startswith("gone")] == []


def test_the_bound_drops_failures_first_then_facts_and_counts_both(open_outbox: Open, path: Path) -> None:
    room_for_ten = 10 * (100 + ROW_OVERHEAD_BYTES)
    outbox = open_outbox(path, limit_bytes=room_for_ten)
    outbox.add([*entries(5, Rank.EVENT, prefix="fact"), *entries(5, Rank.FAILURE, prefix="failure")])
    outbox.add(entries(3, Rank.EVENT, prefix="more"))
    assert outbox.tallies["dropped_failure"] == 3
    outbox.add(entries(4, Rank.ALWAYS, prefix="kept"))
    assert (outbox.tallies["dropped_failure"], outbox.tallies["dropped_event"]) == (5, 2)
    assert drained(outbox) == [
        *("fact2", "fact3", "fact4", "more0", "more1", "more2"),
        *("kept0", "kept1", "kept2", "kept3"),
    ]


def test_what_is_always_kept_exceeds_the_bound_up_to_the_ceiling(open_outbox: Open, path: Path) -> None:
    cost = 100 + ROW_OVERHEAD_BYTES
    outbox = open_outbox(path, limit_bytes=10 * cost, ceiling_bytes=20 * cost)
    outbox.add(entries(20, Rank.ALWAYS))
    assert (outbox.pending, outbox.dropped) == (20, 0)
    outbox.add(entries(2, Rank.ALWAYS, prefix="new"))
    assert outbox.tallies["dropped_always"] == 2
    assert drained(outbox) == [*map(str, range(2, 20)), "new0", "new1"]


def test_a_batch_on_its_way_is_not_dropped(open_outbox: Open, path: Path) -> None:
    outbox = open_outbox(path, limit_bytes=4 * (100 + ROW_OVERHEAD_BYTES))
    outbox.add(entries(4))
    batch = outbox.take(records=2)
    assert batch is not None
    outbox.add(entries(4, prefix="new"))
    assert outbox.dropped == 4
    outbox.delivered(batch)
    assert drained(outbox) == ["new2", "new3"]


added = st.tuples(st.sampled_from(Rank), st.integers(1, 400))
steps = st.lists(st.one_of(st.lists(added, min_size=1, max_size=12), st.integers(1, 6)), max_size=25)


@given(steps, st.integers(1000, 4000))
def test_whatever_happens_the_bound_holds_the_order_of_dropping_holds_and_nothing_goes_uncounted(
    steps: list[list[tuple[Rank, int]] | int], limit_bytes: int
) -> None:
    file = OutboxFile(None, limit_bytes=limit_bytes, ceiling_bytes=2 * limit_bytes)
    taken_in, delivered = Counter[Rank](), Counter[Rank]()
    for step in steps:
        before = Counter(file.tallies)
        if isinstance(step, int):
            rows = file.oldest(step, 100_000)
            if rows:
                file.remove(rows)
            delivered.update(row.entry.rank for row in rows)
        else:
            file.add([entry("x", rank, size) for rank, size in step], tallies={}, is_synced=False)
            taken_in.update(rank for rank, _ in step)
            _assert_dropped_in_order(file, file.tallies - before)
        dropped = Counter({rank: file.tallies[dropped_name(rank)] for rank in Rank})
        assert taken_in == +(delivered + dropped + file.counts)
        assert file.pending_bytes <= limit_bytes or file.counts[Rank.FAILURE] == file.counts[Rank.EVENT] == 0
        assert file.pending_bytes <= 2 * limit_bytes
    file.close()


def _assert_dropped_in_order(file: OutboxFile, dropped: Counter[str]) -> None:
    if dropped["dropped_event"]:
        assert file.counts[Rank.FAILURE] == 0
    if dropped["dropped_always"]:
        assert file.counts[Rank.FAILURE] == file.counts[Rank.EVENT] == 0


def test_a_full_disk_makes_newcomers_wait_in_memory_and_in_order(open_outbox: Open, path: Path) -> None:
    clock = PushedClock()
    outbox = open_outbox(path, disk_bytes=96 * 1024, clock=clock)
    for number in range(100):
        outbox.add([entry(f"{number:03}", size=2000)], last_sequence=number)
    assert outbox.pending == 100
    assert not outbox.is_durable
    assert outbox.last_sequence == 99
    first = outbox.take(records=30)
    assert first is not None
    outbox.delivered(first)
    clock.push(2)
    outbox.add([entry("100", size=2000)])
    assert drained(outbox) == [f"{number:03}" for number in range(30, 101)]
    assert outbox.dropped == 0


def test_what_waited_in_memory_is_on_disk_once_there_is_room(open_outbox: Open, path: Path) -> None:
    clock = PushedClock()
    outbox = open_outbox(path, disk_bytes=96 * 1024, clock=clock)
    for number in range(40):
        outbox.add([entry(f"{number:03}", size=2000)], last_sequence=number)
    batch = outbox.take(records=30)
    assert batch is not None
    outbox.delivered(batch)
    clock.push(2)
    outbox.add([entry("040")], last_sequence=40)
    assert outbox.is_durable
    outbox.close()
    again = open_outbox(path)
    assert again.last_sequence == 40
    assert drained(again) == [f"{number:03}" for number in range(30, 41)]


def test_memory_is_bounded_too_while_the_disk_is_full(open_outbox: Open, path: Path) -> None:
    outbox = open_outbox(path, disk_bytes=64 * 1024, memory_bytes=20_000, clock=PushedClock())
    for number in range(200):
        outbox.add([entry(str(number), Rank.FAILURE, size=2000)])
    assert outbox.dropped > 100
    assert outbox.pending + outbox.dropped == 200


def test_losses_before_and_during_full_disk_add_up(open_outbox: Open, path: Path) -> None:
    clock = PushedClock()
    outbox = open_outbox(path, limit_bytes=100_000, disk_bytes=160 * 1024, memory_bytes=20_000, clock=clock)
    sent = 0
    for _ in range(3):  # the bound drops some while the disk has room, memory drops more once it is full
        outbox.add([entry(f"{sent + number}", Rank.FAILURE, size=2000) for number in range(60)])
        sent += 60
    before = outbox.dropped
    batch = outbox.take(records=20)
    assert batch is not None
    outbox.delivered(batch)
    clock.push(2)
    outbox.add([entry("last", Rank.FAILURE)])
    assert outbox.dropped >= before > 0
    assert outbox.pending + outbox.dropped + len(batch.rows) == sent + 1


def test_a_directory_that_cannot_be_is_said_once_and_memory_serves(
    open_outbox: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a directory")
    clock = PushedClock()
    outbox = open_outbox(tmp_path / "file" / "a.outbox", clock=clock)
    for _ in range(3):
        clock.push(31)
        outbox.add([entry("x")])
    assert len(caplog.records) == 1
    assert (outbox.path, outbox.is_durable, outbox.pending) == (None, False, 3)
    (tmp_path / "file").unlink()
    clock.push(31)
    outbox.add([entry("y")])
    assert outbox.is_durable
    assert drained(outbox) == ["x", "x", "x", "y"]


def test_a_damaged_file_is_set_aside_and_counted(
    open_outbox: Open, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is not a database, " * 400)
    with caplog.at_level(logging.WARNING):
        outbox = open_outbox(path)
    outbox.add([entry("new")])
    assert outbox.tallies["damaged_files"] == 1
    assert "damaged" in caplog.text
    assert path.with_name("agent-1.outbox.damaged").read_bytes().startswith(b"this is not")
    assert drained(outbox) == ["new"]


def test_a_page_that_goes_bad_under_way_costs_what_was_in_the_file_and_no_more(open_outbox: Open, path: Path) -> None:
    outbox = open_outbox(path)
    outbox.add(entries(300, size=2000), last_sequence=300)
    outbox.close()
    content = bytearray(path.read_bytes())
    content[8192:-8192] = os.urandom(len(content) - 16384)
    path.write_bytes(content)
    again = open_outbox(path)
    again.add([entry("during", Rank.ALWAYS)], last_sequence=max(again.last_sequence, 300) + 1)
    drained(again)
    again.add([entry("after")], last_sequence=302)
    assert again.tallies["damaged_files"] >= 1
    assert drained(again) in (["after"], ["during", "after"])
    assert again.last_sequence == 302


def test_a_damaged_file_of_the_dead_is_set_aside_too(open_outbox: Open, path: Path) -> None:
    path.parent.mkdir()
    path.with_name("dead.outbox").write_bytes(b"x" * 10_000)
    outbox = open_outbox(path)
    outbox.add([entry("ours")])
    assert drained(outbox) == ["ours"]
    assert path.with_name("dead.outbox.damaged").exists()


def test_a_refused_record_is_out_of_the_way_counted_and_kept_to_be_looked_at(open_outbox: Open, path: Path) -> None:
    outbox = open_outbox(path)
    outbox.add(entries(3))
    bad = outbox.take(records=1)
    assert bad is not None
    outbox.set_aside(bad, "HTTP 400")
    assert drained(outbox) == ["1", "2"]
    assert outbox.dropped == 1
    outbox.close()
    again = open_outbox(path)
    assert again.aside() == [("0", "HTTP 400")]
    assert again.tallies["refused"] == 1


def test_an_empty_file_gives_its_room_back(open_outbox: Open, path: Path) -> None:
    outbox = open_outbox(path)
    outbox.add(entries(2000, size=2000))
    drained(outbox)
    outbox.close()
    assert path.stat().st_size < 500_000


_FILLS = "box = Outbox(path)\nfor number in range(60): box.add([entry(str(number), Rank.ALWAYS)], last_sequence=number)"


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are of POSIX")
def test_what_was_kept_is_sent_after_a_restart_on_a_full_disk(path: Path) -> None:
    in_a_process(path, _FILLS)
    assert path.with_name(path.name + "-wal").stat().st_size > 200_000
    found, said = in_a_process(path, "print(Outbox(path).path)\nprint(*drained(Outbox(path)))", most_bytes=100_000)
    assert found[0] == str(path), said
    found, said = in_a_process(path, "print(*drained(Outbox(path)))", most_bytes=100_000)
    assert found == [str(number) for number in range(60)], said


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are of POSIX")
def test_a_file_that_filled_its_disk_gives_the_room_back_once_all_is_delivered(path: Path) -> None:
    in_a_process(path, f"{_FILLS}\nbox.set_aside(box.take(records=1), 'odd')")
    found, said = in_a_process(
        path,
        """
        box = Outbox(path)
        print(len(drained(box)))
        print(sum(file.stat().st_size for file in path.parent.iterdir()))
        box.add([entry("new")])
        print(box.is_durable, box.tallies["refused"])
        """,
        most_bytes=100_000,
    )
    assert (found[0], found[2:]) == ("59", ["True", "1"]), said
    assert int(found[1]) < 100_000
    found, said = in_a_process(
        path, "box = Outbox(path)\nprint(*drained(box), box.last_sequence, box.dropped, *box.aside()[0])"
    )
    assert found == ["new", "59", "1", "0", "odd"], said


def test_what_no_disk_took_is_said_when_it_ends(
    open_outbox: Open, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = open_outbox(path, disk_bytes=64 * 1024, memory_bytes=100_000, clock=PushedClock())
    outbox.add(entries(2000))
    outbox.add(entries(3, prefix="late"))
    waiting = outbox._memory.pending  # the file takes what it can once more
    assert waiting
    outbox.close()
    assert f"{waiting} events that no disk and no server took end with this process" in caplog.text


def test_a_closed_outbox_takes_and_gives_nothing(open_outbox: Open, path: Path) -> None:
    outbox = open_outbox(path)
    outbox.add([entry("x")])
    batch = outbox.take()
    assert batch is not None
    outbox.close()
    outbox.delivered(batch)
    outbox.add([entry("y")])
    assert outbox.take() is None
    assert drained(open_outbox(path)) == ["x"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", ".", "x" * 500, "é\ud800☃", "con\0trol", "a b%2F"])
def test_no_instance_name_leads_out_of_the_directory(tmp_path: Path, name: str) -> None:
    found = default_path(Instance(service=name, instance=name), "http://x", directory=tmp_path)
    assert found.resolve().parent.parent == tmp_path.resolve()
    assert len(found.name) < 200


def test_services_environments_and_servers_do_not_share_a_directory(tmp_path: Path) -> None:
    whose = [
        (Instance(service=service, instance="i", environment=environment), url)
        for service in ("a", "b")
        for environment in ("", "prod")
        for url in ("http://x", "http://y")
    ]
    folders = {default_path(instance, url, directory=tmp_path).parent for instance, url in whose}
    assert len(folders) == 8


def test_the_default_directory_is_the_platforms_or_the_one_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    instance = Instance(service="s", instance="i")
    monkeypatch.setenv("RECOVERY_OPS_DIR", str(tmp_path))
    assert default_path(instance, "http://x").is_relative_to(tmp_path)
    monkeypatch.delenv("RECOVERY_OPS_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = default_path(instance, "http://x")
    assert found.is_absolute()
    assert not found.is_relative_to(Path.cwd())
