"""Everything that can happen, each as one frozen record; what the rules yield is what travels, is stored and is drawn.

A fact is an *observation* (the world said so) or a *decision* (the rules chose). Replay keeps the observations of a
recording and makes the decisions again. Durations are seconds, delays are seconds from the moment of the fact; a fact
holds no clock time of its own: whoever records it knows when it happened (`Record.at_ns`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar

from recovery_ops.rules.records import dataclass
from recovery_ops.rules.words import (
    Adjustment,
    Category,
    Compensation,
    CompensationOutcome,
    DelaySource,
    Evidence,
    RunStatus,
    State,
    StopReason,
    Trigger,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """The root of all facts; `operation` is empty where a fact is about the whole instance or run."""

    is_observation: ClassVar[bool] = False
    operation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureClassified(Fact):
    """An attempt failed and we know what the failure is. Always emitted before anything is done about it."""

    is_observation: ClassVar[bool] = True
    category: Category
    evidence: Evidence
    retryable: bool
    attempt: int
    breaker: str = ""
    verdict: Verdict | None = None
    status_code: int | None = None
    error_type: str = "_OTHER"
    exception_type: str | None = None
    message: str = ""
    fingerprint: str = ""
    retry_after_s: float | None = None
    duration_s: float | None = None
    successes_since_failure: int = 0
    input_tokens: int | None = None
    limit_tokens: int | None = None
    provider: str | None = None
    model: str | None = None
    tool: str | None = None
    region: str | None = None
    request_id: str | None = None
    error_code: str | None = None
    rule: str | None = None
    instead_of: Category | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(Fact):
    """The call will be made again; `attempt` is the number of the coming attempt, 2 for the first retry."""

    attempt: int
    delay_s: float
    delay_source: DelaySource
    category: Category
    max_retries: int | None = None
    """None in persistent mode."""
    adjustment: Adjustment | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSucceeded(Fact):
    """An attempt succeeded after at least one failure of the same call."""

    is_observation: ClassVar[bool] = True
    attempt: int
    duration_s: float | None = None
    breaker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Fact):
    """An agent took on a task."""

    is_observation: ClassVar[bool] = True
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Fact):
    """The task ended, well or badly."""

    is_observation: ClassVar[bool] = True
    status: RunStatus
    duration_s: float
    name: str = ""
    turns: int | None = None
    attempts: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateClosed(Fact):
    """The server said when to come back; no call of this operation is made in this process before that."""

    wait_s: float
    category: Category


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOpened(Fact):
    """The time the server named has passed."""

    closed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardTripped(Fact):
    """A guard of the run fired: too many failures of one tool, too many turns, too many denials."""

    guard: str
    count: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionDenied(Fact):
    """Our own check said no before the call was made. Not a failure."""

    reason: str
    consecutive: int = 1
    total: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFailed(Fact):
    """A hook of the caller raised; the runtime went on without it."""

    is_observation: ClassVar[bool] = True
    hook: str
    error_type: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerStateChanged(Fact):
    """A breaker of this instance moved, with the evidence at the moment of the change."""

    breaker: str
    state: State
    previous_state: State
    trigger: Trigger
    calls: int | None = None
    failures: int | None = None
    failure_rate: float | None = None
    threshold: float | None = None
    last_category: Category | None = None
    successes_since_failure: int = 0
    wait_s: float | None = None
    override_id: str | None = None
    revision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRejected(Fact):
    """Calls that were not made, summed over about a second.

    `reason` is `breaker`, `override`, `gate`, or `not_enforced` for calls that passed only because of an override.
    """

    breaker: str
    state: State
    count: int
    window_s: float = 1.0
    reason: str = "breaker"


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackActivated(Fact):
    """An alternative answered instead of the operation."""

    fallback: str
    level: int
    category: Category | None = None
    reason: str = ""
    warning: str | None = None
    data_age_s: float | None = None
    breaker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFallback(Fact):
    """The chain switched to another model."""

    from_model: str
    to_model: str
    category: Category
    consecutive: int
    provider: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradationStarted(Fact):
    """From here on a capability is reduced: answered by a fallback, by a weaker model, or not at all."""

    kind: str
    """`fallback`, `withdrawn` or `model`."""
    reason: str
    from_name: str = ""
    to_name: str = ""
    category: Category | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradationEnded(Fact):
    """The capability is whole again."""

    kind: str
    duration_s: float
    from_name: str = ""
    to_name: str = ""
    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted(Fact):
    """Every rung was climbed and none held."""

    reason: StopReason
    attempts: int
    rungs: tuple[str, ...] = ()
    category: Category | None = None
    duration_s: float | None = None
    retry_in_s: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalated(Fact):
    """A person is asked."""

    queue: str
    reason: str
    escalation_id: str | None = None
    category: Category | None = None
    message: str = ""
    proposal: str = ""
    """What is to be done if it is approved."""
    deadline_s: float | None = None
    default_action: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationFinished(Fact):
    """What the playbook did about a failure, and how it ended."""

    compensation: Compensation
    outcome: CompensationOutcome
    verdict: Verdict | None = None
    attempts: int = 0
    duration_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReversalRefused(Fact):
    """Nothing was undone, and why."""

    reason: str
    action_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetWarned(Fact):
    """An error budget is nearly spent: the model is told to change its approach."""

    budget: str
    spent: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExhausted(Fact):
    """An error budget is spent."""

    budget: str
    spent: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped(Fact):
    """The run was ended in code; the model gets no turn."""

    reason: str
    category: Category | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(Fact):
    """A step's result is on disk."""

    is_observation: ClassVar[bool] = True
    workflow: str
    step: str
    workflow_id: str = ""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRestored(Fact):
    """A finished step was not run again."""

    is_observation: ClassVar[bool] = True
    workflow: str
    step: str
    workflow_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolErrorReturned(Fact):
    """The model was given an error as a tool's result."""

    tool: str
    category: Category | None = None
    call_id: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitHeartbeat(Fact):
    """A long wait goes on."""

    waited_s: float
    remaining_s: float
    category: Category | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredStateApplied(Fact):
    """The instance now obeys this revision of the desired state."""

    is_observation: ClassVar[bool] = True
    revision: int
    config_hash: str
    clamped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredStateRejected(Fact):
    """The instance refused a revision and keeps the one it had."""

    is_observation: ClassVar[bool] = True
    revision: int
    config_hash: str
    reason: str
    kept_revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsInForce(Fact):
    """What an operation of the instance really goes by, or without an operation the whole process. Told on change.

    The values that hold after defaults, code, live policy, overrides and local ceilings: the whole table, never a part.
    """

    is_observation: ClassVar[bool] = True
    revision: int
    settings: Mapping[str, object]
    """Each value a number, a flag, a word, or names with commas between them. Masked, at most 200."""
    in_code: Mapping[str, object] = field(default_factory=dict)
    """What the developer said at the guard; for the process, its local ceilings."""
    held: Mapping[str, object] = field(default_factory=dict)
    """What would hold if a local ceiling did not hold it back, by setting."""
    operation_kind: str = ""
    breaker: str = ""
    count: int = 0
    """For the process: how many operations it has."""
    settings_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsCounted(Fact):
    """The denominators of one operation and source, about each ten seconds. Counts are of this interval alone."""

    is_observation: ClassVar[bool] = True
    interval_s: float
    calls: int
    attempts: int
    successes: int
    failures: Mapping[str, int] = field(default_factory=dict)
    """Failed attempts by category."""
    retries: int = 0
    fallbacks: int = 0
    degraded: int = 0
    rejected: int = 0
    exhausted: int = 0
    in_flight: int = 0
    waiting: int = 0
    breaker: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    remaining_quota: Mapping[str, int] = field(default_factory=dict)
    latency_bounds_s: tuple[float, ...] = ()
    latency_counts: tuple[int, ...] = ()
    provider: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceHeartbeat(Fact):
    """The instance lives, what it obeys, and how its outbox stands."""

    is_observation: ClassVar[bool] = True
    interval_s: float
    uptime_s: float
    revision: int
    config_hash: str
    schema_version: int
    status: str = "running"
    """`starting`, `running`, `draining`, `drained` or `stopped`."""
    breakers_open: int = 0
    runs_in_flight: int = 0
    takes_new_work: bool | None = None
    """Whether it begins runs; None: it does not tell, as those of before a pause could be asked for."""
    takes_retries: bool | None = None
    """Whether it begins runs again when people ask for that; None: it does not tell, as those of before that."""
    outbox_pending: int = 0
    outbox_dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Who recorded a fact: one process of one service in one environment."""

    service: str
    instance: str
    version: str = ""
    environment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A fact with its when and where: what is sent, stored and read back.

    `uid` is the idempotency key (a UUIDv7 in the canonical text form); `sequence_number` rises by one for each record
    of an instance; `at_ns` is nanoseconds since the epoch by the instance's clock.
    """

    fact: Fact
    uid: str
    sequence_number: int
    at_ns: int
    source: str = ""
    is_foreground: bool = False
    run: str = ""
    policy_version: str = ""
    trace_id: str = ""
    span_id: str = ""


ALL_FACTS: tuple[type[Fact], ...] = tuple(
    kind for kind in list(globals().values()) if isinstance(kind, type) and issubclass(kind, Fact) and kind is not Fact
)
"""Every kind of fact, in the order in which they are defined above."""
