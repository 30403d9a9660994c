"""A live policy may ask for more caution than code does, and for nothing less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.knobs import Problem
from recovery_ops.rules.scope import Place
from recovery_ops.rules.tools.caution import Caution, ToolRule, parse_tool_rules, tightened, tool_rules_document

PLACE = Place(service="agent", instance="agent-1", operation="pay_invoice", breaker="bank")
LAX = Caution(is_destructive=False, optional=True, require_permission=False)

rules = st.builds(
    ToolRule,
    operation=st.sampled_from(["*", "pay_*", "pay_invoice", "bank", "search"]),
    require_permission=st.booleans(),
    is_destructive=st.booleans(),
    is_required=st.booleans(),
)
cautions = st.builds(Caution, is_destructive=st.booleans(), optional=st.booleans(), require_permission=st.booleans())


def test_what_nobody_said_is_the_most_restrictive() -> None:
    assert Caution() == Caution(is_destructive=True, optional=False, require_permission=True)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            ToolRule(operation="pay_*", require_permission=True),
            Caution(is_destructive=False, optional=True, require_permission=True),
        ),
        (
            ToolRule(operation="pay_invoice", is_destructive=True),
            Caution(is_destructive=True, optional=True, require_permission=False),
        ),
        (
            ToolRule(operation="bank", is_required=True),
            Caution(is_destructive=False, optional=False, require_permission=False),
        ),
        (ToolRule(operation="search", require_permission=True, is_destructive=True, is_required=True), LAX),
        (ToolRule(operation="*"), LAX),
    ],
)
def test_a_row_tightens_what_it_fits(rule: ToolRule, expected: Caution) -> None:
    assert tightened(LAX, [rule], PLACE) == expected


@given(cautions, st.lists(rules, max_size=5))
def test_no_row_ever_relaxes(caution: Caution, given_rules: list[ToolRule]) -> None:
    after = tightened(caution, given_rules, PLACE)
    assert after.is_destructive >= caution.is_destructive
    assert after.require_permission >= caution.require_permission
    assert after.optional <= caution.optional


@given(st.lists(rules, max_size=5))
def test_a_section_comes_back_as_it_was_written(given_rules: list[ToolRule]) -> None:
    problems: list[Problem] = []
    assert parse_tool_rules(tool_rules_document(given_rules), "tools", problems) == tuple(given_rules)
    assert problems == []


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, "tools"),
        (["pay"], "tools[0]"),
        ([{}], "tools[0]"),
        ([{"operation": 7}], "tools[0]"),
        ([{"operation": "pay", "require_permission": False}], "tools[0].require_permission"),
        ([{"operation": "pay", "is_destructive": False}], "tools[0].is_destructive"),
        ([{"operation": "pay", "optional": True}], "tools[0].optional"),
        ([{"operation": "pay"}, {"operation": "pay", "optional": 0}], "tools[1].optional"),
    ],
)
def test_what_would_relax_is_refused(given: object, path: str) -> None:
    problems: list[Problem] = []
    parse_tool_rules(given, "tools", problems)
    assert [problem.path for problem in problems] == [path]


def test_an_absent_section_says_nothing() -> None:
    problems: list[Problem] = []
    assert parse_tool_rules(None, "tools", problems) == ()
    assert problems == []
