"""Makes the rules happen inside an agent: the public door of the runtime.

from recovery_ops.runtime import Recovery

recovery = Recovery("research-agent")

@recovery.guard("search_web", is_destructive=False)
def search_web(query): ...
"""

from __future__ import annotations

from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Any

from recovery_ops.rules.audiences import Telling
from recovery_ops.rules.budget import BudgetVerdict, ErrorBudget, GuardLimits
from recovery_ops.rules.failures import Failure, Overflow
from recovery_ops.rules.model_chain import Model, Needs
from recovery_ops.rules.policy import Knobs
from recovery_ops.rules.retry import RetryDecision
from recovery_ops.rules.verdicts import Play, Playbook
from recovery_ops.rules.words import Category, Compensation, CompensationOutcome, Evidence, Family, State, Verdict
from recovery_ops.runtime.circuit_breaker import CircuitBreaker
from recovery_ops.runtime.deadline import Deadline
from recovery_ops.runtime.decisions import retry_decision
from recovery_ops.runtime.errors import (
    CheckpointFailed,
    CircuitOpen,
    DeadlineExceeded,
    GateClosed,
    GatherBlocked,
    LoadShed,
    ModelFallback,
    NewWorkPaused,
    NotConfigured,
    RecoveryError,
    RecoveryExhausted,
    Refused,
    RunCancelled,
    RunStopped,
    SchemaMismatch,
    StepChanged,
    WorkflowHeld,
)
from recovery_ops.runtime.limits import Limits
from recovery_ops.runtime.models import ModelChain
from recovery_ops.runtime.operation import ATTEMPT, Attempt, Degraded, Fallback, Outcome
from recovery_ops.runtime.recovery import Recovery, guard, run
from recovery_ops.runtime.retrying import RetryAsked
from recovery_ops.runtime.run import CURRENT, Run
from recovery_ops.runtime.signals import Response, classify

if TYPE_CHECKING:
    from recovery_ops.rules.interventions import Intervention
    from recovery_ops.rules.tools.results import Detail, DeveloperRecord, ResultKind, ToolResult
    from recovery_ops.rules.tools.resuming import PlanStep, StepStatus
    from recovery_ops.rules.tools.transcript import ToolUse, tool_uses_in
    from recovery_ops.runtime.asking import Decision, answer_to, ask, escalate_to_human, escalate_to_human_async
    from recovery_ops.runtime.gathering.gather import gather, gather_async
    from recovery_ops.runtime.gathering.parts import Gathered, Part, Unavailable, foundational, supplementary
    from recovery_ops.runtime.interventions import input_share, intervene, intervene_async
    from recovery_ops.runtime.playbook.dispatching import dispatch_failure, dispatch_failure_async
    from recovery_ops.runtime.playbook.reversal import ReversalToken
    from recovery_ops.runtime.playbook.settling import CompensationResult
    from recovery_ops.runtime.tools.building import Tool, build_tool
    from recovery_ops.runtime.tools.registry import ToolRegistry
    from recovery_ops.runtime.tools.transcripts import Resumed, file_marks, resume, resume_async
    from recovery_ops.runtime.tools.turns import run_tool, run_tool_async, run_tools, run_tools_async
    from recovery_ops.runtime.workflows.checkpoint_store import CheckpointStore, StepRecord
    from recovery_ops.runtime.workflows.workflow import Found, Workflow

_ROOMS = {
    "rules.interventions": "Intervention",
    "rules.tools.results": "Detail DeveloperRecord ResultKind ToolResult",
    "rules.tools.resuming": "PlanStep StepStatus",
    "rules.tools.transcript": "ToolUse tool_uses_in",
    "runtime.asking": "Decision answer_to ask escalate_to_human escalate_to_human_async",
    "runtime.gathering.gather": "gather gather_async",
    "runtime.gathering.parts": "Gathered Part Unavailable foundational supplementary",
    "runtime.interventions": "input_share intervene intervene_async",
    "runtime.playbook.dispatching": "dispatch_failure dispatch_failure_async",
    "runtime.playbook.reversal": "ReversalToken",
    "runtime.playbook.settling": "CompensationResult",
    "runtime.tools.building": "Tool build_tool",
    "runtime.tools.registry": "ToolRegistry",
    "runtime.tools.transcripts": "Resumed file_marks resume resume_async",
    "runtime.tools.turns": "run_tool run_tool_async run_tools run_tools_async",
    "runtime.workflows.checkpoint_store": "CheckpointStore StepRecord",
    "runtime.workflows.workflow": "Found Workflow",
}
"""Rooms that are entered when one of their names is first asked for: most agents need few of them."""
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"recovery_ops.{room}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOM_OF})


def attempt() -> Attempt:
    """The attempt that the calling code is in: its number, what is left of its deadline, what to change."""
    found = ATTEMPT.get()
    scope = CURRENT.get() if found.deadline_s is None else None
    if scope is None or scope.left_s == inf:
        return found
    return found._replace(deadline_s=max(0.0, scope.left_s))


__all__ = [
    "Attempt",
    "BudgetVerdict",
    "Category",
    "CheckpointFailed",
    "CheckpointStore",
    "CircuitBreaker",
    "CircuitOpen",
    "Compensation",
    "CompensationOutcome",
    "CompensationResult",
    "Deadline",
    "DeadlineExceeded",
    "Decision",
    "Degraded",
    "Detail",
    "DeveloperRecord",
    "ErrorBudget",
    "Evidence",
    "Failure",
    "Fallback",
    "Family",
    "Found",
    "GateClosed",
    "GatherBlocked",
    "Gathered",
    "GuardLimits",
    "Intervention",
    "Knobs",
    "Limits",
    "LoadShed",
    "Model",
    "ModelChain",
    "ModelFallback",
    "Needs",
    "NewWorkPaused",
    "NotConfigured",
    "Outcome",
    "Overflow",
    "Part",
    "PlanStep",
    "Play",
    "Playbook",
    "Recovery",
    "RecoveryError",
    "RecoveryExhausted",
    "Refused",
    "Response",
    "ResultKind",
    "Resumed",
    "RetryAsked",
    "RetryDecision",
    "ReversalToken",
    "Run",
    "RunCancelled",
    "RunStopped",
    "SchemaMismatch",
    "State",
    "StepChanged",
    "StepRecord",
    "StepStatus",
    "Telling",
    "Tool",
    "ToolRegistry",
    "ToolResult",
    "ToolUse",
    "Unavailable",
    "Verdict",
    "Workflow",
    "WorkflowHeld",
    "answer_to",
    "ask",
    "attempt",
    "build_tool",
    "classify",
    "dispatch_failure",
    "dispatch_failure_async",
    "escalate_to_human",
    "escalate_to_human_async",
    "file_marks",
    "foundational",
    "gather",
    "gather_async",
    "guard",
    "input_share",
    "intervene",
    "intervene_async",
    "resume",
    "resume_async",
    "retry_decision",
    "run",
    "run_tool",
    "run_tool_async",
    "run_tools",
    "run_tools_async",
    "supplementary",
    "tool_uses_in",
]
