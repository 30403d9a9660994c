"""What an exception that was logged says about recovery."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from events.derived.facts import Keys, failure_fact, failure_of, record_of
from events.derived.naming import bounded, identity_of
from events.derived.readings import Attributes, text_of
from events.otlp.sent import Sent
from recovery_ops.rules.policy.classification_rules import ClassificationRule
from recovery_ops.wire import otel_names as foreign


def is_exception(attribute_names: Iterable[str]) -> bool:
    """Whether a record with these attributes tells of an exception."""
    return any(name.startswith(foreign.EXCEPTION_PREFIX) for name in attribute_names)


_PLUMBING = ("opentelemetry.sdk", "opentelemetry.instrumentation.logging", "opentelemetry.log", "@opentelemetry/")
"""Scopes of what only passes log records on."""
_PLACES = ("logger.name", "code.namespace", "code.function.name", "code.function")


def _place_of(given: Attributes, scope: str) -> str:
    """Where a record was logged: the scope, which is the logger's name, or what the record says of its place."""
    if scope and not scope.startswith(_PLUMBING):
        return bounded(scope)
    return bounded(text_of(given, _PLACES)) or "log"


def derive_from_log(
    sent: Sent, scope: str, uid: bytes, keys: Keys, rules: Sequence[ClassificationRule] = ()
) -> Sent | None:
    """The failure that a record with an exception tells of, beside the record itself, whose key is `uid`.

    Its key is made of that of the record. What was logged in a span has the key of the span's error once that is known
    to be the same: see `events.derived.traces`.
    """
    given, at_ns = sent.attributes, sent.time_ns or sent.observed_ns
    if not text_of(given, (foreign.EXCEPTION_TYPE, foreign.EXCEPTION_MESSAGE)):
        return None
    if not keys.is_first(uid):
        return None  # a Collector that was sent a batch twice may join the two, and of equal records one is stored
    identity = identity_of(given, _place_of(given, scope))
    failure = failure_of(given, sent.body if isinstance(sent.body, str) else "", at_ns, identity, rules)
    if failure is None:
        return None
    fact = failure_fact(failure, identity, given, duration_s=None)
    return record_of(
        fact,
        uid=keys.of_failure(uid.hex(), failure.error_type, at_ns),
        at_ns=at_ns,
        origin="log_record",
        given=given,
        trace_id=sent.trace_id,
        span_id=sent.span_id,
    )
