"""Derived facts as records: the rules' own facts, encoded like an agent's, with a mark and a key of their own.

The key of a failure is made of its trace, its span, the type of the error and the second that it happened in.
Instrumentation often tells of one exception twice, on the span and as a log; both have the same key, so it is one fact,
in whatever order, batch or process they arrive. A number tells equal errors of one second apart: those of a span by
their order in it, those that were logged by the order in which they came, which is remembered
(`events.derived.traces`).
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections import Counter
from collections.abc import Sequence

from events.derived.evidence import signal_of
from events.derived.naming import Identity, kind_of, run_of
from events.derived.readings import Attributes, class_name_of, number_in, start_of, text_of, whole_of
from events.otlp.sent import Sent
from recovery_ops.rules.classification.classify import Failure, classify
from recovery_ops.rules.enums import Category, DelaySource
from recovery_ops.rules.events import Event, FailureClassified, ModelFallback, Record, RetryScheduled
from recovery_ops.rules.policy.classification_rules import ClassificationRule
from recovery_ops.wire import encode, names
from recovery_ops.wire import otel_names as foreign

_NS_PER_S = 1_000_000_000
_MOST_ATTEMPTS = 1000
_MESSAGE = names.attribute_of(FailureClassified, "message")


class Keys:
    """Keys of the derived facts of one request."""

    def __init__(self) -> None:
        self._given: Counter[tuple[str, str, int]] = Counter()
        self._records: set[bytes] = set()

    def is_first(self, uid: bytes) -> bool:
        """Whether the request holds this record for the first time."""
        is_first = uid not in self._records
        self._records.add(uid)
        return is_first

    def of_failure(self, where: str, error_type: str, at_ns: int) -> str:
        """The key of a failure; `where` is its trace and span, or what else tells it from others."""
        second = at_ns // _NS_PER_S
        error = class_name_of(error_type)
        self._given[where, error, second] += 1
        return key_of_failure(where, error_type, at_ns, self._given[where, error, second])


def key_of_failure(where: str, error_type: str, at_ns: int, number: int) -> str:
    """The key of the failure that is number so many of its second."""
    second_ns = at_ns // _NS_PER_S * _NS_PER_S
    return key_of("failure", where, class_name_of(error_type), str(number), at_ns=second_ns)


def key_of(*parts: str, at_ns: int) -> str:
    """A uid that is the same for the same parts: the time in milliseconds, then a digest."""
    digest = hashlib.sha256("\x1f".join(("derived", *parts)).encode(errors="replace")).digest()
    head = (at_ns // 1_000_000 & 0xFFFF_FFFF_FFFF).to_bytes(6, "big")
    return str(uuid.UUID(bytes=head + digest[:10]))


def failure_of(
    given: Attributes, message: str, at_ns: int, identity: Identity, rules: Sequence[ClassificationRule]
) -> Failure | None:
    """What went wrong, by the rules and by those of the policy; None for what was only cancelled."""
    failure = classify(
        signal_of(given, message),
        now=at_ns / _NS_PER_S,
        rules=rules,
        operation=identity.operation,
        provider=identity.provider,
    )
    return None if failure.category is Category.CANCELLED else failure


def failure_fact(
    failure: Failure, identity: Identity, given: Attributes, *, duration_s: float | None
) -> FailureClassified:
    """A failure as the fact that an agent with our runtime would have told."""
    resends = whole_of(given, foreign.HTTP_RESENDS) or 0
    overflow = failure.overflow
    return FailureClassified(
        operation=identity.operation,
        category=failure.category,
        evidence=failure.evidence,
        retryable=failure.can_retry,
        attempt=resends + 1 if 0 <= resends < 1000 else 1,
        verdict=failure.verdict,
        status_code=failure.status_code,
        error_type=failure.error_type,
        exception_type=failure.exception_type,
        message=failure.message,
        fingerprint=failure.fingerprint,
        retry_after_s=failure.retry_after_s,
        duration_s=duration_s,
        input_tokens=overflow.input_tokens if overflow else None,
        limit_tokens=overflow.limit_tokens if overflow else None,
        provider=identity.provider or None,
        model=identity.model or None,
        tool=identity.tool or None,
        region=identity.region or None,
        request_id=failure.request_id,
        error_code=failure.code,
        rule=failure.rule,
        instead_of=failure.instead_of,
    )


def retry_fact(identity: Identity, given: Attributes, at_ns: int) -> RetryScheduled:
    """A retry that instrumentation notes; `attempt` is that of the coming one, 2 where nothing tells it."""
    failure = None
    if any(name in given for name in (*foreign.HTTP_STATUS, foreign.ERROR_TYPE, *foreign.EXCEPTIONS)):
        failure = failure_of(given, "", at_ns, identity, ())
    attempt, delay_s = whole_of(given, foreign.ATTEMPT), number_in(given, foreign.RETRY_DELAY_S)
    return RetryScheduled(
        operation=identity.operation,
        attempt=attempt if attempt is not None and 2 <= attempt <= _MOST_ATTEMPTS else 2,
        delay_s=delay_s or 0.0,
        delay_source=DelaySource.IMMEDIATE if not delay_s else DelaySource.BACKOFF,
        category=Category.UNKNOWN if failure is None else failure.category,
    )


def model_fallback(asked: str, answered: str, identity: Identity) -> ModelFallback:
    """Another model answered than the one that was asked; nobody said why."""
    return ModelFallback(
        operation=identity.operation,
        from_model=asked,
        to_model=answered,
        category=Category.UNKNOWN,
        consecutive=0,
        provider=identity.provider or None,
    )


_WRAPPED = re.compile(
    r"\AError (?:getting response|streaming response|in agent run): \{'error': (['\"])(.*)\1\}\Z", re.S
)
"""What the OpenAI Agents SDK makes of an error's text, in the span of the call and again in that of the agent."""


def exception_of(failure: Attributes) -> str:
    """A digest of the exception that a failure was, by its type and message; empty where it has no message."""
    message = _WRAPPED.sub(r"\2", text_of(failure, (_MESSAGE,)))
    error = class_name_of(text_of(failure, (foreign.EXCEPTION_TYPE, foreign.ERROR_TYPE)))
    return hashlib.sha256(f"{error}/{message}".encode(errors="replace")).hexdigest()[:12] if message else ""


def record_of(
    fact: Event, *, uid: str, at_ns: int, origin: str, given: Attributes, trace_id: str = "", span_id: str = ""
) -> Sent:
    """A derived fact as a record that was sent. `origin` says what it was derived from."""
    run = run_of(given)
    event = encode(
        Record(event=fact, uid=uid, sequence_number=0, at_ns=at_ns, run=run, trace_id=trace_id, span_id=span_id)
    )
    attributes = event.attributes | _also_said(given) | {names.DERIVED_FROM: origin}
    for unsaid in (names.SEQUENCE_NUMBER, names.POLICY_VERSION):
        attributes.pop(unsaid, None)
    return Sent(event.event_name, at_ns, 0, event.severity, event.body, attributes, trace_id, span_id)


def _also_said(given: Attributes) -> dict[str, object]:
    """A few more words of the instrumentation, for whoever looks for the cause."""
    spellings = (foreign.AGENT, foreign.CALL, foreign.SERVER)
    found: dict[str, object] = {foreign.KIND_OF_WORK[0]: kind} if (kind := kind_of(given)) else {}
    return found | {names_of[0]: said for names_of in spellings if (said := start_of(given, names_of))}
