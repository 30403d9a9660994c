"""How many calls of each operation were attempted and how many retries made, in windows that end now: from sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import QuerySet, Sum

from events.models import MinuteSum, SpanSum
from events.moments import MINUTE_S, US_PER_S, to_us
from events.projections.sum_views import View

_MINUTES_UP_TO_S = 3600
_SHORT_SPAN, _LONG_SPAN = 5, 120
_SHORT_UP_TO_S = 6 * 3600


def calls_and_retries(
    environment: str, *, windows_s: Iterable[int], now: datetime, since: datetime | None = None
) -> Mapping[int, Mapping[str, tuple[int, int]]]:
    """Attempted calls and retries by operation, for each window. One query each; windows grow to whole spans.
    Of what happened before `since` nothing is counted.

    What was refused before its first attempt – by a breaker, a gate, a person – loads nobody, and would make retries
    look rare in an outage. What only stands in for others is called by nobody and attempted all the same.

    Indexes: `minute_sum_once` up to an hour, `span_sum_once` beyond.
    """
    minute = to_us(now) // US_PER_S // MINUTE_S
    least = 0 if since is None else -(-to_us(since) // US_PER_S // MINUTE_S)
    firsts = {window_s: max(least, minute - window_s // MINUTE_S + 1) for window_s in windows_s}
    return {window_s: _window(environment, first, minute) for window_s, first in firsts.items()}


def _window(environment: str, first: int, minute: int) -> Mapping[str, tuple[int, int]]:
    window_s = (minute - first + 1) * MINUTE_S
    found: QuerySet[Any]
    if window_s <= _MINUTES_UP_TO_S:
        found = MinuteSum.objects.filter(environment=environment, minute__gte=first, minute__lte=minute)
    else:
        span = _SHORT_SPAN if window_s <= _SHORT_UP_TO_S else _LONG_SPAN
        found = SpanSum.objects.filter(
            environment=environment, view=View.EACH, minutes=span, span__gte=first // span, span__lte=minute // span
        )
    named = found.exclude(operation="").values_list("operation")
    grouped = named.annotate(Sum("calls"), Sum("attempts"), Sum("retries")).order_by()
    return {
        operation: (max(1, attempts - retries) if attempts else calls, retries)
        for operation, calls, attempts, retries in grouped
        if calls or attempts or retries
    }
