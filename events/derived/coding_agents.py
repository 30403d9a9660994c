"""Failures that coding agents tell of by log events of their own: Claude Code, Codex and Gemini CLI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from events.derived.facts import failure_fact, failure_of, key_of, record_of
from events.derived.naming import NAME_CHARS, Identity
from events.derived.readings import start_of, text_of, whole_of
from events.otlp.sent import Sent
from recovery_ops.rules.enums import StopReason
from recovery_ops.rules.events import Event, Exhausted
from recovery_ops.rules.policy.classification_rules import ClassificationRule
from recovery_ops.wire import otel_names as foreign


class _Told(NamedTuple):
    """What one event of an agent means."""

    provider: str
    is_the_end: bool = False
    """The agent gives up, after attempts that it has told of one by one."""
    first_attempt: int = 1
    """The number of its first attempt."""


_EVENTS: Mapping[str, _Told] = {
    "claude_code.api_error": _Told("anthropic"),
    "claude_code.api_retries_exhausted": _Told("anthropic", is_the_end=True),
    "codex.api_request": _Told("openai", first_attempt=0),
    "codex.websocket_request": _Told("openai"),
    "codex.sse_event": _Told("openai"),
    "gemini_cli.api_error": _Told("gcp.gemini"),
}
_CLAUDE = "claude_code."
_SHORT = frozenset(name.removeprefix(_CLAUDE) for name in _EVENTS if name.startswith(_CLAUDE))
_MODEL = ("model", "gen_ai.request.model")
_STATUS = ("status_code", "http.response.status_code", "http.status_code")
_MESSAGE = ("error", "error.message", "error_message")
_TYPE = ("error_type", "error.type")
_ATTEMPT = ("attempt", "total_attempts")
_RUN = ("session.id", "conversation.id", "gen_ai.conversation.id")
_DURATION_MS = ("duration_ms", "total_retry_duration_ms")
_MOST_ATTEMPTS = 1000


def agent_event_of(event_name: str, body: object, scope: str) -> str:
    """The event of a coding agent that a record is; empty for none. Claude Code leaves its prefix to the body."""
    if event_name in _EVENTS:
        return event_name
    if event_name not in _SHORT:
        return ""
    is_claude = (isinstance(body, str) and body.startswith(_CLAUDE)) or "claude_code" in scope
    return _CLAUDE + event_name if is_claude else ""


def derive_from_agent_event(
    sent: Sent, event: str, uid: bytes, rules: Sequence[ClassificationRule] = ()
) -> Sent | None:
    """The failure or the end of retries that an agent's event tells of, beside the record, whose key is `uid`."""
    told, given, at_ns = _EVENTS[event], sent.attributes, sent.time_ns or sent.observed_ns
    message, error_type, status = text_of(given, _MESSAGE), text_of(given, _TYPE), whole_of(given, _STATUS)
    if not message and not error_type and (status is None or status < 400):
        return None
    model = start_of(given, _MODEL)
    identity = Identity((model or event.partition(".")[0])[:NAME_CHARS], told.provider, model, "")
    read: dict[str, object] = {foreign.ERROR_TYPE: error_type, foreign.EXCEPTION_MESSAGE: message}
    read |= {foreign.HTTP_STATUS[0]: status, foreign.PROVIDER[0]: told.provider}
    failure = failure_of(read, "", at_ns, identity, rules)
    if failure is None:
        return None
    stated = whole_of(given, _ATTEMPT)
    attempt = 1 if stated is None else min(max(stated + 1 - told.first_attempt, 1), _MOST_ATTEMPTS)
    duration_ms = whole_of(given, _DURATION_MS)
    duration_s = None if duration_ms is None else duration_ms / 1000
    fact: Event
    if told.is_the_end:
        fact = Exhausted(
            operation=identity.operation,
            reason=StopReason.ATTEMPTS,
            attempts=attempt,
            category=failure.category,
            duration_s=duration_s,
            message=failure.message,
        )
    else:
        read[foreign.HTTP_RESENDS[0]] = attempt - 1
        fact = failure_fact(failure, identity, read, duration_s=duration_s)
    return record_of(
        fact,
        uid=key_of("agent", uid.hex(), at_ns=at_ns),
        at_ns=at_ns,
        origin="log_record",
        given={foreign.CONVERSATION[0]: start_of(given, _RUN)},
        trace_id=sent.trace_id,
        span_id=sent.span_id,
    )
