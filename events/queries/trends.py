"""How a figure went over a range, bin by bin, and what it came to in the range of the same length before."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from events.moments import MINUTE_S, US_PER_S, Grid, to_us
from events.queries.fleet import FORGOTTEN_AFTER, STOPPED
from events.queries.overview_rows import Trend
from events.rows import AgentRow

MOST_BINS = 96
_WIDTHS = (1, 5, 15, 120)
"""In minutes: over these spans sums are kept."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """A range and the one of the same length before it. `began`: since when anything is known, where that is."""

    start: datetime
    end: datetime
    began: datetime | None = None

    @property
    def is_before_known(self) -> bool:
        """Whether somebody may have reported all through the range before."""
        return self.began is not None and self.began <= self.start - (self.end - self.start)

    def in_bins(self, *, least: int = 1) -> Binned:
        """Both in bins of as many minutes as sums are kept over, `least` at least."""
        minutes = (self.end - self.start) / timedelta(minutes=1)
        width = next((one for one in _WIDTHS if one >= least and minutes / one <= MOST_BINS), _WIDTHS[-1])
        per_bin = max(1, ceil(minutes / width / MOST_BINS))
        bins = Grid.over(self.start, self.end, width * per_bin * MINUTE_S)
        both = Grid(bins.start_s - bins.length * bins.bin_s, bins.bin_s, 2 * bins.length)
        return Binned(both, width, is_before_known=self.is_before_known)


@dataclass(frozen=True, slots=True)
class Binned:
    """The bins of both ranges, those before first; each is made of spans of so many minutes."""

    both: Grid
    minutes: int
    is_before_known: bool

    @property
    def half(self) -> int:
        """How many bins a range has."""
        return self.both.length // 2

    @property
    def spans(self) -> tuple[int, int]:
        """The first and the last span of the sums."""
        return self.both.start_s // MINUTE_S // self.minutes, self.both.end_s // MINUTE_S // self.minutes - 1

    def bin_of(self, span: int) -> int:
        """In which bin a span lies."""
        return self.bin_of_second(span * self.minutes * MINUTE_S)

    def bin_of_second(self, second: int) -> int:
        """In which bin a second since the epoch lies, of those that there are the nearest."""
        return max(0, min(self.both.length - 1, (second - self.both.start_s) // self.both.bin_s))

    def trend(self, counts: Mapping[int, int], unknown: Sequence[bool]) -> Trend:
        """What was counted in each bin; where nothing was, `unknown` says whether that is not known."""
        told = [None if unknown[at] and not counts.get(at) else counts.get(at, 0) for at in range(self.both.length)]
        before, after = told[: self.half], told[self.half :]
        return Trend(bins=tuple(after), total=_sum(after), before=_sum(before) if self.is_before_known else None)

    def trend_of_names(self, names: Mapping[int, set[str]], unknown: Sequence[bool]) -> Trend:
        """The same of different names, each counted once in a bin and once in a range."""
        found = self.trend({at: len(some) for at, some in names.items()}, unknown)
        before: set[str] = set().union(*(some for at, some in names.items() if at < self.half))
        after: set[str] = set().union(*(some for at, some in names.items() if at >= self.half))
        return Trend(
            bins=found.bins,
            total=None if found.total is None else len(after),
            before=None if found.before is None else len(before),
        )


def _sum(told: Sequence[int | None]) -> int | None:
    known = [one for one in told if one is not None]
    return sum(known) if known else None


def trend_of_moments(moments: Iterable[datetime], ranges: Ranges) -> Trend:
    """How many of these moments lie where; for what is stored for good, so that none means none. The first bin of a
    range may begin before it: what lies there counts for the range before.
    """
    binned, first = ranges.in_bins(), ranges.start - (ranges.end - ranges.start)
    counts: dict[int, int] = {}
    for moment in moments:
        if first < moment <= ranges.end:
            at = binned.bin_of_second(to_us(moment) // US_PER_S)
            at = max(at, binned.half) if moment > ranges.start else min(at, binned.half - 1)
            counts[at] = counts.get(at, 0) + 1
    return binned.trend(counts, [False] * binned.both.length)


def trend_of_reporting(everyone: Sequence[AgentRow], ranges: Ranges, *, now: datetime, grace_s: float) -> Trend:
    """How many instances lived at the end of each bin, and at the end of the range before; None for longer ago than
    instances are remembered. One counts from its first sign of life to its last.
    """
    grid = Grid.over(ranges.start, ranges.end, ranges.in_bins().both.bin_s)
    known_from = max(now - FORGOTTEN_AFTER, ranges.began or ranges.start)
    born = sorted(one.first_seen for one in everyone)
    ended = sorted(_last_of(one, grace_s) for one in everyone)

    def lived(at: datetime) -> int | None:
        return None if at < known_from else bisect_right(born, at) - bisect_right(ended, at)

    ends = (min(ranges.end, grid.start + timedelta(seconds=(at + 1) * grid.bin_s)) for at in range(grid.length))
    bins = tuple(lived(at) for at in ends)
    return Trend(bins=bins, total=bins[-1], before=lived(ranges.start))


def _last_of(one: AgentRow, grace_s: float) -> datetime:
    return one.last_seen + timedelta(seconds=0 if one.status == STOPPED else grace_s)
