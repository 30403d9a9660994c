"""Makes the rules happen inside an agent: the public door of the runtime.

from recovery_ops.runtime import Recovery

recovery = Recovery("research-agent")

@recovery.guard("search_web", is_destructive=False)
def search_web(query): ...
"""

from __future__ import annotations

from recovery_ops.rules.audiences import Telling
from recovery_ops.rules.budget import BudgetVerdict, ErrorBudget, GuardLimits
from recovery_ops.rules.failures import Failure, Overflow
from recovery_ops.rules.model_chain import Model, Needs
from recovery_ops.rules.policy import Knobs
from recovery_ops.rules.resuming import PlanStep, StepStatus
from recovery_ops.rules.retry import RetryDecision
from recovery_ops.rules.tool_results import Detail, DeveloperRecord, ResultKind, ToolResult
from recovery_ops.rules.transcript import ToolUse, tool_uses_in
from recovery_ops.rules.words import Category, Evidence, Family, State, Verdict
from recovery_ops.runtime.circuit_breaker import CircuitBreaker
from recovery_ops.runtime.deadline import Deadline
from recovery_ops.runtime.decisions import retry_decision
from recovery_ops.runtime.errors import (
    CircuitOpen,
    DeadlineExceeded,
    GateClosed,
    ModelFallback,
    NotConfigured,
    RecoveryError,
    RecoveryExhausted,
    Refused,
    RunCancelled,
    RunStopped,
    SchemaMismatch,
)
from recovery_ops.runtime.limits import Limits
from recovery_ops.runtime.models import ModelChain
from recovery_ops.runtime.operation import ATTEMPT, Attempt, Degraded, Fallback, Outcome
from recovery_ops.runtime.recovery import Recovery, guard, run
from recovery_ops.runtime.registry import ToolRegistry
from recovery_ops.runtime.run import Run
from recovery_ops.runtime.signals import Response, classify
from recovery_ops.runtime.tool_turns import run_tool, run_tool_async, run_tools, run_tools_async
from recovery_ops.runtime.tools import Tool, build_tool
from recovery_ops.runtime.transcripts import Resumed, file_marks, resume, resume_async


def attempt() -> Attempt:
    """The attempt that the calling code is in: its number, what is left of its deadline, what to change."""
    return ATTEMPT.get()


__all__ = [
    "Attempt",
    "BudgetVerdict",
    "Category",
    "CircuitBreaker",
    "CircuitOpen",
    "Deadline",
    "DeadlineExceeded",
    "Degraded",
    "Detail",
    "DeveloperRecord",
    "ErrorBudget",
    "Evidence",
    "Failure",
    "Fallback",
    "Family",
    "GateClosed",
    "GuardLimits",
    "Knobs",
    "Limits",
    "Model",
    "ModelChain",
    "ModelFallback",
    "Needs",
    "NotConfigured",
    "Outcome",
    "Overflow",
    "PlanStep",
    "Recovery",
    "RecoveryError",
    "RecoveryExhausted",
    "Refused",
    "Response",
    "ResultKind",
    "Resumed",
    "RetryDecision",
    "Run",
    "RunCancelled",
    "RunStopped",
    "SchemaMismatch",
    "State",
    "StepStatus",
    "Telling",
    "Tool",
    "ToolRegistry",
    "ToolResult",
    "ToolUse",
    "Verdict",
    "attempt",
    "build_tool",
    "classify",
    "file_marks",
    "guard",
    "resume",
    "resume_async",
    "retry_decision",
    "run",
    "run_tool",
    "run_tool_async",
    "run_tools",
    "run_tools_async",
    "tool_uses_in",
]
