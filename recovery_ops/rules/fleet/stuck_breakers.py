"""Breakers that do not move although they should: found in what was reported, each with what to do about it.

Three ways to be stuck: half-open for too long, open without anybody who calls (and so without a probe), and closed
while nearly everything fails, because none of the failures counts or the limits are never reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import StrEnum

from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.failure_effects import BUILT_IN_EFFECTS, Effects
from recovery_ops.rules.policy.fleet_settings import NOTHING_STUCK_SAID, StuckBounds
from recovery_ops.rules.policy.model import FAIL_CLOSED, Settings

_MOST_NAMED = 3


class Kind(StrEnum):
    """In which way it is stuck."""

    HALF_OPEN = "half_open_too_long"
    IDLE_OPEN = "open_without_traffic"
    UNCOUNTED = "failures_not_counted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One breaker across the fleet, by what its instances reported, and what was counted of it in a window."""

    half_open: int = 0
    half_open_for_s: float = 0.0
    """How long the first of them has been so."""
    open: int = 0
    open_for_s: float = 0.0
    closed: int = 0
    idle_s: float | None = None
    """Since when nothing was called; None: it was, within the window or as far as is known."""
    window_s: float = 900.0
    """How long ago the window began in which attempts and failures were counted; it goes on."""
    attempts: int = 0
    """As instances count them, every ten seconds …"""
    failures: Mapping[Category, int] = field(default_factory=dict)
    """… and failures as each was told, at once: so there may be more of these."""
    effects: Effects = BUILT_IN_EFFECTS
    """Which of them count for a breaker."""

    @property
    def failed(self) -> int:
        """All failures of the window."""
        return sum(self.failures.values())

    @property
    def counting(self) -> int:
        """Those that a breaker counts."""
        return sum(count for category, count in self.failures.items() if self.effects.opens(category))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One way in which a breaker is stuck, in a sentence, and what a person can do."""

    kind: Kind
    sentence: str
    advice: str


def findings(
    seen: Seen, bounds: StuckBounds = NOTHING_STUCK_SAID, settings: Settings = FAIL_CLOSED
) -> tuple[Finding, ...]:
    """Every way in which it is stuck. `settings` are those of its operation, as far as the policy knows them."""
    return (*_half_open(seen, bounds), *_idle(seen, bounds), *_uncounted(seen, bounds, settings))


def _half_open(seen: Seen, bounds: StuckBounds) -> Iterator[Finding]:
    if not seen.half_open or seen.half_open_for_s < bounds.half_open_s:
        return
    is_idle = seen.idle_s is not None
    why = "no calls, so no probes" if is_idle else "probes neither succeed nor fail"
    advice = (
        "Reset it if the service is healthy, or send a call."
        if is_idle
        else "Check for hanging calls, then reset or trip the breaker."
    )
    yield Finding(
        kind=Kind.HALF_OPEN,
        sentence=f"Half-open on {_instances(seen.half_open)} for {_span(seen.half_open_for_s)}: {why}.",
        advice=advice,
    )


def _idle(seen: Seen, bounds: StuckBounds) -> Iterator[Finding]:
    if not seen.open or seen.idle_s is None or min(seen.open_for_s, seen.idle_s) < bounds.idle_open_s:
        return
    yield Finding(
        kind=Kind.IDLE_OPEN,
        sentence=(
            f"Open on {_instances(seen.open)} for {_span(seen.open_for_s)}: no calls for ≥ {_span(seen.idle_s)}, "
            "so no probes."
        ),
        advice="Reset it if the service is healthy. Ignore it if the operation is no longer used.",
    )


def _uncounted(seen: Seen, bounds: StuckBounds, settings: Settings) -> Iterator[Finding]:
    is_closed = bool(seen.closed) and not seen.open and not seen.half_open
    if not is_closed or not seen.attempts or seen.failed < bounds.uncounted_failures:
        return
    if seen.idle_s is not None:
        return  # it failed, and nobody calls it any more: there is nothing to open it for
    if seen.failed < bounds.uncounted_share * seen.attempts:
        return
    said = f"{_failed(seen)} in the last {_exactly(seen.window_s)}, "
    if not seen.counting:
        yield Finding(
            kind=Kind.UNCOUNTED,
            sentence=f"{said}and none counts for the breaker: {_named(seen.failures)}.",
            advice="Check the failures. If the service caused them, correct their classification.",
        )
        return
    why, advice = _why_never(seen, settings)
    if why:
        yield Finding(kind=Kind.UNCOUNTED, sentence=f"{said}and the breaker did not open: {why}.", advice=advice)


def _why_never(seen: Seen, settings: Settings) -> tuple[str, str]:
    """Why limits are never reached, and what to change; empty where they are, or another reason is not known."""
    if settings.consecutive_failures:
        return "", ""
    if not settings.failure_rate_threshold:
        return "no failure threshold is set", "Set consecutive_failures or failure_rate_threshold in the policy."
    least, size = settings.minimum_number_of_calls or 1, settings.sliding_window_size or 1
    if settings.sliding_window_type == "count_based":
        if least <= size:
            return "", ""
        return (
            f"the window has {size} calls, but minimum_number_of_calls is {least}",
            "Set minimum_number_of_calls to at most the window size.",
        )
    each = max(seen.attempts, seen.failed) / max(1, seen.closed) * size / seen.window_s
    if each >= least:
        return "", ""
    return (
        f"each instance makes about {each:.1f} calls per {size} s window, but minimum_number_of_calls is {least}",
        "Lower minimum_number_of_calls, or set a longer window.",
    )


def _failed(seen: Seen) -> str:
    """`140 of 150 attempts failed`; where more failures were told than attempts counted so far, both as they are."""
    if seen.failed <= seen.attempts:
        return f"{seen.failed} of {seen.attempts} attempts failed"
    return f"{seen.failed} failures, {seen.attempts} attempts"


def _named(failures: Mapping[Category, int]) -> str:
    ordered = sorted(failures.items(), key=lambda item: (-item[1], item[0].value))
    words = [f"{count} {category.value}" for category, count in ordered[:_MOST_NAMED] if count]
    return ", ".join(words) + (f" and {len(ordered) - _MOST_NAMED} other kinds" if len(ordered) > _MOST_NAMED else "")


def _instances(count: int) -> str:
    return f"{count} instance{'' if count == 1 else 's'}"


def _exactly(seconds: float) -> str:
    """`17m 20s`, as the pages write it: a window whose beginning stands."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest} s"


def _span(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
