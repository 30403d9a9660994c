"""Which bands and lanes of a figure are shown, and in which order: read from an address, so that a link shows the same.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from events.rows import CapacityBins, Fleet
from events.timelines.majority import worst_first

BANDS = {
    "capacity": "Capacity",
    "breakers": "Breakers",
    "failures": "Failures",
    "rejections": "Rejected calls",
    "fallbacks": "Fallbacks",
    "escalations": "Escalations",
    "agents": "Agents reporting",
    "changes": "Deployments, policy, overrides and annotations",
}
"""The bands in their order, by what an address calls them."""
BY_NAME = "name"
MOST_CHOSEN = 200
_MATCH_CHARS = 100

_Value = TypeVar("_Value")
_Band = TypeVar("_Band")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`bands` and `lanes` (band and name): what was picked, nothing for all; `match` is looked for in lanes' names.

    `pins` are lanes that stand above all bands whatever else was picked; `order` the bands that were moved, from the
    top, before those that were not.
    """

    bands: frozenset[str] = frozenset()
    lanes: frozenset[tuple[str, str]] = frozenset()
    match: str = ""
    pins: frozenset[tuple[str, str]] = frozenset()
    order: tuple[str, ...] = ()
    is_by_name: bool = False
    """Whether breakers stand by their names; by their trouble else."""

    @staticmethod
    def of(
        bands: Iterable[str],
        lanes: Sequence[str],
        match: str,
        *,
        pins: Sequence[str] = (),
        order: str = "",
        sort: str = "",
    ) -> Choice:
        """What an address says: lanes and pins as `breakers:search_web`, the order as `failures,breakers`.

        What does not exist chooses nothing.
        """
        return Choice(
            bands=frozenset(bands) & BANDS.keys(),
            lanes=_lanes(lanes),
            match=match.strip()[:_MATCH_CHARS],
            pins=_lanes(pins),
            order=tuple(dict.fromkeys(band for band in order.split(",") if band in BANDS)),
            is_by_name=sort == BY_NAME,
        )

    @property
    def is_everything(self) -> bool:
        """Whether nothing was picked."""
        return self == EVERYTHING

    def has_band(self, band: str) -> bool:
        """Whether a band is shown at all."""
        return not self.bands or band in self.bands

    def pinned(self, band: str) -> set[str]:
        """The lanes of a band that stand above all bands."""
        return {lane for of, lane in self.pins if of == band}

    def holds(self, band: str, name: str) -> bool:
        """Whether a lane is shown: a pinned one always; where no lane of a band was picked, all of them are."""
        if (band, name) in self.pins:
            return True
        picked = {lane for of, lane in self.lanes if of == band}
        is_picked = self.has_band(band) and (not picked or name in picked)
        return is_picked and self.match.casefold() in name.casefold()

    @property
    def places(self) -> list[str]:
        """All bands in the order in which they are shown."""
        return [*self.order, *(band for band in BANDS if band not in self.order)]

    def moved(self, band: str, by: int) -> str:
        """The order, as an address says it, in which a band is so many places further down; empty for the usual one."""
        places = self.places
        at = places.index(band)
        places.insert(max(0, at + by), places.pop(at))
        return "" if places == list(BANDS) else ",".join(places)

    def in_order(self, bands: Iterable[_Band], key_of: Callable[[_Band], str]) -> list[_Band]:
        """The bands as they were ordered."""
        places = self.places
        return sorted(bands, key=lambda band: places.index(key_of(band)))

    def among(self, band: str, lanes: Mapping[str, _Value]) -> dict[str, _Value]:
        """The shown ones of these lanes."""
        return {name: lane for name, lane in lanes.items() if self.holds(band, name)}

    def fleet(self, fleet: Fleet) -> Fleet:
        """The shown breakers in their order."""
        shown = Fleet(start=fleet.start, end=fleet.end, bin_s=fleet.bin_s)
        chosen = self.among("breakers", fleet)
        shown.update({name: chosen[name] for name in (sorted(chosen) if self.is_by_name else worst_first(chosen))})
        return shown

    def capacity(self, bins: CapacityBins) -> CapacityBins:
        """The shown providers and models."""
        series = self.among("capacity", bins.series)
        limited = {name: bins.rate_limited[name] for name in series}
        overloaded = {name: bins.overloaded[name] for name in series}
        return replace(bins, series=series, rate_limited=limited, overloaded=overloaded)


def _lanes(said: Sequence[str]) -> frozenset[tuple[str, str]]:
    split = (lane.partition(":")[::2] for lane in said[:MOST_CHOSEN])
    return frozenset((band, name) for band, name in split if band in BANDS and name)


EVERYTHING = Choice()
