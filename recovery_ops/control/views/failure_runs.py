"""What became of the runs that met a cause of failures, rung by rung, and the outages that its failures are part of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from events.capacity.asking import capacity_events, parts_struck
from events.capacity.rows import CapacityEventRow
from events.drawing import stacked
from events.failures.rows import Field, Fingerprint, Seen
from events.runs.rows import RUNG_WORDS, RUNGS, RunStory
from events.runs.struck import is_of_outage
from events.window import Window
from events.wording import count_text
from recovery_ops.control.views.run_flows import NO_RUNG
from recovery_ops.rules.outages import OUTAGE_COUNTS
from recovery_ops.rules.words import RunStatus

_OUTCOMES: tuple[tuple[RunStatus | None, str, str], ...] = (
    (RunStatus.SUCCEEDED, "closed", "recovered"),
    (RunStatus.DEGRADED, "half_open", "answered with less"),
    (RunStatus.FAILED, "open", "failed"),
    (RunStatus.STOPPED, "forced_open", "stopped"),
    (RunStatus.CANCELLED, "unknown", "cancelled"),
    (None, "wait", "not ended yet"),
)
_OUTAGES_MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """How runs ended by the highest rung that each climbed: a bar for each rung, and the same as a table.

    `heads` are the patterns and words of the outcomes there were, `rows` their counts for each rung and in all.
    """

    drawing: SafeString
    heads: Sequence[tuple[str, str]]
    rows: Sequence[tuple[str, Sequence[int], int]]
    totals: Sequence[int]
    read: str
    sentence: str


def outcomes_of(stories: Iterable[RunStory], *, met: int, is_least: bool) -> Outcomes | None:
    """Those of the runs that were read, of so many (at least so many) that met the cause; None where none was."""
    counts = Counter((story.level, story.status) for story in stories)
    if not counts:
        return None
    there = [one for one in _OUTCOMES if any(status is one[0] for _, status in counts)]
    words = [NO_RUNG, *(RUNG_WORDS[rung] for rung in RUNGS)]
    levels = sorted({level for level, _ in counts})
    rows = [(words[level], [counts[level, status] for status, _, _ in there]) for level in levels]
    read, least = counts.total(), "at least " if is_least else ""
    ended = Counter(status for level, status in counts.elements())
    top = max(rows, key=lambda row: sum(row[1]))
    return Outcomes(
        drawing=stacked(rows, [pattern for _, pattern, _ in there], label="Runs by rung"),
        heads=[(pattern, word) for _, pattern, word in there],
        rows=[(rung, numbers, sum(numbers)) for rung, numbers in rows],
        totals=[ended[status] for status, _, _ in there],
        read=f"the newest {read:,} of {least}{met:,} runs" if met > read or is_least else count_text(read, "run"),
        sentence=f"{ended[RunStatus.SUCCEEDED]:,} of {read:,} recovered. {_highest(top[0], sum(top[1]), read)}",
    )


def outages_of(
    environment: str, found: Fingerprint, seen: Sequence[Seen], window: Window
) -> list[tuple[CapacityEventRow, int]]:
    """The capacity events that failures of a cause are part of, with how many of those read, the most first. One query;
    none where its category makes no outage.
    """
    if found.category not in OUTAGE_COUNTS:
        return []
    events = capacity_events(environment, start=found.first, end=found.last, now=window.end)
    backends = {(one.values[Field.PROVIDER], one.values[Field.MODEL]) for one in seen}
    told = []
    for event in events:
        parts = [part for part in parts_struck(event) if (part.provider, part.model) in backends]
        count = sum(
            is_of_outage(
                parts,
                category=found.category.value,
                at_us=one.at_us,
                provider=one.values[Field.PROVIDER],
                model=one.values[Field.MODEL],
                operation=one.values[Field.OPERATION],
                region=one.values[Field.REGION],
            )
            for one in (seen if parts else ())
        )
        if count:
            told.append((event, count))
    return sorted(told, key=lambda pair: (-pair[1], -pair[0].id))[:_OUTAGES_MOST]


def _highest(rung: str, count: int, read: int) -> str:
    share = f"{count:,} of {read:,}"
    return f"{share} climbed no rung." if rung == NO_RUNG else f"{share} climbed to “{rung}” and no higher."
