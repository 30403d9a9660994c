"""Every word the rules, the wire and the screens share: one word per idea, as enumerations.

The values travel: they are attribute values on the wire, keys in policy documents and labels on screens.
"""

from __future__ import annotations

from enum import StrEnum


class Family(StrEnum):
    """What kind of trouble a failure is, for charts and for people."""

    TRANSIENT = "transient"
    MODEL_OUTPUT = "model_output"
    SEMANTIC = "semantic"
    UNRECOVERABLE = "unrecoverable"
    UNKNOWN = "unknown"
    NONE = "none"
    """A cancel: nothing failed."""


class Category(StrEnum):
    """Category of a failure. The names are strings.

    Rules: docs/guide/failures.md#categories

    >>> classify(TimeoutError()).category == "timeout"
    True
    """

    NETWORK = "network"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    RATE_LIMIT_WINDOW = "rate_limit_window"
    QUOTA_EXHAUSTED = "quota_exhausted"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    CONTEXT_OVERFLOW = "context_overflow"
    INVALID_REQUEST = "invalid_request"
    AUTH = "auth"
    PERMISSION = "permission"
    POLICY_DENIED = "policy_denied"
    CONTENT_REFUSED = "content_refused"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    STALE_EVIDENCE = "stale_evidence"
    SCHEMA_MISMATCH = "schema_mismatch"
    MODEL_OUTPUT = "model_output"
    SEMANTIC = "semantic"
    BUG = "bug"
    RESOURCE = "resource"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


FAMILY_OF: dict[Category, Family] = {
    Category.NETWORK: Family.TRANSIENT,
    Category.TIMEOUT: Family.TRANSIENT,
    Category.RATE_LIMITED: Family.TRANSIENT,
    Category.RATE_LIMIT_WINDOW: Family.UNRECOVERABLE,
    Category.QUOTA_EXHAUSTED: Family.UNRECOVERABLE,
    Category.OVERLOADED: Family.TRANSIENT,
    Category.SERVER_ERROR: Family.TRANSIENT,
    Category.CONTEXT_OVERFLOW: Family.MODEL_OUTPUT,
    Category.INVALID_REQUEST: Family.UNRECOVERABLE,
    Category.AUTH: Family.UNRECOVERABLE,
    Category.PERMISSION: Family.UNRECOVERABLE,
    Category.POLICY_DENIED: Family.UNRECOVERABLE,
    Category.CONTENT_REFUSED: Family.UNRECOVERABLE,
    Category.NOT_FOUND: Family.MODEL_OUTPUT,
    Category.CONFLICT: Family.TRANSIENT,
    Category.IDEMPOTENCY_CONFLICT: Family.UNRECOVERABLE,
    Category.STALE_EVIDENCE: Family.SEMANTIC,
    Category.SCHEMA_MISMATCH: Family.MODEL_OUTPUT,
    Category.MODEL_OUTPUT: Family.MODEL_OUTPUT,
    Category.SEMANTIC: Family.SEMANTIC,
    Category.BUG: Family.UNRECOVERABLE,
    Category.RESOURCE: Family.UNRECOVERABLE,
    Category.CANCELLED: Family.NONE,
    Category.UNKNOWN: Family.UNKNOWN,
}

CAPACITY: frozenset[Category] = frozenset({Category.RATE_LIMITED, Category.OVERLOADED})
"""What background work fails fast on: retrying these feeds the overload."""

BREAKER_COUNTS: frozenset[Category] = frozenset(
    {Category.NETWORK, Category.TIMEOUT, Category.SERVER_ERROR, Category.OVERLOADED, Category.SCHEMA_MISMATCH}
)
"""Only the service's own trouble opens its breaker, never what the caller or the model did wrong."""


TERMINAL: frozenset[Category] = frozenset({Category.PERMISSION, Category.AUTH})
"""The upstream lets us in no more: no other request of ours will help, and the model cannot fix it."""

UNAVAILABLE: frozenset[Category] = TERMINAL | {
    *(category for category, family in FAMILY_OF.items() if family is Family.TRANSIENT),
    *(Category.RATE_LIMIT_WINDOW, Category.QUOTA_EXHAUSTED),
}
"""The capability itself is missing. Every other failure is about the one request, and the model may make another."""


class Evidence(StrEnum):
    """Which kind of evidence classified a failure, strongest first."""

    EXCEPTION_TYPE = "exception_type"
    STRUCTURED_CODE = "structured_code"
    HTTP_STATUS = "http_status"
    MESSAGE_PATTERN = "message_pattern"
    POLICY_RULE = "policy_rule"
    """An operator's rule in the policy's `classification` said so."""
    NONE = "none"


class Verdict(StrEnum):
    """The six typed verdicts that the compensation playbook knows, and no others."""

    TRANSIENT_TIMEOUT = "transient_timeout"
    SERVER_ERROR_5XX = "server_error_5xx"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    EVIDENCE_STALE = "evidence_stale"
    POLICY_DENIED = "policy_denied"
    SCHEMA_MISMATCH = "schema_mismatch"


VERDICT_OF: dict[Category, Verdict] = {
    Category.TIMEOUT: Verdict.TRANSIENT_TIMEOUT,
    Category.NETWORK: Verdict.TRANSIENT_TIMEOUT,
    Category.RATE_LIMITED: Verdict.TRANSIENT_TIMEOUT,
    Category.OVERLOADED: Verdict.TRANSIENT_TIMEOUT,
    Category.CONFLICT: Verdict.TRANSIENT_TIMEOUT,
    Category.SERVER_ERROR: Verdict.SERVER_ERROR_5XX,
    Category.IDEMPOTENCY_CONFLICT: Verdict.IDEMPOTENCY_CONFLICT,
    Category.STALE_EVIDENCE: Verdict.EVIDENCE_STALE,
    Category.PERMISSION: Verdict.POLICY_DENIED,
    Category.POLICY_DENIED: Verdict.POLICY_DENIED,
    Category.SCHEMA_MISMATCH: Verdict.SCHEMA_MISMATCH,
}


class State(StrEnum):
    """The breaker states (the Resilience4j set). The last three are imposed by an operator's override."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    FORCED_OPEN = "forced_open"
    DISABLED = "disabled"
    METRICS_ONLY = "metrics_only"


OVERRIDES: frozenset[State] = frozenset({State.FORCED_OPEN, State.DISABLED, State.METRICS_ONLY})

STATE_ALIASES: dict[str, State] = {
    "isolated": State.FORCED_OPEN,
    "forced-open": State.FORCED_OPEN,
    "half-open": State.HALF_OPEN,
    "halfopen": State.HALF_OPEN,
    "opened": State.OPEN,
    "metrics-only": State.METRICS_ONLY,
}


class Trigger(StrEnum):
    """Why a breaker changed its state."""

    FAILURE_RATE = "failure_rate"
    CONSECUTIVE_FAILURES = "consecutive_failures"
    SLOW_CALL_RATE = "slow_call_rate"
    WAIT_ELAPSED = "wait_elapsed"
    PROBE_SUCCEEDED = "probe_succeeded"
    PROBE_FAILED = "probe_failed"
    PROBE_ABANDONED = "probe_abandoned"
    OPERATOR_TRIP = "operator_trip"
    OPERATOR_DISABLE = "operator_disable"
    OPERATOR_OBSERVE = "operator_observe"
    OPERATOR_RESET = "operator_reset"
    OPERATOR_PROBE = "operator_probe"
    OPERATOR_RELEASE = "operator_release"
    OVERRIDE_EXPIRED = "override_expired"


class Rung(StrEnum):
    """The escalation ladder, cheapest rung first."""

    RETRY = "retry"
    FALLBACK = "fallback"
    DEGRADE = "degrade"
    ASK = "ask_a_person"
    FAIL = "fail"


class DelaySource(StrEnum):
    """Who said how long to wait."""

    BACKOFF = "backoff"
    RETRY_AFTER = "retry_after"
    GATE = "gate"
    IMMEDIATE = "immediate"


class Adjustment(StrEnum):
    """What is changed about a request before it is sent again."""

    MAX_TOKENS = "max_tokens"
    REFRESH_CREDENTIALS = "refresh_credentials"
    DISABLE_KEEPALIVE = "disable_keepalive"
    REFRESH_EVIDENCE = "refresh_evidence"


class OnBrokenStream(StrEnum):
    """What the caller allows after a stream broke of which it has a part."""

    ERROR = "error"
    RESTART = "restart"
    CONTINUE = "continue"


class Refusal(StrEnum):
    """Why a call was not made."""

    OVERRIDE = "override"
    SHED = "shed"
    BREAKER = "breaker"
    GATE = "gate"
    DEADLINE = "deadline"
    SPEND_CAP = "spend_cap"
    STOPPED = "stopped_by_operator"


FOUNDATIONAL_FAILED = "foundational_failed"
"""Why a run was stopped: an operation that it cannot do without has used up its retries and fallbacks."""


class StopReason(StrEnum):
    """Why a climb ended without a result."""

    ATTEMPTS = "attempts"
    NOT_RETRYABLE = "not_retryable"
    DEADLINE = "deadline"
    RETRY_BUDGET = "retry_budget"
    BREAKER_OPEN = "breaker_open"
    GATE_CLOSED = "gate_closed"
    SHED = "shed"
    CANCELLED = "cancelled"
    SPEND_CAP = "spend_cap"
    STOPPED = "stopped_by_operator"


class Importance(StrEnum):
    """Who is shed first when an operator sheds load, least important last."""

    CRITICAL_PLUS = "critical_plus"
    CRITICAL = "critical"
    SHEDDABLE_PLUS = "sheddable_plus"
    SHEDDABLE = "sheddable"


class Compensation(StrEnum):
    """What the playbook can do about a verdict."""

    RETRY_WITH_BACKOFF = "retry_with_backoff"
    DEPRECATE_TOOL_CALL = "deprecate_tool_call"
    REFRESH_EVIDENCE = "refresh_evidence"
    ESCALATE_TO_HUMAN = "escalate_to_human"
    ISSUE_REVERSAL = "issue_reversal"


class CompensationOutcome(StrEnum):
    """How a compensation ended."""

    SUCCEEDED_AFTER_COMPENSATION = "succeeded_after_compensation"
    DEPRECATED = "deprecated"
    ESCALATED = "escalated"
    REVERSED = "reversed"
    EXHAUSTED = "exhausted"


class RunStatus(StrEnum):
    """How a run stands or ended."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEGRADED = "degraded"
    FAILED = "failed"
    STOPPED = "stopped"
    CANCELLED = "cancelled"


class ApplyStatus(StrEnum):
    """Where an instance stands against the desired revision (OpAMP's statuses, and what silence means)."""

    APPLIED = "applied"
    PENDING = "pending"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    DRIFTED = "drifted"
