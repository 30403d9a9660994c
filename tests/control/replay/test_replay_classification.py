"""Recordings decided again under other classification rules: what is known, and what their facts do not tell."""

from __future__ import annotations

from typing import Any

import pytest

from events.queries.recordings import Speaker
from recovery_ops.control.replay.golden import outcomes
from recovery_ops.rules.policy.model import parse_policy
from tests.support.recording import Studio
from tests.support.replays import BUILT_IN_DOCUMENT, call, compared, endings

pytestmark = pytest.mark.django_db

MESSAGE = "the ledger is busy"
RULE: dict[str, Any] = {"name": "busy", "match": {"message": "*ledger is busy*"}, "category": "server_error"}


class Busy(Exception):
    """What nobody knows."""

    def __init__(self, code: str = "") -> None:
        self.code = code
        super().__init__(MESSAGE)


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {**BUILT_IN_DOCUMENT, "classification": list(rules)}


def test_a_new_rule_names_what_was_unknown_and_nobody_is_asked() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    call(studio, studio.guard("post", [Busy()], max_retries=2))
    found = compared(studio, policy(RULE))
    assert found["classification"] == {
        "changes": [{"operation": "post", "old": "unknown", "new": "server_error", "rule": "busy", "failures": 1}],
        "failures": 1,
        "not_told": 0,
    }
    assert [found["measures"][which]["escalations"] for which in ("recorded", "old", "new")] == [1, 1, 0]
    assert endings(found) == {("failed", "unknown"): 1}
    assert found["unknown"]["new"] == {"not_made": 1}


def test_without_the_rule_that_named_it_it_is_unknown_again() -> None:
    studio = Studio(policy(RULE))
    call(studio, studio.guard("post", [Busy()], max_retries=2))
    found = compared(studio, BUILT_IN_DOCUMENT, old=policy(RULE))
    [change] = found["classification"]["changes"]
    assert (change["old"], change["new"]) == ("server_error", "unknown")
    assert found["measures"]["new"]["escalations"] == 1
    assert endings(found) == {("answered", "failed"): 1}
    assert found["matched_endings"] == found["told_endings"] == 1


def test_another_name_for_the_same_failure_is_another_way_up_the_ladder() -> None:
    studio = Studio(policy(RULE))
    call(studio, studio.guard("post", [Busy()], max_retries=2))
    found = compared(studio, policy(RULE | {"category": "not_found"}), old=policy(RULE))
    assert endings(found) == {("answered", "failed"): 1}


def test_a_code_that_is_told_is_matched_and_one_that_is_not_is_counted() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    call(studio, studio.guard("post", [Busy("E_BUSY")]))
    call(studio, studio.guard("read", [Busy()]))
    found = compared(studio, policy(RULE | {"match": {"code": "e_busy"}}))["classification"]
    assert [one["operation"] for one in found["changes"]] == ["post"]
    assert found["not_told"] == 1


def test_a_golden_run_keeps_no_message_and_what_a_rule_made_of_it() -> None:
    said = {"recovery.failure.rule": "busy", "recovery.failure.instead_of": "unknown"}
    told = [("failure_classified", 10, "post", "", "main_agent", True, "run-1", "server_error", "", "", "", said)]
    named, bare = parse_policy(policy(RULE)), parse_policy(BUILT_IN_DOCUMENT)
    speaker = Speaker("research", "r-0", "")
    [same] = outcomes("run-1", speaker, told, 0, named, named)
    [without] = outcomes("run-1", speaker, told, 0, bare, named)
    assert same["steps"][0]["what"] == "attempt 1: server_error"
    assert without["steps"][0]["what"] == "attempt 1: unknown"
