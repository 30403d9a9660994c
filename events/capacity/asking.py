"""The questions asked of capacity events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from django.db.models import Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from events.capacity.bounds import bounds_of
from events.capacity.models import CapacityEvent, CapacityLook
from events.capacity.moves import moves_from
from events.capacity.rows import CapacityEventRow, Spent, categories_of, owner_of, united
from events.models import Fact
from events.moments import US_PER_S, from_us, to_us
from events.queries.sums import FAILED, capacity_name
from events.queries.trouble import failure_row
from events.rows import FailureRow
from recovery_ops.rules.outages import OUTAGE_COUNTS, OUTAGE_KNOBS, OutageBounds, parse_outage_bounds

EVENTS_MOST = 500
SIMILAR_MOST = 5
_SUBJECT = ("provider", "model", "operation")


def capacity_events(
    environment: str, *, start: datetime, end: datetime, now: datetime, bounds: OutageBounds | None = None
) -> list[CapacityEventRow]:
    """The events that touch [start, end], newest first, at most 500. Three queries; index `capacity_by_last`.

    Who has read the `bounds` already hands them on, here and below, which spares a query.
    """
    found = _known(environment).filter(last_us__gte=to_us(start), started_us__lte=to_us(end))
    rows = _rows(environment, found.order_by("-started_us", "-id")[:EVENTS_MOST], now, bounds)
    return sorted(rows, key=lambda row: (row.started, row.id), reverse=True)


def capacity_event(environment: str, number: int, *, now: datetime) -> CapacityEventRow | None:
    """One event; `merged_into` says which one it is a part of now. Three queries."""
    event = CapacityEvent.objects.filter(environment=environment, pk=number).first()
    if event is None:
        return None
    into = event.merged_into_id or event.part_of_id
    rows = _rows(environment, [event], now)
    named = next(row for row in rows if row.id == (event.part_of_id or number))
    return named if into is None else replace(named, id=number, merged_into=into)


def struck_beside(row: CapacityEventRow, environment: str) -> list[str]:
    """The other backends that failed at the same time, by name. One query; index `capacity_by_last`."""
    beside = _known(environment).filter(last_us__gte=to_us(row.started), started_us__lte=to_us(row.last))
    others = beside.exclude(pk__in=[row.id, *(part.id for part in row.parts)]).values_list(*_SUBJECT)[:EVENTS_MOST]
    mine = {(one.provider, one.model, one.operation) for one in row.parts or (row,)}
    return sorted({capacity_name(*subject) for subject in others if subject not in mine})


def newest_over(environment: str, *, now: datetime, bounds: OutageBounds | None = None) -> CapacityEventRow | None:
    """The event that ended last. Three queries."""
    bounds = bounds or bounds_of(environment)
    newest = _known(environment).filter(last_us__lt=to_us(now) - _quiet_us(bounds)).order_by("-last_us")[:1]
    rows = [row for row in _rows(environment, newest, now, bounds) if row.is_over]
    return rows[0] if rows else None


def events_going_on(environment: str, *, now: datetime) -> list[CapacityEventRow]:
    """Those that are not over, the newest first. One query, another where people made old ones a part of new ones."""
    since_us = to_us(now) - int(OUTAGE_KNOBS["quiet_s"].maximum or 0) * US_PER_S
    bounds = CapacityLook.objects.filter(environment=environment).values("bounds")[:1]
    late = _known(environment).filter(Q(last_us__gte=since_us) | Q(part_of__isnull=False))
    read = list(late.annotate(bounds=Subquery(bounds)).order_by("-started_us", "-id")[:EVENTS_MOST])
    if not read:
        return []
    quiet_us = _quiet_us(parse_outage_bounds(read[0].bounds, "bounds", []))
    hot = [event for event in read if event.last_us >= since_us]
    parts = [event for event in read if event.part_of_id is not None]
    rows = _wholes(_joined(hot, parts), now, quiet_us)
    return [row for row in rows if not row.is_over]


def count_going_on(environment: str, *, now: datetime) -> int:
    """How many are not over. Two queries."""
    hot = _known(environment).filter(last_us__gte=to_us(now) - _quiet_us(bounds_of(environment)))
    return hot.values(whole=Coalesce("part_of_id", "id")).distinct().count()


def similar_before(row: CapacityEventRow, environment: str, *, now: datetime) -> list[CapacityEventRow]:
    """Earlier events of the same backend, newest first. Three queries."""
    same = _known(environment).filter(provider=row.provider, model=row.model, operation=row.operation)
    before = same.filter(started_us__lt=to_us(row.started), part_of=None).exclude(pk=row.id).order_by("-started_us")
    rows = _rows(environment, before[:SIMILAR_MOST], now)
    return [one for one in rows if one.id != row.id]


def failures_in(row: CapacityEventRow, environment: str, *, limit: int = 20) -> list[FailureRow]:
    """Its newest failures, while they are kept. One query; index `fact_by_event`."""
    about = Q()
    for part in row.parts or (row,):
        one = Q(provider=part.provider, model=part.model, at_us__gte=to_us(part.started), at_us__lte=to_us(part.last))
        about |= one & Q(operation=part.operation) if part.operation else one
    facts = Fact.objects.filter(
        about,
        environment=environment,
        event=FAILED,
        at_us__gte=to_us(row.started),
        at_us__lte=to_us(row.last),
        category__in=[one.value for one in OUTAGE_COUNTS],
    )
    newest = facts.select_related("agent").order_by("-at_us", "-sequence_number", "-id")
    return [failure_row(fact) for fact in newest[:limit]]


def _known(environment: str) -> QuerySet[CapacityEvent]:
    return CapacityEvent.objects.filter(environment=environment, merged_into=None)


def _quiet_us(bounds: OutageBounds) -> int:
    return int(bounds.quiet_s * US_PER_S)


def _rows(
    environment: str, events: Iterable[CapacityEvent], now: datetime, bounds: OutageBounds | None = None
) -> list[CapacityEventRow]:
    """Rows in the order of what they are made of, those that people made one as one."""
    every = list(events)
    if not every:
        return []
    parts = CapacityEvent.objects.filter(environment=environment, part_of__isnull=False, merged_into=None)
    return _wholes(_joined(every, parts.order_by("pk")), now, _quiet_us(bounds or bounds_of(environment)))


def _wholes(events: Iterable[CapacityEvent], now: datetime, quiet_us: int) -> list[CapacityEventRow]:
    whole: dict[int, list[CapacityEvent]] = {}
    for event in events:
        whole.setdefault(event.part_of_id or event.pk, []).append(event)
    rows = {}
    for number, group in whole.items():
        parts = [_row(event, now, quiet_us) for event in group]
        rows[number] = parts[0] if len(parts) == 1 else united(number, parts)
    return list(rows.values())


def _joined(events: Sequence[CapacityEvent], parts: Iterable[CapacityEvent]) -> list[CapacityEvent]:
    """These events and whatever people made one with them. A query only where a whole lies outside of both."""
    known = {event.pk: event for event in events}
    for part in parts:
        if part.part_of_id in known or part.pk in known or part.part_of_id in {one.part_of_id for one in events}:
            known.setdefault(part.pk, part)
    missing = {event.part_of_id for event in known.values() if event.part_of_id} - known.keys()
    if missing:
        known |= {event.pk: event for event in CapacityEvent.objects.filter(pk__in=missing)}
    return list(known.values())


def _row(event: CapacityEvent, now: datetime, quiet_us: int) -> CapacityEventRow:
    categories = categories_of(event.categories)
    return CapacityEventRow(
        id=event.pk,
        name=capacity_name(event.provider, event.model, event.operation),
        provider=event.provider,
        model=event.model,
        operation=event.operation,
        started=from_us(event.started_us),
        last=from_us(event.last_us),
        is_over=to_us(now) - event.last_us > quiet_us,
        owner=owner_of(categories, is_ours=event.is_ours),
        is_read=event.read_us > 0,
        is_partial=event.is_partial,
        failures=event.failures,
        categories=categories,
        codes=dict(sorted(event.codes.items(), key=lambda item: (-item[1], item[0]))),
        operations=dict(sorted(event.operations.items(), key=lambda item: (-item[1], item[0]))),
        foreground=event.foreground,
        runs=event.runs,
        instances=event.instances,
        services=dict(sorted(event.services.items())),
        peak_per_min=event.peak_per_min,
        peak_at=from_us(event.peak_us) if event.peak_us else None,
        longest_wait_s=event.longest_wait_s,
        breakers=dict(sorted(event.breakers.items())),
        moves=moves_from(event.moves),
        fallbacks=event.fallbacks,
        waiting=sum(until_us > to_us(now) for until_us in event.waits),
        spent=Spent(
            tokens=event.tokens,
            tokens_runs=event.tokens_runs,
            cost_usd=event.cost_usd,
            cost_runs=event.cost_runs,
        ),
        merged_into=event.merged_into_id,
    )
