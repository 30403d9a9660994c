"""What a careful colleague would ask about a policy before it goes live."""

from __future__ import annotations

from typing import Any

import pytest

from recovery_ops.rules.policy.lint import Finding, lint, storm_of
from recovery_ops.rules.policy.model import BUILT_IN, document_of, parse_policy
from tests.support.sentences import left_out

ROW = {"category": "timeout", "foreground": "retry", "background": "retry"}


def found(document: dict[str, Any]) -> list[Finding]:
    return list(lint(parse_policy(document), document))


def ruled(*fallbacks: str, **settings: Any) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": "mine", "scope": {"operation": "search_web"}, "settings": settings}
    return {"rules": [rule | ({"fallbacks": list(fallbacks)} if fallbacks else {})]}


def test_whole_numbers_written_as_floats_are_asked_about_as_whole_ones() -> None:
    assert found(ruled(max_retries=2.0, base_delay_s=0)) == found(ruled(max_retries=2, base_delay_s=0))


def test_the_built_in_policy_has_nothing_to_ask_about() -> None:
    assert found(document_of(BUILT_IN)) == []


@pytest.mark.parametrize(
    ("document", "path", "code"),
    [
        (ruled(persistent=True), "rules[0].settings.persistent", "unbounded"),
        (ruled(persistent=True, persistent_cap_s=86_400), "rules[0].settings.persistent_cap_s", "unbounded"),
        (ruled(max_retries=3, base_delay_s=0), "rules[0].settings.base_delay_s", "no_delay"),
        (ruled(max_retries=3, jitter=0), "rules[0].settings.jitter", "no_jitter"),
        (ruled(base_delay_s=60), "rules[0].settings.base_delay_s", "above_cap"),
        (ruled(call_deadline_s=9, stall_timeout_s=20), "rules[0].settings.stall_timeout_s", "above_deadline"),
        (ruled(max_retries=5, base_delay_s=30, delay_cap_s=600), "rules[0].settings.max_retries", "long_wait"),
        (ruled(max_retries=9), "rules[0]", "retry_storm"),
        (ruled("cache", max_retries=3), "rules[0]", "retry_storm"),
        (
            ruled(consecutive_failures=0, failure_rate_threshold=0),
            "rules[0].settings.consecutive_failures",
            "never_opens",
        ),
        (ruled(minimum_number_of_calls=50), "rules[0].settings.minimum_number_of_calls", "never_judged"),
        (ruled(wait_duration_in_open_s=0.1), "rules[0].settings.wait_duration_in_open_s", "no_rest"),
        (ruled(), "rules[0]", "says_nothing"),
        ({"foreground_sources": []}, "foreground_sources", "no_foreground"),
        ({"retry_table": [ROW, ROW]}, "retry_table[0]", "shadowed"),
        ({"guards": {"repeats_before_stop": 3}}, "guards.repeats_before_warning", "never_warned"),
        ({"retry_tabel": []}, "retry_tabel", "unknown_key"),
        (ruled(max_retrys=3), "rules[0].settings.max_retrys", "unknown_key"),
        ({"defaults": {"model": {"max_retrys": 3}}}, "defaults.model.max_retrys", "unknown_key"),
        ({"quorum": [{"operation": "a", "minimum_cuont": 9}]}, "quorum[0].minimum_cuont", "unknown_key"),
        ({"reset_ramp": {"frist": 1}}, "reset_ramp.frist", "unknown_key"),
        ({"stuck_breakers": {"idle": 300}}, "stuck_breakers.idle", "unknown_key"),
        ({"capacity_events": {"quiet": 60}}, "capacity_events.quiet", "unknown_key"),
        ({"spend_caps": {"day_cents": 60}}, "spend_caps.day_cents", "unknown_key"),
        ({"spend_caps": {"day_tokens": 60}}, "spend_caps.call_tokens", "one_by_one"),
        ({"spend_caps": {"run_cost_usd": 6}}, "spend_caps.call_cost_usd", "one_by_one"),
        ({"defaults": {"model": {"max_retries": 3, "jitter": 0}}}, "defaults.model.jitter", "no_jitter"),
    ],
)
def test_what_is_rarely_meant_is_told_where_it_stands(document: dict[str, Any], path: str, code: str) -> None:
    assert (path, code) in [(one.path, one.code) for one in found(document)]


def test_two_rules_of_one_scope_shadow_each_other() -> None:
    document = {
        "rules": [{"id": name, "scope": {"operation": "a"}, "settings": {"jitter": 0.5}} for name in ("x", "y")]
    }
    [one] = found(document)
    assert (one.path, one.code) == ("rules[0].scope", "shadowed")
    assert "rules[1]" in one.message


def test_an_ordinary_edit_is_not_nagged_about() -> None:
    assert found(ruled(max_retries=5)) == []
    assert found(ruled(failure_rate_threshold=0.3, consecutive_failures=3)) == []


def test_a_storm_counts_every_fallback_with_its_own_retries() -> None:
    rules = [
        {"scope": {"operation": "search_web"}, "settings": {"max_retries": 4}, "fallbacks": ["mirror", "cache"]},
        {"scope": {"operation": "mirror"}, "settings": {"max_retries": 2, "retry_capacity_errors": False}},
        {"scope": {"operation": "cache"}, "settings": {"max_retries": 0, "max_retries_background": 0}},
    ]
    for number, rule in enumerate(rules):
        rule["id"] = str(number)
    storm = storm_of(parse_policy({"rules": rules}), "search_web")
    assert (storm.attempts_foreground, storm.attempts_background, storm.capacity_attempts) == (9, 9, 7)
    assert storm.waiting_s == pytest.approx((0.5 + 1 + 2 + 4 + 0.5 + 1) * 1.25)


def test_where_fallbacks_are_forbidden_they_are_no_part_of_the_storm() -> None:
    document = ruled("cache", max_retries=3, fallback_allowed=False)
    assert storm_of(parse_policy(document), "search_web").attempts_foreground == 4


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        ({"operation": "s", "service": "research"}, "s of service research"),
        ({"service": "research"}, "any operation of service research"),
        ({"operation": "s", "instance": "r-1"}, "s on instance r-1"),
        ({"group": "canary"}, "any operation in group canary"),
        ({"operation": "s*", "service": "res*"}, "s* of service res*"),
        ({}, "any operation"),
    ],
)
def test_a_storm_is_looked_for_where_the_rule_holds(scope: dict[str, str], told: str) -> None:
    document = {"rules": [{"id": "mine", "scope": scope, "settings": {"max_retries": 8}}]}
    [one] = [one for one in found(document) if one.code == "retry_storm"]
    assert (one.path, left_out(one.message, f"{told} make 9 attempts")) == ("rules[0]", [])


def test_a_storm_of_one_service_is_not_told_of_another() -> None:
    rules = [
        {
            "id": "a",
            "scope": {"operation": "s", "service": "research"},
            "fallbacks": ["t"],
            "settings": {"max_retries": 1},
        },
        {"id": "b", "scope": {"operation": "t", "service": "billing"}, "settings": {"max_retries": 5}},
        {"id": "c", "scope": {"operation": "t"}, "settings": {"max_retries": 0, "max_retries_background": 0}},
    ]
    assert [one for one in found({"rules": rules}) if one.code == "retry_storm"] == []


def test_a_storm_in_what_holds_for_a_kind_is_told() -> None:
    document: dict[str, Any] = {"defaults": {"tool": {"max_retries": 8}}}
    [one] = [one for one in found(document) if one.code == "retry_storm"]
    assert (one.path, left_out(one.message, "any tool", "9")) == ("defaults.tool", [])
    held = {"rules": [{"id": "all", "scope": {}, "settings": {"max_retries": 2}}]}
    assert [one for one in found(document | held) if one.code == "retry_storm"] == [], "a rule for all goes first"


@pytest.mark.parametrize(
    ("chains", "looping"),
    [
        ([({"operation": "s*"}, ["search"])], {0: "search"}),
        ([({"operation": "*"}, ["cache"])], {0: "cache"}),
        ([({"operation": "a"}, ["b1"]), ({"operation": "b*"}, ["a"])], {1: "b1"}),
        ([({"operation": "*"}, ["cache"]), ({"operation": "cache"}, [])], {}),
        ([({"operation": "s*"}, ["cache"])], {}),
        ([({"operation": "*", "service": "one"}, ["a"]), ({"operation": "a", "service": "two"}, [])], {0: "a"}),
        ([({"service": "one"}, ["a"]), ({"operation": "a"}, [])], {}),
    ],
)
def test_a_pattern_whose_fallback_falls_back_to_itself_is_asked_about(
    chains: list[tuple[dict[str, str], list[str]]], looping: dict[int, str]
) -> None:
    rules = [{"id": str(at), "scope": scope, "fallbacks": names} for at, (scope, names) in enumerate(chains)]
    said = {one.path: one.message for one in found({"rules": rules}) if one.code == "fallback_cycle"}
    assert said.keys() == {f"rules[{at}].fallbacks" for at in looping}
    assert all(name in said[f"rules[{at}].fallbacks"] for at, name in looping.items())
