"""Which bands and lanes of a figure are shown: read from an address, so that a link shows the same. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from events.rows import CapacityBins, Fleet

BANDS = {
    "capacity": "Capacity",
    "breakers": "Breakers",
    "failures": "Failures",
    "rejections": "Calls not made",
    "fallbacks": "Fallbacks",
    "changes": "Policy, overrides and escalations",
}
"""The bands in their order, by what an address calls them."""
MOST_CHOSEN = 200
_MATCH_CHARS = 100

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`bands` and `lanes` (band and name): what was picked, nothing for all; `match` is looked for in lanes' names."""

    bands: frozenset[str] = frozenset()
    lanes: frozenset[tuple[str, str]] = frozenset()
    match: str = ""

    @staticmethod
    def of(bands: Iterable[str], lanes: Sequence[str], match: str) -> Choice:
        """What an address says: lanes as `breakers:search_web`. What does not exist chooses nothing."""
        split = (lane.partition(":")[::2] for lane in lanes[:MOST_CHOSEN])
        return Choice(
            bands=frozenset(bands) & BANDS.keys(),
            lanes=frozenset((band, name) for band, name in split if band in BANDS and name),
            match=match.strip()[:_MATCH_CHARS],
        )

    @property
    def is_everything(self) -> bool:
        """Whether nothing was picked."""
        return not (self.bands or self.lanes or self.match)

    def has_band(self, band: str) -> bool:
        """Whether a band is shown at all."""
        return not self.bands or band in self.bands

    def holds(self, band: str, name: str) -> bool:
        """Whether a lane is shown; where no lane of a band was picked, all of them are."""
        picked = {lane for of, lane in self.lanes if of == band}
        return (not picked or name in picked) and self.match.casefold() in name.casefold()

    def among(self, band: str, lanes: Mapping[str, _Value]) -> dict[str, _Value]:
        """The shown ones of these lanes."""
        return {name: lane for name, lane in lanes.items() if self.holds(band, name)}

    def fleet(self, fleet: Fleet) -> Fleet:
        """The shown breakers."""
        shown = Fleet(start=fleet.start, end=fleet.end, bin_s=fleet.bin_s)
        shown.update(self.among("breakers", fleet))
        return shown

    def capacity(self, bins: CapacityBins) -> CapacityBins:
        """The shown providers and models."""
        series = self.among("capacity", bins.series)
        limited = {name: bins.rate_limited[name] for name in series}
        overloaded = {name: bins.overloaded[name] for name in series}
        return replace(bins, series=series, rate_limited=limited, overloaded=overloaded)


EVERYTHING = Choice()
