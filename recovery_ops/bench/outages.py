"""How well outages are found: the rule, run as often as the worker looks, on traffic whose outages are known.

The traffic is made by seeded chance: many instances, scattered failures, runs that hammer one broken thing, small
bursts that are no outage, and outages of every strength, some of which flap. It tells precision, recall, how many
events one outage becomes, and how long it takes until the first look that finds it.

Chance also makes outages that nobody meant: what is scattered and what is no outage fall together, and five failures of
several runs within half a minute are one by its definition. They are found here by trying all choices of five, without
the rule, and counted as outages by chance; how many of the events were made on purpose is told beside it.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from recovery_ops.bench.figures import Figure, Report, percentile
from recovery_ops.rules.incidents.detection import BOUNDS, Hit, Interval, OutageBounds, merged, outages

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
    by_chance: list[Interval] = field(default_factory=list)
    """Outages by their definition that were not made as any."""


@dataclass(slots=True)
class Score:
    """What was found in some traffic, beside what was there."""

    known: int = 0
    found: int = 0
    right: int = 0
    made: int = 0
    """Of those found, which were made as outages; the other right ones are so by chance."""
    met: int = 0
    pieces: int = 0
    delays_s: list[float] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """The share of what was found that was there."""
        return self.right / self.found if self.found else 1.0

    @property
    def made_share(self) -> float:
        """The share of what was found that was made as an outage."""
        return self.made / self.found if self.found else 1.0

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
    note = f"{score.right - score.made:,} others are outages by their definition, by chance"
    report.add("events that were made as outages", round(100 * score.made_share, 2), "%", note=note)
    report.add("recall", round(100 * score.recall, 2), "%", aim=99.0, note="outages that became an event")
    report.add("events per outage", score.pieces / max(1, score.met), "", aim=1.0, note="one outage is one event")
    report.add("false events", score.found - score.right, "", aim=0.0, note="neither made nor by the definition")
    if score.delays_s:
        note = f"from the failure that makes it one to the look that finds it; a look every {LOOK_EVERY_S:g} s"
        figures = [Figure("found after, p50", percentile(score.delays_s, 0.5), "s", aim=10.0, note=note)]
        figures.append(Figure("found after, p99", percentile(score.delays_s, 0.99), "s", aim=10.0))
        report.figures += figures
    return report


def traffic_of(chance: random.Random, bounds: OutageBounds = BOUNDS) -> Traffic:
    """Six hours of one backend."""
    traffic = Traffic()
    scattered = list(_scattered(chance))
    traffic.hits += scattered
    at = chance.uniform(600, 1800)
    while at < LENGTH_S - 1800:
        burst = [hit for start in _bursts(chance, at) for hit in start]
        traffic.hits += burst
        traffic.known.append(Interval(burst[0].at, burst[-1].at))
        at = burst[-1].at + chance.uniform(2 * bounds.merge_s + 60, 3600)
    decoys = list(_decoys(chance))
    traffic.hits += decoys
    traffic.hits.sort(key=lambda hit: hit.at)
    traffic.by_chance += fallen_together([*scattered, *decoys], bounds)
    return traffic


def fallen_together(hits: Sequence[Hit], bounds: OutageBounds = BOUNDS) -> list[Interval]:
    """Where so many failures lie so near that they are an outage, whatever they were made as.

    Tried, and not reckoned: one choice of `least_failures` of them in which no run (or no instance) has more than an
    equal part, rounded up, of as many as are in it.
    """
    ordered = sorted(hits, key=lambda hit: hit.at)
    found = []
    for first, begin in enumerate(ordered):
        window = [hit for hit in ordered[first:] if hit.at - begin.at <= bounds.within_s]
        if any(_can_be_shared([of(hit) for hit in window], bounds) for of in (_run_of, _instance_of)):
            found.append(Interval(begin.at, window[-1].at))
    return found


def _run_of(hit: Hit) -> str:
    return hit.run


def _instance_of(hit: Hit) -> str:
    return hit.instance


def _can_be_shared(sources: Sequence[str], bounds: OutageBounds) -> bool:
    least = bounds.least_failures
    # More of one source than there are places changes nothing, and keeps the choices few.
    kept = [name for name in sorted(set(sources)) for _ in range(min(least, sources.count(name)))]
    for chosen in set(combinations(kept, least)):
        parts = Counter(chosen)
        if len(parts) >= bounds.least_sources and max(parts.values()) <= -(-least // len(parts)):
            return True
    return False


def judge(traffic: Traffic, score: Score, bounds: OutageBounds = BOUNDS) -> None:
    """Look as the worker looks, and count what was found against what was there."""
    found, first_seen = looked(traffic.hits, bounds)
    score.known += len(traffic.known)
    score.found += len(found)
    is_made = [any(_meet(one, known) for known in traffic.known) for one in found]
    score.made += sum(is_made)
    score.right += sum(
        made or any(_meet(one, other) for other in traffic.by_chance) for one, made in zip(found, is_made, strict=True)
    )
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
