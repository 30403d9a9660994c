"""Finds capacity events: a quick look at the last minutes, and a slow one at hours to which late facts came.

Both read facts outside of any transaction, join what they find with what is known in a short one, and may be lost,
doubled or run side by side: `rules.outages` only ever grows an interval.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db.models import F, Q, Sum

from events.capacity.arranging import arranged_by_one, cuts_of
from events.capacity.bounds import bounds_of
from events.capacity.hits import Subject, hits_of
from events.capacity.joining import arrange_between
from events.capacity.models import CapacityEvent, CapacityLook
from events.capacity.reach import read_anew
from events.models import MinuteSum
from events.moments import US_PER_S, to_us
from recovery_ops.rules.incidents.detection import OUTAGE_COUNTS, Interval, OutageBounds, merged, regional_outages
from recovery_ops.rules.incidents.merging import Backend

LOOKED_AT = timedelta(minutes=10)
"""How far the quick look reaches back: more than two looks lie apart, and than a neighbour that is merged."""
LOOKED_BACK = timedelta(hours=48)
"""How late a fact may come and still make an event."""
_HOUR_S = 3600
_COUNTED = [category.value for category in OUTAGE_COUNTS]


def look(environment: str, now: datetime) -> int:
    """Look at the last minutes; return how many events began or grew. Two queries where nothing fails."""
    bounds = bounds_of(environment)
    reach = max(LOOKED_AT, timedelta(seconds=2 * bounds.merge_s))
    return _look_at(environment, to_us(now - reach), to_us(now), bounds, is_thorough=False)


def look_back(environment: str, now: datetime) -> int:
    """Look at each hour of the last two days with failures that holds other facts than at the last look; as `look`.

    Also where no failure came: what opened and what stood in may come later than what failed.
    """
    bounds = bounds_of(environment)
    first = int((now - LOOKED_BACK).timestamp()) // _HOUR_S
    found = _facts_by_hour(environment, first)
    seen = CapacityLook.objects.filter(environment=environment).values_list("hours", flat=True).first() or {}
    changed = [int(hour) for hour, count in found.items() if seen.get(hour) != count]
    overlap_us = int(bounds.within_s * US_PER_S)
    grown = 0
    for hour in sorted(changed):
        start_us = hour * _HOUR_S * US_PER_S
        end_us = start_us + _HOUR_S * US_PER_S + overlap_us
        grown += _look_at(environment, start_us - overlap_us, end_us, bounds, is_thorough=True)
    # Counted before the facts were read: what comes meanwhile is another number at the next look.
    CapacityLook.objects.update_or_create(environment=environment, defaults={"hours": found})
    return grown


def _facts_by_hour(environment: str, first: int) -> dict[str, int]:
    """How many facts there are of each hour in which something failed that may be an outage."""
    sums = MinuteSum.objects.filter(environment=environment, minute__gte=first * 60)
    failures = Sum("failures", filter=Q(category__in=_COUNTED))
    rows = sums.values(hour=F("minute") / 60).annotate(failures=failures, count=Sum("facts")).order_by("hour")
    return {str(int(row["hour"])): row["count"] for row in rows if row["failures"]}


def _look_at(environment: str, start_us: int, end_us: int, bounds: OutageBounds, *, is_thorough: bool) -> int:
    hits = hits_of(environment, start_us, end_us, bounds)
    cuts = cuts_of(environment) if hits else {}
    found = {
        Subject(*backend, region): intervals
        for backend, some in hits.items()
        for region, intervals in regional_outages(some, bounds, _of_regions(cuts, backend)).items()
    }
    if not found:
        return 0
    grown = _join(environment, found, bounds)
    read_anew(environment, start_us, end_us, is_thorough=is_thorough)
    return grown


def _of_regions(cuts: Mapping[Subject, Sequence[float]], backend: Backend) -> dict[str, Sequence[float]]:
    return {subject.region: some for subject, some in cuts.items() if subject.backend == backend}


def _join(environment: str, found: Mapping[Subject, Iterable[Interval]], bounds: OutageBounds) -> int:
    """Write what is new of these intervals; return how many events began or grew."""
    with arranged_by_one(environment):
        # Read anew under the lock: somebody may have cut meanwhile.
        cuts = cuts_of(environment)
        known = _known(environment, found, bounds)
        grown = sum(
            _settled(environment, subject, interval, known.get(subject, []))
            for subject, intervals in sorted(found.items())
            for interval in _joined(intervals, known.get(subject, []), bounds, cuts.get(subject, ()))
        )
        if grown:
            every = [interval for intervals in found.values() for interval in intervals]
            first, last = min(one.started for one in every), max(one.last for one in every)
            arrange_between(environment, _us(first), _us(last), bounds)
        return grown


def _joined(
    found: Iterable[Interval], known: Iterable[CapacityEvent], bounds: OutageBounds, cuts: Sequence[float]
) -> list[Interval]:
    """What was found and what is known of one subject. What reaches across a cut is left to the next look."""
    whole = [one for one in found if bisect_right(cuts, one.started) == bisect_right(cuts, one.last)]
    return merged([*whole, *map(_interval, known)], bounds, cuts)


def _known(
    environment: str, found: Mapping[Subject, Iterable[Interval]], bounds: OutageBounds
) -> dict[Subject, list[CapacityEvent]]:
    """The events that what was found may be a part of, by subject, the oldest first."""
    every = [interval for intervals in found.values() for interval in intervals]
    first_us = _us(min(one.started for one in every) - bounds.merge_s)
    last_us = _us(max(one.last for one in every) + bounds.merge_s)
    near = CapacityEvent.objects.filter(
        environment=environment, merged_into=None, last_us__gte=first_us, started_us__lte=last_us
    )
    known: dict[Subject, list[CapacityEvent]] = {}
    for event in near.order_by("started_us", "id"):
        known.setdefault(Subject.of_event(event), []).append(event)
    return known


def _settled(environment: str, subject: Subject, interval: Interval, known: Sequence[CapacityEvent]) -> bool:
    """Make the event of one interval, or let it grow; of several that met, the oldest keeps its name."""
    started_us, last_us = _us(interval.started), _us(interval.last)
    parts = [event for event in known if started_us <= event.started_us <= last_us]
    if not parts:
        CapacityEvent.objects.create(environment=environment, started_us=started_us, last_us=last_us, **subject.columns)
        return True
    kept, *others = parts
    if (kept.started_us, kept.last_us) == (started_us, last_us) and not others:
        return False
    if others:
        CapacityEvent.objects.filter(pk__in=[event.pk for event in others]).update(merged_into=kept)
        # Whoever was merged into one of these follows, so that an old address needs one step.
        CapacityEvent.objects.filter(merged_into__in=others).update(merged_into=kept)
    # What began earlier, or is made of several, is read anew; what only goes on is read again now and then.
    read_us = kept.read_us if kept.started_us == started_us and not others else 0
    CapacityEvent.objects.filter(pk=kept.pk).update(started_us=started_us, last_us=last_us, read_us=read_us)
    return True


def _interval(event: CapacityEvent) -> Interval:
    return Interval(event.started_us / US_PER_S, event.last_us / US_PER_S)


def _us(seconds: float) -> int:
    return round(seconds * US_PER_S)
