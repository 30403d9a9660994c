"""The questions asked of failures: a range of them counted, put together by their fingerprint, and told in full.

Counts are read from sums (`sums`), so the price of a page does not grow with the failures of its range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Count, Max, Min, Q

from events.failures.grouping import AS_SENT, Grouping
from events.failures.met import runs_met
from events.failures.rows import Course, Field, Fingerprint, Marked, Sample, Seen, Trait
from events.failures.sums import (
    Alike,
    Asked,
    FailurePlace,
    agents_of,
    count_asked,
    counts_in,
    instances_in,
    kinds_named,
    kinds_of,
    newest_failures,
    stored_failures,
)
from events.issues.fold import Failed, KindName, Variant, digest_of, kind_of, named_mark
from events.issues.models import FailureSum
from events.models import Agent, Fact
from events.moments import MINUTE_S, US_PER_S, Grid, from_us, to_us
from events.queries.readings import Attributes, category_or_none, text_of, whole_or_none
from events.queries.sums import FAILED, capacity_name
from events.queries.trouble import failure_row
from events.rows import FailureRow
from events.store.stored_json import text_at
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import FailureClassified
from recovery_ops.wire import names

SHOWN = 50
BINS_MOST = 30
_BIN_MINUTES = (1, 2, 5, 15, 30, 60, 120, 240, 480, 720, 1440)
"""Bins are whole spans of the sums, or few."""
_FINGERPRINT = names.attribute_of(FailureClassified, "fingerprint")
_ATTEMPT_WORDS = ("", "first", "second", "third or later")
_AGAIN_WORDS = {None: "", True: "yes", False: "no"}
_SAID = Attributes(FailureClassified, "message", "error_type", "status_code")
_TOLD_BY_US = "derived"
_LEAST_SHARE = 0.05
_SAID_ELSEWHERE = (Field.CATEGORY, Field.BREAKER, Field.PROVIDER, Field.MODEL)
"""A part of the fingerprint, most often the operation, and the backend."""
OF_AGENTS = (Field.INSTANCE, Field.VERSION)
"""What failures are told apart by that is counted by instance."""
OF_KINDS = frozenset(Field) - {*OF_AGENTS, Field.WAITS, Field.ATTEMPT, Field.AGAIN, Field.TOLD_BY}
"""What the kind of a failure says, so that it is known of runs, too."""
_DAY_US = 86_400 * US_PER_S
_DAY_MINUTES = 1440

_SETTLES_IN = timedelta(seconds=5)
_WAITS_MOST = timedelta(seconds=10)
"""A fact is stored by a transaction that begins at most so long after its receipt (`events.ingest.commits.WAIT_S`)."""
_UNSETTLED_MOST = 500_000
"""So many facts do not come in while others settle."""
_OLDEST_WRITER = (
    "SELECT min(xact_start) FROM pg_stat_activity"
    " WHERE datname = current_database() AND backend_xid IS NOT NULL AND pid <> pg_backend_pid()"
)
"""When the oldest transaction that writes and goes on began, for PostgreSQL."""


class Came(NamedTuple):
    """How often a cause failed, and when last."""

    number: int
    last: datetime

    def with_other(self, other: Came) -> Came:
        """Both together."""
        return Came(self.number + other.number, max(self.last, other.last))


def grid_of(start: datetime, end: datetime) -> Grid:
    """At most `BINS_MOST` bins, and one more where the range begins within one."""
    length_min = (end - start).total_seconds() / MINUTE_S
    width_min = next((one for one in _BIN_MINUTES if one * BINS_MOST >= length_min), None)
    if width_min is None:
        width_min = _DAY_MINUTES * -int(-length_min // (_DAY_MINUTES * BINS_MOST))
    return Grid.over(start, end, width_min * MINUTE_S)


def read_failures(
    environment: str, *, start: datetime, end: datetime, agents: Collection[int] | None = None, has_bins: bool = True
) -> Sample:
    """The failures in [start, end), counted; those of some instances (`agents`) where these are given.

    Without bins all that there are lie in one. Three queries at most.
    """
    return _read(environment, start, end, grid_of(start, end) if has_bins else None, agents)


def _read(
    environment: str, start: datetime, end: datetime, grid: Grid | None, agents: Collection[int] | None = None
) -> Sample:
    whole = Grid(to_us(start) // US_PER_S, max(1, (to_us(end) - to_us(start)) // US_PER_S), 1)
    return sample_of(counts_in(environment, to_us(start), to_us(end), agents=agents, grid=grid), grid or whole)


def sample_of(counted: Mapping[Alike, Failed], grid: Grid) -> Sample:
    """What was counted, with the names of its kinds."""
    kinds = kinds_of({alike.kind for alike in counted})
    return Sample(seen=list(_seen(counted, kinds)), grid=grid)


def _seen(counted: Mapping[Alike, Failed], kinds: Mapping[bytes, KindName]) -> Iterable[Seen]:
    found: dict[tuple[bytes, int], Failed] = {}
    bins: dict[tuple[bytes, int], dict[int, int]] = {}
    for (kind, variant, _, place), failed in counted.items():
        name = (kind, variant)
        known = found.get(name)
        found[name] = failed if known is None else known.joined(failed)
        bins.setdefault(name, {})[place] = failed.failures
    for (kind, variant), failed in found.items():
        named = kinds[kind]
        yield Seen(kind, variant, named.fingerprint, _values(named, variant), *failed, bins[kind, variant])


@lru_cache(maxsize=16_384)
def _values(kind: KindName, number: int) -> Mapping[Field, str]:
    variant = Variant.of(number)
    return {
        Field.CATEGORY: kind.category,
        Field.OPERATION: kind.operation,
        Field.BREAKER: kind.breaker,
        Field.BACKEND: capacity_name(kind.provider, kind.model, ""),
        Field.PROVIDER: kind.provider,
        Field.MODEL: kind.model,
        Field.REGION: kind.region,
        Field.SERVICE: kind.service,
        Field.WAITS: "foreground" if variant.is_foreground else "background",
        Field.ATTEMPT: _ATTEMPT_WORDS[variant.attempt],
        Field.AGAIN: _AGAIN_WORDS[variant.is_retryable],
        Field.TOLD_BY: _TOLD_BY_US if variant.is_derived else "agent",
    }


def agents_with(environment: str, chosen: Mapping[Field, str]) -> Collection[int] | None:
    """The numbers of the instances with a chosen instance and version; None where neither is chosen. One query."""
    named = {name.value: chosen[name] for name in OF_AGENTS if name in chosen}
    if not named:
        return None
    return list(Agent.objects.filter(environment=environment, **named).values_list("pk", flat=True))


def counts_of_agents(
    environment: str, sample: Sample, *, start: datetime, end: datetime, agents: Collection[int] | None = None
) -> Mapping[Field, Counter[str]]:
    """How often each instance and each version occurs in a sample, of some instances where they are given. Four
    queries at most.
    """
    kept = {(one.kind, one.variant) for one in sample.seen}
    span = to_us(start), to_us(end)
    counted = counts_in(environment, *span, kinds=sample.kinds, agents=agents, is_by_instance=True)
    numbers: Counter[int] = Counter()
    for alike, failed in counted.items():
        if (alike.kind, alike.variant) in kept:
            numbers[alike.agent_id] += failed.failures
    found: dict[Field, Counter[str]] = {name: Counter() for name in OF_AGENTS}
    for number, agent in agents_of(numbers).items():
        for name in OF_AGENTS:
            found[name][getattr(agent, name.value)] += numbers[number]
    return found


def named_marks(environment: str, *, start: datetime, end: datetime) -> list[Marked]:
    """Every fingerprint in [start, end) and when it came first and last. Three queries at most."""
    counted = counts_in(environment, to_us(start), to_us(end))
    found = _marked(counted, kinds_of({alike.kind for alike in counted}))
    return sorted(found.values(), key=lambda one: (one.first, one.fingerprint))


def newest_marked(
    environment: str, fingerprints: Iterable[str], *, start: datetime, end: datetime
) -> dict[str, Marked]:
    """The same of these fingerprints, as their newest failures in [start, end) say; those without one are left out.
    Three queries at most.
    """
    kinds = kinds_named(environment, list(fingerprints))
    counted = counts_in(environment, to_us(start), to_us(end), kinds=kinds.keys())
    return _marked(counted, kinds)


def _marked(counted: Mapping[Alike, Failed], kinds: Mapping[bytes, KindName]) -> dict[str, Marked]:
    """Of several kinds the one that failed last gives category and operation."""
    found: dict[str, Marked] = {}
    for alike, (_, first_us, last_us) in sorted(
        counted.items(), key=lambda one: (one[1].last_us, one[0]), reverse=True
    ):
        kind = kinds[alike.kind]
        name = kind.fingerprint
        one = Marked(name, kind.category, kind.operation, from_us(first_us), from_us(last_us))
        found[name] = one if name not in found else found[name].with_other(one)
    return found


def counts_lately(
    environment: str, *, start: datetime, end: datetime, grouping: Grouping = AS_SENT
) -> Counter[tuple[str, str]]:
    """Failures in [start, end) by cause and provider. Three queries at most."""
    sample = grouping.of(read_failures(environment, start=start, end=end, has_bins=False))
    counts: Counter[tuple[str, str]] = Counter()
    for one in sample.seen:
        counts[one.fingerprint, one.values[Field.PROVIDER]] += one.failures
    return counts


def read_with_before(
    environment: str, *, start: datetime, end: datetime, grouping: Grouping = AS_SENT
) -> tuple[Sample, Counter[str]]:
    """The failures in [start, end), and how many each cause had in the range of the same length before. Three queries
    at most.
    """
    grid, length = grid_of(start, end), end - start
    now = Asked(environment=environment, start_us=to_us(start), end_us=to_us(end), grid=grid)
    before = Asked(environment=environment, start_us=to_us(start - length), end_us=to_us(start))
    count_asked([now, before])
    return grouping.of(sample_of(now.found, grid)), _by_cause(grouping.of(sample_of(before.found, grid)))


def counts_before(environment: str, *, start: datetime, end: datetime, grouping: Grouping = AS_SENT) -> Counter[str]:
    """Failures by cause in the range of the same length before. Three queries at most."""
    return _by_cause(grouping.of(read_failures(environment, start=start - (end - start), end=start, has_bins=False)))


def _by_cause(sample: Sample) -> Counter[str]:
    return Counter({name: mine.total for name, mine in sample.by_cause().items()})


def counts_between(after: int, upto: int, *, environment: str, grouping: Grouping = AS_SENT) -> Mapping[str, Came]:
    """How often each cause failed by the facts numbered in (after, upto]. One query; index: the primary key.

    By number and not by moment, because what comes late counts like the rest. Only the numbers stand in the condition:
    with the environment there, too, SQLite would look through all failures that it ever had.
    """
    ours = Q(environment=environment, event=FAILED)
    facts = Fact.objects.filter(pk__gt=after, pk__lte=upto).order_by()
    marked = facts.annotate(mark=text_at(_FINGERPRINT)).values_list(*KINDS)
    found: dict[str, Came] = {}
    for *kind, number, last_us in marked.annotate(number=Count("id", filter=ours), last=Max("at_us", filter=ours)):
        if number:
            name, came = cause_of(grouping, *kind), Came(number, from_us(last_us))
            found[name] = came if name not in found else came.with_other(found[name])
    return found


def senders_between(
    after: int, upto: int, *, environment: str, grouping: Grouping = AS_SENT
) -> Mapping[str, Mapping[tuple[str, str], Came]]:
    """The same by service and version of who told it, under the name of each cause. Two queries."""
    ours = Q(environment=environment, event=FAILED)
    facts = Fact.objects.filter(pk__gt=after, pk__lte=upto).order_by()
    said = {
        "mark": text_at(_FINGERPRINT),
        "version": text_at(names.SERVICE_VERSION),
    }
    marked = facts.annotate(**said).values_list(*KINDS, "version", "agent_id")
    rows = list(marked.annotate(number=Count("id", filter=ours), last=Max("at_us", filter=ours)))
    senders = Agent.objects.in_bulk({row[-3] for row in rows if row[-2]})
    found: dict[str, dict[tuple[str, str], Came]] = {}
    for *kind, version, agent_id, number, last_us in rows:
        sender = senders.get(agent_id)
        if not number or sender is None:
            continue
        told, came = found.setdefault(cause_of(grouping, *kind), {}), Came(number, from_us(last_us))
        who = (sender.service, str(version or ""))
        told[who] = came if who not in told else came.with_other(told[who])
    return found


def versions_known(environment: str) -> dict[str, list[str]]:
    """The versions that instances of each service have said, those of services that said none left out. One query."""
    said = Agent.objects.filter(environment=environment).exclude(version="")
    known: dict[str, list[str]] = {}
    for service, version in said.values_list("service", "version").distinct().order_by("service", "version"):
        known.setdefault(service, []).append(version)
    return known


def busiest_hours(environment: str, *, now: datetime, grouping: Grouping = AS_SENT) -> Mapping[str, int]:
    """How often each cause failed in its worst hour of the last day, by the clock. Three queries at most."""
    start = now - timedelta(days=1)
    hours = Grid.over(start, now, 60 * MINUTE_S)
    worst: dict[str, int] = {}
    for name, mine in grouping.of(_read(environment, start, now, hours)).by_cause().items():
        worst[name] = max(mine.bins())
    return worst


def last_number(*, before: int | None = None) -> int:
    """The number of the newest fact, or of the newest before one; 0 where there is none. One query, which reads one row
    of an index.
    """
    facts = Fact.objects.all() if before is None else Fact.objects.filter(pk__lt=before)
    return facts.order_by("-pk").values_list("pk", flat=True).first() or 0


def settled_number(now: datetime) -> int:
    """The number up to which every fact has come. Four queries at most.

    On PostgreSQL a transaction that goes on may hold a lower number than another that is over: what was received a
    moment before the oldest began, or before now, has to settle.
    """
    newest = last_number()
    if connection.vendor != "postgresql":
        return newest
    with connection.cursor() as cursor:
        cursor.execute(_OLDEST_WRITER)
        began = cursor.fetchone()[0]
    since = now - _SETTLES_IN if began is None else min(now - _SETTLES_IN, began - _WAITS_MOST)
    unsettled = Fact.objects.filter(pk__gt=newest - _UNSETTLED_MOST, received_us__gte=to_us(since))
    first: int | None = unsettled.aggregate(first=Min("pk"))["first"]
    # Numbers between the last that is visible and the first that may settle may be those of a transaction that goes on.
    return newest if first is None else last_number(before=first)


def is_known(environment: str, fingerprint: str, *, since: datetime) -> bool:
    """Whether a failure of this fingerprint happened on that day or later. Two queries; index `failure_sum_once`."""
    kinds = kinds_named(environment, [fingerprint])
    days = FailureSum.objects.filter(environment=environment, minutes=_DAY_MINUTES, span__gte=to_us(since) // _DAY_US)
    return bool(kinds) and days.filter(kind__in=list(kinds)).exists()


KINDS = ("mark", "category", "operation", "provider", "model")
"""What `cause_of` is told of a failure."""


def cause_of(grouping: Grouping, mark: str | None, category: str, operation: str, provider: str, model: str) -> str:
    """The name of the cause that a failure belongs to."""
    values = {Field.OPERATION: operation, Field.BACKEND: capacity_name(provider, model, "")}
    return grouping.name_of(named_mark(mark, category, operation), values)


def fingerprints(
    sample: Sample, *, start: datetime, end: datetime, before: Mapping[str, int] | None
) -> list[Fingerprint]:
    """The fingerprints of a sample, the most frequent first, as far as counts tell. No query."""
    found = [_fingerprint(name, mine, before, start=start, end=end) for name, mine in sample.by_cause().items()]
    return sorted(found, key=lambda one: one.place)


def _fingerprint(
    name: str, mine: Sample, before: Mapping[str, int] | None, *, start: datetime, end: datetime
) -> Fingerprint:
    last = from_us(mine.newest.last_us)
    earlier = None if before is None else before.get(name, 0)

    def of(name: Field) -> list[str]:
        return [value for value, _ in sorted(mine.counts(name).items(), key=lambda one: (-one[1], one[0]))]

    return Fingerprint(
        fingerprint=name,
        category=category_or_none(of(Field.CATEGORY)[0]) or Category.UNKNOWN,
        message="",
        error_type="",
        status_code=None,
        count=mine.total,
        before=earlier,
        runs=None,
        instances=0,
        derived=mine.counts(Field.TOLD_BY)[_TOLD_BY_US],
        first=from_us(mine.first_us),
        last=last,
        course=course_of(mine.total, earlier, quiet_for=end - last, length=end - start),
        operations=of(Field.OPERATION),
        backends=[one for one in of(Field.BACKEND) if one],
        bins=mine.bins(),
    )


def in_words(environment: str, sample: Sample, found: Sequence[Fingerprint]) -> list[Fingerprint]:
    """Fingerprints of a sample with what the newest failure of each says. One query; index `fact_by_event`."""
    parts = sample.by_cause()
    newest = {one.fingerprint: parts[one.fingerprint].newest for one in found}
    said = _said_at(environment, newest.values())
    words = {name: said.get((seen.kind, seen.last_us), {}) for name, seen in newest.items()}
    return [
        replace(
            one,
            message=text_of(words[one.fingerprint].get("message")),
            error_type=text_of(words[one.fingerprint].get("error_type")),
            status_code=whole_or_none(words[one.fingerprint].get("status_code")),
        )
        for one in found
    ]


def _said_at(environment: str, newest: Iterable[Seen]) -> dict[tuple[bytes, int], dict[str, Any]]:
    """What the last failure of each says, by kind and moment."""
    wanted = {(one.kind, one.last_us) for one in newest}
    spans = sorted({(at_us, at_us + 1) for _, at_us in wanted})
    kinds = kinds_of({kind for kind, _ in wanted})
    found: dict[tuple[bytes, int], dict[str, Any]] = {}
    for fact in stored_failures(environment, spans, kinds.values()):
        found.setdefault((digest_of(kind_of(fact)), fact.at_us), _SAID.of(fact.attributes))
    return found


def with_reach(
    environment: str,
    sample: Sample,
    found: Sequence[Fingerprint],
    *,
    start: datetime,
    end: datetime,
    chosen: Collection[Field] = (),
) -> list[Fingerprint]:
    """Fingerprints of a sample with how many instances and runs met each. Three queries at most.

    Runs are counted only where nothing is chosen that is not known of them.
    """
    parts = sample.by_cause()
    kinds = {seen.kind for one in found for seen in parts[one.fingerprint].seen}
    instances = instances_in(environment, to_us(start), to_us(end), kinds)
    is_of_kinds = OF_KINDS.issuperset(chosen)
    causes = {one.fingerprint: parts[one.fingerprint].kinds for one in found} if is_of_kinds else {}
    runs = runs_met(environment, causes, start_us=to_us(start), end_us=to_us(end))
    return [
        replace(
            one,
            runs=runs.get(one.fingerprint),
            instances=len(
                {
                    number
                    for seen in parts[one.fingerprint].seen
                    for number in instances.get((seen.kind, seen.variant), ())
                }
            ),
        )
        for one in found
    ]


def course_of(count: int, before: int | None, *, quiet_for: timedelta, length: timedelta) -> Course:
    """Quiet after a quarter of the range without one; new, rising or falling against the range before."""
    if quiet_for > length / 4:
        return Course.QUIET
    if before is None:
        return Course.ONGOING
    if not before:
        return Course.NEW
    if count >= 2 * before:
        return Course.RISING
    return Course.FALLING if 2 * count <= before else Course.ONGOING


def traits(
    sample: Sample,
    fingerprint: str,
    agents: tuple[Mapping[Field, Counter[str]], Mapping[Field, Counter[str]]] | None = None,
    *,
    most: int = 10,
) -> list[Trait]:
    """What its failures have in common that the others have not, the most telling first.

    `agents` are the counts by instance and version of its failures, and of all.
    """
    mine = sample.of([fingerprint])
    its, every = agents or ({}, {})
    found = []
    for name in Field:
        if name in _SAID_ELSEWHERE or (name in OF_AGENTS and name not in its):
            continue
        counts, everywhere = (its[name], every[name]) if name in OF_AGENTS else (mine.counts(name), sample.counts(name))
        for value, count in counts.most_common(5):
            share, baseline = count / mine.total, everywhere[value] / sample.total
            if value and share >= _LEAST_SHARE:
                found.append(Trait(name=name, value=value, share=share, baseline=baseline))
    return sorted(found, key=lambda one: (one.baseline - one.share, -one.share))[:most]


def occurrences(
    environment: str,
    sample: Sample,
    *,
    start: datetime,
    end: datetime,
    limit: int = SHOWN,
    is_oldest_first: bool = False,
    after: FailurePlace | None = None,
) -> list[FailureRow]:
    """The newest or oldest failures of a sample's kinds, behind a place, in full. Two queries for each 100 kinds."""
    kinds, span = kinds_of(sample.kinds), (to_us(start), to_us(end))
    found = newest_failures(environment, *span, kinds, limit, is_oldest_first=is_oldest_first, after=after)
    return [failure_row(fact) for fact in found]
