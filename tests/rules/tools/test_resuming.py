"""Where each step of a plan stands after an interruption, and what the model is told."""

from __future__ import annotations

import pytest

from recovery_ops.rules.tools.results import Detail, ResultKind
from recovery_ops.rules.tools.resume import (
    PlanStep,
    StepStatus,
    briefing,
    found_done,
    interrupted,
    not_done,
    plan_step_of,
    restored_plan,
)

DONE, FAILED, TO_DO = StepStatus.DONE, StepStatus.FAILED, StepStatus.TO_DO


@pytest.mark.parametrize(
    ("given", "step"),
    [
        ("look", PlanStep("look")),
        (PlanStep("look", DONE), PlanStep("look", DONE)),
        ({"name": "look", "status": "done"}, PlanStep("look", DONE)),
        ({"content": "look", "status": "Completed"}, PlanStep("look", DONE)),
        ({"title": "look", "status": "error"}, PlanStep("look", FAILED)),
        ({"step": "look", "status": "in_progress", "tool_use_id": "a"}, PlanStep("look", TO_DO, "a")),
        ({"id": 7}, PlanStep("7")),
        ({}, PlanStep("(a step without a name)")),
    ],
)
def test_a_step_is_read_from_what_agents_keep(given: object, step: PlanStep) -> None:
    assert plan_step_of(given) == step


@pytest.mark.parametrize(
    ("step", "status", "note"),
    [
        (PlanStep("went well", tool_use_id="well"), DONE, ""),
        (PlanStep("went badly", tool_use_id="badly"), FAILED, ""),
        (PlanStep("was found done", tool_use_id="found"), DONE, ""),
        (PlanStep("was not begun", tool_use_id="not begun"), TO_DO, ""),
        (PlanStep("broke off", tool_use_id="broke"), TO_DO, "it was interrupted: check whether it was done"),
        (PlanStep("broke off", tool_use_id="broke", note="own"), TO_DO, "own"),
        (PlanStep("nobody knows the call", tool_use_id="?"), TO_DO, ""),
        (PlanStep("has no call"), TO_DO, ""),
        (PlanStep("marked", DONE, tool_use_id="badly"), DONE, ""),
        (PlanStep("marked", FAILED, tool_use_id="well"), FAILED, ""),
    ],
)
def test_a_step_stands_as_its_call_ended(step: PlanStep, status: StepStatus, note: str) -> None:
    filled = [found_done("found", "pay", ""), not_done("not begun", "pay"), interrupted("broke", "pay")]
    (restored,) = restored_plan([step], {"well": True, "badly": False}, filled)
    assert (restored.status, restored.note) == (status, note)


def test_an_interrupted_call_is_an_error_of_unknown_outcome() -> None:
    result = interrupted("a", "pay")
    assert (result.kind, result.detail, result.is_error) == (ResultKind.FAILED, Detail.INTERRUPTED, True)
    assert "pay was interrupted; its outcome is unknown." in result.content
    assert "Check whether it took effect before you do it again." in result.content


def test_a_call_that_did_nothing_may_be_made_again() -> None:
    result = not_done("a", "pay")
    assert (result.kind, result.is_error) == (ResultKind.CANCELLED, False)
    assert "before it did anything" in result.content


def test_a_call_that_had_done_its_work_says_so() -> None:
    assert found_done("a", "pay", "Result: 7").content == "pay was interrupted, but it had done its work. Result: 7"


def test_the_briefing_names_everything() -> None:
    text = briefing(
        filled=[interrupted("a", "pay"), not_done("b", "mail")],
        gone=["/tmp/a\u202e.txt"],
        changed=["/tmp/b.txt"],
        plan=[PlanStep("look", DONE), PlanStep("pay", TO_DO, note="check first")],
    )
    assert text.splitlines() == [
        "This conversation was interrupted and goes on now.",
        "- pay: interrupted, outcome unknown; check before doing it again",
        "- file gone: /tmp/a.txt",
        "- file changed since it was read: /tmp/b.txt; read it again",
        "The plan:",
        "- done: look",
        "- to do: pay (check first)",
    ]


def test_where_there_is_nothing_to_tell_nothing_is_told() -> None:
    assert briefing(filled=[], gone=[], changed=[], plan=[]) == ""
