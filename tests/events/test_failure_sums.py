"""Sums of failures by kind, beside the failures themselves: what a correction takes away, and what a sweep leaves."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import pytest
from django.db import transaction

from events.ingest.records import read_records
from events.issues.anew import sum_failures_anew
from events.issues.fold import Variant
from events.issues.models import FAILURE_MINUTES, FailureSum, InstanceFailureSum
from events.models import Fact
from events.otlp.sent import Batch
from events.store.writes import store_facts
from recovery_ops.rules.enums import Category
from tests.support.folds import NOW_US, Told, check, failure
from tests.support.spans import exception, failed
from tests.support.traces import clear, deliver

MINUTE_US = 60_000_000
COUNTS = ("failures", "first_us", "last_us")


def tell(told: Told, service: str = "billing") -> None:
    batches = [
        Batch({"service.name": service, "service.instance.id": instance}, "t", [sent])
        for instance, sent in told.records
    ]
    with transaction.atomic():
        store_facts(read_records(batches, "dev", NOW_US).rows)


def sums(minutes: int, **kind: Any) -> list[tuple[int, ...]]:
    found = FailureSum.objects.filter(minutes=minutes, **kind).order_by("span", "variant", "first_us")
    return list(found.values_list(*COUNTS))


def test_every_variant_is_read_from_its_number() -> None:
    variants = [Variant(*parts) for parts in product((False, True), range(4), (None, True, False), (False, True))]
    assert [Variant.of(one.number) for one in variants] == variants
    assert len({one.number for one in variants}) == len(variants)


@pytest.mark.django_db(transaction=True)
def test_each_span_holds_its_failures_and_their_first_and_last() -> None:
    agos = (1, 2, 500, 40_000, 90_000)
    told = Told()
    for ago in agos:
        told.tell(failure(), ago)
    tell(told)
    moments = sorted(NOW_US - ago * 1_000_000 for ago in agos)
    for minutes in FAILURE_MINUTES:
        length_us = minutes * MINUTE_US
        expected = []
        for span in sorted({at_us // length_us for at_us in moments}):
            its = [at_us for at_us in moments if at_us // length_us == span]
            expected.append((len(its), its[0], its[-1]))
        assert sums(minutes) == expected
    check()


@pytest.mark.django_db(transaction=True)
def test_failures_of_instances_are_apart_and_together() -> None:
    tell(Told("a-1").tell(failure(), 3).tell(failure(), 2))
    tell(Told("a-2").tell(failure(), 5))
    for minutes in FAILURE_MINUTES:
        assert [count for count, *_ in sums(minutes)] == [3]
        each = InstanceFailureSum.objects.filter(minutes=minutes).order_by("agent__instance")
        assert list(each.values_list("agent__instance", "failures")) == [("a-1", 2), ("a-2", 1)]
    check()


@pytest.mark.django_db(transaction=True)
def test_variants_of_a_kind_are_apart() -> None:
    told = Told().tell(failure(), 3, is_foreground=True, source="main_agent").tell(failure(), 2)
    told.tell(failure(Category.RATE_LIMITED), 1)
    tell(told)
    assert [count for count, *_ in sums(1440)] == [1, 1, 1]
    assert set(FailureSum.objects.values_list("variant", flat=True)) == {
        Variant(is_foreground, 1, True, False).number for is_foreground in (True, False)
    }
    check()


def test_failure_that_was_passed_on_leaves_every_sum(engine: str) -> None:
    """It is the only one with the first moment of its day, and one of several of its kind."""
    others = [
        failed("work", ago_s=ago_s, raised=[exception("KeyError")], traceId=f"{number:032x}")
        for number, ago_s in ((1, 8.0), (2, 100.0), (3, 4_000.0))
    ]
    agent = failed("work", ago_s=30_000.0, raised=[exception("KeyError")])
    child = failed("work", parent=agent, ago_s=9.0, raised=[exception("KeyError")])
    for order in permutations((agent, child)):
        clear()
        deliver(*others)
        for one in order:
            deliver(one)
        check()
        days = list(FailureSum.objects.filter(minutes=1440).values_list("failures", flat=True))
        assert sum(days) == Fact.objects.filter(event="failure_classified").count() == 4


def test_sums_made_anew_are_those_that_were_folded(engine: str) -> None:
    clear()
    told = Told()
    for ago in (1, 2, 500, 40_000, 90_000):
        told.tell(failure(), ago).tell(failure(Category.RATE_LIMITED), ago)
    tell(told)
    before = [sums(minutes) for minutes in FAILURE_MINUTES]
    FailureSum.objects.update(failures=7)
    assert sum_failures_anew() == 10
    assert [sums(minutes) for minutes in FAILURE_MINUTES] == before
    assert sum(InstanceFailureSum.objects.filter(minutes=1440).values_list("failures", flat=True)) == 10
