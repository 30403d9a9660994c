"""What a fact takes on disk is told by parts, on both engines."""

from __future__ import annotations

import pytest

from events.models import Fact
from recovery_ops.bench import sizes
from recovery_ops.rules.enums import Category
from tests.support.stories import Story, failed


@pytest.mark.default
@pytest.mark.django_db
def test_each_part_of_a_store_with_facts_takes_something() -> None:
    story = Story()
    for number in range(50):
        story.tell(failed(Category.TIMEOUT), at=number)
    story.store()
    assert Fact.objects.count() == 50
    found = sizes.sizes()
    assert set(found) == set(sizes.PARTS)
    assert all(size >= 4096 for size in found.values()), found


@pytest.mark.parametrize(
    ("name", "table", "is_index", "part"),
    [
        ("events_fact", "events_fact", False, "fact"),
        ("events_fact_20261122", "events_fact_20261122", False, "fact"),
        ("fact_by_run", "events_fact", True, "indexes"),
        ("sqlite_autoindex_events_fact_1", "events_fact", True, "ids"),
        ("events_factid", "events_factid", False, "ids"),
        ("minute_sum_once", "events_minutesum", True, "sums"),
        ("events_agent", "events_agent", False, ""),
    ],
)
def test_partitions_and_indexes_are_of_their_table(name: str, table: str, is_index: bool, part: str) -> None:
    assert sizes.part_of(name, table, is_index=is_index) == part
