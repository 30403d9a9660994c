"""Cohorts: chosen by names alone, never empty, and the same whoever asks and in whatever order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.fleet.canary_cohort import WHOLE, Cohort, limit_for, place_of

FLEETS = st.lists(st.tuples(st.sampled_from(["research", "billing"]), st.text(min_size=1, max_size=8)), unique=True)
SHARES = st.floats(min_value=0.001, max_value=1.0)


def inside(cohort: Cohort, fleet: list[tuple[str, str]]) -> set[tuple[str, str]]:
    return {one for one in fleet if cohort.holds(service=one[0], instance=one[1])}


@given(FLEETS, SHARES)
def test_the_share_is_rounded_up_and_never_nobody(fleet: list[tuple[str, str]], share: float) -> None:
    cohort = Cohort(salt="dev/1", limit=limit_for("dev/1", share, fleet))
    count = len(inside(cohort, fleet))
    assert count >= share * len(fleet) - 1e-6
    assert count <= max(1, share * len(fleet) + 1) or not fleet
    assert count or not fleet


@given(FLEETS, SHARES, SHARES)
def test_a_larger_share_holds_the_smaller_one(fleet: list[tuple[str, str]], one: float, other: float) -> None:
    small, large = (Cohort(salt="s", limit=limit_for("s", share, fleet)) for share in sorted((one, other)))
    assert inside(small, fleet) <= inside(large, fleet)


@given(FLEETS, SHARES, st.randoms())
def test_who_is_in_it_does_not_hang_on_the_order(fleet: list[tuple[str, str]], share: float, chance: object) -> None:
    shuffled = list(fleet)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert limit_for("s", share, fleet) == limit_for("s", share, shuffled)


def test_places_are_evenly_spread_and_differ_by_salt() -> None:
    names = [f"r-{number}" for number in range(2000)]
    below = sum(place_of("a", "research", name) < WHOLE // 10 for name in names)
    assert 150 <= below <= 250
    assert place_of("a", "research", "r-0") != place_of("b", "research", "r-0")
    assert place_of("a", "research", "r-0") == place_of("a", "research", "r-0")


def test_a_service_and_a_group_narrow_it() -> None:
    cohort = Cohort(salt="s", service="research", group="blue")
    assert cohort.holds(service="research", instance="r-0", group="blue")
    assert not cohort.holds(service="billing", instance="r-0", group="blue")
    assert not cohort.holds(service="research", instance="r-0", group="green")


def test_where_nobody_is_yet_whoever_comes_is_in_it_by_chance() -> None:
    cohort = Cohort(salt="s", limit=limit_for("s", 0.25, []))
    held = sum(cohort.holds(service="research", instance=f"r-{number}") for number in range(2000))
    assert 400 <= held <= 600
