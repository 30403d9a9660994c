"""How well outages are found: the rule, run as often as the worker looks, on traffic whose outages are known.

The traffic is made by seeded chance: many instances, scattered failures, runs that hammer one broken thing, small
bursts that are no outage, and outages of every strength, some of which flap. It tells precision, recall, how many
events one outage becomes, and how long it takes until the first look that finds it.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from recovery_ops.bench.figures import Figure, Report, percentile
from recovery_ops.rules.outages import BOUNDS, Hit, Interval, OutageBounds, merged, outages

LENGTH_S = 6 * 3600
INSTANCES = 40
BACKENDS = 4
SEEDS = 5
LOOK_EVERY_S = 5.0
"""How often the worker looks."""
LOOKED_AT_S = 90.0
"""What each look reads; what lies further back, the looks before it have read."""


@dataclass(slots=True)
class Traffic:
    """The failures of one backend, and its outages as they were made."""

    hits: list[Hit] = field(default_factory=list)
    known: list[Interval] = field(default_factory=list)


@dataclass(slots=True)
class Score:
    """What was found in some traffic, beside what was there."""

    known: int = 0
    found: int = 0
    right: int = 0
    met: int = 0
    pieces: int = 0
    delays_s: list[float] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """The share of what was found that was there."""
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """The share of what was there that was found."""
        return self.met / self.known if self.known else 1.0


def measure(seeds: int = SEEDS, bounds: OutageBounds = BOUNDS) -> Report:
    """All seeds together."""
    score = Score()
    for seed in range(seeds):
        for backend in range(BACKENDS):
            judge(traffic_of(random.Random(f"{seed}-{backend}"), bounds), score, bounds)
    report = Report("outages found in traffic whose outages are known")
    told = f"{score.known:,} outages, {score.found:,} events, {seeds * BACKENDS:,} backends of {LENGTH_S // 3600} h"
    report.add("precision", round(100 * score.precision, 2), "%", aim=99.0, note=told)
    report.add("recall", round(100 * score.recall, 2), "%", aim=99.0, note="outages that became an event")
    report.add("events per outage", score.pieces / max(1, score.met), "", aim=1.0, note="one outage is one event")
    note = "a run that hammers while three others fail within half a minute: by the rule, four share it"
    report.add("false events", score.found - score.right, "", aim=0.0, note=note)
    if score.delays_s:
        note = f"from the failure that makes it one to the look that finds it; a look every {LOOK_EVERY_S:g} s"
        figures = [Figure("found after, p50", percentile(score.delays_s, 0.5), "s", aim=10.0, note=note)]
        figures.append(Figure("found after, p99", percentile(score.delays_s, 0.99), "s", aim=10.0))
        report.figures += figures
    return report


def traffic_of(chance: random.Random, bounds: OutageBounds = BOUNDS) -> Traffic:
    """Six hours of one backend."""
    traffic = Traffic()
    traffic.hits += _scattered(chance)
    at = chance.uniform(600, 1800)
    while at < LENGTH_S - 1800:
        burst = [hit for start in _bursts(chance, at) for hit in start]
        traffic.hits += burst
        traffic.known.append(Interval(burst[0].at, burst[-1].at))
        at = burst[-1].at + chance.uniform(2 * bounds.merge_s + 60, 3600)
    traffic.hits += _decoys(chance)
    traffic.hits.sort(key=lambda hit: hit.at)
    return traffic


def judge(traffic: Traffic, score: Score, bounds: OutageBounds = BOUNDS) -> None:
    """Look as the worker looks, and count what was found against what was there."""
    found, first_seen = looked(traffic.hits, bounds)
    score.known += len(traffic.known)
    score.found += len(found)
    score.right += sum(any(_meet(one, known) for known in traffic.known) for one in found)
    for known in traffic.known:
        pieces = [one for one in found if _meet(one, known)]
        score.met += bool(pieces)
        score.pieces += len(pieces)
        hot = outages([hit for hit in traffic.hits if known.started <= hit.at <= known.last], bounds)
        looks = [at for at, one in first_seen if _meet(one, known)]
        if hot and looks:
            score.delays_s.append(max(0.0, min(looks) - _became_hot(traffic.hits, known, bounds)))


def looked(hits: Sequence[Hit], bounds: OutageBounds = BOUNDS) -> tuple[list[Interval], list[tuple[float, Interval]]]:
    """What repeated looks at the last minutes add up to, and at which look each was first seen."""
    known: list[Interval] = []
    first_seen: list[tuple[float, Interval]] = []
    first = last = 0
    at = 0.0
    while at < LENGTH_S + LOOK_EVERY_S:
        before = last
        while last < len(hits) and hits[last].at <= at:
            last += 1
        while first < last and hits[first].at < at - LOOKED_AT_S:
            first += 1
        if last > before and last - first >= bounds.least_failures:
            fresh = outages(hits[first:last], bounds)
            first_seen += [(at, one) for one in fresh if not any(_meet(one, old) for old in known)]
            known = merged([*known, *fresh], bounds)
        at += LOOK_EVERY_S
    return known, first_seen


def _became_hot(hits: Sequence[Hit], known: Interval, bounds: OutageBounds) -> float:
    """The failure with which it was an outage by the rule."""
    within = [hit for hit in hits if known.started <= hit.at <= known.last]
    # One more failure never makes an outage less of one, so the first that makes one is found by halving.
    number = bisect_left(range(len(within)), True, key=lambda count: bool(outages(within[: count + 1], bounds)))
    return within[number].at if number < len(within) else known.last


def _meet(one: Interval, other: Interval) -> bool:
    return one.started <= other.last and other.started <= one.last


def _scattered(chance: random.Random) -> Iterator[Hit]:
    """Single failures, one in a minute or two, from anybody."""
    at = chance.expovariate(1 / 90)
    while at < LENGTH_S:
        yield _hit(chance, at)
        at += chance.expovariate(1 / 90)


def _bursts(chance: random.Random, start: float) -> Iterator[list[Hit]]:
    """One outage: a stretch of failures, or several with pauses shorter than what is merged."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        per_s, until = chance.uniform(0.4, 3.0), start + chance.uniform(30, 420)
        burst, at = [], start
        while at < until:
            burst.append(_hit(chance, at))
            at += chance.expovariate(per_s)
        yield burst
        start = until + chance.uniform(20, 200)


def _decoys(chance: random.Random) -> Iterator[Hit]:
    """What looks like an outage and is none: one run that hammers, and a handful of failures at once."""
    for _ in range(6):
        at, who = chance.uniform(0, LENGTH_S), f"agent-{chance.randrange(INSTANCES)}"
        yield from (Hit(at + 1.5 * n, f"run-alone-{at:.0f}", who) for n in range(30))
    for _ in range(6):
        at = chance.uniform(0, LENGTH_S)
        yield from (_hit(chance, at + n) for n in range(2))


def _hit(chance: random.Random, at: float) -> Hit:
    instance = chance.randrange(INSTANCES)
    return Hit(at, f"run-{instance}-{int(at) // 60}", f"agent-{instance}")
