"""The writer: many requests in one commit, faults of data set aside, faults of the world told to come again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.db import DataError, IntegrityError, OperationalError, connection
from django.db.models import Sum

from events.derived.marks import Mark, Place
from events.ingest import commits, quarantine
from events.ingest.commits import Busy, Writer
from events.ingest.records import Intake, Row, read_records
from events.models import Fact, MinuteSum, Quarantine
from events.otlp.refused import KEPT_EACH, Refused
from events.otlp.sent import Batch, Sent
from events.store.writes import store_facts
from tests.support.processes import eventually

NOW_US = 1_795_000_000_000_000


def intake(*numbers: int, environment: str = "dev") -> Intake:
    """One request with a failure for each number; the same number is the same fact."""
    records = [
        Sent("failure", (NOW_US - number) * 1000, 0, 13, "", {"log.record.uid": f"uid-{number}"}, "", "")
        for number in numbers
    ]
    return read_records([Batch({"service.name": "billing"}, "t", records)], environment, NOW_US, "ro_tests")


@pytest.fixture
def writer(store: None) -> Iterator[Writer]:
    """A writer of the test's own."""
    own = Writer()
    yield own
    own.close(timeout_s=10)


class Gate:
    """Lets a writer's first transaction wait until the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.opened = threading.Event()
        monkeypatch.setattr(commits, "store_facts", self._wait_and_store)

    def _wait_and_store(self, rows: list[Row]) -> int:
        self.sizes.append(len(rows))
        assert self.opened.wait(10)
        return store_facts(rows)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_dead_writer_thread_is_replaced(store: None, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = Writer()

    def die(group: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(dying, "_settle", die)
        dying.submit(Intake("dev", 1))
        assert dying._thread is not None
        dying._thread.join(timeout=10)
        assert not dying._thread.is_alive()
    assert dying.submit(Intake("dev", 1)).result(timeout=10) == []
    assert dying._waiting_rows == 0
    dying.close(timeout_s=10)


def test_an_answer_comes_after_the_commit(writer: Writer) -> None:
    assert writer.submit(intake(1, 2, 3)).result(10) == []
    assert Fact.objects.count() == 3


def test_what_was_there_is_dropped_silently(writer: Writer) -> None:
    writer.submit(intake(1, 2, 2)).result(10)
    writer.submit(intake(2, 3)).result(10)
    assert Fact.objects.count() == 3
    assert writer.counts == {"stored": 3, "repeated": 2, "quarantined": 0, "ignored": 0}
    assert sum(MinuteSum.objects.values_list("failures", flat=True)) == 3


def test_one_uid_may_be_in_two_environments(writer: Writer) -> None:
    for environment in ("dev", "prod"):
        writer.submit(intake(1, environment=environment)).result(10)
    assert Fact.objects.count() == 2


def test_all_that_wait_share_a_transaction(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    first = writer.submit(intake(1))
    eventually(lambda: gate.sizes == [1])
    others = [writer.submit(intake(number)) for number in range(2, 12)]
    gate.opened.set()
    for future in [first, *others]:
        assert future.result(10) == []
    assert gate.sizes == [1, 10]


def test_a_group_has_an_end(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "GROUP_ROWS", 4)
    gate = Gate(monkeypatch)
    futures = [writer.submit(intake(1))]
    eventually(lambda: gate.sizes == [1])
    futures += [writer.submit(intake(*range(start, start + 3))) for start in (10, 20, 30)]
    gate.opened.set()
    for future in futures:
        future.result(10)
    assert gate.sizes == [1, 6, 3]


def patient(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a group wait for longer than any test may take; the sizes of what is then stored."""
    monkeypatch.setattr(commits, "GATHER_S", 60.0)
    gate = Gate(monkeypatch)
    gate.opened.set()
    return gate.sizes


def test_a_small_group_waits_for_what_is_being_read(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "GATHER_ROWS", 2)
    sizes = patient(monkeypatch)
    with writer.expecting():
        first = writer.submit(intake(1))
        eventually(lambda: writer.waiting == 0)  # it is in the writer's hands
        assert (first.done(), sizes) == (False, [])
        second = writer.submit(intake(2))
        assert (first.result(10), second.result(10), sizes) == ([], [], [2])


def test_nobody_waits_where_nothing_is_being_read(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = patient(monkeypatch)
    for number in (1, 2):
        assert writer.submit(intake(number)).result(10) == []
    assert sizes == [1, 1]


def test_a_large_group_waits_for_nobody(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "GATHER_ROWS", 3)
    sizes = patient(monkeypatch)
    with writer.expecting():
        assert writer.submit(intake(1, 2, 3)).result(10) == []
    assert sizes == [3]


def test_what_is_never_submitted_holds_nobody_up(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read may hold nothing, or cannot be read."""
    with writer.expecting():
        assert writer.submit(intake(1)).result(10) == []
    sizes = patient(monkeypatch)
    with pytest.raises(ValueError, match="unreadable"), writer.expecting():
        raise ValueError("unreadable")
    assert writer.submit(intake(2)).result(10) == []
    assert sizes == [1]


def test_what_is_remembered_of_spans_weighs_as_much_as_a_row(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request may hold tens of thousands of spans that went well, and not one fact."""
    monkeypatch.setattr(commits, "GROUP_ROWS", 4)
    gate = Gate(monkeypatch)
    futures = [writer.submit(intake(1))]
    eventually(lambda: gate.sizes == [1])
    for number in (10, 20, 30):
        taken = intake(number)
        taken.marks = {Place(f"{number:032x}", f"{span:016x}"): Mark(whole_ns=1) for span in range(1, 3)}
        futures.append(writer.submit(taken))
    gate.opened.set()
    for future in futures:
        future.result(10)
    assert gate.sizes == [1, 2, 1]


def poisoned(*numbers: int) -> Intake:
    """A request whose first row no database takes: something that slipped through the cleaning."""
    taken = intake(*numbers)
    taken.rows[0] = replace(taken.rows[0], sequence_number=2**70)
    return taken


def test_a_poisoned_row_is_found_and_set_aside_alone(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    futures = [writer.submit(intake(1))]
    eventually(lambda: gate.sizes == [1])
    futures += [writer.submit(poisoned(*range(10, 40))), writer.submit(intake(2, 3)), writer.submit(poisoned(50))]
    gate.opened.set()
    refused = [future.result(10) for future in futures]
    assert [len(one) for one in refused] == [0, 1, 0, 1]
    assert "cannot be stored" in refused[1][0].reason
    assert Fact.objects.count() == 1 + 29 + 2
    assert Quarantine.objects.count() == 2


def test_the_rest_of_a_group_is_counted_once_on_either_engine(engine: str) -> None:
    """Its parts go through the same tables on their way, in one transaction; on this thread, whose the store is."""
    taken = [poisoned(*range(10, 40)), intake(*range(40, 60))]
    assert [len(one) for one in Writer()._store(taken)] == [1, 0]
    assert Fact.objects.count() == MinuteSum.objects.aggregate(failures=Sum("failures"))["failures"] == 49


@pytest.mark.parametrize("kind", [DataError, IntegrityError, UnicodeError, OverflowError])
def test_every_fault_of_data_is_told_from_the_worlds(
    writer: Writer, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_on_one(rows: list[Row]) -> int:
        if any(row.at_us == NOW_US - 1 for row in rows):
            raise kind("poison")
        return store_facts(rows)

    monkeypatch.setattr(commits, "store_facts", fail_on_one)
    assert len(writer.submit(intake(1000, 2000, 7000, 1)).result(10)) == 1
    assert Fact.objects.count() == 3


def test_a_fault_of_the_world_stores_nothing_and_says_busy(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    def store_and_fail(rows: list[Row]) -> int:
        store_facts(rows)
        raise OperationalError("disk I/O error")

    with monkeypatch.context() as broken:
        broken.setattr(commits, "store_facts", store_and_fail)
        with pytest.raises(Busy):
            writer.submit(intake(1)).result(10)
    assert Fact.objects.count() == 0
    assert writer.submit(intake(1)).result(10) == []
    assert Fact.objects.count() == 1


def test_what_is_set_aside_goes_with_what_is_stored_or_not_at_all(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        if Fact.objects.exists():  # halves are stored by now
            raise OperationalError("the server closed the connection")

    with monkeypatch.context() as broken:
        broken.setattr(commits, "set_aside", fail)
        with pytest.raises(Busy):
            writer.submit(poisoned(*range(10, 20))).result(10)
    assert (Fact.objects.count(), Quarantine.objects.count()) == (0, 0)
    assert len(writer.submit(poisoned(*range(10, 20))).result(10)) == 1
    assert (Fact.objects.count(), Quarantine.objects.count()) == (9, 1)


def test_what_waited_too_long_is_given_up(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    first = writer.submit(intake(1))
    eventually(lambda: gate.sizes == [1])
    monkeypatch.setattr(commits, "WAIT_S", -1.0)
    late, cancelled = writer.submit(intake(2)), writer.submit(intake(3))
    assert cancelled.cancel()
    gate.opened.set()
    first.result(10)
    with pytest.raises(Busy):
        late.result(10)
    assert Fact.objects.count() == 1


def test_closing_stores_what_waits_and_a_later_request_starts_anew(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    futures = [writer.submit(intake(1)), writer.submit(intake(2))]
    writer.close()
    futures.append(writer.submit(intake(3)))
    gate.opened.set()
    writer.close(timeout_s=10)
    writer.close(timeout_s=10)
    for future in futures:
        assert future.result(10) == []
    assert Fact.objects.count() == 3


def test_the_quarantine_keeps_the_newest_of_each_environment(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "ROWS", 5)
    for number in range(4):
        for environment in ("dev", "prod"):
            refused = [Refused(f"{number}", b"x" * 10_000) for _ in range(2)]
            writer.submit(Intake(environment, NOW_US, "ro_tests", refused=refused)).result(10)
    kept = Quarantine.objects.filter(environment="dev").order_by("id")
    assert [one.reason for one in kept] == ["1", "2", "2", "3", "3"]
    assert {(one.size_bytes, len(one.content), one.key_prefix) for one in kept} == {(10_000, 4096, "ro_tests")}
    assert Quarantine.objects.count() == 10


def test_of_one_request_not_all_is_kept_but_all_is_counted(writer: Writer) -> None:
    refused = [Refused("bad", b"\x00\xff secret: hunter2") for _ in range(150)]
    assert len(writer.submit(Intake("dev", NOW_US, refused=refused)).result(10)) == 150
    assert Quarantine.objects.count() == KEPT_EACH
    kept: Any = Quarantine.objects.first()
    assert "\x00" not in kept.content
    assert "hunter2" not in kept.content


def test_a_broken_connection_is_replaced(writer: Writer) -> None:
    writer.submit(intake(1)).result(10)
    broken: list[object] = []

    def break_connection(rows: list[Row]) -> int:
        broken.append(connection.connection)
        connection.connection.close()  # as a server that went away does
        return store_facts(rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "store_facts", break_connection)
        with pytest.raises(Busy):
            writer.submit(intake(2)).result(10)
    assert writer.submit(intake(2)).result(10) == []
    assert len(broken) == 1


def test_many_threads_lose_and_double_nothing(writer: Writer) -> None:
    def send(start: int) -> None:
        for offset in range(0, 60, 20):
            writer.submit(intake(*range(start + offset, start + offset + 30))).result(20)

    threads = [threading.Thread(target=send, args=(start,)) for start in range(0, 200, 40)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - begun < 20
    assert Fact.objects.count() == 160 + 70
