"""The catalogue of events for people: `python -m recovery_ops.wire.catalogue > docs/events.md`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import (
    BreakerStateChanged,
    DegradationStarted,
    DesiredStateApplied,
    Event,
    RunStarted,
)
from recovery_ops.wire import event_examples, names

COMMON: dict[str, str] = {
    names.UID: "Id of the record, a UUIDv7. A repeated id is dropped silently. A record without an id is identified by"
    " its content and time; the answer then counts duplicates",
    names.SEQUENCE_NUMBER: "Increases by one with each record of an instance",
    names.OPERATION: "The guarded operation: a tool, a model, a service",
    names.QUERY_SOURCE: "The source of the call: `main_agent`, `user_request`, `titles` …",
    names.IS_FOREGROUND: "Whether the source is foreground by the policy",
    names.POLICY_VERSION: "Version of the policy behind the decision",
    names.RUN: "Id of the run: one task of the agent",
    names.DERIVED_FROM: "Only on derived events: `span`, `span_event`, `log_record`",
    names.REFINED_FROM: "Only on derived failures: the own words of the span, where a span around it has closer ones",
}

BRIEFS: dict[str, str] = {
    "account": "The account: `run:<id>`, `source:<name>:<day>` or `day:<day>`, days in UTC",
    "action": "The consequence: `cheaper_model`, `park` or `ask`",
    "action_id": "Id of the action that was not reversed",
    "adjustment": "Change of the request for the retry",
    "attempt": "Number of the attempt; the first is 1",
    "attempts": "Number of attempts",
    "breaker": "The breaker; it has the name of the operation unless a shared backend is declared",
    "breakers_open": "Breakers of the instance that reject calls",
    "broken_stream": "For a stream that broke after the caller received its first token: the permitted reaction",
    "budget": "The budget: `errors` or `repeated_calls`",
    "call_id": "Id that the model gave the tool call",
    "calls": "Calls (not attempts), or calls in the window",
    "cap_raises": "Number of times that a user raised the cap, by account",
    "category": "Category of the failure",
    "clamped": "Settings that a local limit reduced",
    "closed_s": "Time for which the gate was closed, in s",
    "compensation": "Action of the playbook",
    "config_hash": "SHA-256 of the desired state",
    "consecutive": "Number in a row",
    "cost_usd": "Cost of the run, in US dollars",
    "count": "Number",
    "data_age_s": "Greatest age of the fallback's data, in s",
    "deadline_s": "Time to the deadline of the answer, in s",
    "proposal": "The proposed action; the user who decides may change it",
    "default_action": "Answer at the deadline if no user answers",
    "degraded": "Number of degradations that started",
    "delay_s": "Delay of the retry, in s",
    "delay_source": "Source of the delay: the backoff, or the server",
    "duration_s": "Duration, in s",
    "error_code": "The most specific structured code of the error",
    "error_type": "`error.type` as OpenTelemetry defines it, of low cardinality",
    "escalation_id": "Id of the escalation",
    "credential": "Label of the vendor's key; never the key itself",
    "evidence": "Kind of evidence for the category",
    "exception_type": "Qualified name of the exception",
    "exhausted": "Calls without a successful recovery step",
    "failure_rate": "Share of failed calls in the window, 0 to 1",
    "failures": "Failed calls in the window; in `calls_counted` a map of category to count",
    "fallback": "Name of the fallback",
    "fallbacks": "Calls that a fallback answered",
    "fingerprint": "Digest by which failures are grouped into issues",
    "from_model": "The model before",
    "from_name": "The degraded capability",
    "guard": "The run limit: `tool_failures`, `turns`, `permission_denials`, `compaction_failures`, `repeated_calls`",
    "held": "Settings that a local limit overrides, with the values that would apply without it",
    "hook": "Name of the hook",
    "in_code": "Settings in the code of the guard; for a process, its local limits",
    "in_flight": "Calls in flight",
    "input_tokens": "Input tokens",
    "instead_of": "Category without the classification rule",
    "inner_retries": "Retries by the vendor's client within this attempt, if the error states them",
    "interval_s": "Length of the interval, in s",
    "kept_revision": "Revision that still applies",
    "kind": "`fallback`, `feature`, `withdrawn` or `model`",
    "last_category": "Category of the last failure",
    "latency_bounds_s": "Upper bounds of the histogram's buckets, in s",
    "latency_counts": "Successful attempts in each bucket, for operations with a deadline",
    "level": "Number of the fallback; the first is 1",
    "limit": "The limit",
    "limit_tokens": "Context limit of the model, in tokens",
    "max_retries": "Limit of retries; absent in persistent mode",
    "max_tokens": "Limit of output tokens for the retry",
    "measure": "Measure of the cap: `calls`, `tokens` or `cost_usd`",
    "message": "Masked, one line, at most 1 kB",
    "model": "The model",
    "name": "Name of the run",
    "operation": "The operation",
    "operation_kind": "Kind of the operation, which has its own defaults: `operation`, `model`, `tool` …",
    "outbox_dropped": "Events that the instance has dropped",
    "outbox_pending": "Events that are not sent yet",
    "outcome": "Outcome of the compensation",
    "output_tokens": "Output tokens",
    "override_id": "Id of the operator's override that caused the change",
    "previous_state": "State before",
    "provider": "The provider",
    "queue": "Queue of the escalation",
    "reason": "Reason, as a code",
    "region": "Region of the backend; if absent, that of the resource",
    "rejected": "Rejected calls",
    "remaining_quota": "Remaining quota as the vendor reports it, by name",
    "remaining_s": "Rest of the wait, in s",
    "repeated_calls": "Largest number of calls of one tool with the same arguments and result, if above 1",
    "request_id": "Id that the vendor gave the request",
    "retries": "Number of retries",
    "retry_after_s": "`Retry-After` of the server, in s",
    "retry_in_s": "Time until a new attempt may succeed, in s",
    "retryable": "Whether a retry is permitted",
    "revision": "Revision of the desired state",
    "rule": "Name of the classification rule of the policy that matched",
    "rungs": "The recovery steps that were tried",
    "runs_in_flight": "Runs in flight",
    "schema_version": "Newest version of the desired state that the instance can read",
    "settings": "All effective settings by name; at most 200, masked",
    "settings_version": "Version of the format of `settings`",
    "size_bytes": "Size, in bytes",
    "spend_ledger": "Id of the ledger of spend accounts, which the processes of a service on one machine share",
    "spent": "Spent amount",
    "spent_calls": "Total model calls by account, for accounts of today and of runs in flight",
    "spent_cost_usd": "Total US dollars by account",
    "spent_tokens": "Total input and output tokens by account",
    "state": "State after",
    "status": "Status",
    "status_code": "HTTP status",
    "step": "The step",
    "successes": "Successful attempts",
    "successes_since_failure": "Successes since the previous failure",
    "takes_new_work": "Whether the instance starts new runs; absent if unknown",
    "takes_retries": "Whether the instance can retry runs on request; absent if unknown",
    "threshold": "The threshold that was reached",
    "to_model": "The model after",
    "to_name": "The replacement",
    "tool": "The tool",
    "total": "Total number in the run",
    "trigger": "Cause of the change",
    "turns": "Turns of the model",
    "uptime_s": "Uptime of the process, in s",
    "verdict": "Verdict, the key of the playbook",
    "wait_s": "Length of the wait, in s",
    "waited_s": "Time waited so far, in s",
    "waiting": "Calls that wait for a retry or a gate",
    "warning": "Warning for the user about the answer",
    "window_s": "Time over which the calls were counted, in s",
    "workflow": "Name of the workflow",
    "workflow_id": "Id of this execution of the workflow; it is resumed by name and id",
}

SILENCE_S = 45
"""After so long without an event an instance has stopped reporting."""
NEED_HEARTBEATS: dict[type[Event], str] = {
    BreakerStateChanged: "without them the breaker of this instance becomes *unknown* within a minute",
    DegradationStarted: "without them the console shows the degradation as ended",
    RunStarted: "without them the run becomes *lost*",
    DesiredStateApplied: "without them the instance is *unreachable*",
}
"""Events that start a state, and its fate without heartbeats."""


def catalogue() -> str:
    """The whole page, as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Events"
    yield ""
    yield "Generated by `python -m recovery_ops.wire.catalogue > docs/events.md`."
    yield ""
    yield (
        "Each event is an OpenTelemetry **log record with an event name**, in the scope `" + names.SCOPE_NAME + "`. Any"
    )
    yield "SDK can send them. `body` is a text for humans; the console does not read it. Durations are in seconds."
    yield "The console also accepts names without the prefix, and with dots or dashes instead of underscores."
    yield ""
    yield "Resource attributes: `service.name`, `service.instance.id`, `service.version`, `recovery.group`, and"
    yield "`deployment.environment.name` (for display; the key decides the environment)."
    yield ""
    yield from _heartbeats()
    yield ""
    yield "## Send events without the library"
    yield ""
    yield from event_examples.setup()
    yield ""
    yield "## Attributes of every event"
    yield ""
    yield "| attribute | meaning |"
    yield "|---|---|"
    for name, meaning in COMMON.items():
        yield f"| `{name}` | {meaning} |"
    for kind, spec in names.EVENTS.items():
        yield from _event(kind, spec)


def _heartbeats() -> Iterator[str]:
    yield "## Heartbeats"
    yield ""
    yield "Some events start a state of an instance, which lasts until another event ends it. The console shows the"
    yield f"state while the instance reports. **An instance without an event for {SILENCE_S} seconds has stopped"
    yield "reporting: its open breaker is then *unknown*, not open.** A program that sends one of these events must"
    yield "also send `recovery.instance_heartbeat` every 15 seconds while it runs:"
    yield ""
    for kind, why in NEED_HEARTBEATS.items():
        name = names.EVENTS[kind].full_name
        yield f"- [`{name}`](#{name.replace('.', '')}): {why}"
    yield ""
    yield "The other events need no heartbeats."


def _event(kind: type[Event], spec: names.EventSpec) -> Iterator[str]:
    yield ""
    yield f"## `{spec.full_name}`"
    yield ""
    yield (inspect.getdoc(kind) or "").replace("\n", " ").replace("  ", " ")
    yield ""
    sort = "an observation" if kind.is_observation else "a decision"
    yield f"Severity {spec.severity}; {sort}."
    yield ""
    yield "| attribute | type | | meaning |"
    yield "|---|---|---|---|"
    hints = get_type_hints(kind)
    for field in fields(kind):
        if field.name == "operation":
            continue
        is_required = field.default is MISSING and field.default_factory is MISSING
        attribute = names.attribute_of(kind, field.name)
        yield (
            f"| `{attribute}` | {_type(hints[field.name])} | {'required' if is_required else ''} "
            f"| {BRIEFS[field.name]} |"
        )
    if kind in NEED_HEARTBEATS:
        yield ""
        yield f"Needs [heartbeats](#heartbeats): {NEED_HEARTBEATS[kind]}"
    yield ""
    yield from event_examples.examples(kind)


def _type(annotation: Any) -> str:
    if get_origin(annotation) in (Union, UnionType):
        return _type(next(part for part in get_args(annotation) if part is not NoneType))
    if get_origin(annotation) is tuple:
        return f"list of {_type(get_args(annotation)[0])}"
    if get_origin(annotation) is not None:
        return "map"
    if annotation is Category:
        return "[category](reference/failures.md)"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return " · ".join(f"`{one.value}`" for one in annotation)
    return {str: "string", int: "int", float: "double", bool: "bool"}[annotation]


if __name__ == "__main__":
    sys.stdout.write(catalogue())
