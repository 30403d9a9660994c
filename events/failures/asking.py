"""The questions asked of failures: of a range the newest ones are read, counted and put together by their fingerprint.

So many are read and no more, whatever is looked for in them, and the answer says how far back that reaches: the price
of a page does not grow with the store. Index: `fact_by_event`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Count, F, Max, Min, Q, QuerySet

from events.cardinality import Kind
from events.failures.grouping import AS_SENT, Grouping
from events.failures.rows import Course, Field, Fingerprint, Marked, Sample, Seen, Tally, Trait, by_values, counted
from events.models import Agent, Fact, KnownName
from events.moments import US_PER_S, from_us, to_us
from events.partitions import facts_at
from events.queries.readings import Attributes, category_or_none, text_of, whole_or_none
from events.queries.sums import FAILED, capacity_name
from events.queries.trouble import failure_row
from events.rows import FailureRow
from events.stored_json import text_at
from recovery_ops.rules.facts import FailureClassified
from recovery_ops.rules.words import Category
from recovery_ops.wire import names

READ = 2_000
COUNTED_MOST = 5_000
"""So many of the newest failures are counted by cause, and no more."""
SHOWN = 50
BINS = 24
_FINGERPRINT = names.attribute_of(FailureClassified, "fingerprint")
_ATTEMPT = names.attribute_of(FailureClassified, "attempt")
_AGAIN = names.attribute_of(FailureClassified, "retryable")
_AGAIN_WORDS = {"1": "may be tried again", "true": "may be tried again", "0": "is final", "false": "is final"}
"""What is stored as true and false is read as 1 and 0 on SQLite."""
_SAID = Attributes(FailureClassified, "message", "error_type", "status_code")
_COLUMNS = (
    *("pk", "at_us", "mark", "run", "category", "operation", "provider", "model", "region", "is_foreground"),
    *("attempt", "again", "origin", "agent_id"),
)
_UNNAMED = "unnamed-"
_TOLD_BY_US = "derived"
_LEAST_SHARE = 0.05
_SAID_ELSEWHERE = (Field.CATEGORY, Field.PROVIDER, Field.MODEL)
"""The first is a part of the fingerprint, the others are of the backend."""


_SETTLES_IN = timedelta(seconds=5)
_UNSETTLED_MOST = 500_000
"""So many facts do not come in while others settle."""


class Came(NamedTuple):
    """How often a cause failed, and when last."""

    number: int
    last: datetime

    def with_other(self, other: Came) -> Came:
        """Both together."""
        return Came(self.number + other.number, max(self.last, other.last))


def read_failures(environment: str, *, start: datetime, end: datetime) -> Sample:
    """The newest failures in [start, end). Two queries."""
    newest = _failures(environment, start, end).order_by("-at_us", "-id")
    rows: list[tuple[Any, ...]] = list(newest.values_list(*_COLUMNS)[: READ + 1])
    # Their senders are looked up once each, not once for each failure.
    senders = Agent.objects.in_bulk({row[-1] for row in rows})

    @cache  # failures that are alike share them
    def values_of(*kind: Any) -> Mapping[Field, str]:
        *told, origin, agent_id = kind
        return _values(*told, origin=origin, sender=senders.get(agent_id))

    seen = []
    for fact_id, at_us, mark, run, *kind in rows:
        category, operation, *_ = kind
        seen.append(Seen(fact_id, at_us, named_mark(mark, category, operation), run, values_of(*kind)))
    is_cut = len(seen) > READ
    seen = seen[:READ]
    return Sample(seen=seen, is_cut=is_cut, since=from_us(seen[-1].at_us) if is_cut else start)


def _failures(environment: str, start: datetime, end: datetime) -> QuerySet[Any]:
    facts = Fact.objects.filter(environment=environment, event=FAILED, at_us__gte=to_us(start), at_us__lt=to_us(end))
    return facts.annotate(
        mark=text_at(_FINGERPRINT),
        attempt=text_at(_ATTEMPT),
        again=text_at(_AGAIN),
        origin=text_at(names.DERIVED_FROM),
    )


def named_mark(mark: str | None, category: str, operation: str) -> str:
    """The fingerprint; of a sender that gives none, its failures of the same operation and category are one."""
    return mark or f"{_UNNAMED}{category or Category.UNKNOWN.value}-{operation}"


def _values(
    category: str,
    operation: str,
    provider: str,
    model: str,
    region: str | None,
    is_foreground: bool,
    attempt: object,
    again: object,
    *,
    origin: str | None,
    sender: Agent | None,
) -> Mapping[Field, str]:
    return {
        Field.CATEGORY: category or Category.UNKNOWN.value,
        Field.OPERATION: operation,
        Field.BACKEND: capacity_name(provider, model, ""),
        Field.PROVIDER: provider,
        Field.MODEL: model,
        Field.REGION: region or "",
        Field.SERVICE: sender.service if sender else "",
        Field.VERSION: sender.version if sender else "",
        Field.WAITS: "foreground" if is_foreground else "background",
        Field.INSTANCE: sender.instance if sender else "",
        Field.ATTEMPT: _attempt_words(attempt),
        Field.AGAIN: _AGAIN_WORDS.get(str(again).lower(), ""),
        Field.TOLD_BY: _TOLD_BY_US if origin else "its agent",
    }


def _attempt_words(attempt: object) -> str:
    """`first`, `second`, `third or later`; empty where it was not told."""
    told = str(attempt)
    if not told.isascii() or not told.isdigit():
        return ""
    return {"1": "first", "2": "second"}.get(told, "third or later")


def named_marks(environment: str, *, start: datetime, end: datetime) -> list[Marked]:
    """Every fingerprint in [start, end) and when it came first and last. One query; index `fact_by_event`."""
    facts = _failures(environment, start, end).values_list("mark", "category", "operation")
    found: dict[str, Marked] = {}
    for mark, category, operation, first_us, last_us in facts.annotate(first=Min("at_us"), last=Max("at_us")):
        name = named_mark(mark, category, operation)
        one = Marked(name, category or Category.UNKNOWN.value, operation, from_us(first_us), from_us(last_us))
        found[name] = one if name not in found else one.with_other(found[name])
    return sorted(found.values(), key=lambda one: (one.first, one.fingerprint))


def newest_marked(
    environment: str, fingerprints: Iterable[str], *, start: datetime, end: datetime
) -> dict[str, Marked]:
    """Of these fingerprints, what the newest failures in [start, end) say; those that are not among them are left out.

    So many failures are read and no more, however many there are. One query; index `fact_by_event`.
    """
    wanted = set(fingerprints)
    found: dict[str, Marked] = {}
    newest = _failures(environment, start, end).order_by("-at_us", "-id")
    for mark, category, operation, at_us in newest.values_list("mark", "category", "operation", "at_us")[:READ]:
        name = named_mark(mark, category, operation)
        if name in wanted and name not in found:
            at = from_us(at_us)
            found[name] = Marked(name, category or Category.UNKNOWN.value, operation, at, at)
    return found


def counts_lately(
    environment: str, *, start: datetime, end: datetime, grouping: Grouping = AS_SENT
) -> tuple[Counter[tuple[str, str]], bool]:
    """Failures by cause and provider, of the newest in [start, end), and whether there were more than are read: then
    each count is a least. One query; index `fact_by_event`.
    """
    newest = _failures(environment, start, end).order_by("-at_us", "-id").values_list(*KINDS)
    kinds = list(newest[: COUNTED_MOST + 1])
    counts = Counter((cause_of(grouping, *kind), kind[3]) for kind in kinds[:COUNTED_MOST])
    return counts, len(kinds) > COUNTED_MOST


def is_unnamed(fingerprint: str) -> bool:
    """Whether it is not the sender's, but made here of category and operation."""
    return fingerprint.startswith(_UNNAMED)


def counts_before(
    environment: str, *, start: datetime, end: datetime, grouping: Grouping = AS_SENT
) -> Counter[str] | None:
    """Failures by cause in the range of the same length before; None where that has too many to read. One query.

    Only the marks are read, so it costs less than the range itself.
    """
    facts = _failures(environment, start - (end - start), start)
    marks = facts.values_list(*KINDS).order_by("-at_us", "-id")[: READ + 1]
    counts = Counter(cause_of(grouping, *kind) for kind in marks)
    return None if counts.total() > READ else counts


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
    """How often each cause failed in its worst hour of the last day. One query, which counts all of that day."""
    facts = _failures(environment, now - timedelta(days=1), now).order_by()
    ago = (to_us(now) - F("at_us")) / (3600 * US_PER_S)
    counted = facts.annotate(hour=ago).values_list(*KINDS, "hour").annotate(number=Count("id"))
    hours: Counter[tuple[str, int]] = Counter()
    for *kind, hour, number in counted:
        hours[cause_of(grouping, *kind), hour] += number
    worst: dict[str, int] = {}
    for (cause, _), count in hours.items():
        worst[cause] = max(count, worst.get(cause, 0))
    return worst


def last_number() -> int:
    """The number of the newest fact; 0 where there is none. One query, which reads one row of an index."""
    return Fact.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def settled_number(now: datetime) -> int:
    """The number up to which every fact has come. Two queries at most.

    On PostgreSQL one transaction may still hold a lower number than another that is over: what was received a moment
    ago has to settle.
    """
    newest = last_number()
    if connection.vendor != "postgresql":
        return newest
    unsettled = Fact.objects.filter(pk__gt=newest - _UNSETTLED_MOST, received_us__gte=to_us(now - _SETTLES_IN))
    first: int | None = unsettled.aggregate(first=Min("pk"))["first"]
    return newest if first is None else first - 1


def is_known(environment: str, fingerprint: str, *, since: datetime) -> bool:
    """Whether a failure of this fingerprint has a place among the names, or was taken in since then. Two queries."""
    facts = Fact.objects.filter(environment=environment, event=FAILED, at_us__gte=to_us(since))
    if is_unnamed(fingerprint):
        category, _, operation = fingerprint.removeprefix(_UNNAMED).partition("-")
        said = (category, "") if category == Category.UNKNOWN else (category,)
        return facts.filter(operation=operation, category__in=said).exists()
    known = KnownName.objects.filter(environment=environment, kind=Kind.FINGERPRINT.value, name=fingerprint)
    # Cast, or the comparison would be one of JSON values.
    marked = facts.annotate(mark=text_at(_FINGERPRINT))
    return known.exists() or marked.filter(mark=fingerprint).exists()


KINDS = ("mark", "category", "operation", "provider", "model")
"""What `cause_of` is told of a failure."""


def cause_of(grouping: Grouping, mark: str | None, category: str, operation: str, provider: str, model: str) -> str:
    """The name of the cause that a failure belongs to."""
    values = {Field.OPERATION: operation, Field.BACKEND: capacity_name(provider, model, "")}
    return grouping.name_of(named_mark(mark, category, operation), values)


def fingerprints(
    sample: Sample,
    *,
    start: datetime,
    end: datetime,
    before: Mapping[str, int] | None,
    limit: int = SHOWN,
    after: tuple[int | float | str, ...] | None = None,
) -> list[Fingerprint]:
    """The fingerprints of a sample, the most frequent first, behind a place. One query, for the newest of each."""
    tallies: dict[str, Tally] = {}
    start_us, length_us = to_us(start), max(1, to_us(end) - to_us(start))
    unread = (to_us(sample.since) - start_us) * BINS // length_us
    for one in sample.seen:
        tally = tallies.setdefault(one.fingerprint, Tally(bins=[0] * BINS))
        _add(tally, one, min(BINS - 1, (one.at_us - start_us) * BINS // length_us))
    places = sorted((-len(tally.seen), -tally.seen[0].at_us, name) for name, tally in tallies.items())
    ordered = [(place[2], tallies[place[2]]) for place in places if after is None or place > after][:limit]
    told = _said_of(tally.seen[0] for _, tally in ordered)
    return [
        _fingerprint(name, tally, told.get(tally.seen[0].fact_id, {}), before, unread, start=start, end=end)
        for name, tally in ordered
    ]


def _add(tally: Tally, one: Seen, place: int) -> None:
    tally.seen.append(one)
    tally.bins[place] += 1
    if one.run:
        tally.runs.add(one.run)


def _said_of(seen: Iterable[Seen]) -> dict[int, dict[str, Any]]:
    found = facts_at({one.fact_id: one.at_us for one in seen}).values_list("pk", "attributes")
    return {pk: _SAID.of(attributes) for pk, attributes in found}


def _fingerprint(
    name: str,
    tally: Tally,
    said: Mapping[str, Any],
    before: Mapping[str, int] | None,
    unread: int,
    *,
    start: datetime,
    end: datetime,
) -> Fingerprint:
    newest, oldest = tally.seen[0], tally.seen[-1]
    last = from_us(newest.at_us)
    earlier = None if before is None else before.get(name, 0)
    shared = list(by_values(tally.seen))

    def top(name: Field) -> list[str]:
        return [value for value, _ in counted(shared, name).most_common(3)]

    return Fingerprint(
        fingerprint=name,
        category=category_or_none(top(Field.CATEGORY)[0]) or Category.UNKNOWN,
        message=text_of(said.get("message")),
        error_type=text_of(said.get("error_type")),
        status_code=whole_or_none(said.get("status_code")),
        count=len(tally.seen),
        before=earlier,
        runs=len(tally.runs),
        instances=len(counted(shared, Field.INSTANCE)),
        derived=counted(shared, Field.TOLD_BY)[_TOLD_BY_US],
        first=from_us(oldest.at_us),
        last=last,
        course=course_of(len(tally.seen), earlier, quiet_for=end - last, length=end - start),
        operations=top(Field.OPERATION),
        backends=[one for one in top(Field.BACKEND) if one],
        bins=[*([None] * unread), *tally.bins[unread:]],
    )


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


def traits(sample: Sample, fingerprint: str, *, most: int = 10) -> list[Trait]:
    """What its failures have in common that the others have not, the most telling first."""
    mine = [one for one in sample.seen if one.fingerprint == fingerprint]
    shared = list(by_values(mine))
    found = []
    for name in Field:
        if name in _SAID_ELSEWHERE:
            continue
        everywhere = sample.counts(name)
        for value, count in counted(shared, name).most_common(5):
            share, baseline = count / len(mine), everywhere[value] / len(sample.seen)
            if value and share >= _LEAST_SHARE:
                found.append(Trait(name=name, value=value, share=share, baseline=baseline))
    return sorted(found, key=lambda one: (one.baseline - one.share, -one.share))[:most]


def occurrences(sample: Sequence[Seen], *, limit: int = SHOWN) -> list[FailureRow]:
    """The newest of these, in full. One query."""
    shown = facts_at({one.fact_id: one.at_us for one in sample[:limit]})
    found = shown.select_related("agent").order_by("-at_us", "-id")
    return [failure_row(fact) for fact in found]
