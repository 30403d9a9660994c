"""Reads of runs: lists, counts, single ones. Filters, order and paging are in SQL over the folded columns.

A run is in a range where its first event is before the end of the range and its last one not before the start. Lists
begin with the newest first event. Indexes: `run_by_start` or that of the tab, `run_long`, `run_failure_once`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

import orjson
from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Case, CharField, Count, Exists, F, OuterRef, Q, QuerySet, Value, When

from events.failures.asking import cause_of
from events.failures.grouping import AS_SENT, Grouping
from events.issues.models import FailureKind
from events.moments import from_us, to_us
from events.queries.fleet import fleet
from events.queries.readings import category_or_none
from events.rows import AgentRow
from events.runs.fold import LONG_US, NUMBERS, RunFold
from events.runs.going import Goes, Reporting
from events.runs.models import Run, RunFailure
from events.runs.narrowing import RECOVERED, Narrow
from events.runs.rows import RUNGS, Climb, RunStory, Wait
from events.runs.stored import facts_of
from events.runs.story import tell
from events.runs.struck import COUNTED, Struck
from recovery_ops.rules.enums import Category, RunStatus

PAGE = 50
COUNTED_MOST = 10_000
"""Counts are exact up to here."""
OFFERED_FROM = 200
"""The values of so many runs, the newest, are offered in filters."""
EVENTS_OF_ONE = 2_000
"""So many events of one run are told step by step."""
_ANY = Narrow()


class Show(StrEnum):
    """Which runs a list shows."""

    TROUBLED = "troubled"
    """In which an attempt failed."""
    FAILED = "failed"
    """That ended without what they were to bring."""
    ASKED = "asked"
    """That asked a person."""
    RUNNING = "running"
    """That have not ended."""
    ALL = "all"


_OF_TAB = {
    Show.TROUBLED: Q(failures__gt=0),
    Show.FAILED: Q(is_failed=True),
    Show.ASKED: Q(questions__gt=0),
    Show.RUNNING: Q(ended_us__isnull=True),
    Show.ALL: Q(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilters:
    """Which runs of a range. `operation`, `breaker` and `fingerprint` are of a failure, as are the parts of an outage
    in `struck`.
    """

    show: Show = Show.TROUBLED
    operation: str = ""
    breaker: str = ""
    fingerprint: str = ""
    grouping: Grouping = AS_SENT
    struck: Sequence[Struck] | None = None
    narrow: Narrow = _ANY

    @property
    def is_of_failures(self) -> bool:
        """Whether only runs with some failures are asked for."""
        return bool(self.operation or self.breaker or self.fingerprint) or self.struck is not None


class Number(NamedTuple):
    """A count; `is_least` where there are more."""

    value: int
    is_least: bool


Place = tuple[int, int]
"""Where a page ends: the first moment and the number of its last run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """Runs of a list, newest first, and where the next page begins; None at the end."""

    rows: Sequence[RunStory]
    further: Place | None


@dataclass(frozen=True, slots=True)
class RunList:
    """The runs of an environment that filters leave of [start, end), as of `now`.

    `reporting` are the numbers of the instances that report now, `kinds` the kinds of failures that are asked for;
    both empty where no filter needs them.
    """

    environment: str
    filters: RunFilters
    start_us: int
    end_us: int
    now_us: int
    reporting: Collection[int] = ()
    kinds: Mapping[bytes, FailureKind] = field(default_factory=dict)

    @classmethod
    def of(cls, environment: str, filters: RunFilters, *, start: datetime, end: datetime, now: datetime) -> RunList:
        """At most two queries; none where a tab alone is asked for."""
        reporting = reporting_ids(environment, now) if filters.narrow.is_of_going else ()
        kinds = _kinds(environment, filters) if filters.is_of_failures else {}
        return cls(environment, filters, to_us(start), to_us(end), to_us(now), reporting, kinds)

    def page(self, after: Place | None = None, limit: int | None = None, *, has_issues: bool = True) -> RunPage:
        """A page behind a place; without `has_issues` the fingerprints are left out. Two queries, or one."""
        limit = PAGE if limit is None else limit
        rows = self._rows(after, limit + 1)
        last = rows[limit - 1] if len(rows) > limit else None
        return RunPage(
            rows=stories(self.environment, rows[:limit], has_issues=has_issues),
            further=None if last is None else (last.first_us, last.pk),
        )

    def names(self, after: Place | None = None, limit: int = PAGE) -> list[str]:
        """The names of the runs on a page. One query."""
        return [one.run for one in self._rows(after, limit)]

    def count(self, most: int | None = COUNTED_MOST) -> Number:
        """How many there are; counting stops behind `most`. One query."""
        statement, values = self._numbers(None if most is None else most + 1)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM ({statement}) found", values)  # noqa: S608  (of our own words)
            found = int(cursor.fetchone()[0])
        return Number(found, is_least=False) if most is None or found <= most else Number(most, is_least=True)

    def by_outcome(self, reporting: Collection[int]) -> Counter[tuple[int, str]]:
        """How many there are by highest recovery step and status (a word of `STATUSES`). One query."""
        recent, long = (
            part.order_by().annotate(stands=_standing(self.now_us, reporting)).values_list("level", "stands")
            for part in self._parts()
        )
        counts: Counter[tuple[int, str]] = Counter()
        for level, stands, count in recent.annotate(Count("pk")).union(long.annotate(Count("pk")), all=True):
            counts[level, stands] += count
        return counts

    def offered(self) -> tuple[list[str], list[str], list[str]]:
        """Providers and models, policies and services of the newest runs of this kind. One query."""
        whole = replace(self, filters=RunFilters(show=self.filters.show))
        named, policies, services = set[str](), set[str](), set[str]()
        columns = next(whole._parts()).values_list("models_named", "policy", "agent__service")
        for models, policy, service in columns[:OFFERED_FROM]:
            named.update(orjson.loads(models))
            policies.add(policy)
            services.add(service)
        return sorted(named), sorted(policies - {""}), sorted(services)

    def _rows(self, after: Place | None, limit: int) -> list[Run]:
        statement, values = self._numbers(limit, after)
        found = Run.objects.extra(where=[f"events_run.id IN ({statement})"], params=values)  # noqa: S610  (our own words)
        return list(found.select_related("agent", "holder").order_by("-first_us", "-pk")[:limit])

    def _numbers(self, limit: int | None, after: Place | None = None) -> tuple[str, list[Any]]:
        """A statement for the numbers of the first runs of each part, behind a place."""
        statements, values = [], list[Any]()
        for part in self._parts():
            if after is not None:
                behind = Q(first_us__lt=after[0]) | Q(first_us=after[0], pk__lt=after[1])
                part = part.filter(behind, first_us__lte=after[0])  # noqa: PLW2901  # the same part, from there on
            if limit is None:
                part = part.order_by()  # noqa: PLW2901
            try:
                statement, own = part.values("pk")[:limit].query.sql_with_params()
            except EmptyResultSet:
                continue
            statements.append(f"SELECT part.pk FROM ({statement}) part")  # noqa: S608  (our own words)
            values += own
        return " UNION ALL ".join(statements) or "SELECT id FROM events_run WHERE 1 = 0", values

    def _parts(self) -> Iterator[QuerySet[Run]]:
        """All of them in two parts, the newer first: those that begin in the range or shortly before, and long ones."""
        narrow, filters = self.filters.narrow, self.filters
        found = Run.objects.filter(_OF_TAB[filters.show], environment=self.environment)
        if not narrow.is_any:
            found = found.filter(
                narrow.condition(self.now_us), standing_condition(narrow.status, self.now_us, self.reporting)
            )
        if filters.is_of_failures:
            found = found.filter(self._has_failed())
        ordered = found.order_by("-first_us", "-pk")
        recently_us = self.start_us - LONG_US
        yield ordered.filter(first_us__gte=recently_us, first_us__lt=self.end_us, last_us__gte=self.start_us)
        # By the last moment: of an index by the first one, the databases read all that is older.
        long = found.filter(is_long=True, last_us__gte=self.start_us).annotate(began_us=F("first_us") + 0)
        yield long.filter(began_us__lt=recently_us).order_by("-began_us", "-pk")

    def _has_failed(self) -> Exists | Q:
        """That a run has a failure that is asked for, in the range."""
        kinds = self.kinds
        if not kinds:
            return Q(pk__in=[])
        failures = RunFailure.objects.filter(environment=self.environment, run=OuterRef("run"))
        parts = self.filters.struck
        if parts is None:
            return Exists(failures.filter(kind__in=list(kinds), last_us__gte=self.start_us, first_us__lt=self.end_us))
        whens = Q(pk__in=[])
        for part in parts:
            mine = [digest for digest, kind in kinds.items() if _is_of(part, kind)]
            whens |= Q(kind__in=mine, last_us__gte=part.first_us, first_us__lte=part.last_us)
        return Exists(failures.filter(whens))


def _kinds(environment: str, asked: RunFilters) -> dict[bytes, FailureKind]:
    """The kinds of failures that are asked for. One query; index `failure_kind_by_issue`."""
    grouping = asked.grouping
    words = {"operation": asked.operation, "breaker": asked.breaker, "category": asked.narrow.category}
    found = FailureKind.objects.filter(environment=environment, **{name: word for name, word in words.items() if word})
    cause = grouping.head(asked.fingerprint) if asked.fingerprint else ""
    if cause:
        parts = grouping.parts(cause)
        found = found.filter(fingerprint__in=[*parts, *filter(None, map(grouping.split_from, parts))])
    if asked.struck is not None:
        found = found.filter(category__in=COUNTED)
    return {
        bytes(one.digest): one
        for one in found
        if not cause
        or cause == cause_of(grouping, one.fingerprint, one.category, one.operation, one.provider, one.model)
    }


def _is_of(part: Struck, kind: FailureKind) -> bool:
    is_its = (kind.provider, kind.model, kind.region) == (part.provider, part.model, part.region)
    return is_its and part.operation in ("", kind.operation)


def reporting_ids(environment: str, now: datetime) -> frozenset[int]:
    """The numbers of the instances that report. One query; index `agent_once`."""
    return frozenset(one.id for one in fleet(environment, now=now) if one.is_reachable)


def reporting_now(environment: str, now: datetime) -> Reporting:
    """The instances that report, as (service, instance). One query; index `agent_once`."""
    return reporting_of(fleet(environment, now=now))


def reporting_of(agents: Iterable[AgentRow]) -> Reporting:
    """Those of these instances that report, as (service, instance)."""
    return frozenset((one.service, one.instance) for one in agents if one.is_reachable)


# -- status ------------------------------------------------------------------------------------------------------------


def _going(now_us: int, reporting: Collection[int]) -> dict[str, Q]:
    """How each run that has not ended goes on; they exclude each other."""
    goes_on = Q(ended_us__isnull=True)
    is_heard = goes_on & Q(holder__in=reporting)
    tries = is_heard & Q(questions=0)
    has_room = Q(capacity_until_us__lte=now_us)
    return {
        Goes.LOST: goes_on & ~Q(holder__in=reporting),
        Goes.PAUSED_FOR_PERSON: is_heard & Q(questions__gt=0),
        Goes.WAITING_ON_CAPACITY: tries & ~has_room,
        Goes.RETRYING: tries & has_room & Q(waits_until_us__gt=now_us),
    }


def standing_condition(status: str, now_us: int, reporting: Collection[int]) -> Q:
    """The condition of a status by which runs are filtered."""
    if not status:
        return Q()
    if status == Goes.RUNNING:
        return Q(ended_us__isnull=True)
    if status == RECOVERED:
        return Q(status=RunStatus.SUCCEEDED.value, failures__gt=0)
    return _going(now_us, reporting).get(status, Q(status=status))


def _standing(now_us: int, reporting: Collection[int]) -> Case:
    """Each run's status as one word."""
    going = [When(condition, then=Value(str(word))) for word, condition in _going(now_us, reporting).items()]
    recovered = When(Q(status=RunStatus.SUCCEEDED.value, failures__gt=0), then=Value(RECOVERED))
    ended = When(ended_us__isnull=False, then=F("status"))
    return Case(recovered, ended, *going, default=Value(str(Goes.RUNNING)), output_field=CharField())


# -- rows --------------------------------------------------------------------------------------------------------------


def get_runs(environment: str, names: Sequence[str], *, has_issues: bool = True) -> list[RunStory]:
    """These runs, in this order; unknown ones are left out. Two queries; index `run_once`."""
    found = Run.objects.filter(environment=environment, run__in=list(names)).select_related("agent", "holder")
    by_name = {one.run: one for one in found}
    return stories(environment, [by_name[name] for name in names if name in by_name], has_issues=has_issues)


def runs_begun_by(environment: str, agent_id: int, *, limit: int) -> list[RunStory]:
    """The runs that an instance began, newest first. Two queries; index `run_by_agent`."""
    mine = Run.objects.filter(agent=agent_id).select_related("agent", "holder").order_by("-first_us", "-pk")
    return stories(environment, list(mine[:limit]))


def run_of(environment: str, run: str) -> RunStory | None:
    """One run with its steps; None for an unknown one. At most three queries; indexes `run_once`, `fact_by_run`."""
    row = Run.objects.filter(environment=environment, run=run).select_related("agent", "holder").first()
    if row is None:
        return None
    [known], since_us = stories(environment, [row]), row.first_us
    found = [fact for _, fact in facts_of(environment, [run], first=EVENTS_OF_ONE + 1, newest=1, since_us=since_us)]
    is_cut = len(found) > EVENTS_OF_ONE
    # Of a longer one the last is told, too: it is how it ended, if it did.
    told = tell([*found[:EVENTS_OF_ONE], found[-1]] if is_cut else found, known.ended, known.status)
    return replace(known, pieces=told.pieces, steps=told.steps, moves=told.moves, backends=told.backends, is_cut=is_cut)


def stories(environment: str, rows: Sequence[Run], *, has_issues: bool = True) -> list[RunStory]:
    """These rows as runs, with the fingerprints of their failures. One query; none without `has_issues`."""
    marks = _fingerprints(environment, [one.run for one in rows if one.failures]) if has_issues else {}
    return [_story(one, marks.get(one.run, ())) for one in rows]


_FINGERPRINTS = (
    "SELECT f.run, f.first_us, k.fingerprint FROM events_runfailure f JOIN events_failurekind k ON k.digest = f.kind"
    " WHERE f.environment = %s AND f.run IN ({})"
)


def _fingerprints(environment: str, runs: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The fingerprints that each run met, in the order of their first failures. One query."""
    if not runs:
        return {}
    among = ", ".join(["%s"] * len(runs))
    with connection.cursor() as cursor:
        cursor.execute(_FINGERPRINTS.format(among), [environment, *runs])
        met = sorted(cursor.fetchall())
    found: dict[str, dict[str, None]] = {}
    for run, _, fingerprint in met:
        found.setdefault(run, {}).setdefault(fingerprint)
    return {run: list(marks) for run, marks in found.items()}


def _story(row: Run, fingerprints: Sequence[str]) -> RunStory:
    fold = RunFold.of(row.fold)
    counts = {category_or_none(word) or Category.UNKNOWN: count for word, count in fold.failures.items()}
    numbers = zip(NUMBERS, fold.end[-1] if fold.end else [], strict=False)
    return RunStory(
        run=row.run,
        name=row.name,
        service=row.agent.service,
        instance=row.agent.instance,
        version=row.agent.version,
        source=row.source,
        is_foreground=bool(fold.caller[3]) if fold.caller else False,
        policy=row.policy,
        started=from_us(row.started_us),
        is_start_known=fold.started_us is not None,
        ended=None if row.ended_us is None else from_us(row.ended_us),
        status=RunStatus(row.status) if row.status in set(RunStatus) else None,
        pieces=(),
        steps=(),
        moves=(),
        rung=RUNGS[row.level - 1] if row.level else None,
        climbs=_climbs(fold),
        failures=dict(Counter(counts).most_common()),
        retries=row.retries,
        waited_s=row.waited_us / 1e6,
        waits=() if row.ended_us is not None else _waits(fold),
        stood_in={name: text for name, (*_, text) in sorted(fold.stood_in.items(), key=lambda item: item[1])},
        gave_up=tuple(sorted(fold.gave_up, key=lambda name: fold.gave_up[name])),
        questions=row.questions,
        numbers={name: number for name, said in numbers for number in said},
        fingerprints=fingerprints,
        derived_steps=fold.derived,
        last_failed=from_us(fold.failed_us) if fold.failed_us else None,
        models=orjson.loads(row.models_named),
        last_begun=from_us(fold.begun[0]) if fold.begun else None,
        begun_by=row.holder.instance if row.holder_id != row.agent_id else "",
        has_spending=not {row.agent.spending, row.holder.spending} <= {"{}"},
    )


def _climbs(fold: RunFold) -> tuple[Climb, ...]:
    return tuple(
        Climb(RUNGS[int(level) - 1], from_us(first_us), from_us(last_us))
        for level, (first_us, last_us) in sorted(fold.steps.items())
        if int(level) <= fold.level
    )


def _waits(fold: RunFold) -> tuple[Wait, ...]:
    waiting = sorted(wait for wait in fold.waits.values() if wait[2])
    return tuple(Wait(from_us(until_us), category_or_none(word)) for *_, until_us, word in waiting)
