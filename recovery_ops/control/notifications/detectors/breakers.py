"""Moves of breakers: each opening of each instance; and the end, once no instance that reports is open any more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.db.models import Max
from django.urls import reverse

from events.models import BreakerState, Fact
from events.moments import from_us, to_us
from events.queries.readings import MOVED, Attributes, number_or_none, text_of
from events.wording import share_text
from recovery_ops.control.notifications.triggers import Look, Occurrence
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import BreakerStateChanged
from recovery_ops.rules.notifications.grouping import Phase, Severity

READ = 2_000
"""Moves read in one look, the newest."""
_STOPS = (State.OPEN.value, State.FORCED_OPEN.value)
_FLOWS = (State.CLOSED.value,)
_SAID = Attributes(BreakerStateChanged, "trigger", "failure_rate", "calls")


def found(look: Look) -> Iterator[Occurrence]:
    """What moved lately. Two queries; index `fact_by_event`."""
    if not look.wants("breaker_moved") and not any(one.startswith("breaker ") for one in look.open):
        return
    moved = Fact.objects.filter(environment=look.environment, event=MOVED, at_us__gte=to_us(look.since), breaker__gt="")
    rows = list(
        moved.filter(state__in=(*_STOPS, *_FLOWS))
        .order_by("-at_us", "-id")
        .values_list("uid", "breaker", "operation", "state", "at_us", "agent__instance", "attributes")[:READ]
    )
    stopped = _stopped(look) if rows or look.open else frozenset()
    for uid, breaker, operation, state, at_us, instance, attributes in reversed(rows):
        if state in _FLOWS and breaker in stopped:
            continue  # it is over when the last one is over
        is_end = state in _FLOWS
        said = _SAID.of(attributes)
        yield Occurrence(
            kind="breaker_closed" if is_end else "breaker_opened",
            event=bytes(uid).hex(),
            subject=f"breaker {breaker}",
            phase=Phase.ENDED if is_end else Phase.BEGAN,
            severity=Severity.WARNING,
            at=from_us(at_us),
            title=f"Breaker {breaker} is closed" if is_end else f"Breaker {breaker} is {state.replace('_', ' ')}",
            text=f"On {instance}{'' if is_end else _why(said)}.",
            path=reverse("breaker", args=[breaker]),
            triggers=frozenset() if is_end else frozenset({"breaker_moved"}),
            operation=operation or breaker,
            is_flappy=True,
        )
    yield from _fell_silent(look, stopped)


def _fell_silent(look: Look, stopped: frozenset[str]) -> Iterator[Occurrence]:
    """Breakers that were told to be open, where nobody who still reports says so and the closing was never heard."""
    told = {one.removeprefix("breaker ") for one in look.open if one.startswith("breaker ")} - stopped
    if not told:
        return
    newest = BreakerState.objects.filter(environment=look.environment, breaker__in=told).values_list("breaker")
    for breaker, at_us in newest.annotate(newest=Max("at_us")):
        if at_us is None or from_us(at_us) >= look.since:
            continue  # its closing is among the moves, or will be
        yield Occurrence(
            kind="breaker_silent",
            event=f"{breaker}:{at_us}",
            subject=f"breaker {breaker}",
            phase=Phase.ENDED,
            severity=Severity.WARNING,
            at=look.now,
            title=f"Breaker {breaker} is no longer open",
            text="No reporting instance has it open.",
            path=reverse("breaker", args=[breaker]),
            operation=breaker,
            is_flappy=True,
        )


def _stopped(look: Look) -> frozenset[str]:
    """The breakers that are open in some instance that reports."""
    seen_us = to_us(look.now - timedelta(seconds=settings.UNREACHABLE_AFTER_S))
    rows = BreakerState.objects.filter(
        environment=look.environment, state__in=_STOPS, agent__last_seen_us__gte=seen_us
    ).values_list("breaker", flat=True)
    return frozenset(rows)


def _why(said: dict[str, object]) -> str:
    rate, calls, trigger = number_or_none(said["failure_rate"]), said["calls"], text_of(said["trigger"])
    if rate is not None and trigger == "failure_rate":
        return f": {share_text(rate)} of {calls} calls failed"
    return f": {trigger.replace('_', ' ')}" if trigger else ""
