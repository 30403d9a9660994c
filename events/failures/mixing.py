"""What became of the runs that met a cause: recovered by themselves, by something else, by a person, or lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from django.db.models import Max

from events.failures.met import newest_met
from events.failures.rows import Field, Sample
from events.moments import to_us
from events.recoveries.summing import ENDED_BADLY, ENDED_WELL
from events.runs.stored import LASTS_US, facts_among
from events.store.stored_json import text_at
from recovery_ops.rules.events import DegradationStarted, Escalated, FallbackActivated, ModelFallback, RunFinished
from recovery_ops.wire import names

RUNS_EACH = 20
"""So many runs of a cause are looked at, the newest: as many of a rare one as of a frequent one."""
_AT_ONCE = 1_000
_FINISHED, _ASKED = names.EVENTS[RunFinished].name, names.EVENTS[Escalated].name
_SECOND_BEST = {names.EVENTS[kind].name for kind in (FallbackActivated, ModelFallback, DegradationStarted)}
_STATUS = names.attribute_of(RunFinished, "status")


class Ending(StrEnum):
    """What became of a run that met a cause."""

    ALONE = "alone"
    SECOND_BEST = "second_best"
    HELPED = "helped"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How many of the looked at runs of a cause ended how; those that go on, or were cancelled, are in none."""

    alone: int = 0
    second_best: int = 0
    helped: int = 0
    lost: int = 0

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """In the order of `Ending`."""
        return self.alone, self.second_best, self.helped, self.lost


NO_RUNS = Mix()


def ending_of(status: str, *, has_asked: bool, has_second_best: bool) -> Ending | None:
    """How a run ended, by its last word; None where that is neither well nor badly.

    A person counts before a fallback: without the answer there had been no end. `has_second_best` is whether the
    operation that failed was answered by a fallback, another model or with less.
    """
    if status in ENDED_BADLY:
        return Ending.LOST
    if status not in ENDED_WELL:
        return None
    if has_asked:
        return Ending.HELPED
    return Ending.SECOND_BEST if has_second_best else Ending.ALONE


@dataclass(slots=True)
class _Told:
    """What a run said of its end."""

    status: str = ""
    status_us: int = 0
    has_asked: bool = False
    replaced: set[str] = field(default_factory=set)
    """The operations that something else answered for."""


def mixes(
    environment: str, sample: Sample, causes: Collection[str], *, start: datetime, end: datetime
) -> Mapping[str, Mix]:
    """What became of the newest `RUNS_EACH` runs of each of these causes of a sample.

    A query for each 100 kinds and each 1,000 runs; indexes `run_failure_by_kind`, `fact_by_run`. A run that met two
    causes counts with both.
    """
    parts = sample.of(causes).by_cause()
    met = _met(parts, causes, to_us(start), to_us(end))
    # A run may have asked before it failed; how long it may last, the list of runs says, too.
    since_us = min((one.first_us for one in parts.values()), default=0) - LASTS_US
    told = _told(environment, sorted({run for runs in met.values() for run in runs}), since_us)
    found = {}
    for cause, runs in met.items():
        endings = Counter(
            ending_of(one.status, has_asked=one.has_asked, has_second_best=bool(one.replaced & operations))
            for run, operations in runs.items()
            if (one := told.get(run)) is not None
        )
        found[cause] = Mix(**{ending.value: endings[ending] for ending in Ending})
    return found


def _met(
    parts: Mapping[str, Sample], causes: Collection[str], start_us: int, end_us: int
) -> dict[str, dict[str, set[str]]]:
    """By cause, the newest runs that met it, and at which operations."""
    met: dict[str, dict[str, set[str]]] = {cause: {} for cause in causes}
    its = {seen.kind: (name, seen.values[Field.OPERATION]) for name, mine in parts.items() for seen in mine.seen}
    for one in newest_met(its, start_us=start_us, end_us=end_us, each=RUNS_EACH):
        cause, operation = its[one.kind]
        runs = met[cause]
        if one.run in runs or len(runs) < RUNS_EACH:
            runs.setdefault(one.run, set()).add(operation)
    return met


def _told(environment: str, runs: Sequence[str], since_us: int) -> Mapping[str, _Told]:
    told: dict[str, _Told] = {}
    for run, event, operation, status, last_us in _ends(environment, runs, since_us):
        one = told.setdefault(run, _Told())
        if event == _FINISHED and last_us >= one.status_us:
            one.status, one.status_us = str(status), last_us
        elif event == _ASKED:
            one.has_asked = True
        elif event in _SECOND_BEST:
            one.replaced.add(operation)
    return told


def _ends(environment: str, runs: Sequence[str], since_us: int) -> Iterator[tuple[str, str, str, str | None, int]]:
    events = (_FINISHED, _ASKED, *sorted(_SECOND_BEST))
    for start in range(0, len(runs), _AT_ONCE):
        some = runs[start : start + _AT_ONCE]
        said = facts_among(environment, some).filter(at_us__gte=since_us, event__in=events).order_by()
        kinds = said.annotate(status=text_at(_STATUS))
        yield from kinds.values_list("run", "event", "operation", "status").annotate(last=Max("at_us"))
