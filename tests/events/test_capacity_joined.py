"""Regions of one backend, and models and tools of one provider, that fail at once are one event, in whatever order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.capacity import arranging, hits, reach
from events.capacity.asking import (
    capacity_event,
    capacity_events,
    count_going_on,
    events_going_on,
    newest_over,
)
from events.capacity.detection import look, look_back
from events.capacity.models import CapacityArrangement, CapacityEvent
from events.capacity.occurrences import failures_in
from events.capacity.reach import read_reach
from events.capacity.rows import CapacityEventRow
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.events import FallbackActivated
from tests.support.capacity import storm
from tests.support.examples import examples
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, ago, moved

pytestmark = pytest.mark.django_db
_environments = count(1)
LATER = NOW + timedelta(minutes=5)


def looked(environment: str = "dev") -> None:
    """As the task does it."""
    look(environment, NOW)
    read_reach(environment, LATER)


def rows(environment: str = "dev") -> list[CapacityEventRow]:
    """The events as pages show them, in a fixed order."""
    found = capacity_events(environment, start=ago(9000), end=NOW, now=NOW)
    return sorted(found, key=lambda row: (row.started, row.name))


class Shown(NamedTuple):
    """What the name of an event tells, from and to how many seconds ago it was, and how many failures it had."""

    backends: tuple[str, ...]
    regions: tuple[str, ...]
    since: int
    until: int
    failures: int


def shown(environment: str = "dev") -> list[Shown]:
    return [
        Shown(
            *named(row),
            round((NOW - row.started).total_seconds()),
            round((NOW - row.last).total_seconds()),
            row.failures,
        )
        for row in rows(environment)
    ]


def named(row: CapacityEventRow) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The backends and the regions that its name tells."""
    return told_by(row, row.names), told_by(row, row.regions)


def told_by(row: CapacityEventRow, known: Iterable[str]) -> tuple[str, ...]:
    return tuple(one for one in sorted(known) if one and not left_out(row.name, one))


def test_a_region_that_goes_bad_is_named_and_the_other_is_not() -> None:
    storm(Story(), since=300, until=100, region="eu-west-1").store()
    storm(Story(), since=300, until=100, every=100.0, region="us-east-1").store()
    looked()
    assert shown() == [(("helios / large",), ("eu-west-1",), 300, 100, 41)]
    [row] = rows()
    assert row.regions == {"eu-west-1": 41}
    assert {one.fact_id for one in failures_in(row, "dev", limit=99)} == {
        one.fact_id for one in failures_in(row, "dev", limit=41)
    }


def test_a_backend_that_fails_in_two_regions_at_once_is_one_event_that_names_both() -> None:
    storm(Story(), since=300, until=100, region="eu-west-1").store()
    storm(Story(), since=280, until=120, region="us-east-1", category=Category.RATE_LIMITED).store()
    looked()
    assert shown() == [(("helios / large",), ("eu-west-1", "us-east-1"), 300, 100, 74)]
    [row] = rows()
    assert (row.regions, row.made_by) == ({"eu-west-1": 41, "us-east-1": 33}, "rule")
    assert len(failures_in(row, "dev", limit=99)) == 74


def test_too_few_in_each_region_but_shared_is_one_event_of_both() -> None:
    for region, at in (("eu", 300), ("us", 290)):
        storm(Story(), since=at, until=at - 4, every=2.0, region=region).store()
    looked()
    assert shown() == [(("helios / large",), ("eu", "us"), 300, 286, 6)]


def test_regions_that_fail_one_after_the_other_are_two() -> None:
    storm(Story(), since=500, until=400, region="eu").store()
    storm(Story(), since=300, until=200, region="us").store()
    looked()
    assert [(one.backends, one.regions) for one in shown()] == [
        (("helios / large",), ("eu",)),
        (("helios / large",), ("us",)),
    ]


def test_facts_without_a_region_are_as_ever_and_one_with_those_that_say_it() -> None:
    storm(Story(), since=300, until=200).store()
    looked()
    assert shown() == [(("helios / large",), (), 300, 200, 21)]
    storm(Story(), since=250, until=200, region="eu").store()
    looked()
    assert shown() == [(("helios / large",), ("eu",), 300, 200, 32)], "most of it did not say where"
    assert rows()[0].regions == {"eu": 11}


def test_a_provider_that_fails_on_a_model_and_on_a_tool_is_one_event() -> None:
    storm(Story(), since=300, until=100).store()
    storm(Story(), since=250, until=60, model="", operation="search_web").store()
    looked()
    [row] = rows()
    assert (sorted(row.names), len(row.parts)) == (["helios", "helios / large"], 2)
    assert set(row.operations) == {"model:large", "search_web"}
    assert left_out(row.name, "helios / large", "helios (search_web)") == []
    assert row.failures == 41 + 39
    assert count_going_on("dev", now=NOW) == 1
    assert [one.id for one in events_going_on("dev", now=NOW)] == [row.id]


def test_unless_another_could_end_it() -> None:
    storm(Story(), since=300, until=100).store()
    storm(Story(), since=250, until=60, model="", operation="search_web", category=Category.RATE_LIMITED).store()
    looked()
    assert [(row.name, row.owner) for row in rows()] == [("helios / large", "provider"), ("helios", "quota")]


def test_what_turns_out_to_be_anothers_is_parted_from_it() -> None:
    """While nobody knows whose it is, it is one: what was told of a moment ago is not told again."""
    storm(Story(), since=300, until=200).store()
    storm(Story(), since=300, until=200, model="small", category=Category.RATE_LIMITED).store()
    look("dev", NOW)
    assert len(rows()) == 1
    read_reach("dev", LATER)
    assert len(rows()) == 2
    storm(Story(), since=299, until=100, every=0.5, model="small").store()
    look("dev", NOW)
    read_reach("dev", LATER)
    assert [row.owner for row in rows()] == ["provider"]


def test_what_both_parts_saw_is_not_counted_twice() -> None:
    for region in ("eu", "us"):
        storm(Story(), since=300, until=200, region=region).store()
    story = Story().tell(moved(State.OPEN, breaker="model:large"), at=270)
    story.tell(FallbackActivated(operation="model:large", fallback="model:small", level=1), at=260).store()
    looked()
    [row] = rows()
    assert (row.failures, row.fallbacks, row.breakers) == (42, 1, {"model:large": 1})


def test_a_flood_in_one_region_hides_nothing_in_another_and_is_counted_by_its_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hits, "READ_MOST", 20)
    monkeypatch.setattr(reach, "READ_MOST", 20)
    storm(Story(), since=300, until=200, every=1.0, region="eu").store()
    storm(Story(), since=260, until=250, every=2.0, region="us").store()
    looked()
    assert shown() == [(("helios / large",), ("eu", "us"), 300, 200, 107)]
    storm(Story(), since=199, until=100, every=1.0, region="eu").store()
    looked()
    [row] = rows()
    assert row.regions == {"eu": 201, "us": 6}
    assert row.categories == {Category.OVERLOADED: 207}
    assert row.peak_per_min in range(60, 68)


def test_failures_counted_from_the_sums_are_counted_anew_once_a_region_fails_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sums know no region: what stands in them of the region is not counted with what said none."""
    monkeypatch.setattr(hits, "READ_MOST", 20)
    monkeypatch.setattr(reach, "READ_MOST", 20)
    storm(Story(), since=300, until=200, every=1.0).store()
    storm(Story(), since=215, until=215, region="us").store()
    looked()
    assert [event.region for event in CapacityEvent.objects.all()] == [""], "one is no outage yet"
    storm(Story(), since=199, until=150, every=1.0).store()
    storm(Story(), since=199, until=150, every=2.0, region="us").store()
    looked()
    assert failures_by_region() == {"": 151, "us": 26}
    storm(Story(), since=149, until=130, every=1.0).store()
    looked()
    assert failures_by_region() == {"": 171, "us": 26}, "each once"


def failures_by_region() -> dict[str, int]:
    found = CapacityEvent.objects.filter(merged_into=None)
    return dict(found.values_list("region", "failures"))


def test_a_part_that_people_set_apart_stays_apart_until_that_is_taken_back() -> None:
    storm(Story(), since=300, until=200).store()
    storm(Story(), since=300, until=200, model="small").store()
    looked()
    small = CapacityEvent.objects.get(model="small")
    made = arranging.set_apart(small, by="eva", reason="another cause", now=NOW)
    parted = [(("helios / large",), (), 300, 200, 21), (("helios / small",), (), 300, 200, 21)]
    assert shown() == parted
    storm(Story(), since=195, until=150, model="small").store()
    storm(Story(), since=195, until=150).store()
    looked()
    look_back("dev", NOW)
    assert [one.backends for one in shown()] == [(("helios / large",)), ("helios / small",)]
    with pytest.raises(arranging.CannotArrange, match="is not joined"):
        arranging.set_apart(small, by="eva", reason="another cause", now=NOW)
    arranging.take_back(made, by="eva", now=NOW)
    assert [one.backends for one in shown()] == [("helios / large", "helios / small")]


def test_a_split_goes_through_every_part_and_is_taken_back_as_one() -> None:
    storm(Story(), since=300, until=100, region="eu").store()
    storm(Story(), since=290, until=100, region="us").store()
    storm(Story(), since=180, until=90, model="small").store()
    looked()
    [row] = rows()
    whole = CapacityEvent.objects.get(pk=row.id)
    made = arranging.cut(whole, int(ago(200).timestamp() * 1e6), by="eva", reason="two causes", now=NOW)
    read_reach("dev", LATER)
    both, regions = ("helios / large", "helios / small"), ("eu", "us")
    halves = [(("helios / large",), regions, 300, 205, 38), (both, regions, 200, 90, 61)]
    assert shown() == halves
    looked()
    look_back("dev", NOW)
    read_reach("dev", LATER)
    assert shown() == halves, "no look joins what people cut"
    arranging.take_back(made, by="eva", now=NOW)
    read_reach("dev", LATER)
    assert shown() == [(both, regions, 300, 90, 99)]
    assert not CapacityArrangement.objects.filter(ended_at=None).exists()


def test_what_people_merged_and_what_the_rule_joined_are_one_and_come_apart_as_they_were() -> None:
    storm(Story(), since=300, until=200).store()
    storm(Story(), since=300, until=200, model="small").store()
    storm(Story(), since=300, until=200, provider="atlas").store()
    looked()
    helios = next(row for row in rows() if row.parts)
    atlas = CapacityEvent.objects.get(provider="atlas")
    made = arranging.merge(CapacityEvent.objects.get(pk=helios.id), atlas, by="eva", reason="one data centre", now=NOW)
    [row] = rows()
    assert (len(row.parts), row.made_by) == (3, "rule and person")
    assert arranging.is_merged_by_people(CapacityEvent.objects.get(model="small"))
    arranging.take_back(made, by="eva", now=NOW)
    assert sorted(len(row.parts) for row in rows()) == [0, 2]
    assert not arranging.is_merged_by_people(CapacityEvent.objects.get(model="small"))


def test_the_number_of_a_part_leads_to_the_whole() -> None:
    for region in ("eu", "us"):
        storm(Story(), since=300, until=200, region=region).store()
    looked()
    first, second = sorted(CapacityEvent.objects.values_list("pk", flat=True))
    part = capacity_event("dev", second, now=NOW)
    assert part is not None
    assert part.merged_into == first


def test_what_ended_last_is_no_quiet_part_of_what_goes_on() -> None:
    storm(Story(), since=900, until=800, provider="atlas").store()
    for region, until in (("eu", 300), ("us", 10)):
        storm(Story(), since=500, until=until, region=region).store()
    looked()
    look_back("dev", NOW)
    assert [row.is_over for row in rows()] == [True, False]
    last = newest_over("dev", now=NOW)
    assert last is not None
    assert last.name == "atlas / large"
    over = newest_over("dev", now=LATER)
    assert over is not None
    assert (*named(over), over.last) == (("helios / large",), ("eu", "us"), ago(10))


_BURSTS = st.lists(
    st.tuples(
        st.integers(0, 1800),
        st.sampled_from(["large", "small", ""]),
        st.sampled_from([None, "eu", "us"]),
        st.sampled_from([Category.OVERLOADED, Category.RATE_LIMITED]),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=examples(8, 30), deadline=None)
@given(_BURSTS, st.data())
def test_any_order_of_arrival_ends_in_the_same_wholes(
    bursts: list[tuple[int, str, str | None, Category]], data: st.DataObject
) -> None:
    def told(environment: str, order: list[Any], looks: list[Callable[..., int]]) -> list[Shown]:
        for start, model, region, category in order:
            storm(
                Story(environment), since=start + 40, until=start, model=model, region=region, category=category
            ).store()
            for one in looks:
                one(environment, NOW)
        for _ in range(2):
            look(environment, NOW)
            look_back(environment, NOW)
            read_reach(environment, LATER)
        return shown(environment)

    number = next(_environments)
    shuffled = data.draw(st.permutations(bursts))
    one = told(f"one-{number}", bursts, [look, look_back, read_reach])
    two = told(f"two-{number}", list(shuffled), [look_back])
    assert one == two
