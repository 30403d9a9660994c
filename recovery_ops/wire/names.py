"""The table of names: every event and attribute name that travels stands here and nowhere else.

An event is one kind of fact; an attribute is one field of a fact, with one meaning wherever it appears.
`docs/events.md` is generated from this table.
"""

from __future__ import annotations

from recovery_ops.rules import facts
from recovery_ops.rules.facts import Fact
from recovery_ops.rules.records import dataclass

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
"""On facts that the console made itself, from a `span`, a `span_event` or a `log_record` of plain instrumentation."""
SERVICE_NAME = "service.name"
SERVICE_INSTANCE_ID = "service.instance.id"
SERVICE_VERSION = "service.version"
ENVIRONMENT_NAME = "deployment.environment.name"
GROUP = "recovery.group"

DEBUG, INFO, WARN, ERROR = 5, 9, 13, 17


@dataclass(frozen=True, slots=True)
class Event:
    """How one kind of fact travels: its event name without prefix, its severity number and its meaning."""

    name: str
    severity: int

    @property
    def full_name(self) -> str:
        """The event name on the wire."""
        return PREFIX + self.name


EVENTS: dict[type[Fact], Event] = {
    facts.FailureClassified: Event("failure_classified", WARN),
    facts.RetryScheduled: Event("retry_scheduled", INFO),
    facts.AttemptSucceeded: Event("attempt_succeeded", INFO),
    facts.RunStarted: Event("run_started", INFO),
    facts.RunFinished: Event("run_finished", INFO),
    facts.GateClosed: Event("gate_closed", WARN),
    facts.GateOpened: Event("gate_opened", INFO),
    facts.GuardTripped: Event("guard_tripped", WARN),
    facts.PermissionDenied: Event("permission_denied", WARN),
    facts.HookFailed: Event("hook_failed", WARN),
    facts.BreakerStateChanged: Event("breaker_state_changed", WARN),
    facts.BreakerRejected: Event("breaker_rejected", WARN),
    facts.FallbackActivated: Event("fallback_activated", WARN),
    facts.ModelFallback: Event("model_fallback", WARN),
    facts.DegradationStarted: Event("degradation_started", WARN),
    facts.DegradationEnded: Event("degradation_ended", INFO),
    facts.Exhausted: Event("exhausted", ERROR),
    facts.Escalated: Event("escalated", ERROR),
    facts.CompensationFinished: Event("compensation_finished", INFO),
    facts.ReversalRefused: Event("reversal_refused", ERROR),
    facts.BudgetWarned: Event("budget_warned", WARN),
    facts.BudgetExhausted: Event("budget_exhausted", ERROR),
    facts.RunStopped: Event("run_stopped", ERROR),
    facts.CheckpointSaved: Event("checkpoint_saved", INFO),
    facts.CheckpointRestored: Event("checkpoint_restored", INFO),
    facts.ToolErrorReturned: Event("tool_error_returned", WARN),
    facts.WaitHeartbeat: Event("wait_heartbeat", DEBUG),
    facts.DesiredStateApplied: Event("desired_state_applied", INFO),
    facts.DesiredStateRejected: Event("desired_state_rejected", ERROR),
    facts.SettingsInForce: Event("settings_in_force", DEBUG),
    facts.CallsCounted: Event("calls_counted", DEBUG),
    facts.InstanceHeartbeat: Event("instance_heartbeat", DEBUG),
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
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "limit_tokens": "recovery.failure.limit_tokens",
    "provider": "gen_ai.provider.name",
    "model": "gen_ai.request.model",
    "tool": "gen_ai.tool.name",
    "call_id": "gen_ai.tool.call.id",
    "region": "cloud.region",
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
    "guard": "recovery.guard.name",
    "limit": "recovery.limit",
    "hook": "recovery.hook.name",
    "budget": "recovery.budget.name",
    "spent": "recovery.budget.spent",
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
}
"""Field of a fact → attribute name."""

OWN_ATTRIBUTES: dict[tuple[type[Fact], str], str] = {
    (facts.BreakerStateChanged, "calls"): "recovery.breaker.calls",
    (facts.BreakerStateChanged, "failures"): "recovery.breaker.failures",
    (facts.BreakerStateChanged, "wait_s"): "recovery.breaker.wait_duration",
    (facts.DegradationEnded, "calls"): "recovery.degradation.calls",
    # Not the breaker's own: that a breaker could be used does not say that it is.
    (facts.SettingsInForce, "breaker"): "recovery.operation.breaker",
}
"""Where one field name means different things in two facts."""

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


def attribute_of(kind: type[Fact], field_name: str) -> str:
    """The attribute that carries this field of this kind of fact."""
    own = OWN_ATTRIBUTES.get((kind, field_name))
    return own if own is not None else ATTRIBUTES[field_name]


KIND_OF: dict[str, type[Fact]] = {event.name: kind for kind, event in EVENTS.items()}


def event_name_of(spelling: str) -> str | None:
    """The short event name for any spelling we take in, or None for an event that is not ours.

    `recovery.failure_classified`, `failure_classified`, `failure.classified` and `failure-classified` are one event.
    """
    short = spelling.strip().lower().removeprefix(PREFIX).replace(".", "_").replace("-", "_")
    short = EVENT_ALIASES.get(short, short)
    return short if short in KIND_OF else None
