"""The policy sections that the console obeys: read, refused with the path to each fault, written back, asked about."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from recovery_ops.rules.policy.fleet_settings import QUORUM_SETTINGS, QuorumRule, RampBounds, StuckBounds
from recovery_ops.rules.policy.lint import lint
from recovery_ops.rules.policy.model import BUILT_IN, PolicyInvalid, document_of, parse_policy
from recovery_ops.rules.policy.schema import policy_schema

VALIDATOR = Draft202012Validator(policy_schema())
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-1, 400), st.floats(-1, 2), st.just("many"))


def fault_paths(document: Any) -> list[str]:
    try:
        parse_policy(document)
    except PolicyInvalid as refused:
        return [problem.path for problem in refused.problems]
    return []


def test_nothing_said_is_a_careful_ramp_and_no_quorum() -> None:
    found = parse_policy({})
    assert (found.reset_ramp, found.stuck_breakers, found.quorum) == (RampBounds(), StuckBounds(), ())
    assert document_of(BUILT_IN)["quorum"] == []


def test_what_is_said_is_read_and_written_back() -> None:
    document = {
        "reset_ramp": {"first_instances": 2, "least_time_s": 60},
        "stuck_breakers": {"half_open_s": 120},
        "quorum": [{"operation": "model:*", "share": 0.75, "minimum_count": 8, "later": "ignored"}],
    }
    found = parse_policy(document)
    assert found.reset_ramp == RampBounds(first_instances=2, least_time_s=60.0)
    assert found.stuck_breakers == StuckBounds(half_open_s=120.0)
    assert found.quorum == (QuorumRule(operation="model:*", share=0.75, minimum_count=8),)
    assert parse_policy(document_of(found), version=found.version) == found


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"reset_ramp": []}, "reset_ramp"),
        ({"reset_ramp": {"first_instances": 0}}, "reset_ramp.first_instances"),
        ({"reset_ramp": {"second_share": 0.6}}, "reset_ramp.third_share"),
        ({"stuck_breakers": {"half_open_s": "long"}}, "stuck_breakers.half_open_s"),
        ({"stuck_breakers": {"idle_open_s": 3600}}, "stuck_breakers.idle_open_s"),
        ({"quorum": {}}, "quorum"),
        ({"quorum": ["search_web"]}, "quorum[0]"),
        ({"quorum": [{"share": 0.5}]}, "quorum[0].operation"),
        ({"quorum": [{"operation": " "}]}, "quorum[0].operation"),
        ({"quorum": [{"operation": "a"}, {"operation": "b", "share": 0}]}, "quorum[1].share"),
        ({"quorum": [{"operation": "a", "minimum_count": 2.5}]}, "quorum[0].minimum_count"),
    ],
)
def test_each_fault_is_told_where_it_stands(document: dict[str, Any], path: str) -> None:
    assert fault_paths(document) == [path]


@given(st.dictionaries(st.sampled_from(sorted(QUORUM_SETTINGS)), VALUES))
def test_a_quorum_fits_the_schema_exactly_when_it_is_taken(said: dict[str, Any]) -> None:
    document = {"quorum": [{"operation": "a", **said}]}
    assert VALIDATOR.is_valid(document) == (fault_paths(document) == [])


@pytest.mark.parametrize(
    ("said", "path", "code"),
    [
        ({"minimum_count": 2}, "quorum[0].minimum_count", "small_quorum"),
        ({"share": 0.1}, "quorum[0].share", "small_quorum"),
        ({"hold_s": 1}, "quorum[0].hold_s", "no_hold"),
    ],
)
def test_a_quorum_that_is_none_is_asked_about(said: dict[str, Any], path: str, code: str) -> None:
    document = {"quorum": [{"operation": "a", **said}]}
    assert [(one.path, one.code) for one in lint(parse_policy(document), document)] == [(path, code)]


def test_a_careful_quorum_is_not_nagged_about_and_a_doubled_one_is() -> None:
    once = {"quorum": [{"operation": "a"}]}
    assert lint(parse_policy(once), once) == ()
    twice = {"quorum": [{"operation": "a"}, {"operation": "a"}]}
    assert [one.code for one in lint(parse_policy(twice), twice)] == ["shadowed"]
