"""The ladder of a run as SVG: rungs from top to bottom in the order of their price, time from left to right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from events.runs.rows import RUNG_WORDS, RUNGS, Behind, Kind, Piece, RunStory
from events.wording import count_text, lasted_text, span_text
from recovery_ops.rules.enums import Rung

HEAD_PX = 34
RUNG_PX = 46
HEIGHT_PX = HEAD_PX + RUNG_PX * len(RUNGS) + 24
MOST_PIECES = 400
_BAR_PX = 14
_RAIL_Y = 16
"""Where the rail over an outage lies; its name stands over it, the moves of breakers under it."""
_FILLS = {
    Kind.FAILED: "url(#p-open)",
    Kind.SUCCEEDED: "url(#p-closed)",
    Kind.WAITING: "url(#p-wait)",
    Kind.SECOND_BEST: "url(#p-half_open)",
    Kind.ASKED: "url(#p-wait)",
    Kind.GAVE_UP: "url(#p-open)",
}
_LEAST = 0.45
"""Per cent: what is shorter is drawn so wide, or nobody would see it."""
_CHAR = 0.68
"""Per cent of the drawing that a letter of a label takes, about."""
_TICK_STEPS_S = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 86_400)
_MOST_TICKS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class RungLine:
    """A rung as the column beside the drawing names it."""

    number: int
    word: str
    detail: str


def rung_lines(story: RunStory) -> list[RungLine]:
    """What was done on each rung, and which were not reached."""
    details = {
        Rung.RETRY: _retries(story),
        Rung.FALLBACK: f"{count_text(len(story.stood_in), 'fallback')}" if story.stood_in else "",
        Rung.DEGRADE: _count(story, Rung.DEGRADE, "operation"),
        Rung.ASK: _questions(story),
        Rung.FAIL: _count(story, Rung.FAIL, "operation"),
    }
    return [
        RungLine(number=place, word=RUNG_WORDS[rung], detail=details[rung] or "not used")
        for place, rung in enumerate(RUNGS, start=1)
    ]


def _retries(story: RunStory) -> str:
    if not story.failed_attempts:
        return ""
    saved = sum(piece.kind is Kind.SUCCEEDED for piece in story.pieces)
    return f"{story.failed_attempts} failed, {saved} recovered" if saved else f"{story.failed_attempts} failed"


def _questions(story: RunStory) -> str:
    if not story.questions:
        return ""
    return (
        f"{story.answers} of {story.questions} answered" if story.answers else count_text(story.questions, "escalation")
    )


def _count(story: RunStory, rung: Rung, word: str) -> str:
    operations = {piece.operation for piece in story.pieces if piece.rung is rung}
    return count_text(len(operations), word) if operations else ""


def drawn(story: RunStory, now: datetime) -> SafeString:
    """The whole ladder. Its steps stand below it as a list, which says the same."""
    scale = _Scale(story, now)
    pieces = _fitting(story.pieces)
    return format_html(
        '<svg height="{}" role="img" aria-label="Recovery steps of {}, listed below">{}{}{}{}{}{}{}</svg>',
        HEIGHT_PX,
        story.run,
        format_html_join("", "{}", ((one,) for one in _shades(story, scale))),
        format_html_join("", "{}", ((one,) for one in _grid(scale))),
        format_html_join("", "{}", ((one,) for one in _moves(story, scale))),
        format_html_join("", "{}", ((_bar(piece, scale),) for piece in pieces)),
        format_html_join("", "{}", ((one,) for one in _climbs(pieces, scale))),
        format_html_join("", "{}", ((one,) for one in _labels(pieces, scale))),
        format_html_join("", "{}", ((one,) for one in _axis(scale))),
    )


def steps_taken(story: RunStory) -> str:
    """`Retry → Fallback → Fail`: the recovery steps that a run was seen on, the lowest first; empty for none."""
    return " → ".join(RUNG_WORDS[one.rung] for one in story.climbs)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """One operation over the time of the run, or an outage behind it, which leads to its page."""

    label: str
    drawing: SafeString
    value: str
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationLanes:
    """A row for each outage behind the run and for each operation, and the labels of the time axis under them."""

    rows: Sequence[OperationRow]
    axis: SafeString


def by_operation(story: RunStory, now: datetime) -> OperationLanes:
    """The same pieces by what was called instead of by rung, in the order in which operations first appear."""
    scale = _Scale(story, now)
    mine: dict[str, list[Piece]] = {}
    for piece in sorted(_fitting(story.pieces), key=lambda piece: piece.start):
        mine.setdefault(piece.operation, []).append(piece)
    lines = '<line class="gridline" x1="{}" x2="{}" y1="0" y2="24"/>'
    grid = format_html_join("", lines, ((x, x) for x, _ in _ticks(scale)))
    shade = format_html_join("", "{}", ((one,) for one in _lane_shades(story, scale)))
    labels = [(x, "middle" if place else "start", words) for place, (x, words) in enumerate(_ticks(scale))]
    axis = format_html(
        '<svg height="20" aria-hidden="true">{}</svg>',
        format_html_join("", '<text x="{}" y="14" text-anchor="{}">{}</text>', labels),
    )
    rows = [_operation_row(name, pieces, scale, shade + grid) for name, pieces in mine.items()]
    return OperationLanes(rows=[*_outage_rows(story, scale), *rows], axis=axis)


def _outage_rows(story: RunStory, scale: _Scale) -> Iterator[OperationRow]:
    """Above the operations a lane for each outage behind the run, which leads to its page."""
    for one in story.behind:
        x, width = _stretch(one, scale)
        drawing = format_html(
            '<svg height="24" role="img" aria-label="{}"><rect class="h4" x="{}" width="{}" y="6" height="12"/></svg>',
            _told(one, scale),
            _percent(x),
            _percent(width),
        )
        yield OperationRow(
            label=f"{one.number} {one.name}",
            drawing=drawing,
            value="so far" if one.end is None else "over",
            href=reverse("capacity-event", args=[one.event]),
        )


def _lane_shades(story: RunStory, scale: _Scale) -> Iterator[SafeString]:
    """The same outages behind each operation."""
    for one in story.behind:
        x, width = map(_percent, _stretch(one, scale))
        yield format_html('<g class="shade"><rect class="h1" x="{}" width="{}" height="24"/></g>', x, width)


def _operation_row(name: str, pieces: Sequence[Piece], scale: _Scale, grid: SafeString) -> OperationRow:
    bars = [
        (
            _FILLS[piece.kind],
            scale.x(piece.start),
            scale.width(piece),
            f"{RUNG_WORDS[piece.rung]}: {piece.words}, {_at(piece.start, scale)}",
        )
        for piece in pieces
    ]
    highest = max(pieces, key=lambda piece: RUNGS.index(piece.rung)).rung
    words = f"{name or 'the run'}: {count_text(len(pieces), 'step')}, highest: {RUNG_WORDS[highest].lower()}"
    drawing = format_html(
        '<svg height="24" role="img" aria-label="{}">{}{}</svg>',
        words,
        grid,
        format_html_join(
            "", '<rect fill="{}" x="{}" width="{}" y="5" height="14" rx="1"><title>{}</title></rect>', bars
        ),
    )
    failed = sum(piece.kind is Kind.FAILED for piece in pieces)
    value = f"{failed} failed" if failed else RUNG_WORDS[highest].lower()
    return OperationRow(label=name or "the run", drawing=drawing, value=value)


class _Scale:
    """Where a moment lies, in per cent of the width."""

    def __init__(self, story: RunStory, now: datetime) -> None:
        self.start = min([story.started, *(piece.start for piece in story.pieces)])
        ends = [piece.end for piece in story.pieces if piece.end is not None]
        self.end = max([story.until(now), *ends])
        self.length_s = max(0.001, (self.end - self.start).total_seconds())

    def share(self, at: datetime) -> float:
        return min(100.0, max(0.0, 100 * (at - self.start).total_seconds() / self.length_s))

    def x(self, at: datetime) -> str:
        return _percent(min(self.share(at), 100 - _LEAST))

    def width(self, piece: Piece) -> str:
        return _percent(max(_LEAST, self.share(piece.end or self.end) - self.share(piece.start)))


def _fitting(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """Of very many the first and the last, which tell how it began and how it ended."""
    half = MOST_PIECES // 2
    return pieces if len(pieces) <= MOST_PIECES else [*pieces[:half], *pieces[-half:]]


def _top(rung: Rung) -> int:
    return HEAD_PX + RUNG_PX * RUNGS.index(rung)


def _bar(piece: Piece, scale: _Scale) -> SafeString:
    return format_html(
        '<rect fill="{}" x="{}" width="{}" y="{}" height="{}" rx="1"><title>{}</title></rect>{}',
        _FILLS[piece.kind],
        scale.x(piece.start),
        scale.width(piece),
        _top(piece.rung) + 18,
        _BAR_PX,
        f"{piece.words}, {_at(piece.start, scale)}",
        _pins(piece, scale) if piece.kind is Kind.ASKED else "",
    )


def _pins(piece: Piece, scale: _Scale) -> SafeString:
    """A diamond where a person was asked, and a full one where a person decided."""
    at = [(scale.x(piece.start), "pin")]
    if piece.decided is not None:
        at.append((scale.x(piece.decided), "pin decided"))
    return format_html_join(
        "",
        '<svg x="{}" y="{}"><path class="{}" d="M0-8 8 0 0 8-8 0z"/></svg>',
        ((x, _top(piece.rung) + 25, name) for x, name in at),
    )


def _at(moment: datetime, scale: _Scale) -> str:
    return f"{lasted_text((moment - scale.start).total_seconds())} after the start"


def _climbs(pieces: Sequence[Piece], scale: _Scale) -> Iterator[SafeString]:
    """An arrow from the last piece of an operation on a lower rung to its first on a higher one."""
    below: dict[str, Piece] = {}
    for piece in pieces:
        last = below.get(piece.operation)
        if last is not None and RUNGS.index(last.rung) < RUNGS.index(piece.rung):
            x = scale.x(piece.start)
            yield format_html(
                '<line class="climb" x1="{}" x2="{}" y1="{}" y2="{}" marker-end="url(#arrow)"/>',
                x,
                x,
                _top(last.rung) + 18 + _BAR_PX + 1,
                _top(piece.rung) + 17,
            )
        below[piece.operation] = piece


def _labels(pieces: Sequence[Piece], scale: _Scale) -> Iterator[SafeString]:
    """What each stretch of one operation is, over it, as long as there is room."""
    for rung in RUNGS:
        until = -1.0
        mine = [piece for piece in pieces if piece.rung is rung]
        for operation, group in groupby(mine, key=lambda piece: piece.operation):
            stretch = list(group)
            words = _label(rung, operation, stretch)
            x = scale.share(stretch[0].start)
            is_late = x > 70
            left = x - _CHAR * len(words) if is_late else x
            if left < until:
                continue
            until = x + 1 if is_late else x + _CHAR * len(words) + 1
            yield format_html(
                '<text class="strong" x="{}" y="{}"{}>{}</text>',
                _percent(x if rung is Rung.RETRY else x - 0.8 if is_late else x + 0.8),
                _top(rung) + 13,
                format_html(' text-anchor="{}"', "end") if is_late else "",
                words,
            )


def _label(rung: Rung, operation: str, stretch: Sequence[Piece]) -> str:
    if rung is not Rung.RETRY:
        return stretch[0].words
    failed = sum(piece.kind is Kind.FAILED for piece in stretch)
    return f"{operation}, {failed} failed" if failed else operation


def _shades(story: RunStory, scale: _Scale) -> Iterator[SafeString]:
    """Behind everything a band for each outage, a rail over it, and its name where there is room."""
    until = -1.0
    for one in story.behind:
        x, width = _stretch(one, scale)
        words = f"{one.number} {one.name}"
        yield format_html(
            '<g class="shade"><title>{}</title><rect class="h1" x="{}" width="{}" y="{}" height="{}"/>'
            '<rect class="h4" x="{}" width="{}" y="{}" height="3"/></g>',
            _told(one, scale),
            *(_percent(x), _percent(width), HEAD_PX, RUNG_PX * len(RUNGS)),
            *(_percent(x), _percent(width), _RAIL_Y),
        )
        left = min(x, 100 - _CHAR * len(words))
        if left > until and left >= 0:
            until = left + _CHAR * len(words) + 1
            yield format_html('<text x="{}" y="{}">{}</text>', _percent(left), _RAIL_Y - 4, words)


def _stretch(one: Behind, scale: _Scale) -> tuple[float, float]:
    """Where an outage begins and how wide it is, in per cent of the width."""
    begin, end = scale.share(one.start), scale.share(one.end or scale.end)
    width = max(_LEAST, end - begin)
    return min(begin, 100 - width), width


def _told(one: Behind, scale: _Scale) -> str:
    began = _at(one.start, scale) if one.start > scale.start else "before the start"
    so_far = "so far" if one.end is None else f"up to {_at(one.end, scale)}"
    return f"{one.number} {one.name}: {began}, {so_far}"


def _moves(story: RunStory, scale: _Scale) -> Iterator[SafeString]:
    until = -1.0
    for at, words in story.moves:
        x = scale.share(at)
        yield format_html(
            '<line class="limit" x1="{}" x2="{}" y1="22" y2="{}"/>',
            _percent(x),
            _percent(x),
            HEAD_PX + RUNG_PX * len(RUNGS),
        )
        is_late = x > 70
        left = x - _CHAR * len(words) if is_late else x
        if left > until:
            until = x + 1 if is_late else x + _CHAR * len(words) + 1
            anchor = format_html(' text-anchor="{}"', "end") if is_late else ""
            offset = -0.5 if is_late else 0.5
            yield format_html('<text x="{}" y="29"{}>{}</text>', _percent(x + offset), anchor, words)


def _grid(scale: _Scale) -> Iterator[SafeString]:
    bottom = HEAD_PX + RUNG_PX * len(RUNGS)
    for x, _ in _ticks(scale):
        yield format_html('<line class="gridline" x1="{}" x2="{}" y1="{}" y2="{}"/>', x, x, HEAD_PX, bottom)
    for place in range(len(RUNGS) + 1):
        y = HEAD_PX + RUNG_PX * place
        yield format_html('<line class="gridline" x2="100%" y1="{}" y2="{}"/>', y, y)


def _axis(scale: _Scale) -> Iterable[SafeString]:
    y = HEIGHT_PX - 8
    for place, (x, words) in enumerate(_ticks(scale)):
        yield format_html('<text x="{}" y="{}" text-anchor="{}">{}</text>', x, y, "middle" if place else "start", words)


def _ticks(scale: _Scale) -> list[tuple[str, str]]:
    """Round spans since the start."""
    step = next((one for one in _TICK_STEPS_S if scale.length_s / one <= _MOST_TICKS), _TICK_STEPS_S[-1])
    count = min(_MOST_TICKS, int(scale.length_s / step))
    marks = [step * place for place in range(count + 1) if step * place <= 0.96 * scale.length_s]
    return [(_percent(100 * mark / scale.length_s), _tick_words(mark, step)) for mark in marks]


def _tick_words(mark_s: float, step_s: float) -> str:
    if step_s < 1:
        return f"{mark_s:.2f} s" if step_s < 0.1 else f"{mark_s:.1f} s"
    return span_text(mark_s)


def _percent(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".") + "%"
