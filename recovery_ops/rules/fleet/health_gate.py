"""Whether a policy that some instances run already does them good: go on, wait, or take it back, and why.

Two sides of one time are compared: the cohort that runs the new policy, and what it is measured against. A measure is
worse when the difference both matters (it is larger than a tolerance) and is hardly chance (so many standard errors of
two rates of rare events). The bar for chance is high, because the question is asked again every few seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from recovery_ops.rules.lazy_dataclass import dataclass

LEAST_CALLS = 50
"""Calls on each side, before anything is concluded from them."""
LEAST_LATENCIES = 100
"""Timed calls on each side, before their slow end says anything."""
STANDARD_ERRORS = 3.5
"""How far beyond chance a difference has to be: below one in 4,000 when nothing is different."""
MANY_SILENT = 0.5
"""The share of a cohort that may fall silent before that alone takes the policy back."""


class Health(StrEnum):
    """What is to be done."""

    GO = "go"
    WAIT = "wait"
    ROLL_BACK = "roll_back"


@dataclass(frozen=True, slots=True)
class Measure:
    """A count per call. `ratio` and `floor`: a rate may be as high as the other's times the one plus the other.

    A rate that is high already cannot rise by so much. So what is left may not shrink by the ratio either, unless that
    is less than the floor: of 35 calls in 100 that still pass, 23.
    """

    name: str
    word: str
    ratio: float
    floor: float

    def most(self, usual: float) -> float:
        """The highest rate that is no worse than this one."""
        most = usual * self.ratio + self.floor
        return most if usual >= 1 else min(most, max(usual + self.floor, 1 - (1 - usual) / self.ratio))


MEASURES = (
    Measure("failures", "failed attempts per call", ratio=1.5, floor=0.02),
    Measure("rejected", "rejected calls per call", ratio=1.5, floor=0.02),
    Measure("exhausted", "exhausted calls per call", ratio=1.25, floor=0.01),
)
SLOWER, SLOWER_S = 1.5, 0.1
"""The p95 of the cohort may be the other's times the one plus the other, in seconds …"""
MOST_SLOW = 0.1
"""… and so large a share of its calls may take longer than the other's p95: buckets are wide."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted of some calls. `latencies` are successful calls by the upper bound of their bucket, in s."""

    calls: int = 0
    failures: int = 0
    rejected: int = 0
    exhausted: int = 0
    latencies: Mapping[float, int] = field(default_factory=dict)

    def rate(self, measure: str) -> float:
        """A count per call; 0 without calls."""
        count: int = getattr(self, measure)
        return count / self.calls if self.calls else 0.0

    @property
    def timed(self) -> int:
        """How many calls were timed."""
        return sum(self.latencies.values())

    @property
    def p95_s(self) -> float | None:
        """The upper bound of the bucket with the 95th of 100 calls; None where too few were timed, inf beyond all."""
        if self.timed < LEAST_LATENCIES:
            return None
        left = math.ceil(self.timed * 0.95)
        for bound_s in sorted(self.latencies):
            left -= self.latencies[bound_s]
            if left <= 0:
                return bound_s
        return None

    def over(self, bound_s: float) -> float:
        """The share of timed calls that took longer."""
        slower = sum(count for bound, count in self.latencies.items() if bound > bound_s)
        return slower / self.timed if self.timed else 0.0

    def __add__(self, other: Counts) -> Counts:
        latencies = dict(self.latencies)
        for bound_s, count in other.latencies.items():
            latencies[bound_s] = latencies.get(bound_s, 0) + count
        return Counts(
            self.calls + other.calls,
            self.failures + other.failures,
            self.rejected + other.rejected,
            self.exhausted + other.exhausted,
            latencies,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side: its instances, those that fell silent or refused the policy, and its counts by operation."""

    word: str
    """`the canary`, `other instances`, `the canary before`."""
    instances: int = 0
    silent: int = 0
    refused: int = 0
    by_operation: Mapping[str, Counts] = field(default_factory=dict)

    @property
    def total(self) -> Counts:
        """All operations together."""
        return sum(self.by_operation.values(), Counts())


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What the gate says, in a word and in a sentence."""

    health: Health
    sentence: str


def judge(cohort: Side, other: Side, *, least_calls: int = LEAST_CALLS) -> Opinion:
    """Whether the cohort is well, compared with the other side."""
    gone = _gone(cohort, other)
    if gone:
        return Opinion(health=Health.ROLL_BACK, sentence=gone)
    worse = []
    for operation in sorted(cohort.by_operation.keys() & other.by_operation.keys()):
        mine, theirs = cohort.by_operation[operation], other.by_operation[operation]
        worse += _worse(f" of {operation}", mine, theirs, other.word, least_calls)
    if not worse:  # no operation by itself: too few calls of each, or a little in all of them
        worse = _worse(_mostly(cohort), cohort.total, other.total, other.word, least_calls)
    if worse:
        return Opinion(health=Health.ROLL_BACK, sentence=_joined(worse))
    missing = _missing(cohort, other, least_calls)
    if missing:
        return Opinion(health=Health.WAIT, sentence=missing)
    return Opinion(health=Health.GO, sentence=_well(cohort.total, other.total, other.word))


def _gone(cohort: Side, other: Side) -> str:
    """What makes counting needless: the cohort does not take the policy, or does not live to tell."""
    if cohort.refused:
        return f"{cohort.refused} of {_instances(cohort.instances)} of the canary rejected the policy."
    if not cohort.instances:
        return ""
    share = cohort.silent / cohort.instances
    usual = other.silent / other.instances if other.instances else 0.0
    if share >= MANY_SILENT and share > usual + 0.25:
        return (
            f"{cohort.silent} of {_instances(cohort.instances)} of the canary stopped reporting, against "
            f"{other.silent} of {other.instances} of {other.word}."
        )
    return ""


def _mostly(cohort: Side) -> str:
    """Of all operations together: where most of it went wrong, to begin looking."""

    def trouble(operation: str) -> int:
        counts = cohort.by_operation[operation]
        return counts.failures + counts.rejected + counts.exhausted

    names = sorted(cohort.by_operation, key=lambda one: (-trouble(one), one))
    return f" of all operations, most of them in {names[0]}," if names and trouble(names[0]) else " of all operations"


def _worse(of: str, mine: Counts, theirs: Counts, word: str, least_calls: int) -> list[str]:
    """Every measure that is worse, in words; `of` says of what."""
    if mine.calls < least_calls or theirs.calls < least_calls:
        return []
    found = [
        f"{one.word}{of} {_rate(mine.rate(one.name))} against {_rate(theirs.rate(one.name))} of {word}"
        for one in MEASURES
        if _is_worse(one, mine, theirs)
    ]
    slow, usual = mine.p95_s, theirs.p95_s
    if slow is not None and usual is not None and _is_slower(slow, usual, mine, theirs):
        found.append(f"p95{of} {_seconds(slow)} against {_seconds(usual)} of {word}")
    return found


def _is_slower(slow: float, usual: float, mine: Counts, theirs: Counts) -> bool:
    if slow <= usual * SLOWER + SLOWER_S:
        return False
    over, usually_over = mine.over(usual), theirs.over(usual)
    pooled = (over * mine.timed + usually_over * theirs.timed) / (mine.timed + theirs.timed)
    error = math.sqrt(pooled * (1 / mine.timed + 1 / theirs.timed))
    return over > MOST_SLOW and over - usually_over > STANDARD_ERRORS * error


def _is_worse(measure: Measure, mine: Counts, theirs: Counts) -> bool:
    rate, usual = mine.rate(measure.name), theirs.rate(measure.name)
    if rate <= measure.most(usual):
        return False
    counted = getattr(mine, measure.name) + getattr(theirs, measure.name)
    pooled = counted / (mine.calls + theirs.calls)
    error = math.sqrt(pooled * (1 / mine.calls + 1 / theirs.calls))
    return rate - usual > STANDARD_ERRORS * error


def _missing(cohort: Side, other: Side, least_calls: int) -> str:
    """What evidence is still to come, in words."""
    for side, word in ((cohort, "the canary under the new policy"), (other, other.word)):
        if side.total.calls < least_calls:
            return f"Not enough data: {side.total.calls} of {least_calls} required calls of {word}."
    return ""


def _well(mine: Counts, theirs: Counts, word: str) -> str:
    rates = ", ".join(
        f"{one.word} {_rate(mine.rate(one.name))} against {_rate(theirs.rate(one.name))}" for one in MEASURES
    )
    return f"No worse than {word}: {rates}, in {mine.calls:,} calls."


def _joined(parts: Sequence[str]) -> str:
    """The gravest three."""
    shown: Iterable[str] = parts[:3]
    more = f", and {len(parts) - 3} more" if len(parts) > 3 else ""
    return f"Worse: {'; '.join(shown)}{more}."


def _rate(rate: float) -> str:
    return f"{rate * 100:.1f} %"


def _seconds(seconds: float) -> str:
    return "beyond the last bound" if math.isinf(seconds) else f"{seconds:g} s"


def _instances(count: int) -> str:
    return f"{count} instance{'' if count == 1 else 's'}"
