"""The published schema says what `parse_policy` says, as far as a schema can."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from recovery_ops.rules.policy.model import BUILT_IN, PolicyInvalid, document_of, parse_policy
from recovery_ops.rules.policy.schema import policy_schema
from recovery_ops.rules.policy.settings import SETTINGS

VALIDATOR = Draft202012Validator(policy_schema())
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 30), st.floats(-2, 40), st.sampled_from(["count_based", "retry", "x", ""])
)


def is_taken(document: Any) -> bool:
    try:
        parse_policy(document)
    except PolicyInvalid:
        return False
    return True


def test_it_is_a_schema_and_the_built_in_policy_fits_it() -> None:
    Draft202012Validator.check_schema(policy_schema())
    assert VALIDATOR.is_valid(document_of(BUILT_IN))


@given(st.dictionaries(st.sampled_from(sorted(SETTINGS)), VALUES, max_size=4))
def test_settings_fit_the_schema_exactly_when_agents_take_them(settings: dict[str, Any]) -> None:
    document = {"rules": [{"id": "mine", "scope": {"operation": "a"}, "settings": settings}]}
    assert VALIDATOR.is_valid(document) == is_taken(document)
    assert VALIDATOR.is_valid({"defaults": {"model": settings}}) == is_taken({"defaults": {"model": settings}})


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"schema_version": 0},
        {"requires": ["magic"]},
        {"foreground_sources": ["", "a"]},
        {"foreground_sources": "main_agent"},
        {"retry_table": [{"category": "overloaded", "foreground": "retry"}]},
        {"retry_table": [{"category": "gremlins", "foreground": "retry", "background": "never"}]},
        {"retry_table": [{"category": "timeout", "foreground": "retry", "background": "never", "status_code": 7}]},
        {"rules": {}},
        {"rules": [{"scope": {"team": "a"}}]},
        {"rules": [{"scope": {"operation": ""}}]},
        {"rules": [{"fallbacks": "cache"}]},
        {"guards": {"turns": 0}},
        {"playbook": {}},
        {"tools": [{"operation": "pay_*", "optional": True}]},
        {"escalations": {"gremlins": {"queue": "a"}}},
        {"importance": {"nightly": "very"}},
    ],
)
def test_what_agents_refuse_does_not_fit(document: Any) -> None:
    assert not is_taken(document)
    assert not VALIDATOR.is_valid(document)


def test_every_setting_says_what_it_is() -> None:
    said = policy_schema()["properties"]["rules"]["items"]["properties"]["settings"]["properties"]
    assert said.keys() == SETTINGS.keys()
    assert all(one["description"] for one in said.values())
