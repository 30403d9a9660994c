"""The questions asked of runs. The newest facts of one kind name the runs; the facts of those tell them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from django.db.models import CharField, Value
from django.utils import timezone

from events.failures.asking import cause_of
from events.failures.grouping import AS_SENT, Grouping
from events.models import Fact
from events.moments import US_PER_S, to_us
from events.partitions import is_partitioned
from events.queries.fleet import fleet
from events.queries.sums import capacity_name
from events.rows import AgentRow
from events.runs.brief import InBrief, tell_in_brief
from events.runs.going import Reporting
from events.runs.narrowing import Narrow
from events.runs.rows import RunFact, RunStory
from events.runs.stored import AT_ONCE, begun_before, facts_of
from events.runs.story import tell
from events.runs.struck import Struck, is_of_outage
from events.stored_json import text_at
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
LOOKED = 200
"""So many runs are told to find a page of those that a narrower list keeps."""
READ_FIRST = 300
"""Usually enough of them name a page of runs."""
LASTS_US = 2 * 86_400 * US_PER_S
"""Most runs take no longer: those are read from the days around them, and for earlier ones it is only asked which had
any."""
_ANY = Narrow()
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
    """A page of runs, newest first. `older_us` asks for the next page; None at the end.

    `looked` are those that were told to find them: of a list that is not narrowed the same ones. `named_us`: when a
    fact last named each. `reporting`: who reports now, where that was asked for to narrow them.
    """

    rows: Sequence[RunStory]
    older_us: int | None
    looked: Sequence[RunStory] = ()
    reporting: Reporting = frozenset()
    named_us: Mapping[str, int] = field(default_factory=dict)

    def first(self, most: int) -> Runs:
        """The first so many of them as a page of their own; the next one begins behind the last."""
        count = _with_ties(self.named_us, [one.run for one in self.rows], most)
        if count == len(self.rows):
            return self
        return replace(self, rows=self.rows[:count], older_us=self.named_us[self.rows[count - 1].run])


def count_naming(environment: str, show: Show, start_us: int, end_us: int, *, most: int | None = None) -> int:
    """How many facts of the kind that names such runs lie in [start, end); `most` + 1 where there are more than `most`.

    One query, answered by index `fact_by_event`.
    """
    found = Fact.objects.filter(environment=environment, event=_NAMED_BY[show], at_us__gte=start_us, at_us__lt=end_us)
    return found.count() if most is None else found.order_by()[: most + 1].count()


def run_of(environment: str, run: str) -> RunStory | None:
    """One run; None for one of which nothing is known. Two queries, three or four where it is not known by then.

    Index: `fact_by_run`. On PostgreSQL what came more than two days late of a run that has newer facts is told from the
    next time on that days of runs are noted; one of which there is nothing else is looked for in every day.
    """
    lately_us = to_us(timezone.now()) - LASTS_US
    since_us = begun_before(environment, [run], lately_us).get(run, lately_us)
    found = _facts_of(environment, [run], since_us, first=FACTS_OF_ONE + 1, newest=1)[run]
    if not found and is_partitioned():  # what came late, or is so old that its days are forgotten
        found = _facts_of(environment, [run], 0, first=FACTS_OF_ONE + 1, newest=1)[run]
    is_cut = len(found) > FACTS_OF_ONE
    # Of a longer one the last is told, too: it is how it ended, if it did.
    return tell(run, [*found[:FACTS_OF_ONE], found[-1]] if is_cut else found, is_cut=is_cut) if found else None


def runs(
    environment: str,
    *,
    start: datetime,
    end: datetime,
    show: Show = Show.TROUBLED,
    operation: str = "",
    breaker: str = "",
    fingerprint: str = "",
    grouping: Grouping = AS_SENT,
    struck: Sequence[Struck] | None = None,
    narrow: Narrow = _ANY,
    before_us: int | None = None,
    most: int | None = None,
    read: int | None = None,
    now: datetime | None = None,
    in_words: bool = True,
    besides: Collection[str] = (),
) -> Runs:
    """Runs that a fact in [start, end) names. Three to five queries, three more where `narrow` keeps few: `LOOKED` runs
    are told at most, and the next page goes on behind them; one more where it is narrowed by how they go on at `now`.

    `most` are on a page, and whichever was named in the same microsecond as the last of them; of `read` facts. Not
    `in_words`, they are told in brief (`InBrief`). `besides` are left out. `operation`, `breaker` and `fingerprint` are
    of a failure, that with `struck` an outage of these parts is made of. Indexes: `fact_by_event`, `fact_by_run`.
    """
    wanted = _Wanted.asked(show, operation, breaker, fingerprint, grouping, struck, narrow)
    until_us = min(to_us(end), before_us) if before_us is not None else to_us(end)
    most = PAGE if most is None else most
    found = _found(environment, wanted, to_us(start), until_us, most, read, besides)
    narrow = narrow.beside_failures if show is Show.TROUBLED else narrow
    in_brief = InBrief(to_us(now or end), narrow.is_of_backends)
    reporting = reporting_now(environment, now or end) if narrow.is_of_going else frozenset()
    # A narrower list is told in two rounds at most; where it took more questions to know what is asked for, in one.
    most_first = max(most, PAGE) if struck is None else max(most, LOOKED)
    rows, looked, at = list[RunStory](), list[RunStory](), 0
    while at < len(found.runs) and len(rows) < most and (not at or (at < LOOKED and not narrow.is_any)):
        upto = _with_ties(found.newest, found.runs, at + most if narrow.is_any else LOOKED if at else most_first)
        page = found.runs[at:upto]
        since_us = min(found.newest[run] for run in page) - LASTS_US
        stories = stories_of(environment, page, since_us, in_brief=None if in_words else in_brief)
        told = [one for one in stories if not _was_shown(one, before_us, show)]
        looked += [one for one in told if show is not Show.RUNNING or one.ended is None]
        rows = looked if narrow.is_any else [one for one in looked if narrow.keeps(one, now or end, reporting)]
        at = upto
    if not narrow.is_any and len(rows) > most:
        rows = rows[: _with_ties(found.newest, [one.run for one in rows], most)]
        at = found.runs.index(rows[-1].run) + 1
    older_us = found.newest[found.runs[at - 1]] if len(found.runs) > at else found.rest_us
    return Runs(rows=rows, older_us=older_us, looked=looked, named_us=found.newest, reporting=reporting)


def reporting_now(environment: str, now: datetime) -> frozenset[tuple[str, str]]:
    """Who reports, as (service, instance). One query; index `agent_once`."""
    return reporting_of(fleet(environment, now=now))


def reporting_of(agents: Iterable[AgentRow]) -> frozenset[tuple[str, str]]:
    """Who of these reports, as (service, instance)."""
    return frozenset((one.service, one.instance) for one in agents if one.is_reachable)


def names_of_runs(
    environment: str,
    *,
    start: datetime,
    end: datetime,
    show: Show = Show.TROUBLED,
    operation: str = "",
    breaker: str = "",
    fingerprint: str = "",
    grouping: Grouping = AS_SENT,
    struck: Sequence[Struck] | None = None,
    narrow: Narrow = _ANY,
    before_us: int | None = None,
) -> Sequence[str]:
    """The names of the runs that a page of `runs` has, without their stories; none where it takes those to find them.
    One query, up to three for those that still run.
    """
    if not (narrow.beside_failures if show is Show.TROUBLED else narrow).is_any:
        return ()
    wanted = _Wanted.asked(show, operation, breaker, fingerprint, grouping, struck, narrow)
    until_us = min(to_us(end), before_us) if before_us is not None else to_us(end)
    found = _found(environment, wanted, to_us(start), until_us, PAGE, is_read_once=True)
    return found.runs[: _with_ties(found.newest, found.runs, PAGE)]


@dataclass(frozen=True, slots=True)
class _Found:
    """Runs that facts name, the newest first, and when each was named last; `rest_us`: how far the facts were read."""

    runs: Sequence[str]
    newest: Mapping[str, int]
    rest_us: int | None


def _with_ties(newest: Mapping[str, int], runs: Sequence[str], count: int) -> int:
    """How many of these are a page of so many, with those of the same microsecond as its last one."""
    count = min(count, len(runs))
    while 0 < count < len(runs) and newest[runs[count]] == newest[runs[count - 1]]:
        count += 1
    return count


def _found(
    environment: str,
    wanted: _Wanted,
    start_us: int,
    until_us: int,
    most: int,
    read: int | None = None,
    besides: Collection[str] = (),
    *,
    is_read_once: bool = False,
) -> _Found:
    """The runs that are named in [start, until): enough for a page, or all that the facts which are read name.

    In two steps, of which the first is mostly enough; in one where each query counts more than how much it reads.
    """
    found = _Found((), {}, None)
    # Of the failures of an outage it is not known how many others lie between: they are read once.
    read = READ if read is None else read
    # Of those that started, most have ended.
    is_read_once = is_read_once or wanted.struck is not None or wanted.show is Show.RUNNING
    for count in [read] if is_read_once else sorted({min(READ_FIRST, read), read}):
        named, rest_us = _naming(environment, wanted, start_us, until_us, count)
        newest: dict[str, int] = {}
        for run, at_us in named:
            newest.setdefault(run, at_us)
        runs = [run for run in newest if run not in besides] if besides else list(newest)
        if wanted.show is Show.RUNNING and named:
            ended = _ended_since(environment, named[-1][1])
            runs = [run for run in runs if run not in ended]
        found = _Found(runs, newest, rest_us)
        if len(runs) > most or rest_us is None:
            break
    return found


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which facts name a run that is asked for, by their columns and one mark of theirs."""

    show: Show
    operation: str
    breaker: str
    cause: str
    grouping: Grouping
    category: str = ""
    model: str = ""
    struck: Sequence[Struck] | None = None

    @classmethod
    def asked(
        cls,
        show: Show,
        operation: str,
        breaker: str,
        fingerprint: str,
        grouping: Grouping,
        struck: Sequence[Struck] | None,
        narrow: Narrow,
    ) -> _Wanted:
        """What `runs` is asked; of a cause that was merged the one that it is a part of."""
        cause = grouping.head(fingerprint)
        return cls(show, operation, breaker, cause, grouping, narrow.category, narrow.model.lower(), struck)

    @property
    def is_any(self) -> bool:
        """Whether every fact that names a run does."""
        if self.show is not Show.TROUBLED:
            return self.show is not Show.FAILED
        asked = (self.operation, self.breaker, self.cause, self.category, self.model)
        return not any(asked) and self.struck is None

    @property
    def mark(self) -> str:
        """The attribute to read with them; empty where the columns say enough."""
        if self.show is Show.FAILED:
            return names.attribute_of(RunFinished, "status")
        return names.attribute_of(FailureClassified, "fingerprint") if self.cause else ""

    def of(
        self,
        at_us: int,
        mark: str | None,
        breaker: str,
        category: str,
        operation: str,
        provider: str,
        model: str,
        region: str | None,
    ) -> bool:
        """Whether a fact with these is one of them."""
        if self.show is Show.FAILED:
            return mark in _ENDED_BADLY
        if self.operation not in ("", operation) or self.breaker not in ("", breaker):
            return False
        if self.category not in ("", category):
            return False
        if self.model and self.model not in capacity_name(provider, model, "").lower():
            return False
        said = {"category": category, "operation": operation, "provider": provider, "model": model}
        if self.struck is not None and not is_of_outage(self.struck, at_us=at_us, region=region, **said):
            return False
        return not self.cause or self.cause == cause_of(self.grouping, mark, category, operation, provider, model)


_OF_FAILURE = ("breaker", "category", "operation", "provider", "model", "region")


def _naming(
    environment: str, wanted: _Wanted, start_us: int, end_us: int, most: int
) -> tuple[list[tuple[str, int]], int | None]:
    """The newest facts that name runs, as (run, moment), newest first; and how far was read, where there may be more.

    So many facts are read, whatever they say: a condition that few of them meet would read them all.
    """
    event = _NAMED_BY[wanted.show]
    named = Fact.objects.filter(environment=environment, event=event, at_us__gte=start_us, at_us__lt=end_us)
    mark = text_at(wanted.mark) if wanted.mark else Value("", CharField())
    said_of = () if wanted.is_any else ("mark", *_OF_FAILURE)
    columns = named.annotate(mark=mark).order_by("-at_us", "-id").values_list("run", "at_us", *said_of)
    read = list(columns[:most])
    rest_us = read[-1][1] if len(read) == most else None
    if wanted.is_any:
        return [one for one in read if one[0]], rest_us
    return [(run, at_us) for run, at_us, *said in read if run and wanted.of(at_us, *said)], rest_us


def _ended_since(environment: str, since_us: int) -> set[str]:
    """The runs that said so from then on: those that ended soonest, which most do. One query; index `fact_by_event`."""
    over = Fact.objects.filter(environment=environment, event=_FINISHED, at_us__gte=since_us)
    return set(over.order_by("at_us").values_list("run", flat=True)[: 2 * READ])


def stories_of(
    environment: str,
    ids: Sequence[str],
    since_us: int = 0,
    *,
    in_brief: InBrief | None = None,
) -> list[RunStory]:
    """The stories of these runs, in this order, by their first and their newest facts.

    A query for each `AT_ONCE` runs, and with `since_us` one, or two where one of them has facts from before. The facts
    of so many runs are held at once. Told `in_brief` they cost a fifth, and take up to four queries for each `AT_ONCE`.
    """
    most = FIRST_OF_LISTED + NEWEST_OF_LISTED
    stories: dict[str, RunStory] = {}
    for some, from_us in _parted(environment, ids, since_us):
        for begin in range(0, len(some), AT_ONCE):
            page = some[begin : begin + AT_ONCE]
            if in_brief is not None:
                ends = {"first": FIRST_OF_LISTED, "newest": NEWEST_OF_LISTED}
                stories |= {one.run: one for one in tell_in_brief(environment, page, from_us, in_brief, **ends)}
                continue
            found = _facts_of(environment, page, from_us, first=FIRST_OF_LISTED, newest=NEWEST_OF_LISTED)
            stories |= {run: tell(run, told, is_cut=len(told) == most) for run, told in found.items() if told}
    return [stories[run] for run in ids if run in stories]


def _parted(environment: str, ids: Sequence[str], since_us: int) -> list[tuple[Sequence[str], int]]:
    """These runs, and since when each is read: those of which there is anything from before that moment whole."""
    # Also a run that says when it began: it may have been entered before, and gone on after days.
    before = begun_before(environment, ids, since_us) if since_us > 0 else {}
    whole_since_us = min(before.values(), default=0)
    return [
        ([run for run in ids if run not in before], since_us),
        ([run for run in ids if run in before], whole_since_us),
    ]


def _facts_of(
    environment: str, ids: Sequence[str], since_us: int, *, first: int, newest: int
) -> dict[str, list[RunFact]]:
    """What tells these runs, in no order of theirs."""
    by_run: dict[str, list[RunFact]] = {run: [] for run in ids}
    for run, fact in facts_of(environment, ids, first=first, newest=newest, since_us=since_us):
        by_run[run].append(fact)
    return by_run


def _was_shown(row: RunStory, before_us: int | None, show: Show) -> bool:
    """Whether an earlier page had it: a run in which attempts failed at both sides of the border."""
    if before_us is None or show is not Show.TROUBLED or row.last_failed is None:
        return False
    return to_us(row.last_failed) >= before_us
