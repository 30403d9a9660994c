"""The thresholds of a breaker that several operations share: one rule for agents and for the replay of what they did.

A number that the code of one operation names holds for the breaker; two operations that name different ones contradict
each other. A rule of the policy for any of the operations applies to the breaker, as an override does, and the most
specific wins. All else comes from the kind of the operation whose name is the first. The order of registration is
never asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.model import OperationPolicy, Policy, Settings
from recovery_ops.rules.policy.scope import Place

THRESHOLDS = (
    *("failure_rate_threshold", "sliding_window_type", "sliding_window_size", "minimum_number_of_calls"),
    *("consecutive_failures", "consecutive_failures_with_fallback"),
    *("slow_call_rate_threshold", "slow_call_duration_s", "wait_duration_in_open_s"),
    *("permitted_calls_in_half_open", "max_wait_in_half_open_s"),
)
"""The settings that are a breaker's, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An operation of a breaker; `code` holds the settings that its code names."""

    place: Place
    kind: str = "operation"
    code: Settings = Settings()

    def policy(self, policy: Policy, shared: Settings) -> OperationPolicy:
        """What holds for the operation; `shared` are the thresholds of its breaker."""
        own = policy.for_operation(self.place, kind=self.kind, code=self.code)
        return own if shared == _NOTHING else replace(own, settings=shared.over(own.settings))


_NOTHING = Settings()


def shared_thresholds(policy: Policy, members: Sequence[Member]) -> Settings:
    """The thresholds of a breaker with these operations; nothing where it has only one, whose own they are."""
    if len(members) < 2:
        return _NOTHING
    first = min(members, key=lambda one: (one.kind == "undeclared", one.place.operation))
    code = Settings(**{name: value for one in members for name, value in _said(one)})  # type: ignore[arg-type]  # they were settings before
    places = [one.place for one in members]
    found = policy.for_operation(first.place, kind=first.kind, code=code, sharing=places).settings
    return Settings(**{name: getattr(found, name) for name in THRESHOLDS})


def contradictions(members: Iterable[Member]) -> list[str]:
    """Thresholds that the code of two operations names differently, each with both values."""
    return [
        f"{name} is {its!r} for {one.place.operation} and {getattr(other.code, name)!r} for {other.place.operation}"
        for one, other in combinations(members, 2)
        for name, its in _said(one)
        if getattr(other.code, name) not in (None, its)
    ]


def _said(member: Member) -> list[tuple[str, object]]:
    return [(name, value) for name in THRESHOLDS if (value := getattr(member.code, name)) is not None]
