"""The policy section `escalation_terms`: rows by kind, refused at the field, written back, asked about."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from recovery_ops.rules.policy.escalation_rules import ALWAYS
from recovery_ops.rules.policy.escalation_terms import BUILT_IN_TERMS, MAY_DEFAULT, Terms, default_of, kind_of
from recovery_ops.rules.policy.lint import lint
from recovery_ops.rules.policy.model import BUILT_IN, PolicyInvalid, document_of, parse_policy, whole_document_of
from recovery_ops.rules.policy.schema import policy_schema

VALIDATOR = Draft202012Validator(policy_schema())
VALUES = st.one_of(
    *(st.none(), st.booleans(), st.integers(-1, 4000), st.just(10**9), st.floats(0, 2000)),
    st.sampled_from(["high", "low", "urgent", "reject", "abort", "allow", "stay_closed", "", " ", "policy_review"]),
)


def problems_of(terms: Any) -> dict[str, str]:
    try:
        parse_policy({"escalation_terms": terms})
    except PolicyInvalid as refused:
        return {problem.path: problem.message for problem in refused.problems}
    return {}


@pytest.mark.parametrize(
    ("kind", "severity", "default_action"),
    [
        ("policy_denied", "high", "reject"),
        ("permission", "high", "reject"),
        ("permission_denials", "normal", "reject"),
        ("quota_exhausted", "high", "abort"),
        ("unknown", "normal", "stay_closed"),
        ("reversal_refused", "high", "stay_closed"),
        ("errors", "normal", "abort"),
        ("question", "normal", "abort"),
        ("other", "normal", "abort"),
    ],
)
def test_the_built_in_table(kind: str, severity: str, default_action: str) -> None:
    assert parse_policy({}).escalation_terms[kind] == Terms(
        severity=severity, queue="", acknowledge_in_s=900, resolve_in_s=1800, default_action=default_action
    )


def test_a_document_without_it_says_what_it_said() -> None:
    assert "escalation_terms" not in document_of(BUILT_IN)
    assert list(whole_document_of(BUILT_IN)["escalation_terms"]) == list(BUILT_IN_TERMS)
    assert parse_policy(whole_document_of(BUILT_IN), version=BUILT_IN.version) == BUILT_IN


def test_a_row_says_what_differs_and_is_written_back() -> None:
    row = {"severity": "high", "queue": "money", "resolve_in_s": 1200, "default_action": None, "later": "ignored"}
    found = parse_policy({"escalation_terms": {"errors": row}})
    assert found.escalation_terms["errors"] == Terms(severity="high", queue="money", resolve_in_s=1200.0)
    assert {**found.escalation_terms, "errors": BUILT_IN_TERMS["errors"]} == BUILT_IN_TERMS
    assert parse_policy(document_of(found)) == found


@pytest.mark.parametrize(
    ("terms", "path", "message"),
    [
        ([], "", "must be an object of kinds of escalations"),
        ({"gremlins": {}}, ".gremlins", "is no kind of question; there are policy_denied, permission,"),
        ({"overloaded": {}}, ".overloaded", "is no kind of question"),
        ({"errors": "high"}, ".errors", "must be an object with some of severity, queue,"),
        ({"errors": {"severity": "urgent"}}, ".errors.severity", "must be one of low, normal, high"),
        ({"errors": {"queue": 7}}, ".errors.queue", "must be a name of at most 64 characters"),
        ({"errors": {"queue": " money"}}, ".errors.queue", "must be a name of at most 64 characters"),
        ({"permission": {"queue": "mine"}}, ".permission.queue", "must be policy_review"),
        ({"unknown": {"queue": "mine"}}, ".unknown.queue", "must be unclassified"),
        ({"errors": {"acknowledge_in_s": 59}}, ".errors.acknowledge_in_s", "must be from 60 to 604800 s"),
        ({"errors": {"resolve_in_s": 31 * 86_400}}, ".errors.resolve_in_s", "must be from 60 to 2.592e+06 s"),
        ({"errors": {"resolve_in_s": "soon"}}, ".errors.resolve_in_s", "must be a number"),
        ({"errors": {"acknowledge_in_s": 1801}}, ".errors.acknowledge_in_s", "must be at most resolve_in_s, 1800 s"),
        (
            {"errors": {"resolve_in_s": 600}},
            ".errors.acknowledge_in_s",
            "must be at most resolve_in_s, 600 s; the default is 900 s",
        ),
        ({"errors": {"default_action": "allow"}}, ".errors.default_action", "must be one of abort, reject"),
        ({"unknown": {"default_action": "abort"}}, ".unknown.default_action", "must be one of stay_closed, reject"),
        ({"policy_denied": {"default_action": "allow"}}, ".policy_denied.default_action", "must be one of reject,"),
    ],
)
def test_each_fault_is_told_where_it_stands(terms: Any, path: str, message: str) -> None:
    [(where, told)] = problems_of(terms).items()
    assert where == f"escalation_terms{path}"
    assert told.startswith(message)


def test_what_is_always_asked_is_never_allowed_by_silence() -> None:
    assert not [kind for kind in map(str, ALWAYS) if "allow" in MAY_DEFAULT[kind]]
    assert not [kind for kind, terms in BUILT_IN_TERMS.items() if terms.default_action not in MAY_DEFAULT[kind]]


@given(
    st.sampled_from(list(BUILT_IN_TERMS)),
    st.dictionaries(st.sampled_from(["severity", "queue", "acknowledge_in_s", "default_action"]), VALUES),
)
def test_a_row_fits_the_schema_exactly_when_it_is_taken(kind: str, row: dict[str, Any]) -> None:
    terms = {kind: {"resolve_in_s": 30 * 86_400, **row}}  # that a time is at most another no schema says
    assert VALIDATOR.is_valid({"escalation_terms": terms}) == (problems_of(terms) == {})


@pytest.mark.parametrize(
    ("reason", "category", "kind"),
    [
        ("policy_denied", "policy_denied", "policy_denied"),
        ("errors", "timeout", "errors"),
        ("reversal_refused", "server_error", "reversal_refused"),
        ("large_refund", "quota_exhausted", "quota_exhausted"),
        ("question", "", "question"),
        ("question", "permission", "permission"),
        ("overloaded", "overloaded", "other"),
        ("other", "", "other"),
    ],
)
def test_the_row_of_a_question(reason: str, category: str, kind: str) -> None:
    assert kind_of(reason, category) == kind


@pytest.mark.parametrize(
    ("said", "waits", "table", "default"),
    [
        ("deny", True, "abort", "reject"),
        ("allow", True, "abort", "allow"),
        ("", True, "allow", "allow"),
        ("", True, "reject", "reject"),
        ("deny", False, "reject", "reject"),
        ("deny", False, "abort", "abort"),
        ("allow", False, "abort", "allow"),
        ("", False, "allow", "abort"),
    ],
)
def test_who_waits_said_itself_what_silence_means(said: str, waits: bool, table: str, default: str) -> None:
    assert default_of(said, "quota_exhausted", Terms(default_action=table), waits=waits) == default


@pytest.mark.parametrize("kind", sorted(category.value for category in ALWAYS))
@pytest.mark.parametrize("waits", [True, False])
def test_silence_never_allows_what_is_always_put_to_a_person(kind: str, waits: bool) -> None:
    assert default_of("allow", kind, BUILT_IN_TERMS[kind], waits=waits) == BUILT_IN_TERMS[kind].default_action


@pytest.mark.parametrize(
    ("terms", "path", "code"),
    [
        ({"other": {"resolve_in_s": 90_000}}, "other.resolve_in_s", "late_default"),
        ({"question": {"default_action": "allow"}}, "question.default_action", "silence_allows"),
        ({"permission": {"severity": "low"}}, "permission.severity", "quieter"),
        ({"errors": {"severty": "low"}}, "errors.severty", "unknown_key"),
    ],
)
def test_what_is_rarely_meant_is_asked_about(terms: dict[str, Any], path: str, code: str) -> None:
    document = {"escalation_terms": terms}
    found = [(one.path, one.code) for one in lint(parse_policy(document), document)]
    assert found == [(f"escalation_terms.{path}", code)]
