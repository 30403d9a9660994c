"""Many at once, on both engines: revisions without gaps, one winner where only one can win, a chain without forks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.services import overrides as overrides_services
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.desired_state import document as desired
from recovery_ops.rules.policy.scope import Scope
from tests.support.actions import person, trip
from tests.support.concurrency import THREADS, at_once, engine
from tests.support.stories import NOW

__all__ = ["engine"]  # the fixture


def test_every_change_has_a_revision_of_its_own_and_a_row(engine: Callable[[], None]) -> None:
    def change(number: int) -> int:
        return trip(scope=Scope(operation=f"operation-{number}"), ahead=True).revision

    assert sorted(at_once(engine, change)) == list(range(1, THREADS + 1))  # type: ignore[type-var]  # all are numbers
    assert current_revision("dev") == THREADS
    assert (verify_chain("dev").is_whole, AuditEntry.objects.count()) == (True, THREADS)
    assert len(desired.document("dev", now=NOW)["overrides"]) == THREADS


def test_of_many_who_saw_the_same_one_wins_and_the_others_are_told(engine: Callable[[], None]) -> None:
    def change(number: int) -> int:
        by = person(name=f"person-{number}")
        return trip(by=by, reason=f"for reasons of person {number}", seen=0, ahead=True).revision

    results = at_once(engine, change)
    assert sorted(map(str, results)) == ["1"] + ["stale"] * (THREADS - 1)
    assert Override.objects.live("dev").count() == 1
    assert verify_chain("dev").is_whole


def test_one_click_that_arrives_many_times_is_one_change(engine: Callable[[], None]) -> None:
    results = at_once(engine, lambda number: trip(key="one click", ahead=True).object.pk)
    assert len(set(results)) == 1
    assert (current_revision("dev"), Override.objects.count()) == (1, 1)


def test_many_workers_end_what_expired_once(engine: Callable[[], None]) -> None:
    for number in range(3):
        trip(scope=Scope(operation=f"operation-{number}"), ahead=True, expires_in_s=60)
    results = at_once(engine, lambda _: len(overrides_services.end_expired("dev", now=NOW + timedelta(hours=1))))
    assert sorted(map(str, results)) == ["0"] * (THREADS - 1) + ["3"]
    assert current_revision("dev") == 4
    assert verify_chain("dev").is_whole


def test_a_reader_never_sees_half_a_change(engine: Callable[[], None]) -> None:
    def work(number: int) -> object:
        if number % 2:
            return [trip(scope=Scope(operation=f"{number}-{one}"), ahead=True).revision for one in range(5)]
        snapshots = [desired.read("dev") for _ in range(20)]
        return all(len(one.overrides) == one.revision for one in snapshots)

    assert all(at_once(engine, work))
