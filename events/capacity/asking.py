"""The questions asked of capacity events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Max, Min, Q, QuerySet, Subquery
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce

from events.capacity.bounds import bounds_of
from events.capacity.models import CapacityEvent, CapacityLook
from events.capacity.moves import moves_from
from events.capacity.rows import (
    AttributionChange,
    CapacityEventRow,
    Owner,
    Spent,
    categories_of,
    owner_of,
    regional_name,
    united,
)
from events.models import Fact
from events.moments import US_PER_S, from_us, to_us
from events.queries.readings import number_in
from events.queries.sums import FAILED, capacity_name
from events.runs.struck import Struck
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import FailureClassified
from recovery_ops.rules.incidents.detection import OUTAGE_SETTINGS, OutageBounds, parse_outage_bounds
from recovery_ops.wire import names

EVENTS_MOST = 500
WAITS_READ = 200
_RETRY_AFTER = names.attribute_of(FailureClassified, "retry_after_s")
SIMILAR_MOST = 5
_BACKEND = ("provider", "model", "operation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some of the events of a range, newest first. `last` is the place of the last one, where more follow."""

    rows: Sequence[CapacityEventRow]
    last: tuple[int, int] | None


def capacity_events(
    environment: str,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    bounds: OutageBounds | None = None,
    also: int | None = None,
) -> list[CapacityEventRow]:
    """The events that touch [start, end], newest first, at most 500; and the one that has this number, `also` if it
    does not touch it. One query; index `capacity_by_last`.

    Who has read the `bounds` already hands them on, here and below, which spares a query.
    """
    return list(capacity_page(environment, start=start, end=end, now=now, bounds=bounds, also=also).rows)


def capacity_page(
    environment: str,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    bounds: OutageBounds | None = None,
    after: tuple[int | float | str, ...] | None = None,
    most: int = EVENTS_MOST,
    is_going_on: bool = False,
    provider: str = "",
    region: str = "",
    also: int | None = None,
) -> Page:
    """So many of the events that touch [start, end], or of those alone that are not over, behind the place `after`.

    `provider` and `region` leave out what is no outage of the one, or did not fail in the other; `also` need not touch
    the range. What is one event has the place of its first part there. One query, or two without `bounds`.
    """
    if is_going_on:
        bounds = bounds or bounds_of(environment)
    within = Q(last_us__gte=to_us(start), started_us__lte=to_us(end))
    touching = _known(environment).filter(within if also is None else within | Q(pk=also))
    wholes = touching.values(whole=Coalesce("part_of_id", "id")).annotate(
        first_us=Min("started_us"), newest_us=Max("last_us")
    )
    if is_going_on and bounds is not None:
        wholes = wholes.filter(newest_us__gte=to_us(now) - _quiet_us(bounds))
    for column, name in (("provider", provider), ("region", region)):
        if name:
            about = touching.filter(**{column: name}).order_by()
            wholes = wholes.filter(whole__in=about.values_list(Coalesce("part_of_id", "id")))
    if after is not None:
        wholes = wholes.filter(Q(first_us__lt=-int(after[0])) | Q(first_us=-int(after[0]), whole__lt=-int(after[1])))
    asked = wholes.order_by("-first_us", "-whole").values("whole")[: most + 1]
    parts = _parts_of(environment, asked)
    read = list(parts.annotate(bounds=_bounds_beside(environment)))
    if not read:
        return Page(rows=[], last=None)
    quiet_us = _quiet_us(bounds or parse_outage_bounds(read[0].bounds, "bounds", []))
    firsts: dict[int, int] = {}
    for event in read:
        if event.pk == also or (event.last_us >= to_us(start) and event.started_us <= to_us(end)):
            whole = event.part_of_id or event.pk
            firsts[whole] = min(event.started_us, firsts.get(whole, event.started_us))
    places = sorted(firsts, key=lambda whole: (-firsts[whole], -whole))
    shown = places[:most]
    rows = {row.id: row for row in _wholes(read, now, quiet_us)}
    last = (-firsts[shown[-1]], -shown[-1]) if len(places) > most else None
    return Page(rows=[rows[whole] for whole in shown], last=last)


def capacity_event(environment: str, number: int, *, now: datetime) -> CapacityEventRow | None:
    """One event; `merged_into` says which one it is a part of now. One query, two of a part."""
    mine = CapacityEvent.objects.filter(Q(pk=number) | Q(part_of=number, merged_into=None), environment=environment)
    read = list(mine.annotate(bounds=_bounds_beside(environment)).order_by("pk"))
    event = next((one for one in read if one.pk == number), None)
    if event is None:
        return None
    bounds = parse_outage_bounds(event.bounds, "bounds", [])
    into = event.merged_into_id or event.part_of_id
    rows = _wholes(read, now, _quiet_us(bounds)) if into is None else _rows(environment, [event], now, bounds)
    named = next(row for row in rows if row.id == (event.part_of_id or number))
    return named if into is None else replace(named, id=number, merged_into=into)


def waits_asked_for(environment: str, *, start: datetime, end: datetime) -> list[float]:
    """The Retry-After, in seconds, of those of the newest failures of [start, end) for capacity that had one; newest
    first. One query; index `fact_by_event`.
    """
    failed = Fact.objects.filter(
        environment=environment,
        event=FAILED,
        at_us__gte=to_us(start),
        at_us__lt=to_us(end),
        category__in=[Category.RATE_LIMITED.value, Category.OVERLOADED.value],
    )
    said = failed.annotate(wait=KeyTextTransform(_RETRY_AFTER, "attributes")).order_by("-at_us")
    found = [number_in(wait) for wait in said.values_list("wait", flat=True)[:WAITS_READ]]
    return [wait_s for wait_s in found if wait_s is not None and wait_s >= 0]


def wholes_by_number(
    environment: str, numbers: Iterable[int], *, now: datetime, bounds: OutageBounds | None = None
) -> dict[int, CapacityEventRow]:
    """The event that each of these is now, or is a part of now, by number. At most three queries."""
    asked = CapacityEvent.objects.filter(environment=environment, pk__in=sorted(numbers))
    grown = {event.pk: event.merged_into or event for event in asked.select_related("merged_into")}
    each = {event.pk: event for event in grown.values()}
    rows = {row.id: row for row in _rows(environment, each.values(), now, bounds)}
    return {number: rows[event.part_of_id or event.pk] for number, event in grown.items()}


def parts_struck(row: CapacityEventRow) -> list[Struck]:
    """What an event is an outage of, as far as it was read: the runs that met it are those that its row counts."""
    return [
        Struck(part.provider, part.model, part.operation, part.region, to_us(part.started), to_us(part.read_to))
        for part in row.parts or (row,)
    ]


def numbers_of(row: CapacityEventRow, environment: str) -> QuerySet[CapacityEvent, Any]:
    """The numbers of an event, of its parts and of what grew into them, for a question about what bears such a number.

    Indexes `capacity_by_absorber` and that of numbers.
    """
    mine = [row.id, *(part.id for part in row.parts)]
    return CapacityEvent.objects.filter(Q(pk__in=mine) | Q(merged_into__in=mine), environment=environment).values("pk")


def struck_beside(row: CapacityEventRow, environment: str) -> list[str]:
    """The other backends that failed at the same time, by name. One query; index `capacity_by_last`."""
    beside = _known(environment).filter(last_us__gte=to_us(row.started), started_us__lte=to_us(row.last))
    others = beside.exclude(pk__in=[row.id, *(part.id for part in row.parts)]).values_list(*_BACKEND)[:EVENTS_MOST]
    mine = {(one.provider, one.model, one.operation) for one in row.parts or (row,)}
    return sorted({capacity_name(*backend) for backend in others if backend not in mine})


def newest_over(environment: str, *, now: datetime, bounds: OutageBounds | None = None) -> CapacityEventRow | None:
    """The event that ended last. Two queries, one with `bounds`; index `capacity_by_last`."""
    bounds = bounds or bounds_of(environment)
    quiet_since_us = to_us(now) - _quiet_us(bounds)
    known = _known(environment).annotate(whole=Coalesce("part_of_id", "id"))
    hot = known.filter(last_us__gte=quiet_since_us).order_by().values("whole")
    # Of a whole of which no part is hot the newest part is its end; a quiet part of one that goes on ends nothing.
    newest = known.filter(last_us__lt=quiet_since_us).exclude(whole__in=hot).order_by("-last_us").values("whole")[:1]
    rows = [row for row in _whole_rows(environment, newest, now, bounds) if row.is_over]
    return rows[0] if rows else None


def events_going_on(environment: str, *, now: datetime) -> list[CapacityEventRow]:
    """Those that are not over, the newest first. One query."""
    since_us = to_us(now) - int(OUTAGE_SETTINGS["quiet_s"].maximum or 0) * US_PER_S
    hot = _known(environment).filter(last_us__gte=since_us).order_by()
    heads = hot.values_list(Coalesce("part_of_id", "id"))
    late = _known(environment).filter(Q(last_us__gte=since_us) | Q(pk__in=heads) | Q(part_of__in=heads))
    read = list(late.annotate(bounds=_bounds_beside(environment)).order_by("-started_us", "-id")[:EVENTS_MOST])
    if not read:
        return []
    rows = _wholes(read, now, _quiet_us(parse_outage_bounds(read[0].bounds, "bounds", [])))
    return [row for row in rows if not row.is_over]


def count_going_on(environment: str, *, now: datetime) -> int:
    """How many are not over. Two queries."""
    hot = _known(environment).filter(last_us__gte=to_us(now) - _quiet_us(bounds_of(environment)))
    return hot.values(whole=Coalesce("part_of_id", "id")).distinct().count()


def similar_before(row: CapacityEventRow, environment: str, *, now: datetime) -> list[CapacityEventRow]:
    """Earlier events of the same backend, newest first. One query."""
    same = _known(environment).filter(provider=row.provider, model=row.model, operation=row.operation)
    mine = [row.id, *(part.id for part in row.parts)]
    before = same.filter(started_us__lt=to_us(row.started), part_of=None).exclude(pk__in=mine).order_by("-started_us")
    parts = _parts_of(environment, before.values("pk")[:SIMILAR_MOST])
    read = list(parts.annotate(bounds=_bounds_beside(environment)))
    rows = _wholes(read, now, _quiet_us(parse_outage_bounds(read[0].bounds, "bounds", []))) if read else []
    return sorted(rows, key=lambda one: one.started, reverse=True)


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
    heads = {event.part_of_id or event.pk for event in every}
    whole = _known(environment).filter(Q(pk__in=heads) | Q(part_of__in=heads)).order_by("pk")
    known = {event.pk: event for event in every}
    for event in whole:
        known.setdefault(event.pk, event)
    return _wholes(known.values(), now, _quiet_us(bounds or bounds_of(environment)))


def _whole_rows(
    environment: str, heads: Sequence[int] | QuerySet[Any, Any], now: datetime, bounds: OutageBounds
) -> list[CapacityEventRow]:
    """The rows of these wholes, with every part that each has. One query."""
    return _wholes(_parts_of(environment, heads), now, _quiet_us(bounds))


def _parts_of(environment: str, heads: Sequence[int] | QuerySet[Any, Any]) -> QuerySet[CapacityEvent]:
    """Every part of these wholes."""
    return _known(environment).filter(Q(pk__in=heads, part_of=None) | Q(part_of__in=heads)).order_by("pk")


def _bounds_beside(environment: str) -> Subquery:
    """The bounds that hold, to be read with each row instead of by a question of their own."""
    return Subquery(CapacityLook.objects.filter(environment=environment).values("bounds")[:1])


def _wholes(events: Iterable[CapacityEvent], now: datetime, quiet_us: int) -> list[CapacityEventRow]:
    whole: dict[int, list[CapacityEvent]] = {}
    for event in events:
        whole.setdefault(event.part_of_id or event.pk, []).append(event)
    rows = {}
    for number, group in whole.items():
        parts = [_row(event, now, quiet_us) for event in group]
        counted: Mapping[str, Any] = next((event.counted for event in group if event.pk == number), {})
        rows[number] = parts[0] if len(parts) == 1 else united(number, parts, counted)
    return list(rows.values())


def _row(event: CapacityEvent, now: datetime, quiet_us: int) -> CapacityEventRow:
    categories = categories_of(event.categories)
    return CapacityEventRow(
        id=event.pk,
        name=regional_name(capacity_name(event.provider, event.model, event.operation), [event.region]),
        provider=event.provider,
        model=event.model,
        operation=event.operation,
        regions={event.region: event.failures} if event.region else {},
        is_joined=event.joined_to_id is not None,
        started=from_us(event.started_us),
        last=from_us(event.last_us),
        is_over=to_us(now) - event.last_us > quiet_us,
        owner=owner_of(categories, is_ours=event.is_ours),
        is_read=event.read_us > 0,
        read_to=from_us(min(event.last_us, event.read_us) if event.read_us else event.last_us),
        is_partial=False,
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
        attributions=tuple(_attribution(one, event.pk) for one in event.attributions),
    )


def _attribution(stored: Mapping[str, Any], number: int) -> AttributionChange:
    return AttributionChange(
        at=from_us(stored["at_us"]),
        number=number,
        before=Owner(stored["from"]),
        after=Owner(stored["to"]),
        categories=categories_of(stored["categories"]),
    )
