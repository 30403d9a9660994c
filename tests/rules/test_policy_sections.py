"""The sections of a policy beside its settings: read, refused with the path to each fault, and written back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import CAPACITY, Category, Compensation, Evidence, Importance, Verdict
from recovery_ops.rules.playbook.verdicts import BUILT_IN_PLAYBOOK, Play
from recovery_ops.rules.policy.escalation_rules import ALWAYS, BUILT_IN_ESCALATIONS, Asking
from recovery_ops.rules.policy.escalation_terms import BUILT_IN_TERMS, Terms
from recovery_ops.rules.policy.load_shedding import ORDER
from recovery_ops.rules.policy.model import BUILT_IN, Policy, PolicyInvalid, document_of, parse_policy
from recovery_ops.rules.policy.retry_table import NEVER_AGAIN
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.resilience.retry import decide_retry
from recovery_ops.rules.run_limits import DEFAULT_LIMITS, GuardLimits
from recovery_ops.rules.tools.policy_limits import ToolRule

PLACE = Place(service="research", instance="r-1", operation="search", breaker="search")
PLAYBOOK = document_of(BUILT_IN)["playbook"]
RETRY = {"compensation": "retry_with_backoff", "delays_s": [1]}
SILENT = {"queue": "x", "default_answer": "allow"}


def faults(document: Mapping[str, Any]) -> list[str]:
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy(document)
    return [problem.path for problem in refused.value.problems]


def test_what_a_document_leaves_out_is_the_most_restrictive() -> None:
    found = parse_policy({})
    assert (found.guards, found.playbook, found.tools) == (DEFAULT_LIMITS, BUILT_IN_PLAYBOOK, ())
    assert (found.escalations, found.importance) == (BUILT_IN_ESCALATIONS, {})
    assert found.escalation_terms == BUILT_IN_TERMS
    assert found == Policy(version="")


def test_every_section_is_read_and_written_back() -> None:
    document = {
        "guards": {"turns": 5, "run_deadline_s": 60},
        "playbook": {**PLAYBOOK, "transient_timeout": {"compensation": "deprecate_tool_call", "queue": "owners"}},
        "tools": [{"operation": "pay_*", "require_permission": True}],
        "escalations": {"overloaded": {"queue": "capacity", "deadline_s": 600, "default_answer": "allow"}},
        "escalation_terms": {"errors": {"severity": "high", "queue": "money", "default_action": "reject"}},
        "importance": {"nightly": "sheddable", "checkout": "critical_plus"},
    }
    found = parse_policy(document)
    assert found.guards == GuardLimits(turns=5, run_deadline_s=60.0)
    assert found.playbook.plays[Verdict.TRANSIENT_TIMEOUT] == Play(
        compensation=Compensation.DEPRECATE_TOOL_CALL, queue="owners"
    )
    assert found.tools == (ToolRule(operation="pay_*", require_permission=True),)
    assert found.escalations[Category.OVERLOADED] == Asking(queue="capacity", deadline_s=600.0, default_answer="allow")
    assert found.escalation_terms["errors"] == Terms(severity="high", queue="money", default_action="reject")
    assert found.importance == {"nightly": Importance.SHEDDABLE, "checkout": Importance.CRITICAL_PLUS}
    assert parse_policy(document_of(found)) == found


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"guards": {"turns": 0}}, "guards.turns"),
        ({"guards": {"run_deadline_s": 0}}, "guards.run_deadline_s"),
        ({"playbook": {}}, "playbook.transient_timeout"),
        ({"playbook": {**PLAYBOOK, "gremlins": {}}}, "playbook.gremlins"),
        ({"playbook": {**PLAYBOOK, "policy_denied": RETRY}}, "playbook.policy_denied.compensation"),
        ({"tools": [{"operation": "pay", "require_permission": False}]}, "tools[0].require_permission"),
        ({"escalations": []}, "escalations"),
        ({"escalations": {"gremlins": {"queue": "x"}}}, "escalations.gremlins"),
        ({"escalations": {"cancelled": {"queue": "x"}}}, "escalations.cancelled"),
        ({"escalations": {"overloaded": "capacity"}}, "escalations.overloaded"),
        ({"escalations": {"overloaded": {}}}, "escalations.overloaded.queue"),
        ({"escalations": {"overloaded": {"queue": "x", "deadline_s": 0}}}, "escalations.overloaded.deadline_s"),
        (
            {"escalations": {"overloaded": SILENT | {"default_answer": "maybe"}}},
            "escalations.overloaded.default_answer",
        ),
        ({"escalations": {"permission": {"queue": "mine"}}}, "escalations.permission.queue"),
        ({"escalations": {"unknown": SILENT | {"queue": "unclassified"}}}, "escalations.unknown.default_answer"),
        ({"escalation_terms": {"gremlins": {}}}, "escalation_terms.gremlins"),
        ({"escalation_terms": {"errors": {"severity": "urgent"}}}, "escalation_terms.errors.severity"),
        ({"importance": ["nightly"]}, "importance"),
        ({"importance": {"nightly": "vital"}}, "importance.nightly"),
        ({"defaults": {"tool": {"least_importance": "vital"}}}, "defaults.tool.least_importance"),
        ({"defaults": {"model": {"overflow_floor_tokens": 0}}}, "defaults.model.overflow_floor_tokens"),
    ],
)
def test_each_fault_is_named_where_it_is(document: dict[str, Any], path: str) -> None:
    assert path in faults(document)


@pytest.mark.parametrize("category", sorted(NEVER_AGAIN))
@pytest.mark.parametrize("kind", ["foreground", "background"])
def test_no_document_retries_what_is_never_retried(category: Category, kind: str) -> None:
    row = {"category": category.value, "foreground": "never", "background": "never"}
    assert parse_policy({"retry_table": [row]}).retry_table[0].category is category
    assert faults({"retry_table": [row | {kind: "retry"}]}) == ["retry_table[0]"]


@pytest.mark.parametrize("category", sorted(CAPACITY))
def test_no_document_retries_capacity_failures_in_background(category: Category) -> None:
    row = {"category": category.value, "foreground": "retry", "background": "once"}
    assert faults({"retry_table": [row]}) == ["retry_table[0].background"]


def test_once_is_once_also_where_nothing_is_changed_about_the_request() -> None:
    row = {"category": "timeout", "foreground": "once", "background": "never"}
    policy = parse_policy({"retry_table": [row]}).for_operation(PLACE)
    failure = Failure(category=Category.TIMEOUT, evidence=Evidence.EXCEPTION_TYPE)

    def again(attempt: int) -> bool:
        return decide_retry(
            failure, attempt=attempt, max_retries=5, is_foreground=True, policy=policy, chance=lambda: 0.0
        ).retry

    assert [again(1), again(2)] == [True, False]


@pytest.mark.parametrize("category", sorted(ALWAYS))
def test_what_is_always_asked_is_asked_whatever_a_document_leaves_out(category: Category) -> None:
    found = parse_policy({"escalations": {"quota_exhausted": {"queue": "money"}}})
    assert found.escalations[category].queue == ALWAYS[category]
    assert Category.QUOTA_EXHAUSTED not in parse_policy({"escalations": {}}).escalations


@pytest.mark.parametrize("least", list(ORDER))
def test_less_important_work_is_shed_first(least: Importance) -> None:
    document = {
        "importance": {one.value: one.value for one in ORDER},
        "rules": [{"scope": {"operation": "search"}, "settings": {"least_importance": least.value}}],
    }
    policy = parse_policy(document).for_operation(PLACE)
    passing = [one for one in ORDER if not policy.sheds(one.value)]
    assert passing == list(ORDER[: ORDER.index(least) + 1])


def test_who_waits_is_critical_and_all_other_work_sheddable_unless_a_document_says_so() -> None:
    settings = {"least_importance": "critical"}
    policy = parse_policy({"rules": [{"scope": {}, "settings": settings}]}).for_operation(PLACE)
    assert not policy.sheds("main_agent")
    assert policy.sheds("titles")
    assert policy.sheds("")
    assert not BUILT_IN.for_operation(PLACE).sheds("titles")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SECTIONS = [
    *("foreground_sources", "retry_table", "defaults", "rules", "guards", "playbook", "tools", "escalations"),
    *("escalation_terms", "importance", "schema_version", "requires"),
]


@given(st.dictionaries(st.sampled_from(SECTIONS), json_values))
def test_a_document_of_any_shape_is_read_or_refused_and_what_is_read_comes_back(document: dict[str, Any]) -> None:
    try:
        found = parse_policy(document)
    except PolicyInvalid:
        return
    assert parse_policy(document_of(found)) == Policy(
        **{name: getattr(found, name) for name in Policy.__dataclass_fields__} | {"version": ""}
    )
