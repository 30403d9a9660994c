"""Kinds of failures without a count are deleted, also while other processes store failures of the same kinds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connections, transaction

from events.issues.kinds import delete_unused_kinds
from events.issues.models import FailureKind, FailureSum, InstanceFailureSum
from events.projections import verification
from events.runs.models import RunFailure
from events.store.retention import USUAL, micros, sweep_facts
from events.store.writes import store_facts
from tests.support.concurrency import THREADS, at_once, engine
from tests.support.partitions import rows
from tests.support.stores import TODAY

__all__ = ["engine"]  # the fixture
BEFORE_MINUTE = micros(TODAY - USUAL) // 60_000_000
TURNS = 8
COUNTS: tuple[type[Any], ...] = (FailureSum, InstanceFailureSum, RunFailure)


def store(number: int, *, days_ago: float = 1) -> None:
    with transaction.atomic():
        store_facts(rows("failure", days_ago, range(number, number + 1)))


def sweep() -> int:
    return sum(delete_unused_kinds("dev", BEFORE_MINUTE, 100))


def named() -> set[bytes]:
    return {bytes(one) for one in FailureKind.objects.values_list("digest", flat=True)}


def counted() -> set[bytes]:
    return {bytes(kind) for table in COUNTS for kind in table.objects.values_list("kind", flat=True)}


def forget_counts() -> None:
    for table in COUNTS:
        table.objects.all().delete()


def test_kind_goes_with_its_last_count(engine: Callable[[], None]) -> None:
    store(0)
    assert (sweep(), len(named())) == (0, 1)
    sweep_facts(TODAY + USUAL - timedelta(days=3))
    assert named() == counted() != set()
    sweep_facts(TODAY + USUAL + timedelta(days=2))
    assert named() == counted() == set()
    folded, _ = verification.refold()
    assert list(verification.differences(folded, TODAY + USUAL + timedelta(days=2))) == []


@pytest.mark.parametrize("left", [FailureSum, InstanceFailureSum, RunFailure])
def test_kind_stays_for_one_count(engine: Callable[[], None], left: Any) -> None:
    store(0, days_ago=91)
    [kind] = named()
    RunFailure.objects.create(environment="dev", run="r", kind=kind, failures=1, first_us=1, last_us=1)
    for table in COUNTS:
        if table is not left:
            table.objects.all().delete()
    if left is not RunFailure:
        left.objects.exclude(minutes=1440).delete()
    assert (sweep(), named()) == (0, {kind})
    left.objects.all().delete()
    assert (sweep(), named()) == (1, set())


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_kind_that_another_process_counts_stays(engine: Callable[[], None]) -> None:
    store(0)
    forget_counts()
    ours = connections["default"]
    engine()
    theirs = connections["default"]
    theirs.set_autocommit(False)
    store(1)  # its kind was there
    connections["default"] = ours
    try:
        assert sweep() == 0
    finally:
        theirs.commit()
        theirs.close()
    assert named() == counted() != set()
    assert sweep() == 0


def test_kinds_are_deleted_beside_writers(engine: Callable[[], None]) -> None:
    """Each turn leaves a kind that nothing counts to the sweeps, and has others store failures of it at once."""
    for turn in range(TURNS):
        store(1000 + turn)
        forget_counts()

        def work(number: int, turn: int) -> None:
            if number % 2:
                store(number + turn * THREADS)
            else:
                sweep()

        assert at_once(engine, partial(work, turn=turn)) == [None] * THREADS
        assert named() == counted() != set()
