"""The library that agents import: guards, runs, tools and workflows that recover by written rules.

from recovery_ops.runtime import Recovery

recovery = Recovery("research-agent")

@recovery.guard("search_web", read_only=True)
def search_web(query): ...

Public are the names in `__all__`, `recovery_ops.runtime.integrations.*` and `recovery_ops.runtime.testing`. Every other
module is an implementation and may change with any release. The guide is docs/guide/README.md.
"""

from __future__ import annotations

from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Any

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.resilience.model_chain import Model, Needs
from recovery_ops.runtime.calls.circuit_breaker import CircuitBreaker
from recovery_ops.runtime.calls.deadline import Deadline
from recovery_ops.runtime.calls.operation import ATTEMPT, Attempt, Degraded, Fallback, Outcome
from recovery_ops.runtime.calls.retry_decision import retry_decision
from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.errors import (
    CallRejected,
    CheckpointError,
    CircuitOpen,
    ConfigurationError,
    DeadlineExceeded,
    GatherBlocked,
    LoadShed,
    RecoveryError,
    RecoveryExhausted,
    RetryAfterActive,
    RunCancelled,
    RunsPaused,
    SchemaMismatch,
    StepChanged,
    StopRun,
    WorkflowLocked,
)
from recovery_ops.runtime.failures.signals import Response, classify
from recovery_ops.runtime.guards.model_chain import ModelChain
from recovery_ops.runtime.guards.types import Guarded
from recovery_ops.runtime.limits import Limits
from recovery_ops.runtime.runs.context import current_scope
from recovery_ops.runtime.runs.retries import RetryRequest
from recovery_ops.runtime.runs.run import Run

if TYPE_CHECKING:
    from recovery_ops.rules.tools.results import ToolResult
    from recovery_ops.runtime.human_input import Decision
    from recovery_ops.runtime.partial_results.parts import Part
    from recovery_ops.runtime.tools.registry import ToolRegistry
    from recovery_ops.runtime.tools.tool import Tool, build_tool
    from recovery_ops.runtime.workflows.checkpoint_store import CheckpointStore
    from recovery_ops.runtime.workflows.workflow import Workflow

_ROOM_OF = {
    "CheckpointStore": "runtime.workflows.checkpoint_store",
    "Decision": "runtime.human_input",
    "Part": "runtime.partial_results.parts",
    "Tool": "runtime.tools.tool",
    "ToolRegistry": "runtime.tools.registry",
    "ToolResult": "rules.tools.results",
    "Workflow": "runtime.workflows.workflow",
    "build_tool": "runtime.tools.tool",
}
"""Names whose module is imported when they are first used: most agents need few of them."""


def __getattr__(name: str) -> Any:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"recovery_ops.{room}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOM_OF})


def attempt() -> Attempt:
    """The current attempt: its number, remaining time and changes; see `Attempt`.

    Outside of guarded calls it is empty. Rules: docs/guide/models.md

    >>> @recovery.guard("ask_model", kind="model", chain=ModelChain("large", "small"), max_retries=0)
    ... def ask_model(prompt):
    ...     model = attempt().model or "large"
    ...     if model == "large":
    ...         raise TimeoutError
    ...     return model
    >>> ask_model("hello")
    'small'
    """
    found = ATTEMPT.get()
    scope = current_scope() if found.remaining_s is None else None
    if scope is None or scope.left_s == inf:
        return found
    return found._replace(remaining_s=max(0.0, scope.left_s))


__all__ = [
    "Attempt",
    "CallRejected",
    "Category",
    "CheckpointError",
    "CheckpointStore",
    "CircuitBreaker",
    "CircuitOpen",
    "ConfigurationError",
    "Deadline",
    "DeadlineExceeded",
    "Decision",
    "Degraded",
    "Failure",
    "Fallback",
    "GatherBlocked",
    "Guarded",
    "Limits",
    "LoadShed",
    "Model",
    "ModelChain",
    "Needs",
    "Outcome",
    "Part",
    "Recovery",
    "RecoveryError",
    "RecoveryExhausted",
    "Response",
    "RetryAfterActive",
    "RetryRequest",
    "Run",
    "RunCancelled",
    "RunsPaused",
    "SchemaMismatch",
    "Settings",
    "StepChanged",
    "StopRun",
    "Tool",
    "ToolRegistry",
    "ToolResult",
    "Workflow",
    "WorkflowLocked",
    "attempt",
    "build_tool",
    "classify",
    "retry_decision",
]
