"""The runs that an outage reached: how each stands, what it did while the outage lasted, and where all of them are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.safestring import SafeString

from events.capacity.asking import parts_struck
from events.capacity.rows import CapacityEventRow
from events.runs.asking import runs
from events.runs.ladder import small
from events.runs.rows import Kind, Piece, RunStory
from events.window import SHORTEST, instant_words
from events.wording import count_text, lasted_text
from recovery_ops.control.standings import Standing, reporting_in, standing_of

SHOWN_MOST = 20
_SAID_MOST = 2
_A_MOMENT = timedelta(microseconds=1)
_A_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReached:
    """One run: `did` is what it did about the failures of this outage, in words."""

    story: RunStory
    standing: Standing
    did: str
    ladder: SafeString


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The newest runs; `is_further_back`: what was read for them was not all there is."""

    rows: Sequence[RunReached]
    is_further_back: bool


def runs_reached(row: CapacityEventRow, environment: str, now: datetime) -> Reached:
    """The newest runs of an outage, while their facts are kept. At most five queries."""
    found = runs(environment, start=row.started, end=row.last + _A_MOMENT, struck=parts_struck(row), most=SHOWN_MOST)
    stories = found.rows[:SHOWN_MOST]
    reporting = reporting_in(environment, stories, now)
    rows = [
        RunReached(
            story=story,
            standing=standing_of(story, now, reporting),
            did=", ".join(_did(story, row, now)),
            ladder=small(story, now),
        )
        for story in stories
    ]
    return Reached(rows=rows, is_further_back=found.older_us is not None)


def runs_href(row: CapacityEventRow) -> str:
    """The list of runs, narrowed to those of an outage, over the time that it lasted."""
    # Addresses tell whole seconds, and ask for a minute at least.
    end = max(row.last, row.started + SHORTEST) + _A_SECOND
    words = {"outage": row.number, "from": instant_words(row.started), "to": instant_words(end)}
    return f"{reverse('runs')}?{urlencode(words, safe=':')}"


def _did(story: RunStory, row: CapacityEventRow, now: datetime) -> Iterator[str]:
    """`waited 12 s`, `small answers for model:large`: what it did in those operations from the first failure on."""
    mine = [piece for piece in story.pieces if _is_about(piece, row)]
    waits = [(piece.start, piece.end) for piece in mine if piece.kind is Kind.WAITING and piece.end is not None]
    if waits:
        waited = sum((max(min(end, now) - start, timedelta()) for start, end in waits), timedelta())
        goes_on = any(end > now for _, end in waits)
        yield f"waited {lasted_text(waited.total_seconds())}{' so far' if goes_on else ''}"
    told = [piece.words.strip() for piece in mine if piece.kind is Kind.SECOND_BEST]
    yield from list(dict.fromkeys(told))[:_SAID_MOST]
    kinds = {piece.kind for piece in mine}
    if Kind.ASKED in kinds:
        yield "asked a person"
    if Kind.GAVE_UP in kinds:
        yield "gave up"
    elif not kinds - {Kind.FAILED, Kind.SUCCEEDED}:
        failed = sum(piece.kind is Kind.FAILED for piece in mine)
        yield f"{count_text(failed, 'attempt')} failed" if failed else "more than is read here"


def _is_about(piece: Piece, row: CapacityEventRow) -> bool:
    return piece.operation in row.operations and (piece.end is None or piece.end >= row.started)
