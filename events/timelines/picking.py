"""What the page of the timelines offers beside its figure: the form of lanes, and what they say at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from events.pages.window import instant_of
from events.timelines import Chart, Choice
from events.timelines.charts import to_ms
from events.timelines.choosing import BANDS
from events.timelines.cursor import values_at
from events.wording import clock_text

_STEPS = 180
"""In so many steps a key goes along the whole axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A band, or one of its lanes, to be ticked."""

    name: str
    value: str
    words: str
    is_ticked: bool
    is_pinned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a band stands: `up` and `down` are the orders, as an address says them, in which it stands one higher or
    lower; None where it is the first or the last.
    """

    band: str
    words: str
    up: str | None
    down: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picker:
    """What the form of lanes offers: the bands, and by band the lanes there are."""

    bands: Sequence[Box]
    lanes: Sequence[tuple[str, Sequence[Box]]]
    places: Sequence[Place]
    """The bands that are shown, from top to bottom."""

    @staticmethod
    def of(choice: Choice, lanes: Iterable[tuple[str, Iterable[str]]]) -> Picker:
        """What was chosen is ticked; what was chosen and is not there now can still be let go of."""
        groups = []
        for band, names in lanes:
            kept, pinned = {name for of, name in choice.lanes if of == band}, choice.pinned(band)
            boxes = [
                Box(
                    name="lane",
                    value=f"{band}:{name}",
                    words=name,
                    is_ticked=name in kept,
                    is_pinned=name in pinned,
                )
                for name in sorted({*names, *kept, *pinned})
            ]
            if boxes:
                groups.append((BANDS[band], boxes))
        ticked = [
            Box(name="band", value=band, words=word, is_ticked=band in choice.bands) for band, word in BANDS.items()
        ]
        return Picker(bands=ticked, lanes=groups, places=_places(choice))


def _places(choice: Choice) -> list[Place]:
    """A band that is moved goes past the next one that is shown, and past those between them that are not."""
    shown = [band for band in choice.places if choice.has_band(band)]
    at = {band: choice.places.index(band) for band in shown}

    def past(band: str, by: int) -> str | None:
        beside = shown.index(band) + by
        if not 0 <= beside < len(shown):
            return None
        return choice.moved(band, at[shown[beside]] - at[band])

    return [Place(band=band, words=BANDS[band], up=past(band, -1), down=past(band, 1)) for band in shown]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """What all lanes say at one moment of the window: its end, where nobody asked for another."""

    at: datetime
    is_asked: bool
    values: Sequence[tuple[str, str, str]]
    start: datetime
    end: datetime
    problem: str = ""

    @property
    def words(self) -> str:
        """The moment on the reader's clock."""
        return clock_text(self.at, today=self.end)

    @property
    def typed(self) -> str:
        """The moment as an address says it."""
        return self.at.isoformat(timespec="seconds").replace("+00:00", "Z")

    @property
    def start_ms(self) -> int:
        return to_ms(self.start)

    @property
    def end_ms(self) -> int:
        return to_ms(self.end)

    @property
    def at_ms(self) -> int:
        return to_ms(self.at)

    @property
    def step_ms(self) -> int:
        """How far an arrow key moves it: whole seconds."""
        return max(1000, round((self.end - self.start).total_seconds() / _STEPS) * 1000)

    @staticmethod
    def of(said: str, chart: Chart) -> Cursor:
        """At the moment that an address names; a `problem` where it names none in the window."""
        asked = instant_of(said, chart.end) if said else None
        is_inside = asked is not None and chart.start <= asked <= chart.end
        at = asked if asked is not None and is_inside else chart.end
        problem = ""
        if said and asked is None:
            problem = "The moment could not be read: write 2026-01-31T14:00:00Z or now-90m."
        elif said and not is_inside:
            problem = "The moment is not in this range."
        last = at if at < chart.end else at - timedelta(milliseconds=1)  # what goes on is drawn until before the end
        return Cursor(
            at=at,
            is_asked=is_inside,
            values=values_at(chart, last),
            start=chart.start,
            end=chart.end,
            problem=problem,
        )
