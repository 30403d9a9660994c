"""What people say of capacity events: these are one, here one ends, this one is apart. Every look obeys it.

Callers check, audit and hold the transaction: `control.actions.capacity`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from django.db import transaction
from django.db.models import Max, Min, Q

from events.capacity.bounds import bounds_of
from events.capacity.hits import Subject, of_subject
from events.capacity.joining import arrange, arrange_between
from events.capacity.models import CapacityArrangement, CapacityEvent, CapacityLook
from events.models import Fact
from events.moments import US_PER_S
from events.queries.sums import FAILED
from recovery_ops.rules.incidents.detection import OUTAGE_COUNTS

_COUNTED = [category.value for category in OUTAGE_COUNTS]
_BETWEEN = "Choose one between its first and its last."


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
    for made in held.order_by("at_us"):
        found.setdefault(Subject.of_event(made), []).append((made.at_us or 0) / US_PER_S)
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
        arrange(event.environment, [event.pk, other.pk])
        return made


def cut(event: CapacityEvent, at_us: int, *, by: str, reason: str, now: datetime) -> CapacityArrangement:
    """Make two events of one, with all that the rule joined to it: what failed before this moment, and what from it on.

    Each part that has both is cut in two. Raises CannotArrange where one side would be empty, or the failures are no
    longer kept.
    """
    with arranged_by_one(event.environment):
        whole = Q(pk=event.pk) | Q(part_of=event.part_of_id or event.pk) | Q(pk=event.part_of_id)
        parts = list(CapacityEvent.objects.filter(whole, environment=event.environment, merged_into=None))
        later = [halved for part in parts if part.last_us >= at_us and (halved := _halved(part, at_us, len(parts) > 1))]
        if not later or not any(part.started_us < at_us for part in parts):
            side = "before" if later else "after"
            raise CannotArrange(f"None of its failures lies {side} that moment. {_BETWEEN}")
        befores = [part for part in parts if part.started_us < at_us]
        made = [
            CapacityArrangement.objects.create(
                environment=event.environment,
                kind=CapacityArrangement.CUT,
                event=half,
                other=befores[0] if whose is half else whose,
                at_us=at_us,
                made_at=now,
                made_by=by,
                reason=reason,
                **Subject.of_event(half).columns,
            )
            for whose, half in later
        ]
        first_us, last_us = min(part.started_us for part in parts), max(part.last_us for part in parts)
        arrange_between(event.environment, first_us, last_us, bounds_of(event.environment))
        return min(made, key=lambda one: one.event_id)


def set_apart(event: CapacityEvent, *, by: str, reason: str, now: datetime) -> CapacityArrangement:
    """Make an event that the rule joined to others stand by itself. Raises CannotArrange where it does so already."""
    with arranged_by_one(event.environment):
        held = CapacityEvent.objects.get(pk=event.pk)
        joined = CapacityEvent.objects.filter(environment=held.environment, joined_to=held).order_by("pk").first()
        other = held.joined_to or joined
        if other is None:
            raise CannotArrange(f"CE-{held.pk} is not joined to another event by the rule.")
        made = CapacityArrangement.objects.create(
            environment=held.environment,
            kind=CapacityArrangement.APART,
            event=held,
            other=other,
            made_at=now,
            made_by=by,
            reason=reason,
        )
        arrange_between(held.environment, held.started_us, held.last_us, bounds_of(held.environment))
        return made


def take_back(made: CapacityArrangement, *, by: str, now: datetime) -> None:
    """What was merged is two again, what was cut or set apart is one again; whatever happened meanwhile stays."""
    with arranged_by_one(made.environment):
        same = CapacityArrangement.objects.filter(pk=made.pk)
        if made.kind == CapacityArrangement.CUT:  # a cut through several parts is one deed
            same = CapacityArrangement.objects.filter(
                environment=made.environment, kind=made.kind, at_us=made.at_us, made_at=made.made_at, ended_at=None
            )
        ended = list(same.select_related("event", "other"))
        CapacityArrangement.objects.filter(pk__in=[one.pk for one in ended]).update(ended_at=now, ended_by=by)
        for one in ended:
            if one.kind == CapacityArrangement.CUT and Subject.of_event(one.other) == Subject.of_event(one):
                _close(one)
        about = [one.merged_into or one for told in ended for one in (told.event, told.other)]
        if made.kind == CapacityArrangement.MERGE:
            arrange(made.environment, [one.pk for one in about])
        else:
            first_us, last_us = min(one.started_us for one in about), max(one.last_us for one in about)
            arrange_between(made.environment, first_us, last_us, bounds_of(made.environment))


def is_merged_by_people(event: CapacityEvent) -> bool:
    """Whether a merge in force has to do with what this event is shown as one with."""
    head = event.part_of_id or event.pk
    merges = CapacityArrangement.objects.filter(
        environment=event.environment, kind=CapacityArrangement.MERGE, ended_at=None
    )
    of_whole = Q()
    for end in ("event", "other"):
        for step in ("", "__merged_into"):
            of_whole |= Q(**{f"{end}{step}": head}) | Q(**{f"{end}{step}__part_of": head})
    return merges.filter(of_whole).exists()


def _halved(part: CapacityEvent, at_us: int, is_joined: bool) -> tuple[CapacityEvent, CapacityEvent] | None:
    """A part and what of it failed from a moment on: itself where it began later, and None where nothing did."""
    if part.started_us >= at_us:
        return part, part
    before, after = _sides(part, Subject.of_event(part), at_us)
    if before is None or after is None:
        if is_joined:
            return None
        side = "before" if before is None else "after"
        raise CannotArrange(f"None of its failures lies {side} that moment. {_BETWEEN}")
    later = CapacityEvent.objects.create(
        environment=part.environment, started_us=after, last_us=part.last_us, **Subject.of_event(part).columns
    )
    CapacityEvent.objects.filter(pk=part.pk).update(last_us=before, read_us=0)
    return part, later


def _sides(event: CapacityEvent, subject: Subject, at_us: int) -> tuple[int | None, int | None]:
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
    return before, after


def _close(made: CapacityArrangement) -> None:
    """Make one of the two events on both sides of a cut, which are those that lie nearest to it."""
    same = CapacityEvent.objects.filter(
        environment=made.environment, merged_into=None, **Subject.of_event(made).columns
    )
    before = same.filter(started_us__lt=made.at_us).order_by("-started_us").first()
    after = same.filter(started_us__gte=made.at_us).order_by("started_us").first()
    if before is None or after is None:
        return
    last_us = max(before.last_us, after.last_us)
    CapacityEvent.objects.filter(Q(pk=after.pk) | Q(merged_into=after)).update(merged_into=before)
    CapacityEvent.objects.filter(pk=before.pk).update(last_us=last_us, read_us=0)


def arrangements_of(environment: str, numbers: Sequence[int], *, with_ended: bool = False) -> list[CapacityArrangement]:
    """Those in force that these events have to do with, newest first; `with_ended`: those undone, too. One query."""
    held = CapacityArrangement.objects.filter(environment=environment)
    held = held if with_ended else held.filter(ended_at=None)
    about = Q(event__in=numbers) | Q(other__in=numbers)
    about |= Q(event__merged_into__in=numbers) | Q(other__merged_into__in=numbers)
    return list(held.filter(about).order_by("-pk"))
