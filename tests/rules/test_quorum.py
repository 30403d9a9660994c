"""The quorum rule as a table, and what must hold whatever it sees."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.fleet.breaker_quorum import Decision, Do, Seen, decide, needed_of, rule_for
from recovery_ops.rules.policy.fleet_settings import QuorumRule

RULE = QuorumRule(operation="search_web", share=0.5, minimum_count=5, hold_s=30, expires_s=300)
NOW = 1_000.0


def seen(opened: int = 20, reporting: int = 40, **rest: Any) -> Seen:
    return Seen(opened=opened, reporting=reporting, **rest)


def held(opened: int, **rest: Any) -> Seen:
    return seen(opened, **{"held_until": NOW + 100, "witnesses": 25} | rest)


@pytest.mark.parametrize(
    ("situation", "do", "met_since"),
    [
        (seen(19), Do.NOTHING, None),
        (seen(20), Do.NOTHING, NOW),
        (seen(20, met_since=NOW - 29), Do.NOTHING, NOW - 29),
        (seen(20, met_since=NOW - 30), Do.TRIP, NOW - 30),
        (seen(40, met_since=NOW - 300), Do.TRIP, NOW - 300),
        (seen(19, met_since=NOW - 300), Do.NOTHING, None),
        (seen(4, 4, met_since=NOW - 300), Do.NOTHING, None),
        (seen(5, 6, met_since=NOW - 300), Do.TRIP, NOW - 300),
        (seen(0, 0, met_since=NOW - 300), Do.NOTHING, None),
        (seen(31, met_since=NOW - 300, person="ana"), Do.NOTHING, NOW - 300),
        (seen(31, met_since=NOW - 300, rests_until=NOW + 1), Do.NOTHING, NOW - 300),
        (seen(31, met_since=NOW - 300, rests_until=NOW), Do.TRIP, NOW - 300),
    ],
)
def test_the_rest_follows_when_enough_opened_it_for_long_enough(situation: Seen, do: Do, met_since: float) -> None:
    decision = decide(RULE, situation, NOW)
    assert (decision.do, decision.met_since) == (do, met_since)


@pytest.mark.parametrize(
    ("situation", "do", "fallen_since"),
    [
        (held(20), Do.EXTEND, None),
        (held(20, held_until=NOW + 200), Do.NOTHING, None),
        (held(15), Do.NOTHING, None),
        (held(10), Do.NOTHING, None),
        (held(9), Do.NOTHING, NOW),
        (held(9, fallen_since=NOW - 29), Do.NOTHING, NOW - 29),
        (held(9, fallen_since=NOW - 30), Do.RELEASE, NOW - 30),
        (held(15, fallen_since=NOW - 30), Do.NOTHING, None),
        (held(0, witnesses=0, fallen_since=NOW - 30), Do.NOTHING, None),
        (held(31, person="ana"), Do.RELEASE, None),
    ],
)
def test_a_trip_lasts_while_those_that_opened_it_have_it_open(situation: Seen, do: Do, fallen_since: float) -> None:
    decision = decide(RULE, situation, NOW)
    assert (decision.do, decision.fallen_since) == (do, fallen_since)


def test_without_a_rule_nothing_is_tripped_and_what_was_is_released() -> None:
    assert decide(None, seen(40, met_since=0), NOW).do is Do.NOTHING
    assert decide(None, held(40), NOW).do is Do.RELEASE


def test_the_sentence_is_the_evidence() -> None:
    assert decide(RULE, seen(31, met_since=0), NOW).why.startswith("31 of 40 ")
    assert decide(RULE, held(2), NOW).why.startswith("only 2 of 40 ")
    assert decide(RULE, held(0), NOW).why.startswith("0 of 40 ")


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ((), None),
        (("other",), None),
        (("*",), 0),
        (("*", "search_*", "search_web"), 2),
        (("search_web", "search_*", "*"), 0),
        (("search_web", "search_web"), 1),
    ],
)
def test_the_most_specific_pattern_holds_and_of_equals_the_last(patterns: tuple[str, ...], found: int | None) -> None:
    rules = [QuorumRule(operation=one, minimum_count=index + 1) for index, one in enumerate(patterns)]
    assert rule_for(rules, "search_web") is (None if found is None else rules[found])


def test_an_operation_behind_a_shared_breaker_is_meant_too() -> None:
    assert rule_for([RULE], "provider-x", ["search_web", "fetch"]) is RULE
    assert rule_for([RULE], "provider-x", ["fetch"]) is None


RULES = st.builds(
    QuorumRule,
    operation=st.just("a"),
    share=st.floats(0.01, 1),
    minimum_count=st.integers(1, 20),
    hold_s=st.floats(0, 100),
    expires_s=st.floats(60, 600),
)
MOMENTS = st.one_of(st.none(), st.floats(0, NOW))


@st.composite
def situations(draw: st.DrawFn) -> Seen:
    reporting = draw(st.integers(0, 60))
    return Seen(
        opened=draw(st.integers(0, reporting)),
        reporting=reporting,
        met_since=draw(MOMENTS),
        fallen_since=draw(MOMENTS),
        held_until=draw(st.one_of(st.none(), st.floats(NOW, NOW + 600))),
        witnesses=draw(st.integers(0, 20)),
        person=draw(st.sampled_from(["", "ana"])),
        rests_until=draw(st.floats(0, 2 * NOW)),
    )


@given(RULES, situations())
def test_never_without_the_evidence_and_never_over_a_person(rule: QuorumRule, situation: Seen) -> None:
    decision: Decision = decide(rule, situation, NOW)
    needed = needed_of(rule, situation.reporting)
    if decision.do is Do.TRIP:
        assert situation.held_until is None
        assert situation.opened >= needed >= rule.minimum_count
        assert situation.opened >= rule.share * situation.reporting - 1e-6
        assert not situation.person
        assert NOW - (NOW if situation.met_since is None else situation.met_since) >= rule.hold_s
    if decision.do is Do.EXTEND:
        assert situation.witnesses
        assert situation.opened >= needed
        assert not situation.person
    if situation.person:
        assert decision.do is (Do.NOTHING if situation.held_until is None else Do.RELEASE)


@given(RULES, situations())
def test_what_is_remembered_is_never_earlier_than_it_was_seen(rule: QuorumRule, situation: Seen) -> None:
    first = decide(rule, situation, NOW)
    for known, remembered in (
        (situation.met_since, first.met_since),
        (situation.fallen_since, first.fallen_since),
    ):
        assert remembered in (None, known, NOW)
