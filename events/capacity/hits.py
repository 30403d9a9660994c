"""The failures that may be an outage, by whose they are: of each backend so many, so that none hides another."""

# ruff: noqa: S608  (a word of ours; every value is a parameter)

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Any

from django.db import connection
from django.db.models import QuerySet, Sum

from events.capacity.models import CapacityArrangement, CapacityEvent
from events.models import Fact, MinuteSum
from events.moments import MINUTE_S, US_PER_S
from events.queries.sums import FAILED
from recovery_ops.rules.incidents.detection import OUTAGE_COUNTS, Hit, OutageBounds
from recovery_ops.rules.incidents.merging import Backend

READ_MOST = 5_000
"""Failures of one backend read at once. Of a minute with more, which is a flood, in each region the first and the last
of them: between, it is hot."""
FLOOD_READ = 20_000
"""At either end of a flood so many are looked through for regions: a flood of everybody is not read whole, again and
again, on the day on which everything else is late as well."""
HITS_KEPT = 100_000
"""Of floods, so many failures are remembered (some 25 MB): a minute that is over does not change, and each look asks
for it."""
_KEPT_MINUTES = 12
"""As far as the quick look reaches, and a little."""

_COUNTED = [category.value for category in OUTAGE_COUNTS]
_MINUTE_US = MINUTE_S * US_PER_S


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """Whose outage it is: what answers the calls, or the operation where nobody said, and in which region."""

    provider: str
    model: str
    operation: str
    region: str = ""

    @staticmethod
    def of_event(event: CapacityEvent | CapacityArrangement) -> Subject:
        """Whose outage an event is, or whose was cut."""
        return Subject(event.provider, event.model, event.operation, event.region)

    @property
    def backend(self) -> Backend:
        """The same without its region."""
        return Backend(self.provider, self.model, self.operation)

    @property
    def columns(self) -> dict[str, str]:
        """The columns in which tables of capacity events hold it."""
        return asdict(self)


def backend_of(provider: str, model: str, operation: str) -> Backend:
    """The backend of a call."""
    return Backend(provider, model, "" if provider or model else operation)


@dataclass(slots=True)
class _Counted:
    """What the sums say of one backend: failures by minute, and the breakers behind which they are found."""

    minutes: Counter[int] = field(default_factory=Counter)
    breakers: set[str] = field(default_factory=set)


def hits_of(environment: str, start_us: int, end_us: int, bounds: OutageBounds) -> Mapping[Backend, Sequence[Hit]]:
    """The failures between two moments, ends included, of each backend that has enough of them to be an outage; of a
    flood, those of its whole minute.

    One query over the sums, and one for each such backend; of a flood that is not known yet, two for each of its
    regions, and three; index `fact_by_breaker`.
    """
    found: dict[Backend, list[Hit]] = {}
    for backend, counted in _counted(environment, start_us, end_us).items():
        breakers = tuple(sorted(counted.breakers))
        for first, last, count in _spans(counted.minutes, bounds):
            hits = found.setdefault(backend, [])
            if count > READ_MOST:
                hits.extend(_floods.of(environment, backend, first, count, breakers))
            else:
                at_us = max(start_us, first * _MINUTE_US), min(end_us, (last + 1) * _MINUTE_US - 1)
                hits.extend(_hits(set(_rows(_failed(environment, backend, breakers, *at_us)))))
    return found


def _failed(environment: str, backend: Backend, breakers: Sequence[str], first_us: int, last_us: int) -> QuerySet[Fact]:
    within = Fact.objects.filter(
        environment=environment,
        breaker__in=breakers,
        event=FAILED,
        at_us__gte=first_us,
        at_us__lte=last_us,
        category__in=_COUNTED,
    )
    return _of_backend(within, backend)


def of_subject(facts: QuerySet[Fact], subject: Subject) -> QuerySet[Fact]:
    """Those of these facts that are about one subject."""
    one = _of_backend(facts, subject.backend)
    return one.filter(region=subject.region) if subject.region else one.filter(region=None)


def _of_backend(facts: QuerySet[Fact], backend: Backend) -> QuerySet[Fact]:
    one = facts.filter(provider=backend.provider, model=backend.model)
    return one.filter(operation=backend.operation) if backend.operation else one


def _counted(environment: str, start_us: int, end_us: int) -> Mapping[Backend, _Counted]:
    sums = MinuteSum.objects.filter(
        environment=environment,
        minute__gte=start_us // _MINUTE_US,
        minute__lte=end_us // _MINUTE_US,
        category__in=_COUNTED,
        failures__gt=0,
    )
    rows = sums.values_list("provider", "model", "operation", "breaker", "minute").annotate(Sum("failures"))
    found: dict[Backend, _Counted] = {}
    for provider, model, operation, breaker, minute, count in rows.order_by():
        counted = found.setdefault(backend_of(provider, model, operation), _Counted())
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


class _Floods:
    """What was read of the newest minutes that flood, while their counts stay; what does not fit is read each time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[tuple[str, Backend, int], tuple[int, tuple[str, ...], Sequence[Hit]]] = {}

    def of(self, environment: str, backend: Backend, minute: int, count: int, breakers: tuple[str, ...]) -> list[Hit]:
        """The hits of one minute, read again once its count, or what is counted behind, is another."""
        known = self._kept.get((environment, backend, minute))
        if known is not None and known[:2] == (count, breakers):
            return list(known[2])
        hits = _of_flood(environment, backend, minute, count, breakers)
        self._keep((environment, backend, minute), (count, breakers, hits))
        return hits

    def forget(self) -> None:
        """Read all anew."""
        with self._lock:
            self._kept = {}

    def _keep(self, key: tuple[str, Backend, int], told: tuple[int, tuple[str, ...], Sequence[Hit]]) -> None:
        with self._lock:
            newest = max(minute for *_, minute in (*self._kept, key))
            kept = {one: what for one, what in self._kept.items() if one[2] > newest - _KEPT_MINUTES and one != key}
            if key[2] > newest - _KEPT_MINUTES and sum(len(what[2]) for what in (*kept.values(), told)) <= HITS_KEPT:
                kept[key] = told
            self._kept = kept


_floods = _Floods()


def _of_flood(environment: str, backend: Backend, minute: int, count: int, breakers: tuple[str, ...]) -> list[Hit]:
    """Of one minute, in each region the first and the last.

    Of each region, because a flood of one hides no small outage of another: of what is within `FLOOD_READ` of either
    end, which moves on with every look while the minute lasts.
    """
    first_us, last_us = minute * _MINUTE_US, (minute + 1) * _MINUTE_US - 1
    until_us, since_us = _ends_of(environment, breakers, first_us, last_us)
    read = _ends_by_region(environment, backend, breakers, (first_us, until_us), (since_us, last_us))
    if len(read) < min(count, READ_MOST) // 2:  # behind the same breakers, others stand in front of these
        read = _ends_by_region(environment, backend, breakers, (first_us, last_us), (first_us, last_us))
    return list(_hits(read))


def forget_floods() -> None:
    """Read every flood anew, because the store is another."""
    _floods.forget()


def _ends_of(environment: str, breakers: Sequence[str], first_us: int, last_us: int) -> tuple[int, int]:
    """Until when, and since when, there are `FLOOD_READ` failures behind these breakers at most, by their index."""
    bounds = environment, first_us, last_us, max(1, FLOOD_READ // len(breakers)) - 1
    asked = _ENDS.format(places=", ".join(["(%s)"] * len(breakers)))
    with connection.cursor() as cursor:
        cursor.execute(asked, [*bounds, *bounds, *breakers])
        until_us, since_us = cursor.fetchone()
    return last_us if until_us is None else until_us, first_us if since_us is None else since_us


_END = f"""(
    SELECT at_us FROM events_fact
    WHERE environment = %s AND breaker = asked.column1 AND event = '{FAILED}' AND at_us BETWEEN %s AND %s
    ORDER BY at_us {{order}} LIMIT 1 OFFSET %s
)"""
_ENDS = (
    f"SELECT MIN(until_us), MAX(since_us) FROM (SELECT {_END.format(order='ASC')} AS until_us,"
    f" {_END.format(order='DESC')} AS since_us FROM (VALUES {{places}}) AS asked) AS ends"
)
"""For many breakers at once: each question alone takes longer to put than to answer, and there may be hundreds."""


def _ends_by_region(
    environment: str, backend: Backend, breakers: Sequence[str], head_us: tuple[int, int], tail_us: tuple[int, int]
) -> set[tuple[Any, ...]]:
    half = READ_MOST // 2
    read: set[tuple[Any, ...]] = set()
    for (first_us, last_us), order in ((head_us, "at_us"), (tail_us, "-at_us")):
        failed = _failed(environment, backend, breakers, first_us, last_us)
        for region in list(failed.order_by().values_list("region", flat=True).distinct()):
            read.update(_rows(failed.filter(region=region)).order_by(order)[:half])
    return read


def _rows(failed: QuerySet[Fact]) -> QuerySet[Fact, tuple[Any, ...]]:
    return failed.values_list("pk", "at_us", "run", "agent_id", "region", "trace_id", "sequence_number")


def _hits(rows: Iterable[tuple[Any, ...]]) -> Iterator[Hit]:
    for _, at_us, run, agent, region, trace_id, sequence_number in rows:
        yield Hit(at_us / US_PER_S, run or _request_of(trace_id, sequence_number), str(agent), region or "")


def _request_of(trace_id: str, sequence_number: int) -> str:
    """What stands for a run where plain instrumentation names none: the trace. Empty: nothing does.

    Our runtime numbers its facts and says which run one is of; only who does neither is helped out.
    """
    return f"trace {trace_id}" if trace_id and not sequence_number else ""
