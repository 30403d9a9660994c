"""What people say of capacity events (these are one, here one ends), kept so that every look for outages obeys it.

Callers check, audit and hold the transaction: `control.actions.capacity`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from django.db import transaction
from django.db.models import Max, Min, Q

from events.capacity.hits import Subject, of_subject
from events.capacity.models import CapacityArrangement, CapacityEvent, CapacityLook
from events.models import Fact
from events.moments import US_PER_S
from events.queries.sums import FAILED
from recovery_ops.rules.outages import OUTAGE_COUNTS

_COUNTED = [category.value for category in OUTAGE_COUNTS]


class CannotArrange(Exception):
    """What was asked for cannot be; the text says why and what to do."""


@contextmanager
def arranged_by_one(environment: str) -> Iterator[None]:
    """One at a time writes which failures are which event, in a transaction."""
    CapacityLook.objects.get_or_create(environment=environment)
    with transaction.atomic():
        CapacityLook.objects.select_for_update().get(environment=environment)
        yield


def cuts_of(environment: str) -> Mapping[Subject, Sequence[float]]:
    """The cuts in force, in seconds, ascending, by whose outage it is. One query."""
    found: dict[Subject, list[float]] = {}
    held = CapacityArrangement.objects.filter(environment=environment, kind=CapacityArrangement.CUT, ended_at=None)
    for provider, model, operation, at_us in held.order_by("at_us").values_list(
        "provider", "model", "operation", "at_us"
    ):
        found.setdefault(Subject(provider, model, operation), []).append((at_us or 0) / US_PER_S)
    return found


def steps_of(environment: str) -> int:
    """How often something was arranged or taken back: what a change gives back to say what it was looking at."""
    made = CapacityArrangement.objects.filter(environment=environment)
    return made.count() + made.exclude(ended_at=None).count()


def merge(event: CapacityEvent, other: CapacityEvent, *, by: str, reason: str, now: datetime) -> CapacityArrangement:
    """Make two events one, which goes by the lower number."""
    with arranged_by_one(event.environment):
        made = CapacityArrangement.objects.create(
            environment=event.environment,
            kind=CapacityArrangement.MERGE,
            event=max(event, other, key=lambda one: one.pk),
            other=min(event, other, key=lambda one: one.pk),
            made_at=now,
            made_by=by,
            reason=reason,
        )
        arrange(event.environment)
        return made


def cut(event: CapacityEvent, at_us: int, *, by: str, reason: str, now: datetime) -> CapacityArrangement:
    """Make two events of one: what failed before this moment, and what failed from it on.

    Raises CannotArrange where one of the two would be empty, or its failures are no longer kept.
    """
    with arranged_by_one(event.environment):
        held = CapacityEvent.objects.get(pk=event.pk)
        subject = Subject(held.provider, held.model, held.operation)
        before, after = _sides(held, subject, at_us)
        later = CapacityEvent.objects.create(
            environment=held.environment,
            provider=held.provider,
            model=held.model,
            operation=held.operation,
            started_us=after,
            last_us=held.last_us,
        )
        CapacityEvent.objects.filter(pk=held.pk).update(last_us=before, read_us=0)
        return CapacityArrangement.objects.create(
            environment=held.environment,
            kind=CapacityArrangement.CUT,
            event=later,
            other=held,
            provider=held.provider,
            model=held.model,
            operation=held.operation,
            at_us=at_us,
            made_at=now,
            made_by=by,
            reason=reason,
        )


def take_back(made: CapacityArrangement, *, by: str, now: datetime) -> None:
    """What was merged is two again, what was cut is one again; whatever happened meanwhile stays."""
    with arranged_by_one(made.environment):
        CapacityArrangement.objects.filter(pk=made.pk).update(ended_at=now, ended_by=by)
        if made.kind == CapacityArrangement.CUT:
            _close(made)
        arrange(made.environment)


def arrange(environment: str) -> None:
    """Say of each event which one it is a part of, by the merges in force; the lowest number names the whole."""
    held = CapacityArrangement.objects.filter(environment=environment, kind=CapacityArrangement.MERGE, ended_at=None)
    heads: dict[int, int] = {}

    def head(one: int) -> int:
        while heads.setdefault(one, one) != one:
            one = heads[one]
        return one

    pairs = held.values_list("event_id", "event__merged_into", "other_id", "other__merged_into")
    for event, event_into, other, other_into in pairs:
        low, high = sorted((head(event_into or event), head(other_into or other)))
        heads[high] = low
    wanted = {one: head(one) for one in heads if head(one) != one}
    touched = CapacityEvent.objects.filter(Q(part_of__isnull=False) | Q(pk__in=wanted), environment=environment)
    for part in touched:
        part_of = wanted.get(part.pk) if part.merged_into_id is None else None
        if part.part_of_id != part_of:
            CapacityEvent.objects.filter(pk=part.pk).update(part_of=part_of)


def _sides(event: CapacityEvent, subject: Subject, at_us: int) -> tuple[int, int]:
    """The last failure before a moment and the first from it on."""
    kept = Fact.objects.filter(
        environment=event.environment,
        event=FAILED,
        at_us__gte=event.started_us,
        at_us__lte=event.last_us,
        category__in=_COUNTED,
    )
    failed = of_subject(kept, subject)
    before = failed.filter(at_us__lt=at_us).aggregate(at=Max("at_us"))["at"]
    after = failed.filter(at_us__gte=at_us).aggregate(at=Min("at_us"))["at"]
    if not failed.exists():
        raise CannotArrange("Its failures are no longer kept, so it cannot be split any more.")
    if before is None or after is None:
        side = "before" if before is None else "after"
        raise CannotArrange(f"None of its failures lies {side} that moment. Choose one between its first and its last.")
    return before, after


def _close(made: CapacityArrangement) -> None:
    """Make one of the two events on both sides of a cut, which are those that lie nearest to it."""
    same = CapacityEvent.objects.filter(
        environment=made.environment,
        provider=made.provider,
        model=made.model,
        operation=made.operation,
        merged_into=None,
    )
    before = same.filter(started_us__lt=made.at_us).order_by("-started_us").first()
    after = same.filter(started_us__gte=made.at_us).order_by("started_us").first()
    if before is None or after is None:
        return
    last_us = max(before.last_us, after.last_us)
    CapacityEvent.objects.filter(Q(pk=after.pk) | Q(merged_into=after)).update(merged_into=before)
    CapacityEvent.objects.filter(pk=before.pk).update(last_us=last_us, read_us=0)


def arrangements_of(environment: str, numbers: Sequence[int]) -> list[CapacityArrangement]:
    """Those in force that these events have to do with, newest first. One query."""
    held = CapacityArrangement.objects.filter(environment=environment, ended_at=None)
    about = Q(event__in=numbers) | Q(other__in=numbers)
    about |= Q(event__merged_into__in=numbers) | Q(other__merged_into__in=numbers)
    return list(held.filter(about).order_by("-pk"))
