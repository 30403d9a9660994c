"""The health gate: what it says of two sides, as a table; and what holds whatever was counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.fleet.health_gate import LEAST_CALLS, LEAST_LATENCIES, Counts, Health, Side, judge

FAST, SLOW = {0.1: 200}, {0.1: 100, 2.5: 100}


def side(word: str = "the others", *, operation: str = "search_web", **said: Any) -> Side:
    who = {name: said.pop(name) for name in ("instances", "silent", "refused") if name in said}
    return Side(word=word, by_operation={operation: Counts(**said)}, **({"instances": 4} | who))


def cohort(**said: Any) -> Side:
    return side("the cohort", **said)


@pytest.mark.parametrize(
    ("mine", "theirs", "health", "why"),
    [
        ({"calls": 200, "failures": 4}, {"calls": 800, "failures": 16}, "go", "No worse"),
        ({"calls": 200}, {"calls": 800}, "go", "0.0 % against 0.0 %"),
        ({"calls": 200, "failures": 0}, {"calls": 800, "failures": 400}, "go", "0.0 % against 50.0 %"),
        ({"calls": 49}, {"calls": 800}, "wait", "49 of 50"),
        ({"calls": 200}, {"calls": 10}, "wait", "10 of 50 required calls of the others"),
        ({"calls": 10, "failures": 10}, {"calls": 800}, "wait", "10 of 50"),
        ({"calls": 200, "failures": 60}, {"calls": 800, "failures": 16}, "roll_back", "30.0 % against 2.0 %"),
        (
            {"calls": 200, "rejected": 60},
            {"calls": 800},
            "roll_back",
            "search_web 30.0 % against 0.0 %",
        ),
        (
            {"calls": 200, "exhausted": 30},
            {"calls": 800, "exhausted": 4},
            "roll_back",
            "search_web 15.0 %",
        ),
        # Where most is refused already, it cannot be half as much again: what still passes is looked at.
        (
            {"calls": 900, "rejected": 774},
            {"calls": 900, "rejected": 585},
            "roll_back",
            "search_web 86.0 % against 65.0 %",
        ),
        ({"calls": 900, "rejected": 640}, {"calls": 900, "rejected": 585}, "go", "No worse"),
        ({"calls": 90_000, "rejected": 89_600}, {"calls": 90_000, "rejected": 89_000}, "go", "No worse"),
        # Large, but may be chance: few events.
        ({"calls": 60, "failures": 3}, {"calls": 60, "failures": 1}, "go", "No worse"),
        # Hardly chance, but does not matter: within the tolerance.
        ({"calls": 90_000, "failures": 1900}, {"calls": 90_000, "failures": 900}, "go", "No worse"),
        (
            {"calls": 200, "latencies": SLOW},
            {"calls": 200, "latencies": FAST},
            "roll_back",
            "p95 of search_web 2.5 s against 0.1 s",
        ),
        ({"calls": 200, "latencies": {2.5: 40}}, {"calls": 200, "latencies": FAST}, "go", "No worse"),
        # A twentieth just over the edge of a bucket: the p95 jumps, the calls hardly do.
        ({"calls": 200, "latencies": {0.1: 188, 2.5: 12}}, {"calls": 200, "latencies": FAST}, "go", "No worse"),
        ({"refused": 1}, {"calls": 800}, "roll_back", "1 of 4 instances"),
        ({"silent": 2}, {"calls": 800}, "roll_back", "against 0 of 4"),
        ({"silent": 2, "calls": 200}, {"silent": 2, "calls": 200}, "go", "No worse"),
        ({"silent": 1, "calls": 200}, {"calls": 200}, "go", "No worse"),
        ({"silent": 2, "calls": 200}, {"silent": 1, "calls": 200}, "go", "No worse"),
        ({"silent": 3, "calls": 200}, {"silent": 1, "calls": 200}, "roll_back", "3 of 4 instances"),
    ],
)
def test_the_table(mine: dict[str, Any], theirs: dict[str, Any], health: str, why: str) -> None:
    opinion = judge(cohort(**mine), side(**theirs))
    assert (opinion.health.value, why in opinion.sentence) == (health, True), opinion.sentence


def test_one_operation_that_drowns_in_the_sum_is_found_and_named() -> None:
    much = Counts(calls=20_000, failures=100)
    mine = Side(word="the cohort", by_operation={"chat": much, "search_web": Counts(calls=100, failures=60)})
    theirs = Side(word="the others", by_operation={"chat": much, "search_web": Counts(calls=100, failures=1)})
    opinion = judge(mine, theirs)
    assert opinion.health is Health.ROLL_BACK
    assert opinion.sentence == "Worse: failed attempts per call of search_web 60.0 % against 1.0 % of the others."


def test_what_only_all_operations_together_show_names_where_most_of_it_is() -> None:
    few = {name: Counts(calls=40, failures=12) for name in ("chat", "read")}
    mine = Side(word="the cohort", by_operation=few | {"search_web": Counts(calls=40, failures=20)})
    theirs = Side(word="the others", by_operation=dict.fromkeys((*few, "search_web"), Counts(calls=40)))
    assert judge(mine, theirs).sentence == (
        "Worse: failed attempts per call of all operations, most of them in search_web, "
        "36.7 % against 0.0 % of the others."
    )


@pytest.mark.parametrize("measure", ["failures", "rejected", "exhausted"])
def test_operation_with_most_trouble_of_any_kind_is_named(measure: str) -> None:
    usual = Counts(calls=40, exhausted=10, rejected=2)
    few, most = dict.fromkeys(("chat", "write"), usual), replace(usual, **{measure: 15})  # type: ignore[arg-type]
    mine = Side(word="the cohort", by_operation=few | {"search_web": most})
    theirs = Side(word="the others", by_operation=dict.fromkeys((*few, "search_web"), Counts(calls=40)))
    assert "most of them in search_web" in judge(mine, theirs).sentence


@pytest.mark.parametrize(
    ("latencies", "p95_s"),
    [
        ({0.1: 95, 2.5: 5}, 0.1),
        ({0.1: 94, 2.5: 6}, 2.5),
        ({2.5: 6, 0.1: 94}, 2.5),
        ({0.1: LEAST_LATENCIES - 1}, None),
        ({0.1: LEAST_LATENCIES}, 0.1),
    ],
)
def test_p95_is_the_bucket_of_the_95th(latencies: dict[float, int], p95_s: float | None) -> None:
    assert Counts(latencies=latencies).p95_s == p95_s


def test_counts_add_up_field_by_field() -> None:
    one = Counts(calls=1, failures=2, rejected=3, exhausted=4, latencies={0.1: 5, 0.5: 6})
    two = Counts(calls=10, failures=20, rejected=30, exhausted=40, latencies={0.5: 60, 2.5: 70})
    both = Counts(calls=11, failures=22, rejected=33, exhausted=44, latencies={0.1: 5, 0.5: 66, 2.5: 70})
    assert one + two == both
    assert Side(word="both", by_operation={"a": one, "b": two}).total == both


def test_an_operation_that_only_one_side_has_is_no_evidence_of_its_own() -> None:
    mine = Side(word="the cohort", by_operation={"a": Counts(calls=100), "b": Counts(calls=5, failures=5)})
    assert judge(mine, Side(word="the others", by_operation={"a": Counts(calls=100)})).health is Health.GO


COUNTS = st.integers(min_value=0, max_value=5000).flatmap(
    lambda calls: st.builds(
        Counts,
        calls=st.just(calls),
        failures=st.integers(0, 3 * calls),
        rejected=st.integers(0, calls),
        exhausted=st.integers(0, calls),
        latencies=st.dictionaries(st.sampled_from([0.1, 0.5, 2.5, 10.0]), st.integers(0, 500)),
    )
)


@given(COUNTS)
def test_two_equal_sides_are_never_taken_back(counts: Counts) -> None:
    mine, theirs = (Side(word=word, by_operation={"a": counts}) for word in ("the cohort", "the others"))
    assert judge(mine, theirs).health is (Health.GO if counts.calls >= LEAST_CALLS else Health.WAIT)


@given(COUNTS, COUNTS)
def test_what_is_taken_back_for_its_counts_had_its_evidence(mine: Counts, theirs: Counts) -> None:
    opinion = judge(*(Side(word=word, by_operation={"a": one}) for word, one in (("c", mine), ("o", theirs))))
    if opinion.health is not Health.WAIT:
        assert min(mine.calls, theirs.calls) >= LEAST_CALLS
    assert opinion.sentence.endswith(".")


@given(COUNTS, COUNTS, st.integers(1, 2000))
def test_more_failures_never_make_it_well(mine: Counts, theirs: Counts, more: int) -> None:
    worse = mine + Counts(failures=more, exhausted=more)
    ranks = [Health.GO, Health.WAIT, Health.ROLL_BACK]
    before, after = (
        judge(Side(word="c", by_operation={"a": one}), Side(word="o", by_operation={"a": theirs})).health
        for one in (mine, worse)
    )
    assert ranks.index(after) >= ranks.index(before)
