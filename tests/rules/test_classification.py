"""What an operator's rules make of failures: patterns, order, what they may change, and what is asked about them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from recovery_ops.rules.classification.classify import Signal, classify
from recovery_ops.rules.enums import Category, Evidence
from recovery_ops.rules.policy.classification_rules import (
    MAY_BE_OVERRIDDEN,
    MAY_BE_SAID,
    NEVER_CHANGED,
    PATTERNS,
    Case,
    ClassificationRule,
    Match,
    pattern_fits,
    rule_for,
)
from recovery_ops.rules.policy.lint import lint
from recovery_ops.rules.policy.model import PolicyInvalid, document_of, parse_policy
from recovery_ops.rules.policy.schema import policy_schema

BUSY = {"name": "ledger busy", "match": {"message": "*ledger is busy*"}, "category": "overloaded"}
TEXT = st.text("ab*é ß", max_size=12)


def rules(*rows: dict[str, Any]) -> tuple[ClassificationRule, ...]:
    return parse_policy({"classification": list(rows)}).classification


def unknown(message: str = "the ledger is busy now", **said: Any) -> Signal:
    return Signal(types=(("ledger.Trouble", "Exception"),), message=message, **said)


class TestPatterns:
    @pytest.mark.parametrize(
        ("pattern", "text", "fits"),
        [
            ("busy", "BUSY", True),
            ("busy", "so busy", False),
            ("*busy", "so busy", True),
            ("busy*", "busy now", True),
            ("*is*busy*", "it is very busy now", True),
            ("*busy*is*", "it is very busy now", False),
            ("ab*ba", "aba", False),
            ("ab*ba", "abba", True),
            ("a*a*a", "aa", False),
            ("*.[a-z]+", "x.y", False),
        ],
    )
    def test_a_star_is_any_text_and_all_else_itself(self, pattern: str, text: str, fits: bool) -> None:
        assert pattern_fits(pattern, text) is fits

    @given(TEXT, TEXT)
    def test_it_says_what_the_same_expression_says(self, pattern: str, text: str) -> None:
        same = ".*".join(re.escape(part.casefold()) for part in pattern.split("*"))
        assert pattern_fits(pattern, text) is (re.fullmatch(same, text.casefold(), re.DOTALL) is not None)

    def test_what_would_ruin_an_expression_costs_nothing(self) -> None:
        assert not pattern_fits("*a" * 8 + "b", "a" * 1000)


class TestClassify:
    def test_a_rule_names_what_is_unknown(self) -> None:
        failure = classify(unknown(), now=0, rules=rules(BUSY), operation="post_entry")
        assert (failure.category, failure.evidence, failure.rule) == (
            Category.OVERLOADED,
            Evidence.POLICY_RULE,
            "ledger busy",
        )
        assert failure.instead_of is Category.UNKNOWN
        assert classify(unknown("who knows"), now=0, rules=rules(BUSY)).category is Category.UNKNOWN

    def test_the_first_rule_that_matches_wins(self) -> None:
        second = BUSY | {"name": "later", "category": "conflict"}
        assert classify(unknown(), now=0, rules=rules(BUSY, second)).rule == "ledger busy"
        assert classify(unknown(), now=0, rules=rules(second, BUSY)).rule == "later"

    @pytest.mark.parametrize(
        ("match", "fits"),
        [
            ({"exception_type": "ledger.*"}, True),
            ({"exception_type": "Exception"}, False),
            ({"code": "E-Busy"}, True),
            ({"code": "e_free"}, False),
            ({"operation": "post_*", "message": "*busy*"}, True),
            ({"operation": "read_*", "message": "*busy*"}, False),
            ({"provider": "acme"}, True),
            ({"provider": "other"}, False),
            ({"message": "*busy*", "code": "e_free"}, False),
        ],
    )
    def test_all_that_is_said_has_to_fit(self, match: dict[str, Any], fits: bool) -> None:
        [rule] = rules(BUSY | {"match": match})
        found = classify(unknown(code="e_busy"), now=0, rules=[rule], operation="post_entry", provider="acme")
        assert (found.rule is not None) is fits

    def test_a_known_category_is_changed_only_where_the_rule_says_so(self) -> None:
        signal = Signal(status_code=500, message="the ledger is busy")
        assert classify(signal, now=0, rules=rules(BUSY)).category is Category.SERVER_ERROR
        willing = BUSY | {"overrides": ["server_error"]}
        found = classify(signal, now=0, rules=rules(willing))
        assert (found.category, found.instead_of) == (Category.OVERLOADED, Category.SERVER_ERROR)

    @pytest.mark.parametrize("category", sorted(NEVER_CHANGED))
    def test_what_was_refused_or_happened_is_never_changed(self, category: Category) -> None:
        case = Case(category=category, message="the ledger is busy")
        bold = ClassificationRule(
            name="bold", match=Match(message="*"), category=Category.TIMEOUT, overrides=(category,)
        )
        assert rule_for([bold], case) is None

    def test_a_rate_limit_by_a_rule_waits_as_the_server_says(self) -> None:
        signal = unknown(headers={"x-ratelimit-reset-requests": "7s", "x-ratelimit-remaining-requests": "0"})
        limited = classify(signal, now=0, rules=rules(BUSY | {"category": "rate_limited"}))
        assert limited.retry_after_s == 7.0
        assert classify(signal, now=0).retry_after_s is None

    def test_a_rule_sees_the_message_that_its_fact_tells(self) -> None:
        secret = BUSY | {"match": {"message": "*hunter2*"}}
        assert classify(unknown("password=hunter2"), now=0, rules=rules(secret)).rule is None

    @given(st.text(max_size=200), st.sampled_from([None, 400, 403, 409, 429, 500]), st.sampled_from(PATTERNS), TEXT)
    def test_without_a_match_nothing_is_different(
        self, message: str, status: int | None, part: str, pattern: str
    ) -> None:
        signal = Signal(status_code=status, message=message)
        said: dict[str, Any] = {part: pattern}
        rule = ClassificationRule(name="a", match=Match(**said), category=Category.CONFLICT)
        found, plain = classify(signal, now=0, rules=[rule]), classify(signal, now=0)
        assert found == plain if found.rule is None else plain.category is Category.UNKNOWN


class TestDocument:
    def test_it_is_read_and_written_back(self) -> None:
        rule = {
            "name": "all of it",
            "match": {
                "exception_type": "ledger.*",
                "code": "e_busy",
                "message": "*busy*",
                "operation": "post_*",
                "provider": "acme",
                "status_codes": [500, 503],
            },
            "category": "overloaded",
            "overrides": ["server_error"],
        }
        document = document_of(parse_policy({"classification": [rule]}))
        assert document["classification"] == [rule]
        assert Draft202012Validator(policy_schema()).is_valid(document)

    @pytest.mark.parametrize(
        ("given", "path"),
        [
            ({}, ""),
            ([1], "[0]"),
            ([BUSY | {"name": ""}], "[0].name"),
            ([BUSY | {"name": "a" * 65}], "[0].name"),
            ([BUSY, BUSY], "[1].name"),
            ([BUSY | {"match": {}}], "[0].match"),
            ([BUSY | {"match": None}], "[0].match"),
            ([BUSY | {"match": {"massage": "*a*"}}], "[0].match.massage"),
            ([BUSY | {"match": {"message": "*"}}], "[0].match.message"),
            ([BUSY | {"match": {"message": "a" * 201}}], "[0].match.message"),
            ([BUSY | {"match": {"message": "*a" * 9}}], "[0].match.message"),
            ([BUSY | {"match": {"message": "a\nb"}}], "[0].match.message"),
            ([BUSY | {"match": {"status_codes": [302]}}], "[0].match.status_codes"),
            ([BUSY | {"match": {"status_codes": [True]}}], "[0].match.status_codes"),
            ([BUSY | {"category": "unknown"}], "[0].category"),
            ([BUSY | {"category": "cancelled"}], "[0].category"),
            ([BUSY | {"category": ["timeout"]}], "[0].category"),
            ([BUSY | {"overrides": ["permission"]}], "[0].overrides"),
            ([BUSY | {"overrides": ["unknown"]}], "[0].overrides"),
            ([BUSY | {"overrides": ["overloaded"]}], "[0].overrides"),
            ([BUSY | {"overrides": [[]]}], "[0].overrides"),
            ([BUSY] * 201, ""),
        ],
    )
    def test_what_is_no_rule_is_refused_by_its_path(self, given: Any, path: str) -> None:
        with pytest.raises(PolicyInvalid) as refused:
            parse_policy({"classification": given})
        assert refused.value.problems[0].path == f"classification{path}"

    @given(
        st.fixed_dictionaries(
            {
                "name": st.text("ab c", min_size=1, max_size=5),
                "match": st.dictionaries(st.sampled_from(PATTERNS), st.text("a*b", max_size=6), max_size=3),
                "category": st.sampled_from([*MAY_BE_SAID, "unknown", "gremlins"]),
                "overrides": st.lists(st.sampled_from([*MAY_BE_OVERRIDDEN, "permission"]), max_size=2),
            }
        )
    )
    def test_what_agents_take_fits_the_schema_and_comes_back_the_same(self, rule: dict[str, Any]) -> None:
        document = {"classification": [rule]}
        try:
            policy = parse_policy(document)
        except PolicyInvalid:
            return
        assert Draft202012Validator(policy_schema()).is_valid(document)
        assert parse_policy(document_of(policy)).classification == policy.classification


class TestLint:
    @pytest.mark.parametrize(
        ("rows", "path", "code"),
        [
            ([BUSY, BUSY | {"name": "b", "match": {"message": "the ledger is busy*"}}], "[1]", "unreachable"),
            ([BUSY | {"match": {"message": "*a*"}}], "[0].match.message", "too_wide"),
            ([BUSY | {"match": {"operation": "post_entry"}}], "[0].match", "too_wide"),
            ([BUSY | {"match": {"exception_type": "RuntimeError"}}], "[0].match.exception_type", "too_wide"),
            (
                [BUSY | {"match": {"status_codes": [429]}, "category": "timeout", "overrides": ["rate_limited"]}],
                "[0].match.status_codes",
                "contradicts_structure",
            ),
            ([BUSY | {"match": {"status_codes": [503]}}], "[0].match.status_codes", "never_applies"),
            ([BUSY | {"match": {"code": "invalid_api_key"}}], "[0].match.code", "contradicts_structure"),
            (
                [BUSY | {"match": {"exception_type": "TimeoutError", "message": "*busy*"}}],
                "[0].match.exception_type",
                "contradicts_structure",
            ),
            ([BUSY | {"category": "timeout", "overrides": ["overloaded"]}], "[0].overrides", "feeds_overload"),
            ([BUSY | {"note": "x"}], "[0].note", "unknown_key"),
        ],
    )
    def test_what_is_rarely_meant_is_asked_about(self, rows: list[Any], path: str, code: str) -> None:
        document = {"classification": rows}
        found = [(one.path, one.code) for one in lint(parse_policy(document), document)]
        assert (f"classification{path}", code) in found

    @pytest.mark.parametrize(
        "rows",
        [
            [BUSY],
            [BUSY, BUSY | {"name": "b", "match": {"message": "*down*"}}],
            [BUSY, BUSY | {"name": "b", "overrides": ["server_error"]}],
            [BUSY | {"match": {"status_codes": [503], "message": "*busy*"}, "overrides": ["server_error"]}],
            [BUSY | {"match": {"code": "e_busy"}}],
        ],
    )
    def test_what_is_meant_is_not(self, rows: list[Any]) -> None:
        assert lint(parse_policy({"classification": rows})) == ()


@pytest.mark.parametrize(
    ("exception_type", "is_counted"),
    [
        ("mcp.shared.exceptions.McpError", True),
        ("recovery_ops.runtime.integrations.mcp.ToolReportedError", False),
        ("recovery_ops.runtime.errors.CircuitOpen", False),
    ],
)
def test_answer_of_mcp_tool_says_nothing_of_service(exception_type: str, is_counted: bool) -> None:
    failure = classify(Signal(types=((exception_type,),), kind="server_error"), now=0.0)
    assert failure.concerns_service is is_counted
