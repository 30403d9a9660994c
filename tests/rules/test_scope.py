"""Scopes: what a pattern stands for, and which of several is the more specific."""

from __future__ import annotations

import pytest

from recovery_ops.rules.policy.scope import Place, Scope


def holds(pattern: str, name: str) -> bool:
    return Scope(operation=pattern).holds(Place(service="s", instance="i", operation=name))


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("model:*", "model:large", True),
        ("*_web", "search_web", True),
        ("s*h_*b", "search_web", True),
        ("model:*", "models", False),
        ("search_we?*", "search_web", False),
        ("search_we?*", "search_we?b", True),
        ("search_we?", "search_web", False),
        ("a[bc]*", "ab", False),
        ("a[bc]*", "a[bc]d", True),
    ],
)
def test_a_star_stands_for_anything_and_nothing_else_does(pattern: str, name: str, *, fits: bool) -> None:
    assert holds(pattern, name) is fits


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (Scope(operation="abc*"), Scope(operation="*ab")),
        (Scope(operation="search_web"), Scope(operation="search_web*")),
        (Scope(operation="search_web"), Scope(operation="*search_web")),
        (Scope(operation="search_we*"), Scope(operation="*rch_*b")),
        (Scope(instance="r-1"), Scope(service="research", operation="search_web")),
        (Scope(service="r*", operation="a"), Scope(operation="a_long_name")),
        (Scope(group="g"), Scope()),
    ],
)
def test_letters_count_and_stars_do_not_and_a_whole_name_comes_before_a_pattern(narrow: Scope, wide: Scope) -> None:
    assert narrow.rank > wide.rank
