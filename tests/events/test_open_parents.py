"""A child that went well shows that its parent failed by itself, also where it is sent before anything failed."""

from __future__ import annotations

import time
from threading import Event, Thread

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from events.derived import open_parents
from events.derived.open_parents import OpenParent
from events.derived.traces import LOCKS, settle
from events.models import Fact, SpanMark
from events.store.retention import sweep_facts
from events.store.writes import store_facts
from tests.support.otlp import Door
from tests.support.spans import NOW_US, failed, span, traces
from tests.support.stores import store_at
from tests.support.traces import NOW, check, clear, deliver, failures, outlived, read, store


def test_of_several_that_went_well_before_anything_failed_the_last_counts(engine: str) -> None:
    """However they are sent, one by one or several of a group, and also where they are sent twice."""
    parent, below, then = outlived()
    sooner = span("call", ago_s=7.0, parent=parent)
    for well in ([[sooner], [then]], [[then], [sooner]], [[then, sooner], [sooner]], [[sooner], [then], [sooner]]):
        clear()
        store(*(read(*spans) for spans in well))
        for spans in well[1:]:
            deliver(*spans)
        assert OpenParent.objects.count() == 1
        deliver(parent, below)
        assert failures() == sorted([below["spanId"], parent["spanId"]]), well
        clear()
        for spans in well:
            if then not in spans:
                deliver(*spans)
        deliver(below)
        deliver(parent)
        assert failures() == [below["spanId"]], well


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("is_sooner_first", [True, False])
def test_child_sent_now_counts_beside_one_remembered(engine: str, is_sooner_first: bool) -> None:
    parent, below, then = outlived()
    sooner = span("call", ago_s=7.0, parent=parent)
    first, second = (sooner, then) if is_sooner_first else (then, sooner)
    deliver(first)
    deliver(parent, below, second)
    assert failures() == sorted([below["spanId"], parent["spanId"]])


def test_what_went_well_in_another_environment_or_trace_shows_nothing(engine: str) -> None:
    parent, below, then = outlived()
    store(read(then, environment="prod"))
    deliver({**then, "traceId": "ab" * 16})
    assert OpenParent.objects.count() == 2
    deliver(below, parent)
    assert failures() == [below["spanId"]]


def test_a_trace_that_is_sent_to_two_environments_at_once_is_told_in_each(engine: str) -> None:
    """The same spans have the same uids in both; what one of them knows is not what the other knows."""
    parent, below, then = outlived()
    both = sorted([below["spanId"], parent["spanId"]])

    def told(environment: str) -> list[str]:
        facts = Fact.objects.filter(environment=environment, event="failure_classified")
        return sorted(facts.values_list("span_id", flat=True))

    for before in ([then], [then, below]):
        clear()
        for one in before:
            store(read(one))
        store(read(parent, below, environment="prod"), read(parent, below))
        assert (told("dev"), told("prod")) == (both, [below["spanId"]])
        store(read(then, environment="prod"))
        assert (told("dev"), told("prod")) == (both, both)
        clear()
        for one in before:
            store(read(one), read(one, environment="prod"))
        store(read(parent, below), read(parent, below, environment="prod"))
        assert (told("dev"), told("prod")) == (both, both)


def test_of_two_spans_with_one_id_each_may_fail(engine: str) -> None:
    """As a client's and a server's in Zipkin: that the server's went well does not say so of the client's."""
    parent, below, then = outlived()
    served = {**parent, "kind": 2, "status": {}, "attributes": []}
    for requests in (
        [[parent, served, then, below]],
        [[served, parent, then, below]],
        [[parent], [served, then], [below]],
    ):
        clear()
        for spans in requests:
            deliver(*spans)
        assert failures() == sorted([below["spanId"], parent["spanId"]]), requests


def test_what_is_told_again_from_the_quarantine_makes_nothing_older(engine: str) -> None:
    _, below, then = outlived()
    deliver({**then, "traceId": "ab" * 16})
    deliver(below)
    long_ago = [read({**then, "traceId": "ab" * 16}), read(below)]
    for intake in long_ago:
        intake.received_us -= 20 * 86_400_000_000
        store(intake)
    assert [one.seen_us for one in (OpenParent.objects.get(), SpanMark.objects.get(span_id=below["spanId"]))] == [
        NOW_US
    ] * 2


def test_more_parents_than_are_remembered_in_an_hour_are_passed_over(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_parents, "MOST_KEPT", 3)
    monkeypatch.setattr(open_parents, "_hour", open_parents._Hour())
    spans = [{**span("work", parent=span("turn")), "traceId": f"{number:032x}"} for number in range(1, 6)]
    deliver(*spans)
    deliver(*spans)
    assert OpenParent.objects.count() == 3
    later = read(*spans)
    later.received_us += 3_600_000_000
    store(later)
    assert OpenParent.objects.count() == 3
    assert set(OpenParent.objects.values_list("seen_us", flat=True)) == {later.received_us}


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_what_it_takes_to_remember_parents_grows_with_their_number_alone(engine: str) -> None:
    with CaptureQueriesContext(connection) as asked:
        deliver(*({**span("work", parent=span("turn")), "traceId": f"{number:032x}"} for number in range(1, 4)))
    [remembered] = [one["sql"] for one in asked.captured_queries if "INTO events_openparent" in one["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {remembered}")
        assert len([line for *_, line in cursor.fetchall() if line.startswith("SCAN")]) == 1


@pytest.mark.parametrize("is_well_first", [True, False])
def test_who_remembers_a_child_and_who_decides_about_its_parent_wait_for_each_other(
    migrated_postgres_url: str, transactional_db: None, *, is_well_first: bool
) -> None:
    parent, below, then = outlived()
    first, second = ([then], [below, parent]) if is_well_first else ([below, parent], [then])

    def elsewhere() -> None:
        with store_at(migrated_postgres_url):
            deliver(*second)

    with store_at(migrated_postgres_url):
        other = Thread(target=elsewhere)
        with transaction.atomic():
            store_facts(*settle([read(*first)]))
            other.start()
            wait_for_a_lock()
        other.join(timeout=30)
        assert failures() == sorted([below["spanId"], parent["spanId"]])
        check()


def wait_for_a_lock() -> None:
    """Until somebody waits for a trace of ours."""
    until = time.monotonic() + 30
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
            if cursor.fetchone() != (0,):
                return
    pytest.fail("nobody waits")


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_more_traces_than_postgresql_has_room_for_locks_are_decided_about_at_once(engine: str) -> None:
    """Where an outage fails every trace of a Collector's batch; it would be refused for as long as it is sent."""
    spans = [{**failed("call"), "traceId": f"{number:032x}"} for number in range(1, 1001)]
    with transaction.atomic():
        store_facts(*settle([read(*spans)]))
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
            [locks] = cursor.fetchone()
    assert 0 < locks <= LOCKS
    assert len(failures()) == 1000


def test_what_was_told_again_while_a_sweep_takes_it_is_kept(migrated_postgres_url: str, transactional_db: None) -> None:
    _, _, then = outlived()
    swept = Event()

    def sweep() -> None:
        with store_at(migrated_postgres_url):
            sweep_facts(NOW)
            swept.set()

    with store_at(migrated_postgres_url):
        deliver(then)
        OpenParent.objects.update(seen_us=1)
        other = Thread(target=sweep)
        with transaction.atomic():
            settle([read(then)])
            other.start()
            assert swept.wait(30), "a sweep waits for nobody"
        other.join(timeout=30)
        assert OpenParent.objects.get().seen_us == NOW_US


@pytest.mark.parametrize("is_last", [True, False])
def test_a_child_that_says_nothing_of_recovery_shows_that_its_parent_failed_by_itself(
    door: Door, is_last: bool
) -> None:
    """Of a span that is no call, there is no fact, but whose child it is counts all the same."""
    parent, below, _ = outlived()
    silent = span("GET", ago_s=5.0, given={}, parent=parent)
    for spans in ([below, parent], [silent]) if is_last else ([silent], [below, parent]):
        assert door.post(json=traces(*spans), path="/v1/traces").status_code == 200
    assert failures() == sorted([below["spanId"], parent["spanId"]])


def test_a_trace_without_a_failure_leaves_of_each_parent_that_was_not_sent_with_its_child_a_key(door: Door) -> None:
    outer = span("turn")
    inner = span("step", parent=outer)
    for spans in ([inner, outer], [inner], [span("other step", parent=outer)], [outer]):
        assert door.post(json=traces(*spans), path="/v1/traces").status_code == 200
    assert OpenParent.objects.count() == 1
    assert SpanMark.objects.count() == 0


def test_of_parents_that_did_not_come_the_newest_are_kept(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_parents, "MOST_KEPT", 3)
    now_us = int(NOW.timestamp() * 1e6)
    OpenParent.objects.bulk_create(OpenParent(key=-n, whole_ns=1, seen_us=now_us - n) for n in range(8))
    sweep_facts(NOW)
    assert sorted(-parent.key for parent in OpenParent.objects.all()) == [0, 1, 2, 3]
