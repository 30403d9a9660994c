"""Failures are put together by cause, counted, and compared with before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.failures.asking import (
    agents_with,
    counts_before,
    counts_of_agents,
    course_of,
    fingerprints,
    in_words,
    occurrences,
    read_failures,
    traits,
    with_reach,
)
from events.failures.rows import Course, Field, Fingerprint
from events.issues.fold import is_unnamed
from recovery_ops.rules.enums import Category
from tests.support.stories import NOW, Story, ago, failed

HOUR = timedelta(hours=1)
START = NOW - HOUR
stored = pytest.mark.django_db


def storm(count: int, *, fingerprint: str = "f1", at: float = 600, step: float = 10, **rest: Any) -> None:
    story = Story()
    for number in range(count):
        story.tell(
            failed(fingerprint=fingerprint, message="helios says 529", status_code=529, **rest),
            at=at - number * step,
            instance=f"a-{number % 2}",
            run=f"{fingerprint}-run-{number % 3}",
            is_foreground=True,
            source="main_agent",
        )
    story.store()


def found(**given: Any) -> list[Fingerprint]:
    sample = read_failures("dev", start=START, end=NOW)
    light = fingerprints(sample, start=START, end=NOW, **({"before": None} | given))
    return with_reach("dev", sample, in_words("dev", sample, light), start=START, end=NOW)


@stored
def test_what_has_one_fingerprint_is_one_cause() -> None:
    storm(7, provider="helios", model="large")
    storm(2, fingerprint="f2", category=Category.TIMEOUT, operation="crm.update")
    first, second = found()
    assert (first.fingerprint, first.count, first.runs, first.instances) == ("f1", 7, 3, 2)
    assert (first.category, first.status_code, first.message) == (Category.OVERLOADED, 529, "helios says 529")
    assert (first.first, first.last) == (ago(600), ago(540))
    assert (first.operations, first.backends) == (["search_web"], ["helios / large"])
    assert (second.fingerprint, second.category, second.operations) == ("f2", Category.TIMEOUT, ["crm.update"])


@stored
def test_a_sender_without_fingerprints_is_grouped_by_operation_and_category() -> None:
    storm(3, fingerprint="")
    storm(1, fingerprint="", category=Category.TIMEOUT)
    assert [(is_unnamed(one.fingerprint), one.count) for one in found()] == [(True, 3), (True, 1)]


@stored
def test_its_trend_adds_up_and_lies_in_the_range() -> None:
    storm(5, at=3599, step=1)
    storm(2, at=5, step=1)
    [one] = found()
    assert (one.bins[0], one.bins[-1], sum(one.bins)) == (5, 2, 7)


@stored
def test_only_the_range_is_counted() -> None:
    storm(3, at=3 * 3600)
    assert found() == []
    assert counts_before("dev", start=NOW - 2 * HOUR, end=NOW - HOUR) == {"f1": 3}


@pytest.mark.parametrize(
    ("count", "before", "quiet_min", "course"),
    [
        (10, 0, 1, Course.NEW),
        (10, 5, 1, Course.RISING),
        (10, 9, 1, Course.ONGOING),
        (10, 20, 1, Course.FALLING),
        (10, None, 1, Course.ONGOING),
        (10, 0, 16, Course.QUIET),
    ],
)
def test_its_course_is_told_against_the_range_before(
    count: int, before: int | None, quiet_min: int, course: Course
) -> None:
    assert course_of(count, before, quiet_for=timedelta(minutes=quiet_min), length=HOUR) is course


@stored
def test_choosing_values_narrows_what_is_counted() -> None:
    storm(4)
    storm(3, fingerprint="f2", operation="crm.update")
    sample = read_failures("dev", start=START, end=NOW)
    assert sample.counts(Field.OPERATION) == {"search_web": 4, "crm.update": 3}
    mine = sample.matching({Field.OPERATION: "crm.update"})
    assert mine.total == 3
    assert counts_of_agents("dev", mine, start=START, end=NOW)[Field.INSTANCE] == {"a-0": 2, "a-1": 1}
    agents = agents_with("dev", {Field.INSTANCE: "a-0"})
    assert (
        read_failures("dev", start=START, end=NOW, agents=agents).matching({Field.OPERATION: "crm.update"}).total == 2
    )


@stored
def test_what_sets_a_cause_apart_comes_first() -> None:
    storm(4, operation="crm.update")
    storm(12, fingerprint="f2")
    traits_found = traits(read_failures("dev", start=START, end=NOW), "f1")
    assert (traits_found[0].name, traits_found[0].value) == (Field.OPERATION, "crm.update")
    assert (traits_found[0].share, traits_found[0].baseline) == (1.0, 0.25)
    assert Field.CATEGORY not in {one.name for one in traits_found}


@stored
def test_the_newest_of_them_are_told_in_full() -> None:
    storm(5)
    sample = read_failures("dev", start=START, end=NOW)
    newest = occurrences("dev", sample, start=START, end=NOW, limit=2)
    assert [one.at for one in newest] == [ago(560), ago(570)]
    assert newest[0].run == "f1-run-1"


@stored
def test_a_page_of_causes_takes_few_queries() -> None:
    for number in range(30):
        storm(2, fingerprint=f"f{number}")
    with CaptureQueriesContext(connection) as queries:
        assert len(found()) == 30
    assert len(queries) <= 6


@stored
def test_environments_do_not_see_each_other() -> None:
    storm(3)
    assert read_failures("prod", start=START, end=NOW).seen == []
