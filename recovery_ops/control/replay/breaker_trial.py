"""Other limits of one breaker, tried on its last day: when it would have opened, beside today's limits and the record.

What is read is bounded, and more calls that went well than any window remembers are not counted one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from events.moments import US_PER_S, from_us, to_us
from events.queries.recordings import Speaker, Told, recorded_breaker
from recovery_ops.control.replay.breaker_limits import Opening, Tried, try_limits
from recovery_ops.control.replay.recorded_calls import Listener, Recording
from recovery_ops.control.replay.sanitizing import cleaned
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import BreakerStateChanged
from recovery_ops.rules.policy.model import OperationPolicy, Settings
from recovery_ops.rules.policy.settings import SETTINGS, fault_of
from recovery_ops.wire import names

LIMITS = ("failure_rate_threshold", "minimum_number_of_calls", "consecutive_failures", "sliding_window_size")
"""The settings that can be tried."""
LOOKED_BACK = timedelta(hours=24)
READ_MOST = 10_000
"""Facts of each kind; of more, the newest."""
SUCCESSES_MOST = {"count_based": 2_000_000, "time_based": 200_000}
"""That go through a breaker one by one, in all, by what its window counts."""

_A = names.ATTRIBUTES
_WAIT = names.attribute_of(BreakerStateChanged, "wait_s")
_EVIDENCE = tuple(names.attribute_of(BreakerStateChanged, name) for name in ("calls", "failures"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What the limits that were asked for (`asked`) make of [since, end), what today's do, and what was recorded."""

    since: datetime
    end: datetime
    is_cut: bool
    """Whether there is more before `since` than is read."""
    instances: int
    """That told anything of it."""
    failures: int
    rules: OperationPolicy
    asked: Settings
    recorded: Sequence[Opening]
    today: Tried
    other: Tried


def limits_of(given: Mapping[str, str], rules: OperationPolicy) -> tuple[Settings, dict[str, str]]:
    """Today's settings with the limits that somebody typed, and what is wrong with each that is none."""
    said: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for name in LIMITS:
        text = given.get(name, "").strip().replace(",", ".")
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if fault := fault_of(SETTINGS[name], value):
            faults[name] = fault
        else:
            said[name] = int(value) if SETTINGS[name].kind == "whole" else value
    return replace(rules.settings, **said), faults


def trial_of(environment: str, breaker: str, rules: OperationPolicy, asked: Settings, *, now: datetime) -> Trial:
    """Try other limits on the last day of a breaker. Four queries."""
    start_us, end_us = to_us(now - LOOKED_BACK), to_us(now)
    found = recorded_breaker(environment, breaker, start_us=start_us, end_us=end_us, most=READ_MOST)
    parts = [(speaker, [cleaned(fact) for fact in told]) for speaker, told in found.parts]
    recordings = _recordings(parts, rules, found.since_us)
    return Trial(
        since=from_us(found.since_us),
        end=now,
        is_cut=found.is_cut,
        instances=len(parts),
        failures=sum(len(call.attempts) for one in recordings for call in one.calls),
        rules=rules,
        asked=asked,
        recorded=list(_recorded(parts)),
        today=try_limits(recordings, breaker, rules),
        other=try_limits(recordings, breaker, replace(rules, settings=asked)),
    )


def _recordings(
    parts: Iterable[tuple[Speaker, Sequence[Told]]], rules: OperationPolicy, since_us: int
) -> list[Recording]:
    found = [Listener(speaker, since_us / US_PER_S, rules.failures).listen(told) for speaker, told in parts]
    successes = [some for one in found for some in one.successes]
    most = SUCCESSES_MOST[rules.settings.sliding_window_type or "count_based"]
    if sum(some.count for some in successes) > most:
        each = max(1, most // len(successes))
        for some in successes:
            some.count = min(some.count, each)
    return found


def _recorded(parts: Iterable[tuple[Speaker, Sequence[Told]]]) -> Iterable[Opening]:
    """When it really opened, in order within each instance; until its cooldown was over, or what came sooner."""
    for speaker, told in parts:
        moves = [fact for fact in told if fact.event == "breaker_state_changed"]
        for place, fact in enumerate(moves):
            if fact.state != State.OPEN.value:
                continue
            at_s = fact.at_us / US_PER_S
            until_s = at_s + float(fact.attributes.get(_WAIT) or 0.0)
            if place + 1 < len(moves):
                next_s = moves[place + 1].at_us / US_PER_S
                until_s = min(until_s, next_s) if _WAIT in fact.attributes else next_s
            calls, failures = (fact.attributes.get(name) for name in _EVIDENCE)
            yield Opening(
                at_s=at_s,
                until_s=until_s,
                service=speaker.service,
                instance=speaker.instance,
                trigger=str(fact.attributes.get(_A["trigger"], "")),
                calls=None if calls is None else int(calls),
                failures=None if failures is None else int(failures),
            )
