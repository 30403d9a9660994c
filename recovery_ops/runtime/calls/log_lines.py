"""Log lines about recovery by the logger `recovery_ops`: the fields stand in `extra` and in the text."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from recovery_ops.rules.enums import CAPACITY, State
from recovery_ops.rules.events import (
    BreakerStateChanged,
    DegradationEnded,
    Event,
    FailureClassified,
    FallbackActivated,
    RetryScheduled,
)
from recovery_ops.runtime.process.log_messages import TroubleLog

LOGGER = logging.getLogger("recovery_ops")
_notices = TroubleLog(LOGGER)

_Line = tuple[int, str, dict[str, Any]]


def _retry(event: RetryScheduled) -> _Line:
    fields = {"attempt": event.attempt, "wait_s": event.delay_s, "category": event.category.value}
    return logging.WARNING, "{operation}: {category}; attempt {attempt} in {wait_s:g} s", fields


def _breaker(event: BreakerStateChanged) -> _Line | None:
    if event.state not in (State.OPEN, State.FORCED_OPEN):
        return None
    category = event.last_category.value if event.last_category else ""
    fields = {
        "breaker": event.breaker,
        "state": event.state.value,
        "trigger": event.trigger.value,
        "category": category,
        "failures": event.failures,
    }
    return logging.WARNING, "{operation}: breaker {breaker} is {state} ({trigger})", fields


def _fallback(event: FallbackActivated) -> _Line:
    category = event.category.value if event.category else event.reason
    return (
        logging.WARNING,
        "{operation}: {category}; {fallback} answered",
        {"category": category, "fallback": event.fallback},
    )


def _ended(event: DegradationEnded) -> _Line:
    fields = {"kind": event.kind, "duration_s": event.duration_s}
    return logging.INFO, "{operation}: no longer degraded ({kind}, {duration_s:g} s)", fields


_LINES: dict[type[Event], Callable[[Any], _Line | None]] = {
    RetryScheduled: _retry,
    BreakerStateChanged: _breaker,
    FallbackActivated: _fallback,
    DegradationEnded: _ended,
}


def write(events: Sequence[Event], *, source: str, is_foreground: bool) -> None:
    """Log events of one call, without the runtime's lock. Never raises."""
    for event in events:
        if isinstance(event, FailureClassified):
            if event.category in CAPACITY and not source and not is_foreground:
                _undeclared(event)
            if event.inner_retries:
                _retried_below(event)
            continue
        line = _LINES.get(type(event))
        found = line(event) if line is not None else None
        if found is not None and LOGGER.isEnabledFor(found[0]):
            level, text, fields = found
            fields["operation"] = event.operation
            with suppress(Exception):  # a handler of the application
                LOGGER.log(level, text.format(**fields), extra=fields)


def _undeclared(event: FailureClassified) -> None:
    with suppress(Exception):
        _notices.once(
            "undeclared_source",
            "recovery-ops: %s failed with %s and is not retried, because its source is not declared: declare it with"
            ' recovery.run(source="main_agent") or Recovery(default_source="main_agent")',
            event.operation,
            event.category.value,
        )


def _retried_below(event: FailureClassified) -> None:
    with suppress(Exception):
        _notices.once(
            f"inner_retries of {event.operation}",
            "recovery-ops: %s failed after its client had retried %d times by itself. Both retry, so their attempts"
            " multiply: switch off the retries of the client (max_retries=0 for OpenAI and Anthropic)",
            event.operation,
            event.inner_retries,
        )
