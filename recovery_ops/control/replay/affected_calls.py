"""What another policy may decide otherwise, and what it cannot: only the first has to be decided twice.

Operations of an instance meet in the breakers that they share and in the fallbacks that they ask. Where neither an
operation nor anything that it meets in this way is ruled otherwise, no call of it can end otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from recovery_ops.control.replay.engine import Replayed, policy_at, replay
from recovery_ops.control.replay.operation_traits import Traits
from recovery_ops.control.replay.recorded_calls import Recording
from recovery_ops.rules.policy.model import OperationPolicy, Policy


def replay_both(recording: Recording, old: Policy, new: Policy) -> tuple[Replayed, Replayed]:
    """One instance under both policies; the recording is taken to have run under the old one."""
    ruled_otherwise = _ruled_otherwise(recording, old, new)
    if len(ruled_otherwise) == len(recording.traits):
        return replay(recording, old, old), replay(recording, new, old)
    changed, rest = _parts(recording, ruled_otherwise)
    same = replay(rest, old, old)
    return _joined(replay(changed, old, old), same), _joined(replay(changed, new, old), same)


def _ruled_otherwise(recording: Recording, old: Policy, new: Policy) -> set[str]:
    """The operations whose calls may end otherwise."""
    names = set(recording.traits)
    if old.classification != new.classification:
        return names
    groups = _Groups()
    changed = set()
    for name, traits in recording.traits.items():
        for other in (name, *traits.fallbacks):
            breaker = (recording.traits.get(other) or Traits(other)).breaker
            groups.join(("operation", name), ("operation", other))
            groups.join(("operation", other), ("breaker", breaker))
            before, after = (policy_at(recording, other, policy, old) for policy in (old, new))
            if _said(before) != _said(after):
                changed.add(("operation", other))
    met = {(one.operation, one.breaker) for one in recording.successes}
    met |= {(one.operation, one.breaker) for one in recording.refusals}
    for name, breaker in met:
        groups.join(("operation", name), ("breaker", breaker))
    roots = {groups.root(one) for one in changed}
    return {name for name in names if groups.root(("operation", name)) in roots}


def _said(policy: OperationPolicy) -> OperationPolicy:
    """What it says, whichever rules say it and however it is numbered."""
    return replace(policy, version="", winning_rules=())


class _Groups:
    """Things that belong together, found by joining two at a time."""

    def __init__(self) -> None:
        self._above: dict[tuple[str, str], tuple[str, str]] = {}

    def root(self, one: tuple[str, str]) -> tuple[str, str]:
        """The one that stands for its group."""
        while (above := self._above.get(one, one)) != one:
            one = above
        return one

    def join(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        """From now on these are one group."""
        self._above[self.root(one)] = self.root(other)


def _parts(recording: Recording, names: set[str]) -> tuple[Recording, Recording]:
    """What the recording tells of these operations, and the rest of it."""

    def part(*, is_theirs: bool) -> Recording:
        traits = {name: one for name, one in recording.traits.items() if (name in names) is is_theirs}
        breakers = {breaker for one in traits.values() for breaker in one.breakers}
        return replace(
            recording,
            traits=traits,
            calls=[one for one in recording.calls if (one.operation in names) is is_theirs],
            successes=[one for one in recording.successes if (one.operation in names) is is_theirs],
            refusals=[one for one in recording.refusals if (one.operation in names) is is_theirs],
            moves=[one for one in recording.moves if one.breaker in breakers],
            asked=[one for one in recording.asked if (one in names) is is_theirs],
        )

    return part(is_theirs=True), part(is_theirs=False)


def _joined(changed: Replayed, same: Replayed) -> Replayed:
    """Both parts of one instance. No operation is in both."""
    unknown = dict(changed.unknown)
    for what, number in same.unknown.items():
        unknown[what] = unknown.get(what, 0) + number
    return Replayed(
        calls=changed.calls | same.calls,
        refused_successes=changed.refused_successes + same.refused_successes,
        refused_retries=changed.refused_retries | same.refused_retries,
        unknown=unknown,
        by_operation=changed.by_operation | same.by_operation,
    )
