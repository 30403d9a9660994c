"""Every value that a policy's schema has is read from a document and written back to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import pytest

from recovery_ops.rules.policy.model import BUILT_IN, PolicyInvalid, document_of, parse_policy, whole_document_of
from recovery_ops.rules.policy.schema import policy_schema

SETTINGS: dict[str, Any] = {
    "max_retries": 4,
    "max_retries_background": 2,
    "base_delay_s": 0.7,
    "backoff_factor": 3.0,
    "delay_cap_s": 20.0,
    "jitter": 0.5,
    "retry_capacity_errors": False,
    "persistent": True,
    "persistent_cap_s": 3600.0,
    "wait_chunk_s": 10.0,
    "max_wait_before_fallback_s": 5.0,
    "quota_rest_s": 60.0,
    "stop_on_exhausted": True,
    "retry_ratio": 0.1,
    "min_retries_per_s": 1.0,
    "call_deadline_s": 7.0,
    "response_timeout_s": 6.0,
    "first_token_timeout_s": 5.0,
    "stall_timeout_s": 4.0,
    "fallback_allowed": False,
    "failure_rate_threshold": 0.4,
    "sliding_window_type": "time_based",
    "sliding_window_size": 30,
    "minimum_number_of_calls": 12,
    "consecutive_failures": 7,
    "consecutive_failures_with_fallback": 6,
    "slow_call_rate_threshold": 0.9,
    "slow_call_duration_s": 6.0,
    "wait_duration_in_open_s": 30.0,
    "permitted_calls_in_half_open": 2,
    "max_wait_in_half_open_s": 5.0,
    "model_fallback_after": 4,
    "model_cooldown_s": 90.0,
    "overflow_floor_tokens": 2000,
    "overflow_margin_tokens": 10,
    "retry_budget": 0.3,
    "least_importance": "critical",
}
DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "foreground_sources": ["mine", "yours"],
    "retry_table": [
        {"category": "timeout", "status_code": 408, "foreground": "once", "background": "never"},
        {"category": "timeout", "foreground": "retry", "background": "once"},
    ],
    "defaults": {"tool": SETTINGS},
    "rules": [
        {
            "id": "r-1",
            "scope": {"service": "research", "operation": "search*", "instance": "a-1", "group": "blue"},
            "settings": SETTINGS,
            "fallbacks": ["cache", "older"],
            "models": ["small", "tiny"],
        },
        {"id": "r-2", "scope": {}, "settings": {"max_retries": 1}},
    ],
    "guards": {
        "tool_failures": 4,
        "errors_before_warning": 5,
        "errors_before_abort": 11,
        "turns": 21,
        "denials_in_a_row": 6,
        "denials_in_all": 22,
        "compaction_failures": 7,
        "run_deadline_s": 200.0,
        "step_floor_s": 20.0,
        "step_factor": 4.0,
        "input_share": 0.5,
        "outside_chars": 100,
        "repeats_before_warning": 4,
        "repeats_before_stop": 8,
        "repeat_action": "ask",
    },
    "spend_caps": {
        "run_calls": 40,
        "run_tokens": 50_000,
        "run_cost_usd": 1.5,
        "source_calls": 400,
        "source_tokens": 500_000,
        "source_cost_usd": 15.0,
        "day_calls": 4000,
        "day_tokens": 5_000_000,
        "day_cost_usd": 150.0,
        "action": "cheaper_model",
        "cheaper_share": 0.3,
        "ask_deadline_s": 600.0,
        "call_tokens": 9000,
        "call_cost_usd": 0.25,
    },
    "capacity_events": {
        "least_failures": 7,
        "within_s": 45.0,
        "least_sources": 3,
        "most_of_one": 9,
        "quiet_s": 70.0,
        "merge_s": 400.0,
    },
    "reset_ramp": {
        "first_instances": 2,
        "second_share": 0.2,
        "third_share": 0.6,
        "least_calls": 30,
        "least_time_s": 40.0,
        "patience_s": 500.0,
    },
    "stuck_breakers": {"half_open_s": 100.0, "idle_open_s": 400.0, "uncounted_failures": 30, "uncounted_share": 0.6},
    "failures": {
        "open_breakers": ["network", "auth"],
        "close_gates": [503, "4xx"],
        "heed_retry_header": ["5xx", 408],
    },
    "quorum": [{"operation": "search", "share": 0.4, "minimum_count": 3, "hold_s": 9.0, "expires_s": 700.0}],
    "classification": [
        {
            "name": "busy",
            "match": {
                "exception_type": "ledger.Busy",
                "code": "busy",
                "message": "*busy*",
                "operation": "pay_*",
                "provider": "helios",
                "status_codes": [500, 503],
            },
            "category": "overloaded",
            "overrides": ["server_error"],
        }
    ],
    "masking": {
        "rules": [{"name": "order", "pattern": "order-[0-9]{6}", "replacement": "<order>"}],
        "attributes": ["customer"],
    },
    "playbook": {
        **document_of(BUILT_IN)["playbook"],
        "transient_timeout": {"compensation": "retry_with_backoff", "delays_s": [0.5, 2.0], "queue": "owners"},
    },
    "tools": [
        {
            "operation": "pay_*",
            "require_permission": True,
            "is_destructive": True,
            "idempotent": False,
            "optional": False,
            "bypass_allowed": False,
        }
    ],
    "escalations": {"overloaded": {"queue": "capacity", "deadline_s": 600.0, "default_answer": "allow"}},
    "escalation_terms": {
        "errors": {
            "queue": "money",
            "severity": "high",
            "acknowledge_in_s": 120.0,
            "resolve_in_s": 900.0,
            "default_action": "reject",
        }
    },
    "importance": {"nightly": "sheddable_plus", "checkout": "critical_plus"},
}
MAPS = {"defaults", "escalations", "escalation_terms", "playbook", "importance"}
"""Sections whose keys are names; each row has the same fields."""


def leaves(schema: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every value that the schema has; `*` stands for an item or for any name."""
    schema = schema.get("anyOf", [schema])[0]
    items, fields = schema.get("items"), schema.get("properties", {})
    if isinstance(items, Mapping) and ("properties" in items):
        yield from leaves(items, (*path, "*"))
    elif path and path[-1] in MAPS and len(path) == 1:
        rows = [*fields.values()] or [schema["additionalProperties"]]
        yield from (found for row in rows[:1] for found in leaves(row, (*path, "*")))
    elif fields:
        for name, one in fields.items():
            yield from leaves(one, (*path, name))
    else:
        yield path


def said(document: Any, path: tuple[str, ...]) -> list[Any]:
    """The values of a document at a path."""
    if not path:
        return [document]
    if path[0] == "*":
        rows = document.values() if isinstance(document, dict) else document
        return [value for row in rows for value in said(row, path[1:])]
    return said(document[path[0]], path[1:]) if isinstance(document, dict) and path[0] in document else []


PATHS = [path for path in leaves(policy_schema()) if path[0] not in {"version", "requires"}]


def test_the_document_says_everything() -> None:
    assert [path for path in PATHS if not said(DOCUMENT, path)] == []


@pytest.mark.parametrize("path", PATHS, ids=".".join)
def test_value_is_read_and_written_back(path: tuple[str, ...]) -> None:
    written = document_of(parse_policy(DOCUMENT))
    back = said(written, path)
    assert [value for value in said(DOCUMENT, path) if value not in back] == []


def test_policy_is_the_same_after_a_round_trip() -> None:
    policy = parse_policy(DOCUMENT)
    assert parse_policy(document_of(policy)) == parse_policy(whole_document_of(policy)) == policy


def test_lists_keep_order_and_rows() -> None:
    written = document_of(parse_policy(DOCUMENT))
    for name in ("foreground_sources", "retry_table", "quorum", "classification", "masking", "failures", "guards"):
        assert written[name] == DOCUMENT[name]
    assert [rule["id"] for rule in written["rules"]] == ["r-1", "r-2"]
    assert written["rules"][0] == DOCUMENT["rules"][0]


@pytest.mark.parametrize(("second", "third", "is_refused"), [(0.4, 0.4, False), (0.4, 0.5, False), (0.5, 0.4, True)])
def test_ramp_never_shrinks(second: float, third: float, is_refused: bool) -> None:
    document = {"reset_ramp": {"second_share": second, "third_share": third}}
    with pytest.raises(PolicyInvalid) if is_refused else nullcontext():
        parse_policy(document)
