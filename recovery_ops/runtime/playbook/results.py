"""Options and result of `Recovery.dispatch_failure`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypedDict

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Compensation, CompensationOutcome, Verdict
from recovery_ops.rules.events import Escalated
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.playbook.verdicts import ADVICE, Playbook
from recovery_ops.rules.policy.model import OperationPolicy, Policy
from recovery_ops.runtime.calls.deadline import Duration
from recovery_ops.runtime.playbook.reversal import Redemptions, ReversalToken


class DispatchOptions(TypedDict, total=False):
    """Options of `Recovery.dispatch_failure`, which documents them; what is not given is the most restrictive."""

    retry: Callable[[], Any] | None
    operation: str
    foreground: bool | None
    source: str
    idempotent: bool
    idempotency_key: str | None
    timeout: Duration | None
    refresh_evidence: Callable[[], Any] | None
    escalate: Callable[[Escalated], Any] | None
    reversal: ReversalToken | None
    store: Redemptions | None
    playbook: Playbook | Mapping[str, Any] | None
    policy: OperationPolicy | Policy | None
    attempt: int | None


@dataclass(frozen=True, slots=True)
class CompensationResult:
    """How a failure was settled. `reason` is a word of `rules.compensation.Settled`.

    `failure` and `error` are the last ones; `value` is what the retry returned (or the undoing, when it was reversed);
    `attempts` counts the retries that were made; `retry_at` (UTC) is when the server may be asked again, where known.
    """

    outcome: CompensationOutcome
    verdict: Verdict | None
    compensation: Compensation | None
    failure: Failure
    reason: str
    attempts: int = 0
    value: Any = None
    error: object = None
    retry_at: datetime | None = None
    escalation_id: str | None = None
    queue: str = ""
    """Whom a question or a ticket went to; empty for nobody."""

    @property
    def is_success(self) -> bool:
        """Whether the call was made in the end, and `value` is its result."""
        return self.outcome is CompensationOutcome.SUCCEEDED_AFTER_COMPENSATION

    @property
    def needs_new_plan(self) -> bool:
        """Whether the call must not be made again as it is."""
        return self.outcome is CompensationOutcome.DEPRECATED

    @property
    def advice(self) -> str:
        """What the agent does next; empty after a success."""
        if self.is_success or self.verdict is None:
            return "" if self.is_success else self.failure.suggestion
        return ADVICE[self.verdict]
