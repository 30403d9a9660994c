"""The loop around calls decided again: run limits, the playbook, the caution with tools, from what runs told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recovery_ops.rules.enums import Compensation, CompensationOutcome, RunStatus, Verdict
from recovery_ops.rules.events import (
    CallsCounted,
    CompensationFinished,
    GuardTripped,
    PermissionDenied,
    RunFinished,
)
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.runtime import StopRun
from tests.runtime.tools.toolboxes import live, registry_of, scripted, use
from tests.support.recording import Studio
from tests.support.replays import BUILT_IN_DOCUMENT, compared

pytestmark = pytest.mark.django_db


def looped(new: dict[str, Any], *facts: Any, old: dict[str, Any] = BUILT_IN_DOCUMENT) -> dict[str, Any]:
    """One run that told these facts, decided again under other guards, playbook or tools."""
    studio = Studio(old)
    for fact in facts:
        studio.tape.emit(fact, source="main_agent", run="run-1")
    found = compared(studio, {**old, **new}, old)
    return {"old": found["loop"]["old"], "new": found["loop"]["new"], "unknown": found["loop_unknown"]["new"]}


ENDED = RunFinished(status=RunStatus.SUCCEEDED, duration_s=100.0, turns=12)
TURNED = GuardTripped(guard="turns", count=20, limit=20)
FAILED_TOOL = GuardTripped(operation="fetch", guard="tool_failures", count=3, limit=3)
LOOPED = GuardTripped(operation="fetch", guard="repeated_calls", count=5, limit=5)
ALMOST = RunFinished(status=RunStatus.SUCCEEDED, duration_s=100.0, turns=12, repeated_calls=4)
LOOP_WARNS = {"runs_warned_of_repeated_calls": 1}
LOOP_STOPS = {"runs_warned_of_repeated_calls": 1, "runs_stopped_by_repeated_calls": 1}
LOOP_ASKS = {"runs_handed_to_a_person_for_repeated_calls": 1}
DENIED = PermissionDenied(operation="send_mail", reason="not allowed", consecutive=2, total=2)
COMPENSATED = CompensationFinished(
    operation="fetch",
    verdict=Verdict.TRANSIENT_TIMEOUT,
    compensation=Compensation.RETRY_WITH_BACKOFF,
    outcome=CompensationOutcome.SUCCEEDED_AFTER_COMPENSATION,
)
ASK = {verdict: dict(play) for verdict, play in BUILT_IN_DOCUMENT["playbook"].items()} | {
    "transient_timeout": {"compensation": "escalate_to_human", "queue": "network"}
}


@pytest.mark.parametrize(
    ("guards", "facts", "old", "new", "unknown"),
    [
        ({"turns": 11}, [ENDED], {}, {"runs_stopped_by_turns": 1}, {}),
        ({"turns": 12}, [ENDED], {}, {}, {}),
        ({"turns": 20}, [TURNED], {"runs_stopped_by_turns": 1}, {"runs_stopped_by_turns": 1}, {}),
        ({"turns": 30}, [TURNED], {"runs_stopped_by_turns": 1}, {}, {"runs_stopped_by_turns": 1}),
        ({"run_deadline_s": 60}, [ENDED], {}, {"runs_stopped_by_deadline": 1}, {}),
        ({"tool_failures": 2}, [FAILED_TOOL], {"tools_given_up": 1}, {"tools_given_up": 1}, {}),
        ({"tool_failures": 5}, [FAILED_TOOL], {"tools_given_up": 1}, {}, {"tools_given_up": 1}),
        ({"denials_in_a_row": 2}, [DENIED], {}, {"runs_handed_to_a_person": 1}, {}),
        ({"repeats_before_stop": 5}, [LOOPED], LOOP_STOPS, LOOP_STOPS, {}),
        ({"repeats_before_stop": 3}, [ALMOST], LOOP_WARNS, {"runs_stopped_by_repeated_calls": 1}, {}),
        ({"repeats_before_stop": 4}, [ALMOST], LOOP_WARNS, LOOP_STOPS, {}),
        ({"repeats_before_warning": 5}, [ALMOST], LOOP_WARNS, {}, {}),
        ({"repeats_before_stop": 6}, [LOOPED], LOOP_STOPS, LOOP_WARNS, {"runs_stopped_by_repeated_calls": 1}),
        ({"repeat_action": "off"}, [LOOPED], LOOP_STOPS, {}, {"runs_stopped_by_repeated_calls": 1}),
        ({"repeat_action": "ask"}, [LOOPED], LOOP_STOPS, LOOP_WARNS | LOOP_ASKS, {}),
        ({"repeat_action": "warn"}, [ALMOST], LOOP_WARNS, LOOP_WARNS, {}),
    ],
)
def test_a_lower_limit_would_have_fired_and_a_higher_one_leaves_open_what_would_have_come(
    guards: dict[str, Any], facts: list[Any], old: dict[str, int], new: dict[str, int], unknown: dict[str, int]
) -> None:
    changed = {"guards": {**BUILT_IN_DOCUMENT["guards"], **guards}}
    assert looped(changed, *facts) == {"old": old, "new": new, "unknown": unknown}


def test_repeats_that_were_not_counted_leave_open_what_would_have_come() -> None:
    off = {**BUILT_IN_DOCUMENT, "guards": {**BUILT_IN_DOCUMENT["guards"], "repeat_action": "off"}}
    assert looped({"guards": BUILT_IN_DOCUMENT["guards"]}, ENDED, old=off) == {
        "old": {},
        "new": {},
        "unknown": {"runs_stopped_by_repeated_calls": 1},
    }


def test_another_playbook_compensates_otherwise() -> None:
    assert looped({"playbook": ASK}, COMPENSATED) == {
        "old": {"compensated: retry_with_backoff": 1},
        "new": {"compensated: escalate_to_human": 1},
        "unknown": {},
    }


def test_what_the_code_compensates_in_its_own_way_no_playbook_changes() -> None:
    own = replace(COMPENSATED, compensation=Compensation.DEPRECATE_TOOL_CALL)
    assert looped({"playbook": ASK}, own)["new"] == {"compensated: deprecate_tool_call": 1}


def test_a_rule_for_tools_wants_permission_for_calls_that_were_made() -> None:
    counts = CallsCounted(operation="send_mail", interval_s=10, calls=7, attempts=7, successes=7)
    rules = {"tools": [{"operation": "send_*", "require_permission": True}]}
    assert looped(rules, counts) == {"old": {}, "new": {"calls_asking_permission": 7}, "unknown": {}}


def guards_of(**limits: Any) -> dict[str, Any]:
    return {**BUILT_IN_DOCUMENT, "guards": {**BUILT_IN_DOCUMENT["guards"], **limits}}


def is_stopped(studio: Studio, calls: int, limit: int) -> bool:
    """Whether the runtime ends a run of so many calls that are the same."""
    policy = parse_policy(guards_of(repeats_before_stop=limit))
    live(studio.lab, guards=policy.guards)
    registry = registry_of(studio.lab, scripted(studio.lab, "fetch", "found"))
    try:
        with studio.lab.recovery.run("answer", source="main_agent"):
            registry.run_tools([use("fetch", str(number)) for number in range(calls)])
    except StopRun:
        return True
    finally:
        studio.lab.clock.push(1.0)
    return False


@pytest.mark.parametrize("limit", [2, 3, 4, 5])
def test_replay_stops_the_runs_that_the_runtime_stops(limit: int) -> None:
    runs = [1, 2, 3, 4, 5, 8]
    studio = Studio(BUILT_IN_DOCUMENT)
    recorded = [is_stopped(studio, calls, 5) for calls in runs]
    found = compared(studio, guards_of(repeats_before_stop=limit))["loop"]
    assert found["old"].get("runs_stopped_by_repeated_calls", 0) == sum(recorded) == 2
    wanted = sum(is_stopped(Studio(BUILT_IN_DOCUMENT), calls, limit) for calls in runs)
    assert found["new"]["runs_stopped_by_repeated_calls"] == wanted == len([one for one in runs if one >= limit])
