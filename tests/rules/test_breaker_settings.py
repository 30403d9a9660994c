"""Thresholds of a breaker that operations share: the same in any order, and named once."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.policy.model import BUILT_IN, Policy, PolicyRule, Settings, parse_policy
from recovery_ops.rules.policy.scope import Place, Scope
from recovery_ops.rules.resilience.breaker_settings import THRESHOLDS, Member, contradictions, shared_thresholds

KINDS = ("operation", "model", "tool", "undeclared")


def member(name: str, kind: str = "operation", **said: Any) -> Member:
    place = Place(service="shop", instance="one", operation=name, breaker="helios")
    return Member(place=place, kind=kind, code=Settings(**said))


def strict(name: str, count: int) -> PolicyRule:
    return PolicyRule(id=f"{name}-{count}", scope=Scope(operation=name), settings=Settings(consecutive_failures=count))


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(KINDS)), min_size=2, max_size=4, unique_by=lambda one: one[0]
    ),
    st.lists(st.tuples(st.sampled_from(["a", "b", "helios", "*"]), st.integers(1, 9)), max_size=4),
)
def test_thresholds_do_not_depend_on_order(names: list[tuple[str, str]], rules: list[tuple[str, int]]) -> None:
    defaults = {"model": Settings(consecutive_failures=11), "tool": Settings(consecutive_failures=12)}
    policy = Policy(defaults=defaults, rules=tuple(strict(*one) for one in rules))
    members = [member(*one) for one in names]
    found = {shared_thresholds(policy, order) for order in permutations(members)}
    assert len(found) == 1
    for one in members:
        own = one.policy(policy, next(iter(found))).settings
        assert {name: getattr(own, name) for name in THRESHOLDS} == {
            name: getattr(next(iter(found)), name) for name in THRESHOLDS
        }


def test_code_of_any_member_holds_for_breaker() -> None:
    members = [member("search"), member("fetch", consecutive_failures=2)]
    assert shared_thresholds(BUILT_IN, members).consecutive_failures == 2


def test_rule_of_any_member_beats_code() -> None:
    policy = parse_policy({"rules": [{"scope": {"operation": "search"}, "settings": {"consecutive_failures": 7}}]})
    members = [member("search"), member("fetch", consecutive_failures=2)]
    assert shared_thresholds(policy, members).consecutive_failures == 7


def test_single_member_keeps_its_own() -> None:
    own = member("search", consecutive_failures=2)
    assert shared_thresholds(BUILT_IN, [own]) == Settings()
    assert own.policy(BUILT_IN, Settings()).settings.consecutive_failures == 2


@pytest.mark.parametrize(
    ("said", "is_refused"),
    [
        ({"consecutive_failures": 3}, True),
        ({"consecutive_failures": 2}, False),
        ({"minimum_number_of_calls": 3}, False),
        ({"max_retries": 5}, False),
    ],
)
def test_different_thresholds_contradict(said: dict[str, Any], is_refused: bool) -> None:
    found = contradictions([member("search", consecutive_failures=2, max_retries=1), member("fetch", **said)])
    assert bool(found) is is_refused
    assert all("consecutive_failures" in one and "search" in one and "fetch" in one for one in found)
