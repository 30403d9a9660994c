"""Many failures, one outage: the rule by table, and what must hold whatever happens."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.incidents.detection import (
    BOUNDS,
    Hit,
    Interval,
    OutageBounds,
    is_shared,
    merged,
    outage_bounds_document,
    outages,
    parse_outage_bounds,
    regional_outages,
)
from recovery_ops.rules.policy.settings import Problem


def burst(start: float, *, count: int = 5, gap_s: float = 1.0, runs: int = 2, instances: int = 1) -> list[Hit]:
    return [Hit(start + n * gap_s, f"run-{n % runs}", f"agent-{n % instances}") for n in range(count)]


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(burst(0), [(0, 4)], id="five in thirty seconds from two runs"),
        pytest.param(burst(0, count=4), [], id="four are too few"),
        pytest.param(burst(0, runs=1), [], id="one run alone is that run's trouble"),
        pytest.param(burst(0, runs=1, instances=2), [(0, 4)], id="two instances without a second run"),
        pytest.param([Hit(n, "", "agent") for n in range(9)], [], id="calls outside of runs are one source"),
        pytest.param([*burst(0, runs=1), Hit(2, "stray", "b")], [], id="one run that hammers, and a stray of another"),
        pytest.param([*burst(0, count=20, runs=1), Hit(2, "r1", "b"), Hit(3, "r2", "c")], [], id="and of two others"),
        pytest.param(
            [*burst(0, count=20, runs=1), Hit(2, "r1", "b"), Hit(3, "r2", "c"), Hit(4, "r3", "d")],
            [(0, 19)],
            id="with three others, four runs share five",
        ),
        pytest.param(burst(0, gap_s=7.5), [(0, 30)], id="thirty seconds, to the edge"),
        pytest.param(burst(0, gap_s=7.6), [], id="just too slow"),
        pytest.param([*burst(0), *burst(304)], [(0, 308)], id="a neighbour within five minutes"),
        pytest.param([*burst(0), *burst(305)], [(0, 4), (305, 309)], id="a neighbour later than that"),
        pytest.param([*burst(0), Hit(40, "x", "y"), *burst(400)], [(0, 4), (400, 404)], id="a drop is no bridge"),
    ],
)
def test_the_rule(hits: list[Hit], expected: list[tuple[float, float]]) -> None:
    assert [(one.started, one.last) for one in outages(hits)] == expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([5], False),
        ([3, 2], True),
        ([4, 1], False),
        ([20, 1], False),
        ([3, 1, 1], False),
        ([20, 1, 1], False),
        ([2, 2, 1], True),
        ([2, 1, 1, 1], True),
        ([1, 1, 1, 1, 1], True),
        ([2, 2], False),
    ],
)
def test_failures_are_shared_where_none_has_more_than_an_equal_part(counts: list[int], expected: bool) -> None:
    assert is_shared(counts) is expected


@pytest.mark.parametrize(
    ("bounds", "counts", "expected"),
    [
        (OutageBounds(least_sources=1), [5], True),
        (OutageBounds(most_of_one=5), [4, 1], True),
        (OutageBounds(most_of_one=1), [3, 2, 2, 2], False),
        (OutageBounds(least_failures=10), [5, 5], True),
        (OutageBounds(least_failures=10), [6, 4], False),
        (OutageBounds(least_failures=10, least_sources=3), [5, 5], False),
        (OutageBounds(least_failures=10, least_sources=3), [4, 4, 2], True),
    ],
)
def test_a_policy_says_how_many_of_one_count(bounds: OutageBounds, counts: list[int], expected: bool) -> None:
    assert is_shared(counts, bounds) is expected


_COUNTS = st.lists(st.integers(1, 12), max_size=9)


@given(_COUNTS, st.integers(2, 12), st.integers(1, 4), st.integers(0, 4), st.data())
def test_one_more_failure_never_makes_them_less_shared(
    counts: list[int], failures: int, sources: int, most: int, data: st.DataObject
) -> None:
    bounds = OutageBounds(least_failures=failures, least_sources=sources, most_of_one=most)
    if not is_shared(counts, bounds):
        return
    place = data.draw(st.integers(0, len(counts)))
    more = [*counts, 0]
    more[place] += 1
    assert is_shared([count for count in more if count], bounds)
    assert sum(counts) >= failures
    assert len(counts) >= sources


def regional(region: str, start: float, **more: Any) -> list[Hit]:
    return [replace(hit, region=region) for hit in burst(start, **more)]


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        pytest.param(regional("eu", 0), {"eu": [(0, 4)]}, id="one region"),
        pytest.param([*regional("eu", 0), *regional("us", 2)], {"eu": [(0, 4)], "us": [(2, 6)]}, id="two at once"),
        pytest.param([*regional("eu", 0), *regional("us", 90)], {"eu": [(0, 4)], "us": [(90, 94)]}, id="one by one"),
        pytest.param(
            [*regional("eu", 0, count=3), *regional("us", 10, count=2)],
            {"eu": [(0, 2)], "us": [(10, 11)]},
            id="too few in each, but shared",
        ),
        pytest.param([*regional("eu", 0, count=4), *regional("us", 10, count=1)], {}, id="four and a stray"),
        pytest.param(
            [*regional("eu", 0, count=3, runs=1), *regional("us", 10, count=2, runs=1)],
            {},
            id="one run that hammers in two regions",
        ),
        pytest.param(
            [*regional("eu", 0, count=2), *regional("", 5, count=3)],
            {"": [(5, 7)], "eu": [(0, 1)]},
            id="with failures of which nobody said the region",
        ),
        pytest.param([*regional("eu", 0, count=3), *regional("us", 40, count=2)], {}, id="shared, but too slow"),
    ],
)
def test_regions_are_judged_one_by_one_and_together(
    hits: list[Hit], expected: dict[str, list[tuple[float, float]]]
) -> None:
    found = regional_outages(hits)
    assert {region: [(one.started, one.last) for one in some] for region, some in found.items()} == expected


_HITS = st.lists(
    st.builds(
        Hit,
        st.floats(0, 2000).map(lambda at: round(at, 3)),
        st.sampled_from(["", "r1", "r2", "r3"]),
        st.sampled_from(["a", "b"]),
    ),
    max_size=80,
)


_REGIONAL = st.lists(
    st.builds(
        Hit,
        st.floats(0, 900).map(lambda at: round(at, 3)),
        st.sampled_from(["", "r1", "r2", "r3"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["", "eu", "us"]),
    ),
    max_size=60,
)


@given(_REGIONAL, st.randoms(use_true_random=False))
def test_order_changes_nothing_in_any_region(hits: list[Hit], chance: random.Random) -> None:
    shuffled = list(hits)
    chance.shuffle(shuffled)
    assert regional_outages(shuffled) == regional_outages(hits)


@given(_HITS)
def test_where_nobody_says_a_region_nothing_changes(hits: list[Hit]) -> None:
    assert regional_outages(hits).get("", []) == outages(hits)


@given(_REGIONAL)
def test_what_is_an_outage_in_a_region_by_itself_is_one_beside_others(hits: list[Hit]) -> None:
    found = regional_outages(hits)
    for region in {hit.region for hit in hits}:
        for one in outages([hit for hit in hits if hit.region == region]):
            assert any(wide.started <= one.started and one.last <= wide.last for wide in found[region])


@given(_REGIONAL, _REGIONAL)
def test_more_facts_take_an_outage_away_in_no_region(hits: list[Hit], more: list[Hit]) -> None:
    after = regional_outages([*hits, *more])
    for region, some in regional_outages(hits).items():
        for one in some:
            assert any(wide.started <= one.started and one.last <= wide.last for wide in after[region])


@given(_REGIONAL, st.integers(0, 60))
def test_two_looks_see_in_each_region_what_one_sees(hits: list[Hit], cut: int) -> None:
    ordered = sorted(hits, key=lambda hit: hit.at)
    early, late = ordered[:cut], ordered[cut:]
    overlap = [hit for hit in early if late and late[0].at - hit.at <= BOUNDS.within_s]
    first, second = regional_outages(early), regional_outages([*overlap, *late])
    joined = {
        region: merged([*first.get(region, []), *second.get(region, [])])
        for region in sorted(first.keys() | second.keys())
    }
    assert joined == regional_outages(hits)


@given(_REGIONAL, st.dictionaries(st.sampled_from(["eu", "us"]), st.integers(1, 899).map(lambda at: [float(at)])))
def test_no_outage_of_a_region_reaches_across_its_cut(hits: list[Hit], cuts: dict[str, list[float]]) -> None:
    found = regional_outages(hits, cuts=cuts)
    for region, some in found.items():
        assert not [one for one in some for cut in cuts.get(region, []) if one.started < cut <= one.last]


def test_it_is_over_after_two_quiet_minutes() -> None:
    [one] = outages(burst(0))
    assert not one.is_over(124.0)
    assert one.is_over(124.1)


@given(_HITS, st.randoms(use_true_random=False))
def test_order_and_doubling_of_looks_change_nothing(hits: list[Hit], chance: random.Random) -> None:
    shuffled = list(hits)
    chance.shuffle(shuffled)
    assert outages(shuffled) == outages(hits)


@given(_HITS, st.integers(0, 80))
def test_what_is_seen_in_two_looks_is_what_is_seen_in_one(hits: list[Hit], cut: int) -> None:
    """A look reaches back by a window; what it finds is joined with what is known."""
    ordered = sorted(hits, key=lambda hit: hit.at)
    early, late = ordered[:cut], ordered[cut:]
    overlap = [hit for hit in early if late and late[0].at - hit.at <= BOUNDS.within_s]
    assert merged([*outages(early), *outages([*overlap, *late])]) == outages(hits)


@given(_HITS, _HITS)
def test_more_facts_never_take_an_outage_away(hits: list[Hit], more: list[Hit]) -> None:
    after = outages([*hits, *more])
    for one in outages(hits):
        assert any(wide.started <= one.started and one.last <= wide.last for wide in after)


@given(_HITS)
def test_outages_lie_apart_and_hold_enough(hits: list[Hit]) -> None:
    bounds = OutageBounds()
    found = outages(hits, bounds)
    for one in found:
        within = [hit for hit in hits if one.started <= hit.at <= one.last]
        assert len(within) >= bounds.least_failures
        assert max(len({hit.run for hit in within} - {""}), len({hit.instance for hit in within})) >= 2
    assert all(after.started - before.last > bounds.merge_s for before, after in pairwise(found))


def test_intervals_that_overlap_are_one() -> None:
    assert merged([Interval(5, 9), Interval(0, 20), Interval(400, 401)]) == [Interval(0, 20), Interval(400, 401)]


@given(_HITS, st.lists(st.integers(1, 1999), max_size=3, unique=True).map(sorted))
def test_no_outage_reaches_across_a_cut_and_looking_at_what_was_found_changes_nothing(
    hits: list[Hit], cuts: list[int]
) -> None:
    found = outages(hits, cuts=cuts)
    assert not [one for one in found for cut in cuts if one.started < cut <= one.last]
    assert merged(found, cuts=cuts) == found


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ([], "capacity_events"),
        ({"least_failures": 1}, "capacity_events.least_failures"),
        ({"most_of_one": -1}, "capacity_events.most_of_one"),
        ({"within_s": "long"}, "capacity_events.within_s"),
        ({"quiet_s": 400}, "capacity_events.merge_s"),
    ],
)
def test_bounds_that_make_no_sense_are_named(given: object, path: str) -> None:
    problems: list[Problem] = []
    parse_outage_bounds(given, "capacity_events", problems)
    assert [problem.path for problem in problems] == [path]


def test_bounds_are_read_back_as_they_were_written() -> None:
    bounds = OutageBounds(least_failures=9, within_s=60.0, least_sources=1, most_of_one=9, quiet_s=60.0, merge_s=120.0)
    problems: list[Problem] = []
    assert parse_outage_bounds(outage_bounds_document(bounds), "x", problems) == bounds
    assert not problems
