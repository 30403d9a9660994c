"""Keeps which events are shown as one: by `rules.one_outage`, and on top of that by what people say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import reduce
from operator import or_

from django.db.models import F, Q

from events.capacity.hits import Subject
from events.capacity.models import CapacityArrangement, CapacityEvent
from events.capacity.rows import owner_word
from events.moments import US_PER_S
from recovery_ops.rules.incidents.detection import Interval, OutageBounds
from recovery_ops.rules.incidents.merging import Part, wholes


def arrange_between(environment: str, start_us: int, end_us: int, bounds: OutageBounds) -> None:
    """Say anew of the events between two moments, and of all that are at once with one of them, which are one.

    To be called by the one who arranges (`arranged_by_one`), as all here is. About eight queries.
    """
    near = _cluster(environment, start_us, end_us, int(bounds.within_s * US_PER_S))
    heads = wholes(_parts(environment, near), bounds)
    for event in near:
        joined_to = heads[event.pk] if heads[event.pk] != event.pk else None
        if event.joined_to_id != joined_to:
            CapacityEvent.objects.filter(pk=event.pk).update(joined_to=joined_to)
    gone = CapacityEvent.objects.filter(environment=environment, merged_into__isnull=False)
    gone.exclude(part_of=None, joined_to=None).update(part_of=None, joined_to=None)
    arrange(environment, [event.pk for event in near])


def arrange(environment: str, touched: Iterable[int]) -> None:
    """Say of these events, and of all that are or were one with them, which one each is a part of: the lowest number.

    By the rule, and by the merges in force.
    """
    every, merges = _same(environment, set(touched))
    heads: dict[int, int] = {}

    def head(one: int) -> int:
        while heads.setdefault(one, one) != one:
            one = heads[one]
        return one

    joined = [(event.pk, event.joined_to_id) for event in every if event.joined_to_id is not None]
    for one, other in (*merges, *joined):
        low, high = sorted((head(one), head(other)))
        heads[high] = low
    for event in every:
        part_of = head(event.pk) if head(event.pk) != event.pk else None
        if event.part_of_id != part_of:
            CapacityEvent.objects.filter(pk=event.pk).update(part_of=part_of)
            heads_moved = [one for one in (event.pk, event.part_of_id, part_of) if one]
            CapacityEvent.objects.filter(pk__in=heads_moved).update(counted={})


def _merges(environment: str, numbers: Collection[int]) -> list[tuple[int, int]]:
    """What people made one of these events, or with one of them, by the numbers that they grew into."""
    held = CapacityArrangement.objects.filter(environment=environment, kind=CapacityArrangement.MERGE, ended_at=None)
    ends = ("event", "event__merged_into", "other", "other__merged_into")
    mine = held.filter(reduce(or_, (Q(**{f"{one}__in": numbers}) for one in ends)))
    pairs = mine.values_list("event_id", "event__merged_into", "other_id", "other__merged_into")
    return [(event_into or event, other_into or other) for event, event_into, other, other_into in pairs]


def _same(environment: str, numbers: set[int]) -> tuple[list[CapacityEvent], list[tuple[int, int]]]:
    """These events with all that the rule or people made one with them, or that are shown so; and people's merges.

    Two queries for each step away from them.
    """
    known = CapacityEvent.objects.filter(environment=environment, merged_into=None)
    while True:
        merges = _merges(environment, numbers)
        found = list(known.filter(Q(pk__in=numbers) | Q(joined_to__in=numbers) | Q(part_of__in=numbers)))
        more = {one for event in found for one in (event.pk, event.joined_to_id, event.part_of_id) if one}
        more |= {number for pair in merges for number in pair}
        if more <= numbers:
            return found, merges
        numbers = numbers | more


def _cluster(environment: str, start_us: int, end_us: int, within_us: int) -> list[CapacityEvent]:
    """The events between two moments with all that are at once with one of them, and so on."""
    known = CapacityEvent.objects.filter(environment=environment, merged_into=None)
    found: list[CapacityEvent] = []
    while True:
        near = known.filter(last_us__gte=start_us - within_us, started_us__lte=end_us + within_us)
        more = list(near.order_by("started_us", "pk"))
        if len(more) == len(found):
            return more
        found = more
        start_us = min(start_us, *(event.started_us for event in found))
        end_us = max(end_us, *(event.last_us for event in found))


def _parts(environment: str, events: Iterable[CapacityEvent]) -> Iterator[Part]:
    held = CapacityArrangement.objects.filter(environment=environment, ended_at=None)
    cuts: dict[Subject, list[float]] = {}
    alone: set[int] = set()
    told = held.filter(Q(kind=CapacityArrangement.CUT) | Q(kind=CapacityArrangement.APART))
    for one in told.annotate(into=F("event__merged_into")).order_by("at_us"):
        if one.kind == CapacityArrangement.CUT:
            cuts.setdefault(Subject.of_event(one), []).append((one.at_us or 0) / US_PER_S)
        else:
            alone.add(one.into or one.event_id)
    for event in events:
        subject = Subject.of_event(event)
        yield Part(
            number=event.pk,
            backend=subject.backend,
            interval=Interval(event.started_us / US_PER_S, event.last_us / US_PER_S),
            owner=owner_word(event.categories, is_ours=event.is_ours),
            cuts=cuts.get(subject, ()),
            is_alone=event.pk in alone,
        )
