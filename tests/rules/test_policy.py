"""Policies: what is refused, what is said of one operation, and that nothing said is the most restrictive."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.model import (
    BUILT_IN,
    FAIL_CLOSED,
    Policy,
    PolicyInvalid,
    Settings,
    document_of,
    parse_policy,
    settings_document,
)
from recovery_ops.rules.policy.retry_table import Again
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.policy.settings import SETTINGS, fault_of

PLACE = Place(service="research", instance="r-1", operation="search", breaker="search")


def rule(scope: dict[str, str], **settings: Any) -> dict[str, Any]:
    return {"id": "-".join(scope.values()) or "all", "scope": scope, "settings": settings}


def policy(*rules: dict[str, Any], **more: Any) -> Policy:
    return parse_policy({"schema_version": 1, "rules": list(rules), **more})


def test_a_whole_number_that_json_wrote_as_a_float_is_whole_where_it_is_obeyed() -> None:
    whole = [name for name, setting in SETTINGS.items() if setting.kind == "whole"]
    found = policy(rule({}, **dict.fromkeys(whole, 1.0))).rules[0].settings
    assert {type(getattr(found, name)) for name in whole} == {int}


def test_the_built_in_policy_survives_its_document() -> None:
    assert document_of(parse_policy(document_of(BUILT_IN))) == document_of(BUILT_IN)


def test_a_live_rule_beats_the_code_and_the_code_beats_the_defaults() -> None:
    code = Settings(max_retries=5, base_delay_s=2.0)
    found = policy(rule({"operation": "search"}, max_retries=1)).for_operation(PLACE, code=code)
    assert found.settings.max_retries == 1
    assert found.settings.base_delay_s == 2.0
    assert found.settings.max_retries_background == 3
    assert found.winning_rules == ("search",)


def test_specific_rules_win_setting_by_setting() -> None:
    found = policy(
        rule({"instance": "r-1"}, jitter=0.0),
        rule({"operation": "search"}, max_retries=1, jitter=0.1, base_delay_s=3.0),
        rule({}, max_retries=7, delay_cap_s=5.0),
    ).for_operation(PLACE)
    assert (found.settings.jitter, found.settings.max_retries, found.settings.base_delay_s) == (0.0, 1, 3.0)
    assert found.settings.delay_cap_s == 5.0
    assert found.winning_rules == ("r-1", "search", "all")


def test_an_operation_nobody_declared_retries_nothing() -> None:
    found = BUILT_IN.for_operation(PLACE, kind="undeclared")
    assert found.max_retries(is_foreground=True) == found.max_retries(is_foreground=False) == 0


@pytest.mark.parametrize(("kind", "retries"), [("operation", 3), ("model", 2), ("tool", 3)])
def test_the_built_in_retries(kind: str, retries: int) -> None:
    assert BUILT_IN.for_operation(PLACE, kind=kind).max_retries(is_foreground=True) == retries


@pytest.mark.parametrize(
    ("source", "is_foreground"),
    [("main_agent", True), ("user_request", True), ("coordinator_task", True), ("titles", False), ("", False)],
)
def test_who_is_not_listed_is_background(source: str, is_foreground: bool) -> None:
    assert BUILT_IN.for_operation(PLACE).is_foreground(source) is is_foreground


def test_a_row_with_a_status_beats_a_row_without() -> None:
    table = [
        {"category": "server_error", "foreground": "retry", "background": "retry"},
        {"category": "server_error", "status_code": 501, "foreground": "never", "background": "never"},
    ]
    found = policy(retry_table=table).for_operation(PLACE)
    assert found.again(Category.SERVER_ERROR, 501, is_foreground=True) is Again.NEVER
    assert found.again(Category.SERVER_ERROR, 500, is_foreground=True) is Again.RETRY
    assert found.again(Category.NETWORK, None, is_foreground=True) is Again.NEVER


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], ""),
        ({"schema_version": 0}, "schema_version"),
        ({"requires": ["x"]}, "requires"),
        ({"foreground_sources": "main_agent"}, "foreground_sources"),
        ({"defaults": {"model": {"jitter": 2}}}, "defaults.model.jitter"),
        ({"defaults": {"model": {"max_retries": 10**400}}}, "defaults.model.max_retries"),
        ({"defaults": {"model": {"base_delay_s": -(10**400)}}}, "defaults.model.base_delay_s"),
        ({"defaults": {"model": {"max_retries": 1.5}}}, "defaults.model.max_retries"),
        ({"defaults": {"model": {"persistent": "yes"}}}, "defaults.model.persistent"),
        ({"defaults": {"model": {"base_delay_s": float("nan")}}}, "defaults.model.base_delay_s"),
        ({"retry_table": [{"category": "gremlins"}]}, "retry_table[0]"),
        ({"retry_table": ["x"]}, "retry_table[0]"),
        ({"rules": [{"scope": {"planet": "x"}}]}, "rules[0].scope.planet"),
        ({"rules": [rule({"operation": "a"}), rule({"operation": "a"})]}, "rules[1].id"),
    ],
)
def test_each_fault_is_named_where_it_is(document: Any, path: str) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy(document)
    assert path in [problem.path for problem in refused.value.problems]


def test_fallback_cycles_are_refused() -> None:
    rules = [rule({"operation": name}) | {"fallbacks": [other]} for name, other in (("a", "b"), ("b", "c"), ("c", "a"))]
    with pytest.raises(PolicyInvalid, match="leads back to itself") as refused:
        policy(rule({"operation": "d"}) | {"id": "d"}, *rules)
    assert [one.path for one in refused.value.problems] == [f"rules[{at}].fallbacks" for at in (1, 2, 3)]


@pytest.mark.parametrize(
    ("chains", "looping"),
    [
        ([({"operation": "x", "service": "one"}, "y"), ({"operation": "y", "service": "two"}, "x")], []),
        ([({"operation": "x", "service": "one"}, "y"), ({"operation": "x"}, "z"), ({"operation": "y"}, "x")], [0, 2]),
        ([({"operation": "x"}, "y"), ({"operation": "x", "service": "one"}, "z"), ({"operation": "y"}, "x")], [0, 2]),
        ([({"operation": "x", "service": "one"}, "x"), ({"operation": "x"}, "y")], [0]),
    ],
)
def test_a_cycle_of_fallbacks_is_one_that_some_agent_would_go_through(
    chains: list[tuple[dict[str, str], str]], looping: list[int]
) -> None:
    rules = [rule(scope) | {"id": f"rule-{at}", "fallbacks": [name]} for at, (scope, name) in enumerate(chains)]
    if not looping:
        policy(*rules)
        return
    with pytest.raises(PolicyInvalid) as refused:
        policy(*rules)
    assert [one.path for one in refused.value.problems] == [f"rules[{at}].fallbacks" for at in looping]


@given(st.dictionaries(st.sampled_from(list(SETTINGS)), st.none() | st.booleans() | st.floats() | st.text(max_size=3)))
def test_any_settings_are_refused_or_read_never_half(given_settings: dict[str, Any]) -> None:
    faults = {name: fault_of(SETTINGS[name], value) for name, value in given_settings.items() if value is not None}
    faulty = {name for name, fault in faults.items() if fault}
    if faulty:
        with pytest.raises(PolicyInvalid) as refused:
            policy(rule({}, **given_settings))
        assert {problem.path.rsplit(".")[-1] for problem in refused.value.problems} == faulty
        return
    found = policy(rule({}, **given_settings))
    assert set(settings_document(found.rules[0].settings)) == set(faults)


def test_every_setting_has_a_field_and_a_fail_closed_value() -> None:
    assert set(SETTINGS) == set(settings_document(FAIL_CLOSED))
    for name, value in settings_document(FAIL_CLOSED).items():
        assert fault_of(SETTINGS[name], value) == ""
