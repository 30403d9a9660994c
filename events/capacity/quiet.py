"""Where an outage was quietest: the moment at which it is most likely two."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q, Sum

from events.capacity.rows import CapacityEventRow
from events.models import MinuteSum
from events.moments import MINUTE_S, US_PER_S, from_us, to_us
from recovery_ops.rules.incidents.detection import OUTAGE_COUNTS

_MINUTE_US = MINUTE_S * US_PER_S
_READ_FOR = timedelta(hours=24)


def quietest_minute(environment: str, row: CapacityEventRow) -> datetime:
    """The middle of its longest run of minutes with the fewest failures, of at most its last day. One query."""
    first, last = to_us(max(row.started, row.last - _READ_FOR)) // _MINUTE_US, to_us(row.last) // _MINUTE_US
    if last - first < 2:
        return row.started + (row.last - row.started) / 2
    about = Q()
    for part in row.parts or (row,):
        one = Q(provider=part.provider, model=part.model)
        about |= one & Q(operation=part.operation) if part.operation else one
    sums = MinuteSum.objects.filter(
        about,
        environment=environment,
        minute__gte=first,
        minute__lte=last,
        category__in=[one.value for one in OUTAGE_COUNTS],
    )
    counts = dict(sums.values_list("minute").annotate(Sum("failures")).order_by())
    inner = range(first + 1, last)
    fewest = min(counts.get(minute, 0) for minute in inner)
    best = run = 0
    end = first + 1
    for minute in inner:
        run = run + 1 if counts.get(minute, 0) == fewest else 0
        if run > best:
            best, end = run, minute
    return from_us((end - best // 2) * _MINUTE_US)
