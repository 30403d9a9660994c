"""The catalogue of events for people: `python -m recovery_ops.wire.catalogue > docs/events.md`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from recovery_ops.rules.events import (
    BreakerStateChanged,
    DegradationStarted,
    DesiredStateApplied,
    Event,
    RunStarted,
)
from recovery_ops.wire import event_examples, names

COMMON: dict[str, str] = {
    names.UID: "Idempotency key, a UUIDv7. A record that comes again with the same key is dropped silently. Of one"
    " without, all it says and its moment are the key: equal ones are one event, and the answer says so",
    names.SEQUENCE_NUMBER: "Rises by one for each record of an instance",
    names.OPERATION: "The guarded capability: a tool, a model, a service",
    names.QUERY_SOURCE: "Who is waiting: `main_agent`, `user_request`, `titles` …",
    names.IS_FOREGROUND: "Whether the policy lists that source as foreground",
    names.POLICY_VERSION: "Which policy decided",
    names.RUN: "The run: one task of the agent",
    names.DERIVED_FROM: "Only on events that the console derived: `span`, `span_event`, `log_record`",
}

BRIEFS: dict[str, str] = {
    "account": "The account: `run:<id>`, `source:<name>:<day>` or `day:<day>`, days in UTC",
    "action": "What follows: `cheaper_model`, `park` or `ask`",
    "action_id": "The action that was not undone",
    "adjustment": "What is changed about the request first",
    "attempt": "1 is the first",
    "attempts": "Attempts made",
    "breaker": "The breaker: the operation's name unless a shared backend is declared",
    "breakers_open": "Breakers of this instance that refuse calls",
    "broken_stream": "A stream broke after its first token had reached the caller: what the caller allows then",
    "budget": "Which budget",
    "call_id": "The model's id of the tool call",
    "calls": "Logical calls, or calls in the window or interval",
    "cap_raises": "How often a person raised the cap of an account, by account",
    "category": "What the failure is",
    "clamped": "What local ceilings did not allow",
    "closed_s": "How long the gate was closed, in s",
    "compensation": "What the playbook did",
    "config_hash": "SHA-256 of the desired state",
    "consecutive": "How many in a row",
    "cost_usd": "What the run cost, in US dollars",
    "count": "How many",
    "data_age_s": "How old the fallback's data may be, in s",
    "deadline_s": "How long a person has to answer, in s",
    "proposal": "What is to be done if it is approved; whoever decides may change it",
    "default_action": "What happens if nobody answers",
    "degraded": "Degradations begun",
    "delay_s": "How long the retry waits, in s",
    "delay_source": "Who said so",
    "duration_s": "How long it took, in s",
    "error_code": "The most specific structured code of the error, where it has one",
    "error_type": "Of low cardinality, as OpenTelemetry defines it",
    "escalation_id": "The question's id",
    "credential": "The label of the key: that the attempt used or will use, or that rests; never the key itself",
    "evidence": "What kind of evidence told the category",
    "exception_type": "The exception's qualified name",
    "exhausted": "Calls that no rung could save",
    "failure_rate": "Share of failed calls in the window",
    "failures": "Failed calls in the window; in `calls_counted` a map of category to count",
    "fallback": "Who answered instead",
    "fallbacks": "Answers given by fallbacks",
    "fingerprint": "Groups failures of one cause",
    "from_model": "The model that was asked first",
    "from_name": "What is reduced",
    "guard": "Which guard of the run",
    "held": "What a local ceiling holds back, by setting: the value without it",
    "hook": "Which hook of the caller",
    "in_code": "What the developer said at the guard; for a process, its local ceilings",
    "in_flight": "Calls under way",
    "input_tokens": "Tokens sent",
    "instead_of": "The category without that rule",
    "inner_retries": "Retries that the client made by itself in this attempt, where its error says so",
    "interval_s": "The interval, in s",
    "kept_revision": "The revision that still holds",
    "kind": "`fallback`, `withdrawn` or `model`",
    "last_category": "The failure that came last",
    "latency_bounds_s": "Upper bounds of the histogram's buckets, in s",
    "latency_counts": "Successful attempts in each bucket, where the operation has a deadline",
    "level": "1 is the first fallback",
    "limit": "The limit",
    "limit_tokens": "The context limit",
    "max_retries": "The limit of retries; absent in persistent mode",
    "max_tokens": "What is left for the answer",
    "measure": "What is limited: `calls`, `tokens` or `cost_usd`",
    "message": "Masked, one line, at most 1 kB",
    "model": "The model",
    "name": "What the run is called",
    "operation": "The operation",
    "operation_kind": "Which defaults it has: `operation`, `model`, `tool` …",
    "outbox_dropped": "Events this instance lost",
    "outbox_pending": "Events not yet delivered",
    "outcome": "How the compensation ended",
    "output_tokens": "Tokens received",
    "override_id": "The operator's override behind the change",
    "previous_state": "Where it came from",
    "provider": "The provider",
    "queue": "Who is asked",
    "reason": "Why, as a word of the rules",
    "region": "Where what answers the calls stands; absent, the resource's",
    "rejected": "Calls that were not made",
    "remaining_quota": "What the vendor says is left, by name",
    "remaining_s": "How long the wait still is, in s",
    "repeated_calls": "The most calls of one tool with the same arguments and the same result, where above 1",
    "request_id": "The vendor's id of the request",
    "retries": "Retries",
    "retry_after_s": "What the server asked for, in s",
    "retry_in_s": "When trying again may help, in s",
    "retryable": "Whether it may be retried at all",
    "revision": "The desired state's revision",
    "rule": "The rule of the policy's `classification` that said the category",
    "rungs": "The rungs that were climbed",
    "runs_in_flight": "Runs under way",
    "schema_version": "The newest document this instance understands",
    "settings": "Every setting that holds, by name; at most 200, masked",
    "settings_version": "The shape of the table",
    "size_bytes": "Size, in bytes",
    "spend_ledger": "The ledger of its spend accounts, shared by the processes of one service on one machine",
    "spent": "What is spent",
    "spent_calls": "Model calls by spend account, in all: accounts of today and of runs under way",
    "spent_cost_usd": "Dollars by spend account, in all",
    "spent_tokens": "Tokens by spend account, in and out, in all",
    "state": "Where it is now",
    "status": "How it stands or ended",
    "status_code": "The HTTP status",
    "step": "The step",
    "successes": "Successful attempts",
    "successes_since_failure": "Successes between this failure and the one before",
    "takes_new_work": "Whether it begins new runs; absent, it does not tell",
    "takes_retries": "Whether it begins a run again when an operator asks for that; absent, it does not tell",
    "threshold": "The limit that was reached",
    "to_model": "The model that is asked now",
    "to_name": "What answers instead",
    "tool": "The tool",
    "total": "How many in all",
    "trigger": "Why it moved",
    "turns": "Turns the model took",
    "uptime_s": "How long the process lives, in s",
    "verdict": "What the playbook is asked about",
    "wait_s": "How long, in s",
    "waited_s": "How long it has waited, in s",
    "waiting": "Calls that wait for a retry or a gate",
    "warning": "What the user must know of the answer",
    "window_s": "Over how long these were added up, in s",
    "workflow": "The workflow",
    "workflow_id": "What it is done for: with the workflow's name, what it is resumed by",
}

SILENCE_S = 45
"""After so long without an event an instance has stopped reporting."""
NEED_HEARTBEATS: dict[type[Event], str] = {
    BreakerStateChanged: "without them the breaker of this instance turns unknown within a minute",
    DegradationStarted: "without them the degradation is no longer shown as going on",
    RunStarted: "without them a run that has not reported its end is lost",
    DesiredStateApplied: "without them the instance is unreachable, whatever it has applied",
}
"""Events that begin a state, and what becomes of it without heartbeats."""


def catalogue() -> str:
    """The whole page, as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Events"
    yield ""
    yield "Generated from the table of names, by `python -m recovery_ops.wire.catalogue > docs/events.md`."
    yield ""
    yield (
        "Each event is an OpenTelemetry **log record with an event name**, in the scope `" + names.SCOPE_NAME + "`. Any"
    )
    yield "SDK may emit them by hand. `body` is a sentence for people; nothing reads it. Durations are seconds."
    yield "Names without the prefix, and with dots or dashes for underscores, are taken in as well."
    yield ""
    yield "Resource: `service.name`, `service.instance.id`, `service.version`, `deployment.environment.name` (only"
    yield "shown: the environment is the key's), `recovery.group`."
    yield ""
    yield from _heartbeats()
    yield ""
    yield "## Sending events by hand"
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
    yield "Some events begin a state of an instance, which lasts until another event ends it. The console shows that"
    yield f"state while the instance reports. **An instance that sends nothing for {SILENCE_S} seconds has stopped"
    yield "reporting: its open breaker is then *unknown*, not open.** A program that sends one of these by hand also"
    yield "sends `recovery.instance_heartbeat` every 15 seconds, as long as it runs:"
    yield ""
    for kind, why in NEED_HEARTBEATS.items():
        name = names.EVENTS[kind].full_name
        yield f"- [`{name}`](#{name.replace('.', '')}): {why}"
    yield ""
    yield "All other events count for their moment, and need none."


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
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return " · ".join(f"`{one.value}`" for one in annotation)
    return {str: "string", int: "int", float: "double", bool: "bool"}[annotation]


if __name__ == "__main__":
    sys.stdout.write(catalogue())
