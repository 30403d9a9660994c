"""First drafts for who names an unknown failure: guesses with their reason, and matches that fit all and no more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.classification.rule_suggestions import message_pattern, narrowest_match, suggested_category
from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.classification_rules import (
    MOST_STARS,
    PATTERN_CHARS,
    Case,
    parse_classification,
    pattern_fits,
)
from recovery_ops.rules.policy.settings import Problem
from tests.support.sentences import left_out


def unknown(message: str = "", **said: Any) -> Case:
    return Case(category=Category.UNKNOWN, message=message, **said)


@pytest.mark.parametrize(
    ("case", "category", "where", "word"),
    [
        (unknown(code="e_busy"), Category.OVERLOADED, "code", "busy"),
        (unknown(exception_type="acme.TokenExpiredError"), Category.AUTH, "type", "token expired"),
        (unknown("the monthly quota is used up"), Category.QUOTA_EXHAUSTED, "message", "quota"),
        (unknown("busy", code="not_found"), Category.NOT_FOUND, "code", "not found"),
        (unknown("lock wait timed out"), Category.TIMEOUT, "message", "timed out"),
    ],
)
def test_a_guess_says_which_word_it_goes_by(case: Case, category: Category, where: str, word: str) -> None:
    found = suggested_category(case)
    assert found is not None
    assert found.category is category
    assert left_out(found.because, where, word) == []


def test_where_no_word_says_anything_nothing_is_suggested() -> None:
    assert suggested_category(unknown("the abacus fell over", exception_type="acme.Odd")) is None


@pytest.mark.parametrize(
    ("messages", "pattern"),
    [
        (["ledger 7 is busy", "ledger 12 is busy"], "ledger * is busy"),
        (["row 'a' of /srv/data/x"], "row * of *"),
        (["ledger is busy", "ledger is gone"], "ledger is *"),
        (["one", "two"], ""),
        (["", "two"], ""),
        (["12345"], ""),
        (["it was cut of…"], "it was cut of*"),
        ([" ".join(f"step{number} went" for number in range(12))], "* went " * 7 + "*"),
        (["a" * 300], "a" * 199 + "*"),
    ],
)
def test_what_differs_becomes_a_star(messages: list[str], pattern: str) -> None:
    assert message_pattern(messages) == pattern


@given(st.lists(st.text("ab 1*'x…", max_size=300), min_size=1, max_size=4))
def test_a_pattern_fits_all_and_is_one_that_a_policy_takes(messages: list[str]) -> None:
    messages = [one.strip() for one in messages]
    pattern = message_pattern(messages)
    if pattern:
        assert all(pattern_fits(pattern, one) for one in messages)
        assert len(pattern) <= PATTERN_CHARS
        assert pattern.count("*") <= MOST_STARS
        problems: list[Problem] = []
        rule = {"name": "a", "match": {"message": pattern}, "category": "timeout"}
        assert parse_classification([rule], "rules", problems)
        assert problems == []


def test_the_narrowest_match_says_all_that_they_share() -> None:
    cases = [
        unknown(f"ledger {number} is busy", exception_type="acme.Ledger", code="e_busy", operation=where)
        for number, where in ((1, "post"), (2, "read"))
    ]
    match = narrowest_match(cases)
    assert (match.exception_type, match.code, match.message) == ("acme.Ledger", "e_busy", "ledger * is busy")
    assert match.operation == ""
    assert all(match.fits(case) for case in cases)


def test_of_failures_that_tell_nothing_the_place_is_left() -> None:
    assert narrowest_match([unknown(operation="post"), unknown(operation="post")]).operation == "post"
    assert narrowest_match([unknown(operation="a", provider="p"), unknown(operation="b", provider="p")]).provider == "p"
