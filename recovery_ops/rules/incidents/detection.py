"""When many failures are one outage: the rule that turns bursts into capacity events. Pure, and independent of order.

A moment is *hot* when the failures of one subject within `within_s` are at least `least_failures` and are shared by at
least `least_sources` runs or instances: there are so many of them, or more, that no one needs to count for more than an
equal share (rounded up) of `least_failures`. A run that hammers a broken tool is that run's trouble, and a stray
failure of somebody else makes no outage. What is hot within `merge_s` of each other is one outage. Events are only
ever added, so an outage only ever grows: looking again, at late or doubled events, in any order, ends in the same
intervals.

Each region of a backend is judged by itself. Failures that are too few in each, but shared by several regions as they
have to be by runs, are an outage in each of those: the backend fails as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.settings import Problem, Setting, fault_of

OUTAGE_COUNTS: frozenset[Category] = frozenset(
    {Category.RATE_LIMITED, Category.OVERLOADED, Category.SERVER_ERROR, Category.NETWORK, Category.TIMEOUT}
)
"""What a service, or the way to it, does when it cannot take the load; never what the caller or the model did wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageBounds:
    """The numbers of the rule, the policy section `capacity_events`; the defaults are the built-in policy's."""

    least_failures: int = 5
    within_s: float = 30.0
    least_sources: int = 2
    most_of_one: int = 0
    """So many failures of one run, or instance, count at most; 0: an equal share among those that have them."""
    quiet_s: float = 120.0
    """An outage is over when nothing has been hot for this long."""
    merge_s: float = 300.0
    """What comes back sooner than this is the same outage."""


BOUNDS = OutageBounds()
NO_CUTS: Mapping[str, Sequence[float]] = {}

OUTAGE_SETTINGS: dict[str, Setting] = {
    "least_failures": Setting(kind="whole", minimum=2, maximum=10_000, brief="Failures that start an incident"),
    "within_s": Setting(kind="number", minimum=1, maximum=600, unit="s", brief="Window of these failures"),
    "least_sources": Setting(kind="whole", minimum=1, maximum=1000, brief="Least number of affected runs or instances"),
    "most_of_one": Setting(
        kind="whole",
        minimum=0,
        maximum=10_000,
        brief="Most counted failures of one run or instance (0: an equal share)",
    ),
    "quiet_s": Setting(
        kind="number", minimum=10, maximum=3600, unit="s", brief="Time below the threshold that ends an incident"
    ),
    "merge_s": Setting(
        kind="number", minimum=60, maximum=3600, unit="s", brief="What comes back sooner is the same outage"
    ),
}
"""Every number of the policy section `capacity_events`, in the order in which forms show them."""


def parse_outage_bounds(given: object, path: str, problems: list[Problem]) -> OutageBounds:
    """The bounds that a JSON object states; what it leaves out is the default. Adds a problem for each fault.

    Keys that are not known are ignored: a newer document may have more.
    """
    if given is None:
        return BOUNDS
    if not isinstance(given, Mapping):
        problems.append(Problem(path, "must be an object of bounds"))
        return BOUNDS
    values: dict[str, Any] = {}
    for name, setting in OUTAGE_SETTINGS.items():
        value = given.get(name)
        fault = fault_of(setting, value) if value is not None else ""
        if fault:
            problems.append(Problem(f"{path}.{name}", fault))
        elif value is not None:
            values[name] = float(value) if setting.kind == "number" else int(value)
    bounds = OutageBounds(**values)
    if bounds.merge_s < bounds.quiet_s:
        problems.append(Problem(f"{path}.merge_s", f"must be at least quiet_s, {bounds.quiet_s:g}"))
    return bounds


def outage_bounds_document(bounds: OutageBounds) -> dict[str, Any]:
    """The JSON object that `parse_outage_bounds` reads back as the same bounds."""
    return {part.name: getattr(bounds, part.name) for part in fields(OutageBounds)}


@dataclass(frozen=True, slots=True)
class Hit:
    """One failed attempt: when (seconds), in which run (empty: in none), at which instance, in which region of what was
    called (empty: nobody said).
    """

    at: float
    run: str
    instance: str
    region: str = ""


@dataclass(frozen=True, slots=True)
class Interval:
    """From the first failure of the first hot moment to the last hot failure, in seconds; both belong to it."""

    started: float
    last: float

    def is_over(self, now: float, bounds: OutageBounds = BOUNDS) -> bool:
        """Whether it has been quiet for long enough; a return within `merge_s` makes it go on all the same."""
        return now - self.last > bounds.quiet_s


def regional_outages(
    hits: Iterable[Hit], bounds: OutageBounds = BOUNDS, cuts: Mapping[str, Sequence[float]] = NO_CUTS
) -> dict[str, list[Interval]]:
    """The outages of one backend by region, those that have any; `cuts` as `outages` takes them, of each region.

    Failures without a region are a region of their own: where nobody says one, this is `outages`.
    """
    by_region: dict[str, list[Hit]] = {}
    for hit in hits:
        by_region.setdefault(hit.region, []).append(hit)
    found = {region: outages(some, bounds, cuts.get(region, ())) for region, some in by_region.items()}
    if len(by_region) > 1:
        every = sorted({cut for some in cuts.values() for cut in some})
        for part in _parted([hit for some in by_region.values() for hit in some], every):
            for region, interval in _hot_together(part, bounds):
                found[region].append(interval)
    joined = {region: merged(intervals, bounds, cuts.get(region, ())) for region, intervals in found.items()}
    return {region: joined[region] for region in sorted(joined) if joined[region]}


def outages(hits: Iterable[Hit], bounds: OutageBounds = BOUNDS, cuts: Sequence[float] = ()) -> list[Interval]:
    """The outages that the failures of one backend in one region add up to, earliest first.

    `cuts` are moments, ascending, at which a person said that one outage ends and another begins: none reaches across,
    and what happened at such a moment belongs to the second.
    """
    return merged([interval for part in _parted(hits, cuts) for interval in _hot(part, bounds)], bounds, cuts)


def _parted(hits: Iterable[Hit], cuts: Sequence[float]) -> Iterable[list[Hit]]:
    """In order, those between two cuts at a time."""
    parts: dict[int, list[Hit]] = {}
    for hit in sorted(hits, key=lambda hit: hit.at):
        parts.setdefault(bisect_right(cuts, hit.at), []).append(hit)
    return parts.values()


def merged(intervals: Iterable[Interval], bounds: OutageBounds = BOUNDS, cuts: Sequence[float] = ()) -> list[Interval]:
    """The same intervals, with those that lie within `merge_s` of each other made one, unless cut; earliest first."""
    found: list[Interval] = []
    for one in sorted(intervals, key=lambda one: (one.started, one.last)):
        is_near = bool(found) and one.started - found[-1].last <= bounds.merge_s
        if is_near and bisect_right(cuts, found[-1].started) == bisect_right(cuts, one.started):
            found[-1] = Interval(found[-1].started, max(found[-1].last, one.last))
        else:
            found.append(one)
    return found


def _hot(hits: Iterable[Hit], bounds: OutageBounds) -> Iterator[Interval]:
    for window in _hot_windows(hits, bounds):
        yield Interval(window[0].at, window[-1].at)


def _hot_together(hits: Sequence[Hit], bounds: OutageBounds) -> Iterator[tuple[str, Interval]]:
    """The hot moments that regions share as runs have to: of each region in it, its first and its last failure."""
    shared = replace(bounds, least_sources=2, most_of_one=0)
    times: dict[str, deque[float]] = {hit.region: deque() for hit in hits}
    last = 0
    for window in _hot_windows(hits, bounds):
        # Windows only move on, so each failure is taken up once and dropped once.
        while last < len(hits) and hits[last].at <= window[-1].at:
            times[hits[last].region].append(hits[last].at)
            last += 1
        for of_region in times.values():
            while of_region and of_region[0] < window[0].at:
                of_region.popleft()
        if is_shared((len(of_region) for of_region in times.values() if of_region), shared):
            for region, of_region in times.items():
                if of_region:
                    yield region, Interval(of_region[0], of_region[-1])


def _hot_windows(hits: Iterable[Hit], bounds: OutageBounds) -> Iterator[Sequence[Hit]]:
    """The failures of each hot moment, the latest last; to be read before the next is asked for."""
    window: deque[Hit] = deque()
    runs, instances = _Evidence(bounds), _Evidence(bounds)
    for hit in hits:
        window.append(hit)
        runs.add(hit.run)
        instances.add(hit.instance)
        while hit.at - window[0].at > bounds.within_s:
            gone = window.popleft()
            runs.forget(gone.run)
            instances.forget(gone.instance)
        if (runs.is_enough or instances.is_enough) and len(window) >= bounds.least_failures:
            yield window


def is_shared(counts: Iterable[int], bounds: OutageBounds = BOUNDS) -> bool:
    """Whether failures, counted by source, are enough of them and shared: `[3, 2]` by the defaults, not `[20, 1, 1]`.

    More failures, of whomever, never make them less so.
    """
    least, most = bounds.least_failures, bounds.most_of_one
    loudest = sorted(counts, reverse=True)[:least]
    if len(loudest) < bounds.least_sources:
        return False
    if most:
        return sum(min(count, most) for count in loudest) >= least
    return any(
        sum(min(count, -(-least // among)) for count in loudest[:among]) >= least
        for among in range(bounds.least_sources, len(loudest) + 1)
    )


class _Evidence:
    """The failures of a window by their sources. Those outside of any run are of one source that is no run."""

    def __init__(self, bounds: OutageBounds) -> None:
        self._bounds = bounds
        self._counts: Counter[str] = Counter()

    @property
    def is_enough(self) -> bool:
        named = len(self._counts) - ("" in self._counts)
        if named < self._bounds.least_sources:
            return False
        return len(self._counts) >= self._bounds.least_failures or is_shared(self._counts.values(), self._bounds)

    def add(self, name: str) -> None:
        self._counts[name] += 1

    def forget(self, name: str) -> None:
        self._counts[name] -= 1
        if not self._counts[name]:
            del self._counts[name]
