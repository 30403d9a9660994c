"""What two policies say otherwise: in words, and nothing where nothing changes."""

from __future__ import annotations

from typing import Any

import pytest

from recovery_ops.control.core.differences import lines_of, parts_of
from recovery_ops.rules.policy.model import BUILT_IN, document_of

WHOLE = document_of(BUILT_IN)


def words(after: dict[str, Any], before: dict[str, Any] = WHOLE) -> list[str]:
    return [one.words for one in parts_of(before, after)]


@pytest.mark.parametrize("section", sorted(set(WHOLE) - {"schema_version"}))
def test_a_section_that_is_left_out_says_what_the_built_in_policy_says(section: str) -> None:
    without = {name: value for name, value in WHOLE.items() if name != section}
    assert words(without) == []
    assert words(WHOLE, before=without) == []


def test_lines_are_of_what_is_meant_too() -> None:
    rule = {"id": "search", "scope": {"operation": "search_web"}, "settings": {"max_retries": 2}}
    short = {"schema_version": 1, "rules": [rule]}
    assert lines_of(WHOLE, {"schema_version": 1}) == []
    assert lines_of(WHOLE | {"rules": [rule]}, short) == []
    assert [one.text.strip() for one in lines_of(WHOLE, short) if one.kind == "del"] == ['"rules": [],']


def test_a_section_that_said_something_and_is_left_out_changes_what_it_said() -> None:
    rule = {"operation": "model:*", "share": 0.5, "minimum_count": 5}
    told = words({"schema_version": 1}, before={"schema_version": 1, "quorum": [rule]})
    assert any(one.startswith("quorum.model:*.share 0.5 → ") for one in told)
    assert words({"schema_version": 1}, before={"schema_version": 1, "quorum": []}) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"foreground_sources": []}, "foreground_sources main_agent, user_request, coordinator_task → none"),
        ({"foreground_sources": ["chat"]}, "foreground_sources main_agent, user_request, coordinator_task → chat"),
        ({"importance": {"nightly": "sheddable_plus"}}, "importance.nightly not set → sheddable_plus"),
        ({"defaults": {"tool": {"persistent": True}}}, "defaults.tool.persistent not set → yes"),
        ({"guards": WHOLE["guards"] | {"turns": 9}}, f"guards.turns {WHOLE['guards']['turns']} → 9"),
        ({"stuck_breakers": {"half_open_s": 60}}, "stuck_breakers.half_open_s 300 → 60"),
        ({"retry_tabel": []}, "retry_tabel not set → none"),
    ],
)
def test_values_are_words(changed: dict[str, Any], said: str) -> None:
    assert words(WHOLE | changed) == [said]
