"""The failures that may be an outage, by whose they are: of each backend so many, so that none hides another."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import QuerySet, Sum

from events.models import Fact, MinuteSum
from events.moments import MINUTE_S, US_PER_S
from events.queries.sums import FAILED
from recovery_ops.rules.outages import OUTAGE_COUNTS, Hit, OutageBounds

READ_MOST = 5_000
"""Failures of one backend read at once. Of a minute with more, the first and the last of them: between, it is hot."""

_COUNTED = [category.value for category in OUTAGE_COUNTS]
_MINUTE_US = MINUTE_S * US_PER_S


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """Whose outage it is: what answers the calls, or the operation where nobody said."""

    provider: str
    model: str
    operation: str

    @staticmethod
    def of(provider: str, model: str, operation: str) -> Subject:
        """The subject of a call."""
        return Subject(provider, model, "" if provider or model else operation)


@dataclass(slots=True)
class _Counted:
    """What the sums say of one subject: failures by minute, and the breakers behind which they are found."""

    minutes: Counter[int] = field(default_factory=Counter)
    breakers: set[str] = field(default_factory=set)


def hits_of(environment: str, start_us: int, end_us: int, bounds: OutageBounds) -> Mapping[Subject, Sequence[Hit]]:
    """The failures between two moments, ends included, of each subject that has enough of them to be an outage.

    One query over the sums, and one or two for each such subject; index `fact_by_breaker`.
    """
    found: dict[Subject, list[Hit]] = {}
    for subject, counted in _counted(environment, start_us, end_us).items():
        for first, last, count in _spans(counted.minutes, bounds):
            within = Fact.objects.filter(
                environment=environment,
                breaker__in=sorted(counted.breakers),
                event=FAILED,
                at_us__gte=max(start_us, first * _MINUTE_US),
                at_us__lte=min(end_us, (last + 1) * _MINUTE_US - 1),
                category__in=_COUNTED,
            )
            found.setdefault(subject, []).extend(_read(of_subject(within, subject), count))
    return found


def of_subject(facts: QuerySet[Fact], subject: Subject) -> QuerySet[Fact]:
    """Those of these facts that are about one subject."""
    one = facts.filter(provider=subject.provider, model=subject.model)
    return one.filter(operation=subject.operation) if subject.operation else one


def _counted(environment: str, start_us: int, end_us: int) -> Mapping[Subject, _Counted]:
    sums = MinuteSum.objects.filter(
        environment=environment,
        minute__gte=start_us // _MINUTE_US,
        minute__lte=end_us // _MINUTE_US,
        category__in=_COUNTED,
        failures__gt=0,
    )
    rows = sums.values_list("provider", "model", "operation", "breaker", "minute").annotate(Sum("failures"))
    found: dict[Subject, _Counted] = {}
    for provider, model, operation, breaker, minute, count in rows.order_by():
        counted = found.setdefault(Subject.of(provider, model, operation), _Counted())
        counted.minutes[minute] += count
        counted.breakers.add(breaker)
    return found


def _spans(minutes: Counter[int], bounds: OutageBounds) -> Iterator[tuple[int, int, int]]:
    """First minute, last minute and failures of each stretch that may be hot, none with more than is read at once."""
    reach = math.ceil(bounds.within_s / MINUTE_S)
    hot = sorted(
        {
            minute
            for start in minutes
            if sum(minutes[start + n] for n in range(reach + 1)) >= bounds.least_failures
            for minute in range(start, start + reach + 1)
            if minutes[minute]
        }
    )
    first = last = count = 0
    for minute in hot:
        if count and (count + minutes[minute] > READ_MOST or minute - last > 1):
            yield first, last, count
            count = 0
        first, last, count = first if count else minute, minute, count + minutes[minute]
    if count:
        yield first, last, count


def _read(failed: QuerySet[Fact], count: int) -> Iterator[Hit]:
    rows = failed.values_list("pk", "at_us", "run", "agent_id")
    if count <= READ_MOST:
        read = set(rows)
    else:
        half = READ_MOST // 2
        read = {*rows.order_by("at_us")[:half], *rows.order_by("-at_us")[:half]}
    for _, at_us, run, agent in read:
        yield Hit(at_us / US_PER_S, run, str(agent))
