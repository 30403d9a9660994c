"""What every lane of a figure says at one moment, out of what is drawn there: for a cursor that lies over all lanes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from events.timelines.charts import Band, Chart, Trace, plain, to_ms
from events.wording import NOT_YET

NOTHING = "–"
NONE = "0"
UNKNOWN = "unknown"


class Piece(NamedTuple):
    """From `start_ms` until before `end_ms` (since the epoch) this is said."""

    start_ms: int
    end_ms: int
    words: str


class _Count(NamedTuple):
    start_ms: int
    end_ms: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One lane: `band` and `name` as they stand on the page, what is said in it, and what where nothing is drawn."""

    band: str
    name: str
    otherwise: str
    pieces: tuple[Piece, ...]

    def at(self, moment_ms: int) -> str:
        """What is drawn at a moment; pieces that overlap, one after the other; empty where nothing is."""
        return "; ".join(piece.words for piece in self.pieces if piece.start_ms <= moment_ms < piece.end_ms)


def tracks_of(chart: Chart) -> list[Track]:
    """The lanes of a figure from top to bottom. Marks stand at moments of their own and say nothing between them."""
    return [track for band in chart.bands for track in (_of_lanes(band) if band.lanes else _of_plot(band))]


def values_at(chart: Chart, at: datetime) -> list[tuple[str, str, str]]:
    """Band, lane and what it says at a moment."""
    is_early = chart.began is not None and at < chart.began
    return [
        (track.band, track.name, track.at(to_ms(at)) or (NOT_YET if is_early else track.otherwise))
        for track in tracks_of(chart)
    ]


def as_json(chart: Chart) -> dict[str, Any]:
    """The same for the page's script: true moments, whatever clock the figure is on."""
    return {
        "began_ms": None if chart.began is None else to_ms(chart.began),
        "not_yet": NOT_YET,
        "tracks": [
            [one.band, one.name, one.otherwise, [list(piece) for piece in one.pieces]] for one in tracks_of(chart)
        ],
    }


def _of_lanes(band: Band) -> Iterator[Track]:
    found: dict[str, list[Piece]] = {}
    has_heat = False
    for trace in band.traces:
        if trace["type"] == "heatmap":
            has_heat = True
            for name, pieces in _heat(trace):
                found.setdefault(name, []).extend(pieces)
        elif trace.get("orientation") == "h" and ("customdata" in trace or trace["name"] == UNKNOWN):
            for name, piece in _spans(trace):
                found.setdefault(name, []).append(piece)
    if not found and not has_heat:
        return
    for lane in band.lanes:
        pieces = _joined(sorted(found.get(plain(lane.name), ())))
        yield Track(band=band.title, name=lane.name, otherwise=NONE if has_heat else NOTHING, pieces=tuple(pieces))


def _spans(trace: Trace) -> Iterator[tuple[str, Piece]]:
    for place, (name, base, length) in enumerate(zip(trace["y"], trace["base"], trace["x"], strict=True)):
        said: Sequence[Any] = trace["customdata"][place] if "customdata" in trace else ()
        yield name, Piece(base, base + length, _said(str(trace["name"]), said))


def _said(name: str, said: Sequence[Any]) -> str:
    """A state says on how many instances it was; a fallback what stood in."""
    if len(said) > 5:
        return f"{name}{said[5]}"
    return str(said[3]) if said else name


def _heat(trace: Trace) -> Iterator[tuple[str, list[Piece]]]:
    bin_ms = trace["xperiod"]
    for name, steps, counts in zip(trace["y"], trace["z"], trace["customdata"], strict=True):
        drawn = zip(trace["x"], steps, counts, strict=True)
        yield name, [Piece(at, at + bin_ms, _kinds(*pair)) for at, step, pair in drawn if step]


def _kinds(limited: int, overloaded: int) -> str:
    told = [f"{count:,} × {code}" for count, code in ((limited, 429), (overloaded, 529)) if count]
    return ", ".join(told)


def _of_plot(band: Band) -> Iterator[Track]:
    """One track for all that a band counts; what is stacked is added up first."""
    if not band.top:
        return
    gaps = [piece for trace in band.traces if "base" in trace for piece in _gaps(trace)]
    counted = [(trace, _counts(trace)) for trace in band.traces if "base" not in trace]
    stacked = {_words(trace): found for trace, found in counted if "dx" in trace}
    lines = {_words(trace): found for trace, found in counted if "dx" not in trace}
    edges = sorted({edge for _, found in counted for start, end, _ in found for edge in (start, end)})
    pieces = (Piece(start, end, _told(stacked, lines, start)) for start, end in pairwise(edges))
    said = [piece for piece in pieces if piece.words]
    yield Track(band=band.title, name=band.label, otherwise=NONE, pieces=tuple(_joined(sorted([*said, *gaps]))))


def _words(trace: Trace) -> str:
    return str(trace["name"]).replace("_", " ")


def _told(stacked: Mapping[str, Sequence[_Count]], lines: Mapping[str, Sequence[_Count]], at_ms: int) -> str:
    """What was counted at a moment, the parts of a stack after their sum; nothing where all of it is none."""
    parts = {name: count for name, found in stacked.items() if (count := _count_at(found, at_ms))}
    others = {name: count for name, found in lines.items() if (count := _count_at(found, at_ms)) is not None}
    if not parts and not any(others.values()):
        return ""
    told = [f"{count:,} {name}" for name, count in parts.items()]
    whole = [f"{sum(parts.values()):,}: {', '.join(told)}"] if len(told) > 1 else told
    return ", ".join([*whole, *(f"{count:,} {name}" for name, count in others.items())])


def _count_at(found: Sequence[_Count], at_ms: int) -> int | None:
    place = bisect_right(found, at_ms, key=lambda one: one.start_ms) - 1
    return found[place].number if place >= 0 and at_ms < found[place].end_ms else None


def _counts(trace: Trace) -> list[_Count]:
    """What a series counted, one span after the other; none where nothing is known."""
    if "dx" in trace:
        dx = trace["dx"]
        return [
            _Count(trace["x0"] + at * dx, trace["x0"] + (at + 1) * dx, count) for at, count in enumerate(trace["y"])
        ]
    corners = pairwise(zip(trace["x"], trace["y"], strict=True))
    return [_Count(start, end, count) for (start, count), (end, _) in corners if count is not None and start < end]


def _gaps(trace: Trace) -> Iterator[Piece]:
    for middle, width in zip(trace["x"], trace["width"], strict=True):
        yield Piece(round(middle - width / 2), round(middle + width / 2), UNKNOWN)


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbours that say the same as one."""
    whole: list[Piece] = []
    for piece in pieces:
        if whole and whole[-1].end_ms == piece.start_ms and whole[-1].words == piece.words:
            whole[-1] = whole[-1]._replace(end_ms=piece.end_ms)
        else:
            whole.append(piece)
    return whole
