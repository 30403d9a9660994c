"""Everything that can happen, each as one frozen record; what the rules yield is what travels, is stored and is drawn.

An event is an *observation* or a *decision* of the rules. Replay keeps the observations and makes the decisions again.
Durations and delays are seconds. An event holds no clock time; its record does (`Record.at_ns`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar

from recovery_ops.rules.enums import (
    Adjustment,
    Category,
    Compensation,
    CompensationOutcome,
    DelaySource,
    Evidence,
    OnBrokenStream,
    RunStatus,
    State,
    StopReason,
    Trigger,
    Verdict,
)
from recovery_ops.rules.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The root of all events; `operation` is empty where an event is about the whole instance or run."""

    is_observation: ClassVar[bool] = False
    operation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureClassified(Event):
    """An attempt failed. Recorded after its classification and before the next recovery step."""

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
    inner_retries: int | None = None
    """Retries that the client below made by itself in this attempt, where its error says so; None for none."""
    broken_stream: OnBrokenStream | None = None
    """For a stream of which the caller has a part: what the caller allows now. None for any other attempt."""
    credential: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(Event):
    """A retry is planned, with the number `attempt` (2 for the first retry)."""

    attempt: int
    delay_s: float
    delay_source: DelaySource
    category: Category
    max_retries: int | None = None
    adjustment: Adjustment | None = None
    max_tokens: int | None = None
    credential: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSucceeded(Event):
    """An attempt succeeded after at least one failure of the same call."""

    is_observation: ClassVar[bool] = True
    attempt: int
    duration_s: float | None = None
    breaker: str = ""
    credential: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """A run started: one task of the agent."""

    is_observation: ClassVar[bool] = True
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    """A run ended."""

    is_observation: ClassVar[bool] = True
    status: RunStatus
    duration_s: float
    name: str = ""
    turns: int | None = None
    attempts: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    repeated_calls: int | None = None
    """The most calls of one tool with the same arguments and the same result, where that is more than one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateClosed(Event):
    """A gate closed: for a time this process delays or rejects calls of the operation, or with one key."""

    wait_s: float
    category: Category
    credential: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOpened(Event):
    """A gate opened: its time has passed."""

    closed_s: float
    category: Category | None = None
    credential: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardTripped(Event):
    """A run limit was reached: failures of one tool, turns, denials, failed compactions, or repeated calls."""

    guard: str
    count: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionDenied(Event):
    """A permission check of the agent denied a call before it was made. Not a failure."""

    reason: str
    consecutive: int = 1
    total: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFailed(Event):
    """A hook of the agent's code raised; the runtime continued without it."""

    is_observation: ClassVar[bool] = True
    hook: str
    error_type: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerStateChanged(Event):
    """The state of a breaker of this instance changed."""

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
class BreakerRejected(Event):
    """Rejected calls, counted over about a second.

    `reason`: `breaker`, `override`, `gate`, `shed`, `stopped_by_operator`; `not_enforced` for permitted calls.
    """

    breaker: str
    state: State
    count: int
    window_s: float = 1.0
    reason: str = "breaker"


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackActivated(Event):
    """A fallback answered instead of the operation."""

    fallback: str
    level: int
    category: Category | None = None
    reason: str = ""
    warning: str | None = None
    data_age_s: float | None = None
    breaker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFallback(Event):
    """The call switched to another model."""

    from_model: str
    to_model: str
    category: Category
    consecutive: int
    provider: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradationStarted(Event):
    """A degradation started; `kind` is `fallback`, `feature`, `withdrawn` or `model`."""

    kind: str
    reason: str
    from_name: str = ""
    to_name: str = ""
    category: Category | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradationEnded(Event):
    """A degradation ended."""

    kind: str
    duration_s: float
    from_name: str = ""
    to_name: str = ""
    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted(Event):
    """All recovery steps of a call failed."""

    reason: StopReason
    attempts: int
    rungs: tuple[str, ...] = ()
    category: Category | None = None
    duration_s: float | None = None
    retry_in_s: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalated(Event):
    """An escalation was opened. `proposal` is the action after an approval."""

    queue: str
    reason: str
    escalation_id: str | None = None
    category: Category | None = None
    message: str = ""
    proposal: str = ""
    deadline_s: float | None = None
    default_action: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationFinished(Event):
    """A compensation of the playbook ended."""

    compensation: Compensation
    outcome: CompensationOutcome
    verdict: Verdict | None = None
    attempts: int = 0
    duration_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReversalRefused(Event):
    """A reversal was refused."""

    reason: str
    action_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetWarned(Event):
    """Consecutive failures or repeated calls reached their warning limit; the model gets a warning."""

    budget: str
    spent: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExhausted(Event):
    """The error budget of a run is exhausted."""

    budget: str
    spent: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendCapReached(Event):
    """A model call was rejected, because an account has reached its spend cap."""

    account: str
    measure: str
    spent: float
    limit: float
    action: str
    to_model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped(Event):
    """The runtime ended a run; the model gets no further turn."""

    reason: str
    category: Category | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(Event):
    """The result of a workflow step was stored."""

    is_observation: ClassVar[bool] = True
    workflow: str
    step: str
    workflow_id: str = ""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRestored(Event):
    """The stored result of a finished workflow step was used."""

    is_observation: ClassVar[bool] = True
    workflow: str
    step: str
    workflow_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolErrorReturned(Event):
    """The model received an error as the result of a tool."""

    tool: str
    category: Category | None = None
    call_id: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitHeartbeat(Event):
    """A call still waits; sent during long waits."""

    waited_s: float
    remaining_s: float
    category: Category | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredStateApplied(Event):
    """The instance has applied a revision of the desired state."""

    is_observation: ClassVar[bool] = True
    revision: int
    config_hash: str
    clamped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredStateRejected(Event):
    """The instance rejected a revision and keeps the one before."""

    is_observation: ClassVar[bool] = True
    revision: int
    config_hash: str
    reason: str
    kept_revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsInForce(Event):
    """All effective settings of an operation, or of the process if no operation is named. Sent after a change."""

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
class CallsCounted(Event):
    """Counts of calls and attempts of one operation and source, in an interval of about ten seconds."""

    is_observation: ClassVar[bool] = True
    interval_s: float
    calls: int
    attempts: int
    successes: int
    failures: Mapping[str, int] = field(default_factory=dict)
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
class InstanceHeartbeat(Event):
    """Heartbeat of an instance: status, applied revision, outbox."""

    is_observation: ClassVar[bool] = True
    interval_s: float
    uptime_s: float
    revision: int
    config_hash: str
    schema_version: int
    status: str = "running"
    """`starting`, `running`, `draining`, `drained`, `stopping`, `stopped_by_operator` or, at its end, `stopped`."""
    breakers_open: int = 0
    runs_in_flight: int = 0
    takes_new_work: bool | None = None
    takes_retries: bool | None = None
    """Whether it begins runs, and begins runs again when people ask for that; None: its version does not report it."""
    outbox_pending: int = 0
    outbox_dropped: int = 0
    spend_ledger: str = ""
    """The ledger of its spend accounts, which the processes of one service on one machine share; empty without one."""
    spent_calls: Mapping[str, int] = field(default_factory=dict)
    spent_tokens: Mapping[str, int] = field(default_factory=dict)
    spent_cost_usd: Mapping[str, float] = field(default_factory=dict)
    """Totals of the accounts of today and of runs under way, by account."""
    cap_raises: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Who recorded an event: one process of one service in one environment."""

    service: str
    instance: str
    version: str = ""
    environment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An event with its when and where. `uid` is the idempotency key, a UUIDv7; `sequence_number` rises by one for each
    record of an instance; `at_ns` is nanoseconds since the epoch by the instance's clock.
    """

    event: Event
    uid: str
    sequence_number: int
    at_ns: int
    source: str = ""
    is_foreground: bool = False
    run: str = ""
    policy_version: str = ""
    trace_id: str = ""
    span_id: str = ""


_KINDS = (kind for kind in list(globals().values()) if isinstance(kind, type) and issubclass(kind, Event))
ALL_EVENTS: tuple[type[Event], ...] = tuple(kind for kind in _KINDS if kind is not Event)
"""Every kind of event, in the order in which they are defined above."""
