"""Which outages are one: by table, and whatever the order."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.incidents.detection import BOUNDS, Interval
from recovery_ops.rules.incidents.merging import Backend, Part, are_one, wholes

LARGE, SMALL = Backend("helios", "large", ""), Backend("helios", "small", "")
TOOL, OTHER = Backend("helios", "", ""), Backend("atlas", "large", "")
SEARCH, MAIL = Backend("", "", "search"), Backend("", "", "mail")


def part(number: int, backend: Backend = LARGE, started: float = 0, last: float = 60, **more: object) -> Part:
    return replace(Part(number=number, backend=backend, interval=Interval(started, last)), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(part(1), part(2), True, id="one backend in two regions"),
        pytest.param(part(1, owner="provider"), part(2, owner="quota"), True, id="one backend, whoever could end it"),
        pytest.param(part(1), part(2, TOOL), True, id="a model and a tool of one provider"),
        pytest.param(part(1), part(2, SMALL), True, id="two models of one provider"),
        pytest.param(part(1, owner="provider"), part(2, TOOL, owner="provider"), True, id="of one owner"),
        pytest.param(part(1, owner="provider"), part(2, TOOL, owner="quota"), False, id="of two owners"),
        pytest.param(part(1, owner="provider"), part(2, TOOL), True, id="of an owner that nobody knows yet"),
        pytest.param(part(1), part(2, OTHER), False, id="two providers"),
        pytest.param(part(1, SEARCH), part(2, MAIL), False, id="two operations of nobody knows whom"),
        pytest.param(part(1, SEARCH), part(2, SEARCH), True, id="one operation in two regions"),
        pytest.param(part(1), part(2, SMALL, 90, 99), True, id="half a minute apart"),
        pytest.param(part(1), part(2, SMALL, 91, 99), False, id="more than that"),
        pytest.param(part(1), part(2, SMALL, is_alone=True), False, id="one that people set apart"),
        pytest.param(part(1), part(2, SMALL, 50, 99, cuts=(50,)), False, id="across a cut"),
        pytest.param(part(1, started=55), part(2, SMALL, 50, 99, cuts=(50,)), True, id="on one side of it"),
    ],
)
def test_what_is_one(one: Part, other: Part, expected: bool) -> None:
    assert are_one(one, other) is expected
    assert are_one(other, one) is expected
    assert len(set(wholes([one, other]).values())) == (1 if expected else 2)


def test_what_lies_between_brings_the_ends_together_and_the_lowest_number_names_the_whole() -> None:
    chain = [part(7, LARGE, 0, 60), part(3, SMALL, 50, 200), part(5, TOOL, 190, 300), part(2, OTHER, 0, 300)]
    assert wholes(chain) == {7: 3, 3: 3, 5: 3, 2: 2}


def test_an_owner_in_between_does_not_join_those_of_another() -> None:
    chain = [
        part(1, LARGE, 0, 60, owner="provider"),
        part(2, TOOL, 50, 200, owner="quota"),
        part(3, SMALL, 190, 300, owner="provider"),
    ]
    assert wholes(chain) == {1: 1, 2: 2, 3: 3}


_PARTS = st.lists(
    st.tuples(
        st.sampled_from([LARGE, SMALL, TOOL, OTHER, SEARCH, MAIL]),
        st.integers(0, 900),
        st.integers(0, 200),
        st.sampled_from(["", "provider", "quota"]),
        st.sampled_from([(), (300.0,)]),
        st.booleans(),
    ),
    max_size=12,
).map(
    lambda drawn: [
        part(number, backend, start, start + lasts, owner=owner, cuts=cuts, is_alone=is_alone and number % 3 == 0)
        for number, (backend, start, lasts, owner, cuts, is_alone) in enumerate(drawn, 1)
    ]
)


@given(_PARTS, st.randoms(use_true_random=False))
def test_no_order_changes_anything(parts: list[Part], chance: random.Random) -> None:
    shuffled = list(parts)
    chance.shuffle(shuffled)
    assert wholes(shuffled) == wholes(parts)


@given(_PARTS)
def test_a_whole_holds_what_is_one_pair_by_pair_and_nothing_else(parts: list[Part]) -> None:
    found = wholes(parts)
    heads = {one.number: one.number for one in parts}
    for _ in parts:  # the slow way: numbers spread from neighbour to neighbour
        for one in parts:
            for other in parts:
                if one is not other and are_one(one, other, BOUNDS):
                    heads[one.number] = min(heads[one.number], heads[other.number])
    assert found == heads
    for one in parts:
        if one.is_alone:
            assert [number for number, whole in found.items() if whole == found[one.number]] == [one.number]
        elif one.backend.provider == "":
            assert {other.backend for other in parts if found[other.number] == found[one.number]} == {one.backend}


@given(_PARTS, st.integers(0, 400))
def test_what_grows_is_never_parted_by_growing(parts: list[Part], more: int) -> None:
    """Where no cut says otherwise, and nobody's owner changes."""
    before = [replace(one, cuts=()) for one in parts]
    after = [
        replace(one, interval=Interval(one.interval.started, one.interval.last + (more if one.number % 2 else 0)))
        for one in before
    ]
    now = wholes(after)
    for number, whole in wholes(before).items():
        assert now[number] == now[whole]
