"""Counts of failures in a range by kind, from their sums; exact to the microsecond at both ends.

The widest spans that lie in the range are read, shorter ones towards its ends, and of the minutes in which it begins
and ends those rows whose first and last failure are inside. Where failures of a kind lie on both sides of an end,
those of that part of a minute are counted themselves. Indexes: `failure_sum_once`, `instance_failure_sum_once`,
`fact_by_event`.
"""

# ruff: noqa: S608  (only names of our own and whole numbers are put together; every value is a parameter)

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from django.db import connection
from django.db.models import Q, QuerySet

from events.ingest.records import AgentName
from events.issues.fold import FAILED, Failed, FailureName, KindName, digest_of, kind_of, name_of
from events.issues.models import FAILURE_MINUTES, FailureKind
from events.models import Agent, Fact
from events.moments import MINUTE_S, US_PER_S, Grid, Span
from recovery_ops.rules.enums import Category

_MINUTE_US = MINUTE_S * US_PER_S
_KINDS_ASKED = 500
_KINDS_KEPT = 100_000
_SPANS_ASKED = 50
_NAMED = "kind, variant, agent_id, bin"
_T = TypeVar("_T")
_known: dict[bytes, KindName] = {}
"""What kinds are named: a digest never names another."""


class Stored(NamedTuple):
    """A stored failure, as far as it is named by."""

    environment: str
    at_us: int
    category: str
    operation: str
    breaker: str
    provider: str
    model: str
    region: str | None
    is_foreground: bool
    attributes: Mapping[str, Any]
    agent_id: int
    service: str
    instance: str

    @property
    def agent(self) -> AgentName:
        """Which instance sent it."""
        return AgentName(self.environment, self.service, self.instance)


def stored(fact: Fact) -> Stored:
    """A failure that was read with its instance."""
    columns = [getattr(fact, column) for column in Stored._fields[:-2]]
    return Stored._make([*columns, fact.agent.service, fact.agent.instance])


class Alike(NamedTuple):
    """What failures are counted under. `agent_id` is 0 where those of all instances are together; so is `bin`, where
    they are not told apart by time.
    """

    kind: bytes
    variant: int
    agent_id: int
    bin: int


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Which failures are counted, of [`start_us`, `end_us`), and what they are told apart by beside kind and variant.

    Of `kinds` and of instances (`agents`) only these are counted; None: all. A `grid` has bins of whole minutes.
    """

    environment: str
    start_us: int
    end_us: int
    kinds: frozenset[bytes] | None = None
    agents: frozenset[int] | None = None
    is_by_instance: bool = False
    grid: Grid | None = None
    found: dict[Alike, Failed] = field(default_factory=dict, init=False)
    split: dict[int, set[Alike]] = field(default_factory=dict, init=False)
    """By minute, what has failures on both sides of an end."""

    @property
    def is_of_some(self) -> bool:
        """Whether anything can be counted."""
        return self.start_us < self.end_us and frozenset() not in (self.kinds, self.agents)

    def take(self, row: Sequence[Any]) -> None:
        """A row that its statement answers."""
        kind, variant, agent_id, place, minute, *failed = row
        one, alike = Failed(*failed), Alike(bytes(kind), variant, agent_id, place)
        if minute < 0:
            self._add(alike, one)
        elif self.start_us <= one.first_us and one.last_us < self.end_us:
            self._add(alike._replace(bin=self._bin(one.first_us)), one)
        elif one.first_us < self.end_us and one.last_us >= self.start_us:
            self.split.setdefault(minute, set()).add(alike)

    def parts(self) -> Iterator[Span]:
        """What is inside of the minutes with failures on both sides of an end."""
        for minute in self.split:
            yield max(self.start_us, minute * _MINUTE_US), min(self.end_us, (minute + 1) * _MINUTE_US)

    def take_failure(self, fact: Stored, name: FailureName) -> None:
        """A failure of a minute that others may have asked for."""
        alike = Alike(digest_of(name.kind), name.variant, fact.agent_id if self.is_by_instance else 0, 0)
        is_asked = self.agents is None or fact.agent_id in self.agents
        if is_asked and self.start_us <= fact.at_us < self.end_us and alike in self.split.get(name.minute, ()):
            self._add(alike._replace(bin=self._bin(fact.at_us)), Failed(1, fact.at_us, fact.at_us))

    def statement(self) -> tuple[str, list[Any]]:
        """Of rows of kind, variant, instance, bin, minute and counts. The minute is -1 of sums over whole minutes, else
        that in which the range begins or ends, whose rows may lie on both sides.
        """
        first, last = -(-self.start_us // _MINUTE_US), self.end_us // _MINUTE_US
        parts = [self._part(*span) for span in _spans(first, last, self._widest)]
        statements, values = [], [one for _, part in parts for one in part]
        if parts:
            counted = "-1 AS minute, CAST(SUM(failures) AS bigint), MIN(first_us), MAX(last_us)"
            spans = " UNION ALL ".join(part for part, _ in parts)
            statements.append(f"SELECT {_NAMED}, {counted} FROM ({spans}) spans GROUP BY {_NAMED}")
        edges = sorted({at_us // _MINUTE_US for at_us in (self.start_us, self.end_us) if at_us % _MINUTE_US})
        if edges:
            columns = f"kind, variant, {self._agent}, 0, span, failures, first_us, last_us"
            where = f"minutes = 1 AND span IN ({', '.join(['%s'] * len(edges))})"
            statement, more = self._selected(columns, where, [*edges])
            statements.append(statement)
            values += more
        return " UNION ALL ".join(statements), values

    def _add(self, name: Alike, failed: Failed) -> None:
        if self.kinds is not None and name.kind not in self.kinds:
            return
        known = self.found.get(name)
        self.found[name] = failed if known is None else known.joined(failed)

    @property
    def _widest(self) -> int:
        """The widest spans that lie within one bin each."""
        width = FAILURE_MINUTES[-1] if self.grid is None else self.grid.bin_s // MINUTE_S
        return max(minutes for minutes in FAILURE_MINUTES if width % minutes == 0)

    @property
    def _agent(self) -> str:
        return "agent_id" if self.is_by_instance else "0"

    def _part(self, minutes: int, first: int, last: int) -> tuple[str, Sequence[Any]]:
        """The rows of [first, last) spans of so many minutes."""
        place = "0"
        if self.grid is not None:
            width = self.grid.bin_s // MINUTE_S
            place = f"span * {minutes} / {width} - {self.grid.start_s // self.grid.bin_s}"
        columns = f"kind, variant, {self._agent} AS agent_id, {place} AS bin, failures, first_us, last_us"
        return self._selected(columns, "minutes = %s AND span >= %s AND span < %s", [minutes, first, last])

    def _selected(self, columns: str, where: str, values: list[Any]) -> tuple[str, Sequence[Any]]:
        is_of_each = self.is_by_instance or self.agents is not None
        table = "events_instancefailuresum" if is_of_each else "events_failuresum"
        among, only = "", list[Any]()
        if self.kinds is not None and len(self.kinds) <= _KINDS_ASKED:
            among, only = f" AND kind IN ({', '.join(['%s'] * len(self.kinds))})", list(self.kinds)
        if self.agents is not None:
            among += f" AND agent_id IN ({', '.join(['%s'] * len(self.agents))})"
            only += self.agents
        return f"SELECT {columns} FROM {table} WHERE environment = %s AND {where}{among}", [
            self.environment,
            *values,
            *only,
        ]

    def _bin(self, at_us: int) -> int:
        return 0 if self.grid is None else at_us // US_PER_S // self.grid.bin_s - self.grid.start_s // self.grid.bin_s


def count_asked(asked: Collection[Asked]) -> None:
    """Let each of these find what it asks for, all in one environment. One query, and one more where failures of a kind
    lie on both sides of an end.
    """
    some = [one for one in asked if one.is_of_some]
    parts, values = [], list[Any]()
    for place, one in enumerate(some):
        statement, own = one.statement()
        parts.append(f"SELECT {place}, part.* FROM ({statement}) part")
        values += own
    for place, *row in _rows(" UNION ALL ".join(parts), values) if parts else ():
        some[place].take(row)
    spans = sorted({span for one in some for span in one.parts()})
    if not spans:
        return
    kinds = kinds_of({alike.kind for one in some for split in one.split.values() for alike in split})
    for failure in stored_failures(some[0].environment, spans, kinds.values()):
        name = name_of(failure)
        for one in some:
            one.take_failure(failure, name)


def counts_in(
    environment: str,
    start_us: int,
    end_us: int,
    *,
    kinds: Collection[bytes] | None = None,
    agents: Collection[int] | None = None,
    is_by_instance: bool = False,
    grid: Grid | None = None,
) -> Mapping[Alike, Failed]:
    """Failures of [`start_us`, `end_us`) by kind and variant; see `Asked`."""
    asked = Asked(
        environment=environment,
        start_us=start_us,
        end_us=end_us,
        kinds=None if kinds is None else frozenset(kinds),
        agents=None if agents is None else frozenset(agents),
        is_by_instance=is_by_instance,
        grid=grid,
    )
    count_asked([asked])
    return asked.found


def totals_in(environment: str, ranges: Iterable[tuple[Span, Collection[bytes]]]) -> list[int]:
    """How many failures each of these ranges has of these kinds. Two queries at most."""
    asked = [
        Asked(environment=environment, start_us=start_us, end_us=end_us, kinds=frozenset(kinds))
        for (start_us, end_us), kinds in ranges
    ]
    count_asked(asked)
    return [sum(failed.failures for failed in one.found.values()) for one in asked]


def instances_in(
    environment: str, start_us: int, end_us: int, kinds: Collection[bytes]
) -> Mapping[tuple[bytes, int], set[int]]:
    """The numbers of the instances that had failures of [`start_us`, `end_us`), by kind and variant. One query."""
    found: dict[tuple[bytes, int], set[int]] = {}
    for some in _chunks(kinds):
        which, values = instances_among(environment, start_us, end_us, some)
        statement = f"SELECT DISTINCT kind, variant, agent_id {which}"
        for kind, variant, agent_id in _rows(statement, values):
            found.setdefault((bytes(kind), variant), set()).add(agent_id)
    return found


def instances_among(environment: str, start_us: int, end_us: int, kinds: Collection[bytes]) -> tuple[str, list[Any]]:
    """The rows of the instances that had failures of these kinds in [`start_us`, `end_us`), from `FROM` on.

    Of spans at most half as long as the range, each in which an instance failed has its first or last failure inside,
    or all of them outside.
    """
    length_min = max(2, (end_us - start_us) // _MINUTE_US)
    minutes = max(one for one in FAILURE_MINUTES if 2 * one <= length_min)
    width_us = minutes * _MINUTE_US
    which = (
        "FROM events_instancefailuresum WHERE environment = %s AND minutes = %s AND span >= %s AND span <= %s"
        f" AND kind IN ({', '.join(['%s'] * len(kinds))})"
        " AND (first_us >= %s AND first_us < %s OR last_us >= %s AND last_us < %s)"
    )
    spans = [start_us // width_us, (end_us - 1) // width_us]
    return which, [environment, minutes, *spans, *kinds, start_us, end_us, start_us, end_us]


# -- kinds -------------------------------------------------------------------------------------------------------------


def kinds_of(digests: Collection[bytes]) -> dict[bytes, KindName]:
    """The kinds of these digests. A query for each 500 that no question has asked for before; index: the digest."""
    if len(_known) > _KINDS_KEPT:
        _known.clear()
    for some in _chunks([one for one in digests if one not in _known]):
        named = FailureKind.objects.filter(digest__in=some).values_list("digest", *KindName._fields)
        _known.update((bytes(digest), KindName(*values)) for digest, *values in named)
    return {one: _known[one] for one in digests if one in _known}


def kinds_named(environment: str, fingerprints: Collection[str]) -> dict[bytes, KindName]:
    """The kinds that have one of these fingerprints. A query for each 500; index `failure_kind_by_issue`."""
    found: dict[bytes, KindName] = {}
    for some in _chunks(fingerprints):
        named = FailureKind.objects.filter(environment=environment, fingerprint__in=some)
        rows = named.values_list("digest", *KindName._fields)
        found |= {bytes(digest): KindName(*values) for digest, *values in rows}
    return found


# -- failures themselves -----------------------------------------------------------------------------------------------


def stored_failures(environment: str, spans: Collection[Span], kinds: Collection[KindName]) -> Iterator[Stored]:
    """The failures of these [from, until) whose operation and category one of the kinds has, newest first.

    One query; index `fact_by_event`.
    """
    found = facts_in(environment, spans, kinds).values_list(*Stored._fields[:-2], "agent__service", "agent__instance")
    return itertools.starmap(Stored, found.iterator(chunk_size=_KINDS_ASKED))


def facts_in(environment: str, spans: Collection[Span], kinds: Collection[KindName]) -> QuerySet[Fact]:
    moments = [start_us for start_us, end_us in spans if end_us == start_us + 1]
    inside = Q(at_us__in=moments)
    for start_us, end_us in _few([span for span in spans if span[1] > span[0] + 1]):
        inside |= Q(at_us__gte=start_us, at_us__lt=end_us)
    bounds = {"at_us__gte": min(spans)[0], "at_us__lt": max(end_us for _, end_us in spans)} if spans else {}
    operations, categories = {one.operation for one in kinds}, {one.category for one in kinds}
    if Category.UNKNOWN.value in categories:
        categories.add("")
    facts = Fact.objects.filter(inside, environment=environment, event=FAILED, **bounds)
    return facts.filter(operation__in=operations, category__in=categories).order_by("-at_us", "-id")


def _few(spans: Sequence[Span]) -> Iterator[Span]:
    """These spans, or fewer that hold them: a statement has no place for very many."""
    each = -(-len(spans) // _SPANS_ASKED)
    listed = sorted(spans)
    for start in range(0, len(listed), each or 1):
        some = listed[start : start + each]
        yield some[0][0], max(until for _, until in some)


FailurePlace = tuple[int, int]
"""Where a failure stands among others: its moment in microseconds, and its number."""


def behind(place: FailurePlace | None, *, is_oldest_first: bool) -> Q:
    """What comes behind a place, newest or oldest first; everything without one."""
    if place is None:
        return Q()
    side, (at_us, number) = "gt" if is_oldest_first else "lt", place
    further = Q(**{f"at_us__{side}": at_us}) | Q(**{"at_us": at_us, f"id__{side}": number})
    return further & Q(**{f"at_us__{side}e": at_us})


def newest_failures(
    environment: str,
    start_us: int,
    end_us: int,
    kinds: Mapping[bytes, KindName],
    limit: int,
    *,
    is_oldest_first: bool = False,
    after: FailurePlace | None = None,
) -> list[Fact]:
    """The newest or the oldest failures of these kinds in [`start_us`, `end_us`), behind a place, each with its
    instance. Two queries for each 100 kinds.
    """
    certain = start_us, end_us
    if after is not None:  # others of the very moment may be on the page before
        at_us, _ = after
        start_us, end_us = (at_us, end_us) if is_oldest_first else (start_us, at_us + 1)
        certain = (at_us + 1, end_us) if is_oldest_first else (start_us, at_us)
    minutes = [
        one
        for some in _chunks(kinds, 100)
        for one in _minutes_of(start_us, end_us, some, limit, certain=certain, is_oldest_first=is_oldest_first)
    ]
    spans = _nearest(minutes, limit, is_oldest_first=is_oldest_first)
    found: list[Fact] = []
    facts = facts_in(environment, spans, kinds.values()).filter(behind(after, is_oldest_first=is_oldest_first))
    ordered = (facts.reverse() if is_oldest_first else facts).select_related("agent")
    for fact in ordered.iterator(chunk_size=_KINDS_ASKED) if spans else ():
        if digest_of(kind_of(stored(fact))) in kinds:
            found.append(fact)
            if len(found) == limit:
                break
    return found


def _nearest(minutes: Sequence[tuple[Span, int]], limit: int, *, is_oldest_first: bool) -> list[Span]:
    """What of these spans has `limit` failures for certain. Those of other kinds may begin before and end behind it."""
    held = 0
    if is_oldest_first:
        for span, count in sorted(minutes, key=lambda one: one[0][1]):
            held += count
            if held >= limit:
                return [(start, min(span[1], end)) for (start, end), _ in minutes if start < span[1]]
    else:
        for span, count in sorted(minutes, reverse=True):
            held += count
            if held >= limit:
                return [(max(span[0], start), end) for (start, end), _ in minutes if end > span[0]]
    return [span for span, _ in minutes]


def _minutes_of(
    start_us: int, end_us: int, kinds: Sequence[bytes], limit: int, *, certain: Span, is_oldest_first: bool
) -> Iterator[tuple[Span, int]]:
    """The newest or oldest minutes of each kind, from the first to the last failure, with how many are in `certain`.
    Index: `failure_sum_by_kind`.
    """
    part = (
        "SELECT failures, first_us, last_us FROM events_failuresum WHERE minutes = 1 AND kind = %s AND span >= %s"
        f" AND span <= %s AND last_us >= %s AND first_us < %s ORDER BY span {'ASC' if is_oldest_first else 'DESC'}"
        " LIMIT %s"
    )
    bounds = [start_us // _MINUTE_US, (end_us - 1) // _MINUTE_US, start_us, end_us, limit + 1]
    statement = " UNION ALL ".join(f"SELECT failures, first_us, last_us FROM ({part}) part" for _ in kinds)
    for count, first_us, last_us in _rows(statement, [one for kind in kinds for one in (kind, *bounds)]):
        is_inside = certain[0] <= first_us and last_us < certain[1]
        yield (max(first_us, start_us), min(last_us + 1, end_us)), count if is_inside else 0


def newest_moments(environment: str, kinds: Collection[bytes], start_us: int, end_us: int) -> Mapping[bytes, int]:
    """The moment of the last failure of each kind in [`start_us`, `end_us`), of the days in it. One query each 500.

    Of a kind that failed on the last day behind the range only: none.
    """
    found: dict[bytes, int] = {}
    day_us = FAILURE_MINUTES[-1] * _MINUTE_US
    for some in _chunks(kinds):
        statement = (
            "SELECT kind, MAX(last_us) FROM events_failuresum WHERE environment = %s AND minutes = %s AND span >= %s"
            f" AND span <= %s AND kind IN ({', '.join(['%s'] * len(some))}) AND last_us >= %s AND last_us < %s"
            " GROUP BY kind"
        )
        days = [FAILURE_MINUTES[-1], start_us // day_us, (end_us - 1) // day_us]
        rows = _rows(statement, [environment, *days, *some, start_us, end_us])
        found |= {bytes(kind): last_us for kind, last_us in rows}
    return found


def agents_of(numbers: Collection[int]) -> Mapping[int, Agent]:
    """Instances by their numbers. One query, none without a number."""
    return Agent.objects.in_bulk(list(numbers)) if numbers else {}


# -- statements --------------------------------------------------------------------------------------------------------


def _spans(first: int, last: int, widest: int) -> Iterator[tuple[int, int, int]]:
    """The widest spans, at most so wide, that make up the minutes [first, last): how many minutes, from and until."""
    if first >= last:
        return
    if widest == 1:
        yield 1, first, last
        return
    shorter = FAILURE_MINUTES[FAILURE_MINUTES.index(widest) - 1]
    begin, until = -(-first // widest), last // widest
    if begin >= until:
        yield from _spans(first, last, shorter)
        return
    yield from _spans(first, begin * widest, shorter)
    yield widest, begin, until
    yield from _spans(until * widest, last, shorter)


def _rows(statement: str, values: Sequence[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def _chunks(some: Collection[_T], size: int = _KINDS_ASKED) -> Iterator[list[_T]]:
    listed = list(some)
    for start in range(0, len(listed), size):
        yield listed[start : start + size]
