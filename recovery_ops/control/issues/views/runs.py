"""What became of the runs that met a cause of failures, rung by rung, and the outages that its failures are part of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from events.capacity.asking import capacity_events, parts_struck
from events.capacity.rows import CapacityEventRow
from events.charts.drawing import stacked
from events.failures.met import RUNS_MOST
from events.failures.rows import Fingerprint, Sample
from events.failures.sums import kinds_of, totals_in
from events.issues.fold import KindName
from events.moments import Span, to_us
from events.pages.window import Window
from events.runs.going import Goes
from events.runs.narrowing import RECOVERED
from events.runs.rows import RUNG_WORDS, RUNGS
from events.runs.struck import COUNTED, Struck
from recovery_ops.control.runs.views.flows import NO_RUNG
from recovery_ops.rules.enums import RunStatus
from recovery_ops.rules.incidents.detection import OUTAGE_COUNTS

_OUTCOMES: tuple[tuple[str, str, str, str], ...] = (
    (RunStatus.SUCCEEDED, "closed", "recovered", RECOVERED),
    (RunStatus.DEGRADED, "half_open", "degraded", RunStatus.DEGRADED),
    (RunStatus.FAILED, "open", "failed", RunStatus.FAILED),
    (RunStatus.STOPPED, "forced_open", "stopped", RunStatus.STOPPED),
    (RunStatus.CANCELLED, "unknown", "aborted", RunStatus.CANCELLED),
    ("", "wait", "not ended", Goes.RUNNING),
)
"""The status of a run, its pattern and word, and the status that the list of runs is narrowed by."""
_OUTAGES_MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One outcome: how many runs had it, and where they are listed."""

    status: str
    pattern: str
    word: str
    count: int
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """How runs ended by the highest recovery step of each: a bar for each step, and the same as a table.

    `heads` are the outcomes there were, `rows` their counts for each step and in all; `is_least`: there are more runs.
    """

    drawing: SafeString
    heads: Sequence[Head]
    rows: Sequence[tuple[str, Sequence[int], int]]
    total: int
    is_least: bool
    sentence: str


def outcomes_of(runs: Counter[tuple[int, str]], runs_href: str) -> Outcomes | None:
    """Of runs by highest step and status (empty: it goes on), `RUNS_MOST` at most; None where there are none."""
    if not runs:
        return None
    there = [one for one in _OUTCOMES if any(status == one[0] for _, status in runs)]
    words = [NO_RUNG, *(RUNG_WORDS[rung] for rung in RUNGS)]
    levels = sorted({level for level, _ in runs})
    rows = [(words[level], [runs[level, status] for status, *_ in there]) for level in levels]
    total = runs.total()
    ended = [sum(runs[level, status] for level in levels) for status, *_ in there]
    recovered = sum(count for (_, status), count in runs.items() if status == RunStatus.SUCCEEDED)
    top = max(rows, key=lambda row: sum(row[1]))
    return Outcomes(
        drawing=stacked(
            rows,
            [pattern for _, pattern, *_ in there],
            label="Runs by recovery step",
            words=[word for _, _, word, _ in there],
        ),
        heads=[
            Head(status=asked, pattern=pattern, word=word, count=count, href=f"{runs_href}&status={asked}")
            for (_, pattern, word, asked), count in zip(there, ended, strict=True)
        ],
        rows=[(rung, numbers, sum(numbers)) for rung, numbers in rows],
        total=total,
        is_least=total == RUNS_MOST,
        sentence=f"{recovered:,} of {total:,} recovered. {_highest(top[0], sum(top[1]), total)}",
    )


def outages_of(
    environment: str, found: Fingerprint, part: Sample, window: Window
) -> list[tuple[CapacityEventRow, int]]:
    """The newest incidents that failures of an issue are part of, with how many of them, the most first. Two queries;
    none where its category makes no incident.
    """
    if found.category not in OUTAGE_COUNTS:
        return []
    kinds = kinds_of(part.kinds)
    events = capacity_events(environment, start=found.first, end=found.last, now=window.end)
    ranges = [(event, *one) for event in events for one in _ranges(event, kinds, window)]
    asked = list(dict.fromkeys(event.id for event, *_ in sorted(ranges, key=lambda one: -one[0].id)))[:_OUTAGES_MOST]
    ranges = [one for one in ranges if one[0].id in asked]
    counts: Counter[int] = Counter()
    for (event, *_), count in zip(ranges, totals_in(environment, [one[1:] for one in ranges]), strict=True):
        counts[event.id] += count
    told = [(event, counts[event.id]) for event in events if counts[event.id]]
    return sorted(told, key=lambda pair: (-pair[1], -pair[0].id))


def _ranges(
    event: CapacityEventRow, kinds: Mapping[bytes, KindName], window: Window
) -> Iterator[tuple[Span, set[bytes]]]:
    """When each part of an incident lasted within the window, with those of the kinds that are part of it."""
    for part in parts_struck(event):
        span = max(part.first_us, to_us(window.start)), min(part.last_us + 1, to_us(window.end))
        its = {digest for digest, kind in kinds.items() if _is_of(part, kind)}
        if its and span[0] < span[1]:
            yield span, its


def _is_of(part: Struck, kind: KindName) -> bool:
    is_its = (kind.provider, kind.model, kind.region) == (part.provider, part.model, part.region)
    return is_its and part.operation in ("", kind.operation) and kind.category in COUNTED


def _highest(rung: str, count: int, read: int) -> str:
    share = f"{count:,} of {read:,}"
    return f"{share} used no recovery step." if rung == NO_RUNG else f"{share} reached “{rung}”."
