"""Makes the rules happen inside an agent: the public door of the runtime.

from recovery_ops.runtime import Recovery

recovery = Recovery("research-agent")

@recovery.guard("search_web", is_destructive=False)
def search_web(query): ...
"""

from __future__ import annotations

from recovery_ops.rules.failures import Failure, Overflow
from recovery_ops.rules.model_chain import Model, Needs
from recovery_ops.rules.policy import Knobs
from recovery_ops.rules.retry import RetryDecision
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
)
from recovery_ops.runtime.limits import Limits
from recovery_ops.runtime.models import ModelChain
from recovery_ops.runtime.operation import ATTEMPT, Attempt, Degraded, Fallback, Outcome
from recovery_ops.runtime.recovery import Recovery, guard, run
from recovery_ops.runtime.run import Run
from recovery_ops.runtime.signals import Response, classify


def attempt() -> Attempt:
    """The attempt that the calling code is in: its number, what is left of its deadline, what to change."""
    return ATTEMPT.get()


__all__ = [
    "Attempt",
    "Category",
    "CircuitBreaker",
    "CircuitOpen",
    "Deadline",
    "DeadlineExceeded",
    "Degraded",
    "Evidence",
    "Failure",
    "Fallback",
    "Family",
    "GateClosed",
    "Knobs",
    "Limits",
    "Model",
    "ModelChain",
    "ModelFallback",
    "Needs",
    "NotConfigured",
    "Outcome",
    "Overflow",
    "Recovery",
    "RecoveryError",
    "RecoveryExhausted",
    "Refused",
    "Response",
    "RetryDecision",
    "Run",
    "RunCancelled",
    "RunStopped",
    "State",
    "Verdict",
    "attempt",
    "classify",
    "guard",
    "retry_decision",
    "run",
]
