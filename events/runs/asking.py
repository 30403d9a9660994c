"""The questions asked of runs. The newest facts of one kind name the runs; the facts of those tell them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import CharField, Value
from django.db.models.fields.json import KeyTextTransform

from events.failures.asking import cause_of
from events.failures.grouping import AS_SENT, Grouping
from events.models import Fact
from events.moments import to_us
from events.runs.rows import RunFact, RunStory
from events.runs.stored import facts_of
from events.runs.story import tell
from recovery_ops.rules.facts import Escalated, FailureClassified, RunFinished, RunStarted
from recovery_ops.rules.words import RunStatus
from recovery_ops.wire import names

PAGE = 50
FACTS_OF_ONE = 2_000
FIRST_OF_LISTED = 2
NEWEST_OF_LISTED = 14
"""A list tells each run by its first facts, which name it, and its newest, which say how it stands."""
READ = 2_000
"""So many facts of one kind are looked through for runs; older ones are on the next page."""
READ_FIRST = 300
"""Usually enough of them name a page of runs."""
_FINISHED = names.EVENTS[RunFinished].name
_ENDED_BADLY = frozenset({RunStatus.FAILED.value, RunStatus.STOPPED.value, RunStatus.CANCELLED.value})


class Show(StrEnum):
    """Which runs a list shows."""

    TROUBLED = "troubled"
    """In which an attempt failed."""
    FAILED = "failed"
    """That ended without what they were to bring."""
    ASKED = "asked"
    """That asked a person."""
    RUNNING = "running"
    """That started and have not ended."""
    ALL = "all"


_NAMED_BY = {
    Show.TROUBLED: names.EVENTS[FailureClassified].name,
    Show.FAILED: _FINISHED,
    Show.ASKED: names.EVENTS[Escalated].name,
    Show.RUNNING: names.EVENTS[RunStarted].name,
    Show.ALL: names.EVENTS[RunStarted].name,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """A page of runs, newest first. `older_us` asks for the next page; None at the end."""

    rows: Sequence[RunStory]
    older_us: int | None


def run_of(environment: str, run: str) -> RunStory | None:
    """One run; None for one of which nothing is known. One query; index `fact_by_run`."""
    found = [fact for _, fact in facts_of(environment, [run], first=FACTS_OF_ONE + 1, newest=0)]
    return tell(run, found[:FACTS_OF_ONE], is_cut=len(found) > FACTS_OF_ONE) if found else None


def runs(
    environment: str,
    *,
    start: datetime,
    end: datetime,
    show: Show = Show.TROUBLED,
    operation: str = "",
    fingerprint: str = "",
    grouping: Grouping = AS_SENT,
    before_us: int | None = None,
    most: int | None = None,
) -> Runs:
    """Runs that a fact in [start, end) names. Two or three queries, for those that still run up to five.

    `most` are on a page (else `PAGE`), and whichever was named in the same microsecond as the last of them.

    `operation` is that of a failure, `fingerprint` the name of its cause, which `grouping` says of each. Indexes:
    `fact_by_event`, `fact_by_run`.
    """
    is_wanted = _Wanted(show, operation, grouping.head(fingerprint), grouping)
    until_us = min(to_us(end), before_us) if before_us is not None else to_us(end)
    most = PAGE if most is None else most
    newest: dict[str, int] = {}
    wanted: list[str] = []
    rest_us: int | None = None
    for read in sorted({min(READ_FIRST, READ), READ}):
        named, rest_us = _naming(environment, is_wanted, to_us(start), until_us, read)
        newest = {}
        for run, at_us in named:
            newest.setdefault(run, at_us)
        wanted = list(newest)
        if show is Show.RUNNING and named:
            ended = _ended_since(environment, named[-1][1])
            wanted = [run for run in wanted if run not in ended]
        if len(wanted) > most or rest_us is None:
            break
    # The next page begins before the moment of the last run here.
    shown = [run for place, run in enumerate(wanted) if place < most or newest[run] == newest[wanted[most - 1]]]
    rows = [row for row in stories_of(environment, shown) if not _was_shown(row, before_us, show)]
    if show is Show.RUNNING:
        rows = [row for row in rows if row.ended is None]
    return Runs(rows=rows, older_us=newest[shown[-1]] if len(wanted) > len(shown) else rest_us)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which facts name a run that is asked for, by their columns and one mark of theirs."""

    show: Show
    operation: str
    cause: str
    grouping: Grouping

    @property
    def mark(self) -> str:
        """The attribute to read with them; empty where the columns say enough."""
        if self.show is Show.FAILED:
            return names.attribute_of(RunFinished, "status")
        return names.attribute_of(FailureClassified, "fingerprint") if self.cause else ""

    def of(self, mark: str | None, category: str, operation: str, provider: str, model: str) -> bool:
        """Whether a fact with these is one of them."""
        if self.show is Show.FAILED:
            return mark in _ENDED_BADLY
        if self.show is not Show.TROUBLED:
            return True
        if self.operation not in ("", operation):
            return False
        return not self.cause or self.cause == cause_of(self.grouping, mark, category, operation, provider, model)


_OF_FAILURE = ("category", "operation", "provider", "model")


def _naming(
    environment: str, wanted: _Wanted, start_us: int, end_us: int, most: int
) -> tuple[list[tuple[str, int]], int | None]:
    """The newest facts that name runs, as (run, moment), newest first; and how far was read, where there may be more.

    So many facts are read, whatever they say: a condition that few of them meet would read them all.
    """
    event = _NAMED_BY[wanted.show]
    named = Fact.objects.filter(environment=environment, event=event, at_us__gte=start_us, at_us__lt=end_us)
    mark = KeyTextTransform(wanted.mark, "attributes") if wanted.mark else Value("", CharField())
    columns = named.annotate(mark=mark).order_by("-at_us", "-id").values_list("run", "at_us", "mark", *_OF_FAILURE)
    read = list(columns[:most])
    rest_us = read[-1][1] if len(read) == most else None
    return [(run, at_us) for run, at_us, *kind in read if run and wanted.of(*kind)], rest_us


def _ended_since(environment: str, since_us: int) -> set[str]:
    """The runs that said so from then on: those that ended soonest, which most do. One query; index `fact_by_event`."""
    over = Fact.objects.filter(environment=environment, event=_FINISHED, at_us__gte=since_us)
    return set(over.order_by("at_us").values_list("run", flat=True)[: 2 * READ])


def stories_of(environment: str, ids: Sequence[str]) -> list[RunStory]:
    """The stories of these runs, in this order, by their first and their newest facts. One query."""
    by_run: dict[str, list[RunFact]] = {run: [] for run in ids}
    for run, fact in facts_of(environment, ids, first=FIRST_OF_LISTED, newest=NEWEST_OF_LISTED):
        by_run[run].append(fact)
    most = FIRST_OF_LISTED + NEWEST_OF_LISTED
    return [tell(run, told, is_cut=len(told) == most) for run, told in by_run.items() if told]


def _was_shown(row: RunStory, before_us: int | None, show: Show) -> bool:
    """Whether an earlier page had it: a run in which attempts failed at both sides of the border."""
    if before_us is None or show is not Show.TROUBLED or row.last_failed is None:
        return False
    return to_us(row.last_failed) >= before_us
