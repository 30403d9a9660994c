"""Taking up a conversation that broke off: where each step of the plan stands, and what the model is told of it all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from recovery_ops.rules.classification.redaction import masked, printable
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.tools.results import Detail, ResultKind, ToolResult, Trouble, plain_name, told

_LONGEST_STEP = 300


class StepStatus(StrEnum):
    """Where one step of a plan stands."""

    DONE = "done"
    FAILED = "failed"
    TO_DO = "to_do"


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of the agent's plan. `tool_use_id` is the call that carries it out, where there is one."""

    name: str
    status: StepStatus = StepStatus.TO_DO
    tool_use_id: str = ""
    note: str = ""


_STATUSES = {
    "done": StepStatus.DONE,
    "completed": StepStatus.DONE,
    "complete": StepStatus.DONE,
    "finished": StepStatus.DONE,
    "succeeded": StepStatus.DONE,
    "failed": StepStatus.FAILED,
    "error": StepStatus.FAILED,
}
_NAMES = ("name", "title", "content", "step", "description", "id")


def plan_step_of(given: object) -> PlanStep:
    """A step out of whatever an agent keeps its plan in: a `PlanStep`, a mapping, or the bare name.

    A mapping has the name under `name`, `title`, `content`, `step`, `description` or `id`. A status that says neither
    done nor failed (`pending`, `in_progress` …) is to do.
    """
    if isinstance(given, PlanStep):
        return given
    if not isinstance(given, Mapping):
        return PlanStep(str(given))
    name = next((str(given[key]) for key in _NAMES if given.get(key)), "(a step without a name)")
    status = _STATUSES.get(str(given.get("status", "")).strip().lower(), StepStatus.TO_DO)
    return PlanStep(name, status, str(given.get("tool_use_id") or ""), str(given.get("note") or ""))


def restored_plan(
    steps: Iterable[object], endings: Mapping[str, bool], filled: Iterable[ToolResult]
) -> tuple[PlanStep, ...]:
    """The plan as it stands. What was marked done or failed stays so; the rest goes by the result of its call.

    `endings` tells of each call that had a result whether it went well; `filled` are the results made just now.
    """
    made = {result.tool_use_id: result for result in filled}
    return tuple(_restored(plan_step_of(step), endings, made) for step in steps)


def _restored(step: PlanStep, endings: Mapping[str, bool], made: Mapping[str, ToolResult]) -> PlanStep:
    if step.status is not StepStatus.TO_DO or not step.tool_use_id:
        return step
    result = made.get(step.tool_use_id)
    if result is not None and result.kind is ResultKind.SUCCEEDED:
        return replace(step, status=StepStatus.DONE)
    if result is not None and result.detail is Detail.INTERRUPTED:
        return replace(step, note=step.note or "it was interrupted: check whether it was done")
    if result is None and step.tool_use_id in endings:
        return replace(step, status=StepStatus.DONE if endings[step.tool_use_id] else StepStatus.FAILED)
    return step


def interrupted(tool_use_id: str, tool: str) -> ToolResult:
    """The result of a call of which nobody knows how it ended."""
    name = plain_name(tool)
    suggestion = "Check whether it took effect before you do it again."
    content = told(Trouble(what=f"{name} was interrupted; its outcome is unknown.", suggestion=suggestion))
    return ToolResult(
        tool_use_id=tool_use_id,
        tool=name,
        kind=ResultKind.FAILED,
        detail=Detail.INTERRUPTED,
        is_error=True,
        content=content,
        suggestion=suggestion,
    )


def not_done(tool_use_id: str, tool: str) -> ToolResult:
    """The result of a call that was interrupted before it did anything: the tool itself says so."""
    suggestion = "Make the call again if it is still wanted."
    return ToolResult(
        tool_use_id=tool_use_id,
        tool=plain_name(tool),
        kind=ResultKind.CANCELLED,
        content=f"{plain_name(tool)} was interrupted before it did anything. {suggestion}",
        suggestion=suggestion,
    )


def found_done(tool_use_id: str, tool: str, shown: str) -> ToolResult:
    """The result of a call that was interrupted after it had done its work: the tool itself says so."""
    return ToolResult(
        tool_use_id=tool_use_id,
        tool=plain_name(tool),
        kind=ResultKind.SUCCEEDED,
        content=f"{plain_name(tool)} was interrupted, but it had done its work. {shown}".rstrip(),
    )


def briefing(
    *, filled: Iterable[ToolResult], gone: Iterable[str], changed: Iterable[str], plan: Iterable[PlanStep]
) -> str:
    """What the model is told when the conversation goes on; empty where there is nothing to tell."""
    lines = [
        f"- {result.tool}: interrupted, outcome unknown; check before doing it again"
        for result in filled
        if result.detail is Detail.INTERRUPTED
    ]
    lines += [f"- file gone: {_shown(path)}" for path in gone]
    lines += [f"- file changed since it was read: {_shown(path)}; read it again" for path in changed]
    steps = [f"- {_word(step.status)}: {_shown(step.name)}{_noted(step)}" for step in plan]
    if steps:
        lines += ["The plan:", *steps]
    return "\n".join(["This conversation was interrupted and goes on now.", *lines]) if lines else ""


def _word(status: StepStatus) -> str:
    return status.value.replace("_", " ")


def _noted(step: PlanStep) -> str:
    return f" ({_shown(step.note)})" if step.note else ""


def _shown(text: str) -> str:
    return printable(masked(text[:2048]), _LONGEST_STEP)
