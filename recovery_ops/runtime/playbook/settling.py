"""What `dispatch_failure` may be told, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from recovery_ops.rules.facts import Escalated
from recovery_ops.rules.failures import Failure
from recovery_ops.rules.policy import OperationPolicy, Policy
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.verdicts import ADVICE, Playbook
from recovery_ops.rules.words import Compensation, CompensationOutcome, Verdict
from recovery_ops.runtime.playbook.reversal import Redemptions, ReversalToken

if TYPE_CHECKING:
    from recovery_ops.runtime.recovery import Recovery


class Handling(TypedDict, total=False):
    """What `dispatch_failure` may be told; what is not said is the most restrictive."""

    retry: Callable[[], Any] | None
    """Makes the failed call again. It may read `attempt()` for the time left and the idempotency key."""
    operation: str
    """Its name; default: that of a `RecoveryExhausted`."""
    foreground: bool | None
    """Whether somebody waits; default: what the policy says of the source."""
    source: str
    """Who waits; default: whoever the run says, and without a run nobody."""
    is_destructive: bool
    """True, the default, retries only after failures that prove nothing was done."""
    idempotency_key: str | None
    """Travels with each retry (`attempt().idempotency_key`); with a key a destructive call may be repeated."""
    deadline_s: float | None
    """Seconds from now for everything; default that of a run (300), and never later than the end of the run."""
    refresh_evidence: Callable[[], Any] | None
    """Reads anew what the call was based on; without it stale evidence is never retried."""
    escalate: Callable[[Escalated], Any] | None
    """Told of each question and ticket; they are facts on the console with or without it."""
    reversal: ReversalToken | None
    """The token that the failed call was given, for a playbook that answers with `issue_reversal`."""
    store: Redemptions | None
    """A checkpoint store: a token is then redeemed once across processes, else once in this one."""
    playbook: Playbook | Mapping[str, Any] | None
    """A playbook or its JSON object; default: that of the live policy."""
    policy: OperationPolicy | Policy | None
    """Whose retry table and foreground list hold; default: the live policy."""
    attempt: int
    """The number of the attempt that failed; default 1."""
    recovery: Recovery | None
    """Default: that of the run, else the process's own."""


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
