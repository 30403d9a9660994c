"""The table of names: every event and attribute name that travels stands here and nowhere else.

An event is one kind of event; an attribute is one field of an event, with one meaning wherever it appears.
`docs/events.md` is generated from this table.
"""

from __future__ import annotations

from recovery_ops.rules import events
from recovery_ops.rules.events import Event
from recovery_ops.rules.lazy_dataclass import dataclass

SCHEMA_VERSION = 1
"""The newest desired-state document this code understands."""

SCOPE_NAME = "recovery.runtime"
PREFIX = "recovery."

UID = "log.record.uid"
SEQUENCE_NUMBER = "recovery.sequence_number"
OPERATION = "recovery.operation.name"
FOLDED_PREFIX = "recovery.folded."
"""Followed by a kind of name: what it was called before the console folded it into `(other)`."""
QUERY_SOURCE = "recovery.query_source"
IS_FOREGROUND = "recovery.is_foreground"
POLICY_VERSION = "recovery.policy.version"
RUN = "session.id"
DERIVED_FROM = "recovery.derived_from"
REFINED_FROM = "recovery.refined_from"
"""On events that the console made itself, from a `span`, a `span_event` or a `log_record` of plain instrumentation."""
SERVICE_NAME = "service.name"
SERVICE_INSTANCE_ID = "service.instance.id"
SERVICE_VERSION = "service.version"
ENVIRONMENT_NAME = "deployment.environment.name"
GROUP = "recovery.group"

DEBUG, INFO, WARN, ERROR = 5, 9, 13, 17


@dataclass(frozen=True, slots=True)
class EventSpec:
    """How one kind of event travels: its event name without prefix, its severity number and its meaning."""

    name: str
    severity: int

    @property
    def full_name(self) -> str:
        """The event name on the wire."""
        return PREFIX + self.name


EVENTS: dict[type[Event], EventSpec] = {
    events.FailureClassified: EventSpec("failure_classified", WARN),
    events.RetryScheduled: EventSpec("retry_scheduled", INFO),
    events.AttemptSucceeded: EventSpec("attempt_succeeded", INFO),
    events.RunStarted: EventSpec("run_started", INFO),
    events.RunFinished: EventSpec("run_finished", INFO),
    events.GateClosed: EventSpec("gate_closed", WARN),
    events.GateOpened: EventSpec("gate_opened", INFO),
    events.GuardTripped: EventSpec("guard_tripped", WARN),
    events.PermissionDenied: EventSpec("permission_denied", WARN),
    events.HookFailed: EventSpec("hook_failed", WARN),
    events.BreakerStateChanged: EventSpec("breaker_state_changed", WARN),
    events.BreakerRejected: EventSpec("breaker_rejected", WARN),
    events.FallbackActivated: EventSpec("fallback_activated", WARN),
    events.ModelFallback: EventSpec("model_fallback", WARN),
    events.DegradationStarted: EventSpec("degradation_started", WARN),
    events.DegradationEnded: EventSpec("degradation_ended", INFO),
    events.Exhausted: EventSpec("exhausted", ERROR),
    events.Escalated: EventSpec("escalated", ERROR),
    events.CompensationFinished: EventSpec("compensation_finished", INFO),
    events.ReversalRefused: EventSpec("reversal_refused", ERROR),
    events.BudgetWarned: EventSpec("budget_warned", WARN),
    events.BudgetExhausted: EventSpec("budget_exhausted", ERROR),
    events.SpendCapReached: EventSpec("spend_cap_reached", WARN),
    events.RunStopped: EventSpec("run_stopped", ERROR),
    events.CheckpointSaved: EventSpec("checkpoint_saved", INFO),
    events.CheckpointRestored: EventSpec("checkpoint_restored", INFO),
    events.ToolErrorReturned: EventSpec("tool_error_returned", WARN),
    events.WaitHeartbeat: EventSpec("wait_heartbeat", DEBUG),
    events.DesiredStateApplied: EventSpec("desired_state_applied", INFO),
    events.DesiredStateRejected: EventSpec("desired_state_rejected", ERROR),
    events.SettingsInForce: EventSpec("settings_in_force", DEBUG),
    events.CallsCounted: EventSpec("calls_counted", DEBUG),
    events.InstanceHeartbeat: EventSpec("instance_heartbeat", DEBUG),
}

EVENT_ALIASES: dict[str, str] = {
    "breaker_state": "breaker_state_changed",
    "circuit_breaker_state": "breaker_state_changed",
    "breaker_opened": "breaker_state_changed",
    "degradation": "degradation_started",
    "degraded": "degradation_started",
    "failure": "failure_classified",
    "fallback": "fallback_activated",
    "heartbeat": "instance_heartbeat",
}
"""Other spellings taken in, after dots and dashes have become underscores and the prefix is gone."""

ATTRIBUTES: dict[str, str] = {
    # what failed
    "category": "recovery.failure.category",
    "evidence": "recovery.failure.evidence",
    "retryable": "recovery.failure.retryable",
    "verdict": "recovery.failure.verdict",
    "status_code": "http.response.status_code",
    "error_type": "error.type",
    "exception_type": "exception.type",
    "message": "recovery.message",
    "fingerprint": "recovery.failure.fingerprint",
    "retry_after_s": "recovery.failure.retry_after",
    "request_id": "recovery.request.id",
    "error_code": "recovery.failure.code",
    "rule": "recovery.failure.rule",
    "instead_of": "recovery.failure.instead_of",
    "broken_stream": "recovery.failure.broken_stream",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "limit_tokens": "recovery.failure.limit_tokens",
    "inner_retries": "recovery.failure.inner_retries",
    "provider": "gen_ai.provider.name",
    "model": "gen_ai.request.model",
    "tool": "gen_ai.tool.name",
    "call_id": "gen_ai.tool.call.id",
    "region": "cloud.region",
    "credential": "recovery.credential.label",
    # attempts and waits
    "attempt": "recovery.attempt.number",
    "duration_s": "recovery.duration",
    "max_retries": "recovery.retry.limit",
    "delay_s": "recovery.retry.delay",
    "delay_source": "recovery.retry.delay_source",
    "adjustment": "recovery.retry.adjustment",
    "max_tokens": "gen_ai.request.max_tokens",
    "wait_s": "recovery.wait.duration",
    "closed_s": "recovery.gate.closed_duration",
    "waited_s": "recovery.wait.elapsed",
    "remaining_s": "recovery.wait.remaining",
    # breakers
    "breaker": "recovery.breaker.name",
    "state": "recovery.breaker.state",
    "previous_state": "recovery.breaker.previous_state",
    "trigger": "recovery.breaker.trigger",
    "failure_rate": "recovery.breaker.failure_rate",
    "threshold": "recovery.breaker.threshold",
    "last_category": "recovery.breaker.last_category",
    "successes_since_failure": "recovery.breaker.successes_since_failure",
    "override_id": "recovery.override.id",
    "count": "recovery.count",
    "window_s": "recovery.window",
    # fallback, degradation, the end of the ladder
    "fallback": "recovery.fallback.name",
    "level": "recovery.fallback.level",
    "warning": "recovery.fallback.warning",
    "data_age_s": "recovery.fallback.data_age",
    "reason": "recovery.reason",
    "from_model": "recovery.model.previous",
    "to_model": "gen_ai.request.model",
    "consecutive": "recovery.consecutive",
    "total": "recovery.total",
    "kind": "recovery.degradation.kind",
    "from_name": "recovery.degradation.from",
    "to_name": "recovery.degradation.to",
    "attempts": "recovery.attempts",
    "rungs": "recovery.rungs",
    "retry_in_s": "recovery.retry_in",
    "queue": "recovery.escalation.queue",
    "escalation_id": "recovery.escalation.id",
    "proposal": "recovery.escalation.proposal",
    "deadline_s": "recovery.escalation.deadline",
    "default_action": "recovery.escalation.default_action",
    "compensation": "recovery.compensation.name",
    "outcome": "recovery.compensation.outcome",
    "action_id": "recovery.action.id",
    # runs, guards, budgets, checkpoints
    "name": "recovery.run.name",
    "turns": "recovery.run.turns",
    "cost_usd": "recovery.run.cost_usd",
    "repeated_calls": "recovery.run.repeated_calls",
    "guard": "recovery.guard.name",
    "limit": "recovery.limit",
    "hook": "recovery.hook.name",
    "budget": "recovery.budget.name",
    "spent": "recovery.budget.spent",
    "account": "recovery.spend.account",
    "measure": "recovery.spend.measure",
    "action": "recovery.spend.action",
    "workflow": "recovery.workflow.name",
    "workflow_id": "recovery.workflow.id",
    "step": "recovery.workflow.step",
    "size_bytes": "recovery.checkpoint.size",
    # desired state, counts, heartbeats
    "revision": "recovery.revision",
    "config_hash": "recovery.config_hash",
    "clamped": "recovery.clamped",
    "kept_revision": "recovery.kept_revision",
    "settings": "recovery.settings",
    "settings_version": "recovery.settings.version",
    "in_code": "recovery.settings.in_code",
    "held": "recovery.settings.held",
    "operation_kind": "recovery.operation.kind",
    "interval_s": "recovery.interval",
    "calls": "recovery.calls",
    "successes": "recovery.successes",
    "failures": "recovery.failures",
    "retries": "recovery.retries",
    "fallbacks": "recovery.fallbacks",
    "degraded": "recovery.degraded",
    "rejected": "recovery.rejected",
    "exhausted": "recovery.exhausted_count",
    "in_flight": "recovery.in_flight",
    "waiting": "recovery.waiting",
    "remaining_quota": "recovery.remaining_quota",
    "latency_bounds_s": "recovery.latency.bounds",
    "latency_counts": "recovery.latency.counts",
    "uptime_s": "recovery.uptime",
    "schema_version": "recovery.schema_version",
    "status": "recovery.status",
    "breakers_open": "recovery.breakers_open",
    "runs_in_flight": "recovery.runs_in_flight",
    "takes_new_work": "recovery.takes_new_work",
    "takes_retries": "recovery.takes_retries",
    "outbox_pending": "recovery.outbox.pending",
    "outbox_dropped": "recovery.outbox.dropped",
    "spend_ledger": "recovery.spend.ledger",
    "spent_calls": "recovery.spend.calls",
    "spent_tokens": "recovery.spend.tokens",
    "spent_cost_usd": "recovery.spend.cost_usd",
    "cap_raises": "recovery.spend.raises",
}
"""Field of an event → attribute name."""

OWN_ATTRIBUTES: dict[tuple[type[Event], str], str] = {
    (events.BreakerStateChanged, "calls"): "recovery.breaker.calls",
    (events.BreakerStateChanged, "failures"): "recovery.breaker.failures",
    (events.BreakerStateChanged, "wait_s"): "recovery.breaker.wait_duration",
    (events.DegradationEnded, "calls"): "recovery.degradation.calls",
    (events.SpendCapReached, "spent"): "recovery.spend.spent",
    (events.SpendCapReached, "limit"): "recovery.spend.limit",
    # Not the breaker's own: that a breaker could be used does not say that it is.
    (events.SettingsInForce, "breaker"): "recovery.operation.breaker",
}
"""Where one field name means different things in two events."""

ATTRIBUTE_ALIASES: dict[str, str] = {
    "recovery.component.name": OPERATION,
    "recovery.operation": OPERATION,
    "circuitbreaker.name": ATTRIBUTES["breaker"],
    "circuitbreaker.state": ATTRIBUTES["state"],
    "recovery.breaker.from": ATTRIBUTES["previous_state"],
    "recovery.policy.revision": POLICY_VERSION,
    "recovery.failure.message": ATTRIBUTES["message"],
}
"""Other spellings of attributes taken in."""

VALUE_ALIASES: dict[str, str] = {"rate_limit": "rate_limited", "transient": "network", "overload": "overloaded"}
"""Other spellings of failure categories taken in."""


def attribute_of(kind: type[Event], field_name: str) -> str:
    """The attribute that carries this field of this kind of event."""
    own = OWN_ATTRIBUTES.get((kind, field_name))
    return own if own is not None else ATTRIBUTES[field_name]


KIND_OF: dict[str, type[Event]] = {event.name: kind for kind, event in EVENTS.items()}


def event_name_of(spelling: str) -> str | None:
    """The short event name for any spelling we take in, or None for an event that is not ours.

    `recovery.failure_classified`, `failure_classified`, `failure.classified` and `failure-classified` are one event.
    """
    short = spelling.strip().lower().removeprefix(PREFIX).replace(".", "_").replace("-", "_")
    short = EVENT_ALIASES.get(short, short)
    return short if short in KIND_OF else None
