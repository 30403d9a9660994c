"""Between the store's whole microseconds and aware datetimes, and the grids of time on which counts are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

US_PER_S = 1_000_000
MINUTE_S = 60

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_WIDTHS_S = (10, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)

Span = tuple[int, int]
"""From and until, in microseconds since the epoch."""


def to_us(moment: datetime) -> int:
    """Microseconds since the epoch."""
    return (moment - _EPOCH) // _TICK


def from_us(at_us: int) -> datetime:
    """The aware UTC datetime of so many microseconds since the epoch."""
    # To the microsecond up to the year 2242, and twice as quick as adding to the epoch.
    return datetime.fromtimestamp(at_us / US_PER_S, UTC)


def bin_width_s(window: timedelta, *, most_bins: int = 120, least_s: int = MINUTE_S) -> int:
    """The narrowest of the usual widths, at least `least_s`, that covers the window with at most so many bins."""
    wanted = max(least_s, window.total_seconds() / most_bins)
    return next((width for width in _WIDTHS_S if width >= wanted), _WIDTHS_S[-1] * -int(-wanted // _WIDTHS_S[-1]))


@dataclass(frozen=True, slots=True)
class Grid:
    """`length` bins of `bin_s` seconds from `start_s` (seconds since the epoch, a multiple of the bin)."""

    start_s: int
    bin_s: int
    length: int

    @staticmethod
    def over(start: datetime, end: datetime, bin_s: int) -> Grid:
        """The bins that a window touches."""
        first = to_us(start) // US_PER_S // bin_s
        last = (to_us(end) - 1) // US_PER_S // bin_s
        return Grid(first * bin_s, bin_s, max(1, last - first + 1))

    @property
    def start(self) -> datetime:
        """When the first bin begins."""
        return from_us(self.start_s * US_PER_S)

    @property
    def end_s(self) -> int:
        """When the last bin ends, in seconds since the epoch."""
        return self.start_s + self.bin_s * self.length

    def outside(self, spans: Sequence[Span]) -> list[bool]:
        """For each bin whether no span touches it."""
        marks = [True] * self.length
        for begin_us, end_us in spans:
            first = (begin_us // US_PER_S - self.start_s) // self.bin_s
            last = (end_us // US_PER_S - self.start_s) // self.bin_s
            for index in range(max(0, first), min(self.length - 1, last) + 1):
                marks[index] = False
        return marks


def united(spans: Iterable[Span]) -> list[Span]:
    """The same moments as spans in order that neither touch nor overlap."""
    whole: list[Span] = []
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if whole and begin <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(whole[-1][1], end))
        else:
            whole.append((begin, end))
    return whole
