"""Each number and list of the rules is in the policy document, or in `code_constants` with its reason."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

import recovery_ops.rules as room
from recovery_ops.control.policies.form import sections_of
from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.effective_settings import of_operation, of_process
from recovery_ops.rules.policy.model import BUILT_IN, FAIL_CLOSED, PolicyInvalid, parse_policy, whole_document_of
from recovery_ops.rules.policy.schema import policy_schema
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.policy.settings import SETTINGS
from tests.rules.code_constants import NAMES

HERE = Place(service="", instance="", operation="search")

SETTINGS_OF_THE_RULES: dict[str, tuple[Any, Any]] = {
    "base_delay_s": (0.5, 0.7),
    "backoff_factor": (2.0, 3.0),
    "delay_cap_s": (32.0, 20.0),
    "jitter": (0.25, 0.5),
    "persistent_cap_s": (21_600.0, 3600.0),
    "wait_chunk_s": (30.0, 10.0),
    "failure_rate_threshold": (0.5, 0.4),
    "sliding_window_type": ("count_based", "time_based"),
    "sliding_window_size": (20, 30),
    "minimum_number_of_calls": (10, 12),
    "consecutive_failures": (5, 7),
    "consecutive_failures_with_fallback": (4, 2),
    "wait_duration_in_open_s": (60.0, 30.0),
    "permitted_calls_in_half_open": (1, 2),
    "max_wait_in_half_open_s": (10.0, 5.0),
    "model_fallback_after": (3, 4),
    "model_cooldown_s": (60.0, 90.0),
    "overflow_floor_tokens": (3000, 2000),
    "overflow_margin_tokens": (0, 10),
    "max_wait_before_fallback_s": (10.0, 5.0),
    "quota_rest_s": (900.0, 60.0),
    "stop_on_exhausted": (False, True),
    "retry_ratio": (0.2, 0.1),
    "min_retries_per_s": (10.0, 1.0),
}
"""What holds where nobody said anything, and something else."""

KINDS_OF_THE_RULES = {
    ("operation", "max_retries"): 3,
    ("model", "max_retries"): 2,
    ("operation", "max_retries_background"): 3,
    ("undeclared", "max_retries"): 0,
    ("tool", "call_deadline_s"): 10.0,
    ("document", "call_deadline_s"): 60.0,
    ("sandbox", "call_deadline_s"): 120.0,
    ("model", "call_deadline_s"): 120.0,
    ("model", "response_timeout_s"): 30.0,
    ("model", "first_token_timeout_s"): 12.0,
    ("model", "stall_timeout_s"): 15.0,
    ("model", "consecutive_failures_with_fallback"): 3,
}

SECTIONS_OF_THE_RULES: dict[str, tuple[Any, Any]] = {
    "foreground_sources": (["main_agent", "user_request", "coordinator_task"], ["mine"]),
    "failures.open_breakers": (
        ["network", "timeout", "overloaded", "server_error", "schema_mismatch"],
        ["network", "auth"],
    ),
    "failures.close_gates": ([429, 503, 529], [503]),
    "failures.heed_retry_header": ([408, 409, 429, "5xx"], ["4xx"]),
    "guards.tool_failures": (3, 4),
    "guards.errors_before_warning": (3, 4),
    "guards.errors_before_abort": (10, 11),
    "guards.turns": (20, 21),
    "guards.denials_in_a_row": (3, 4),
    "guards.denials_in_all": (20, 21),
    "guards.compaction_failures": (3, 4),
    "guards.run_deadline_s": (300.0, 200.0),
    "guards.step_floor_s": (30.0, 20.0),
    "guards.step_factor": (3.0, 4.0),
    "guards.input_share": (0.75, 0.5),
    "guards.outside_chars": (300, 100),
    "guards.repeats_before_warning": (3, 4),
    "guards.repeats_before_stop": (5, 6),
    "guards.repeat_action": ("stop", "ask"),
    "playbook.transient_timeout.delays_s": ([0.2, 0.6, 1.8], [0.5]),
    "playbook.server_error_5xx.delays_s": ([0.5, 2.0], [1.0]),
}


def at(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document[part]
    return document


def saying(path: str, value: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(whole_document_of(BUILT_IN)))
    *above, last = path.split(".")
    (at(document, ".".join(above)) if above else document)[last] = value
    return document


@pytest.mark.parametrize("name", sorted(SETTINGS_OF_THE_RULES))
def test_a_number_of_one_operation_is_a_setting_that_is_shown_and_told(name: str) -> None:
    usual, other = SETTINGS_OF_THE_RULES[name]
    assert getattr(FAIL_CLOSED, name) == usual
    document = {"rules": [{"id": "r", "scope": {"operation": "search"}, "settings": {name: other}}]}
    policy = parse_policy(document).for_operation(HERE)
    assert getattr(policy.settings, name) == other
    assert of_operation(policy, fallbacks=None)[name] == other
    assert name in fields_of(document, "defaults.operation")
    assert Draft202012Validator(policy_schema()).is_valid(document)
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy({"rules": [{"scope": {}, "settings": {name: "much"}}]})
    assert [one.path for one in refused.value.problems] == [f"rules[0].settings.{name}"]


def test_no_setting_is_forgotten_here() -> None:
    beyond = {"persistent", "fallback_allowed", "retry_capacity_errors", "retry_budget", "least_importance"}
    slow = {"slow_call_rate_threshold", "slow_call_duration_s"}
    assert {*SETTINGS} == {*SETTINGS_OF_THE_RULES, *beyond, *slow, *(name for _, name in KINDS_OF_THE_RULES)}


@pytest.mark.parametrize(("kind", "name"), sorted(KINDS_OF_THE_RULES))
def test_a_number_of_a_kind_of_operation_is_a_default(kind: str, name: str) -> None:
    usual = KINDS_OF_THE_RULES[kind, name]
    assert getattr(BUILT_IN.for_operation(HERE, kind=kind).settings, name) == usual
    told = parse_policy({"defaults": {kind: {name: usual + 1}}}).for_operation(HERE, kind=kind)
    assert getattr(told.settings, name) == usual + 1


@pytest.mark.parametrize("path", sorted(SECTIONS_OF_THE_RULES))
def test_what_holds_for_all_is_a_section_that_is_shown_and_told(path: str) -> None:
    usual, other = SECTIONS_OF_THE_RULES[path]
    assert at(whole_document_of(BUILT_IN), path) == usual
    document = saying(path, other)
    policy = parse_policy(document)
    assert at(whole_document_of(policy), path) == other
    assert of_process(policy) != of_process(BUILT_IN)
    assert any(name == path or name.startswith(f"{path}.") for name in of_process(policy))
    section = path.split(".", maxsplit=1)[0]
    assert fields_of(document, section) != fields_of(whole_document_of(BUILT_IN), section)
    assert Draft202012Validator(policy_schema()).is_valid(document)
    assert Draft202012Validator(policy_schema()).is_valid(saying(path, "gremlins")) is False
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy(saying(path, "gremlins"))
    assert all(one.path.startswith(path.rpartition(".")[0] or path) for one in refused.value.problems)


@pytest.mark.parametrize(
    ("lists", "path"),
    [
        ({"open_breakers": ["auth", "gremlins"]}, "failures.open_breakers[1]"),
        ({"open_breakers": ["rate_limited"]}, "failures.open_breakers[0]"),
        ({"open_breakers": ["cancelled"]}, "failures.open_breakers[0]"),
        ({"open_breakers": [{}]}, "failures.open_breakers[0]"),
        ({"close_gates": [200]}, "failures.close_gates[0]"),
        ({"close_gates": [True]}, "failures.close_gates[0]"),
        ({"heed_retry_header": [408, "3xx"]}, "failures.heed_retry_header[1]"),
        ({"heed_retry_header": 408}, "failures.heed_retry_header"),
        ([], "failures"),
    ],
)
def test_a_list_that_no_agent_takes_is_refused_at_its_place(lists: Any, path: str) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy({"failures": lists})
    assert [one.path for one in refused.value.problems] == [path]
    assert not Draft202012Validator(policy_schema()).is_valid({"failures": lists})


def test_a_rule_orders_fallbacks_and_models() -> None:
    rule = {"id": "r", "scope": {"operation": "search"}, "fallbacks": ["cache"], "models": ["small", "tiny"]}
    found = parse_policy({"rules": [rule]})
    assert found.for_operation(HERE).models == ("small", "tiny")
    assert whole_document_of(found)["rules"][0]["models"] == ["small", "tiny"]
    assert "small\ntiny" in fields_of({"rules": [rule]}, "rules").values()
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy({"rules": [rule | {"models": "small"}]})
    assert [one.path for one in refused.value.problems] == ["rules[0].models"]


def test_the_rest_of_what_the_rules_list_is_there() -> None:
    document = whole_document_of(BUILT_IN)
    assert {row["category"] for row in document["retry_table"]} >= {"network", "timeout", "rate_limited", "overloaded"}
    for section in ("escalations", "escalation_terms", "importance", "classification", "quorum", "reset_ramp", "tools"):
        assert section in document
        assert section in policy_schema()["properties"]


def fields_of(document: Mapping[str, Any], under: str) -> dict[str, str]:
    """What the form shows of a part of the document: by path, or by name within a kind of operation."""
    shown, _ = sections_of(document, {}, {})
    each = [one for section in shown for one in (*section.fields, *(one for row in section.rows for one in row.fields))]
    found = {one.name.removeprefix("section."): one.value for one in each}
    if under.count("."):
        return {name.removeprefix(f"{under}."): value for name, value in found.items() if name.startswith(f"{under}.")}
    return {name: value for name, value in found.items() if name.split(".")[0] == under}


# -- what stays in code ------------------------------------------------------------------------------------------------
def constants() -> Iterator[tuple[str, str]]:
    """Every module of the rules with each of its constants that is a number, or lists categories or statuses."""
    for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        module = importlib.import_module(found.name)
        tree = ast.parse(Path(str(module.__file__)).read_text())
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                name = getattr(target, "id", "")
                if re.fullmatch(r"_?[A-Z][A-Z_]+", name) and _is_about_numbers(getattr(module, name)):
                    yield found.name, name


def _is_about_numbers(value: object) -> bool:
    if isinstance(value, range) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return True
    return isinstance(value, frozenset | tuple | list | dict) and any(isinstance(one, int | Category) for one in value)


def test_every_number_of_the_code_is_a_settings_or_has_its_reason() -> None:
    left = {(module, name) for module, name in constants() if name not in NAMES}
    assert left == set(), "put it in the policy, or in code_constants with the reason why no policy may edit it"


def test_no_reason_outlives_its_constant() -> None:
    assert NAMES - {name for _, name in constants()} == set()
