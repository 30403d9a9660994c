"""A live policy may ask for more caution than code does, and for nothing less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.policy.settings import Problem
from recovery_ops.rules.tools.policy_limits import Caution, ToolRule, parse_tool_rules, tightened, tool_rules_document

PLACE = Place(service="agent", instance="agent-1", operation="pay_invoice", breaker="bank")
LAX = Caution(idempotent=True, is_destructive=False, optional=True, require_permission=False)

rules = st.builds(
    ToolRule,
    operation=st.sampled_from(["*", "pay_*", "pay_invoice", "bank", "search"]),
    require_permission=st.booleans(),
    is_destructive=st.booleans(),
    is_unrepeatable=st.booleans(),
    is_required=st.booleans(),
    forbids_bypass=st.booleans(),
)
cautions = st.builds(
    Caution,
    idempotent=st.booleans(),
    is_destructive=st.booleans(),
    optional=st.booleans(),
    require_permission=st.booleans(),
    bypass_allowed=st.booleans(),
)


def test_what_nobody_said_is_the_most_restrictive() -> None:
    assert Caution() == Caution(idempotent=False, is_destructive=True, optional=False, require_permission=True)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            ToolRule(operation="pay_*", require_permission=True),
            Caution(idempotent=True, is_destructive=False, optional=True, require_permission=True),
        ),
        (
            ToolRule(operation="pay_invoice", is_destructive=True),
            Caution(idempotent=True, is_destructive=True, optional=True, require_permission=False),
        ),
        (
            ToolRule(operation="pay_*", is_unrepeatable=True),
            Caution(idempotent=False, is_destructive=False, optional=True, require_permission=False),
        ),
        (
            ToolRule(operation="bank", is_required=True),
            Caution(idempotent=True, is_destructive=False, optional=False, require_permission=False),
        ),
        (
            ToolRule(operation="pay_*", forbids_bypass=True),
            Caution(
                idempotent=True, is_destructive=False, optional=False, require_permission=False, bypass_allowed=False
            ),
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
    assert after.idempotent <= caution.idempotent
    assert after.is_destructive >= caution.is_destructive
    assert after.require_permission >= caution.require_permission
    assert after.optional <= caution.optional
    assert after.bypass_allowed <= caution.bypass_allowed


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
        ([{"operation": "pay", "idempotent": True}], "tools[0].idempotent"),
        ([{"operation": "pay", "optional": True}], "tools[0].optional"),
        ([{"operation": "pay", "bypass_allowed": True}], "tools[0].bypass_allowed"),
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
