"""The runs that an outage reached: how each stands, what it did while the outage lasted, and where all of them are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.urls import reverse

from events.capacity.asking import parts_struck
from events.capacity.rows import CapacityEventRow
from events.moments import to_us
from events.pages.window import SHORTEST, instant_words
from events.runs.ladder import steps_taken
from events.runs.rows import Kind, Piece, RunFact, RunStory
from events.runs.selectors import RunFilters, RunList, Show, reporting_ids
from events.runs.stored import facts_of
from events.runs.story import tell
from events.wording import count_text, lasted_text
from recovery_ops.control.runs.status import Standing, reporting_in, standing_of, word_of_status

SHOWN_MOST = 20
EVENTS_EACH = 200
_SAID_MOST = 2
_A_MOMENT = timedelta(microseconds=1)
_A_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReached:
    """One run: `did` is what it did about the failures of this outage, in words."""

    story: RunStory
    standing: Standing
    did: str
    steps: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCount:
    """So many of the runs have this status: its code, how it is read, and where they are listed."""

    status: str
    word: str
    count: int
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The newest runs; `is_further_back`: there are older ones. `outcomes` are of all of them."""

    rows: Sequence[RunReached]
    is_further_back: bool
    outcomes: Sequence[OutcomeCount]


def runs_reached(row: CapacityEventRow, environment: str, now: datetime) -> Reached:
    """The newest runs of an outage, and how all of them ended. At most ten queries."""
    filters = RunFilters(show=Show.TROUBLED, struck=parts_struck(row))
    listed = RunList.of(environment, filters, start=row.started, end=row.last + _A_MOMENT, now=now)
    found = listed.page(limit=SHOWN_MOST, has_issues=False)
    reporting = reporting_in(environment, found.rows, now)
    pieces = _pieces(environment, found.rows, row)
    rows = [
        RunReached(
            story=story,
            standing=standing_of(story, now, reporting),
            did=", ".join(_did(pieces[story.run], row, now)),
            steps=steps_taken(story),
        )
        for story in found.rows
    ]
    return Reached(
        rows=rows,
        is_further_back=found.further is not None,
        outcomes=_outcomes(row, listed.by_outcome(reporting_ids(environment, now))),
    )


def _outcomes(row: CapacityEventRow, counts: Mapping[tuple[int, str], int]) -> list[OutcomeCount]:
    """Counts by level and status: by status, the most frequent first."""
    by_status: Counter[str] = Counter()
    for (_, status), count in counts.items():
        by_status[status] += count
    href = runs_href(row)
    return [
        OutcomeCount(status=status, word=word_of_status(status), count=count, href=f"{href}&status={status}")
        for status, count in sorted(by_status.items(), key=lambda item: (-item[1], item[0]))
    ]


def _pieces(environment: str, stories: Sequence[RunStory], row: CapacityEventRow) -> dict[str, list[Piece]]:
    """The pieces of each run from the start of an outage on, of its first `EVENTS_EACH` events then. One query."""
    events: dict[str, list[RunFact]] = {story.run: [] for story in stories}
    found = facts_of(environment, list(events), first=EVENTS_EACH, newest=0, since_us=to_us(row.started))
    for run, event in found:
        events[run].append(event)
    told = {one.run: tell(events[one.run], one.ended, one.status).pieces for one in stories}
    return {run: [piece for piece in pieces if _is_about(piece, row)] for run, pieces in told.items()}


def runs_href(row: CapacityEventRow) -> str:
    """The list of runs, narrowed to those of an outage, over the time that it lasted."""
    # Addresses tell whole seconds, and ask for a minute at least.
    end = max(row.last, row.started + SHORTEST) + _A_SECOND
    words = {"outage": row.number, "from": instant_words(row.started), "to": instant_words(end)}
    return f"{reverse('runs')}?{urlencode(words, safe=':')}"


def _did(mine: Sequence[Piece], row: CapacityEventRow, now: datetime) -> Iterator[str]:
    """`waited 12 s`, `small answers for model:large`: what it did in those operations from the first failure on."""
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
