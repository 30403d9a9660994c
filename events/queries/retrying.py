"""How many calls each operation made, and how many retries, in windows that end now: from the sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import QuerySet, Sum

from events.models import MinuteSum, SpanSum, View
from events.moments import MINUTE_S, US_PER_S, to_us

_MINUTES_UP_TO_S = 3600
_SHORT_SPAN, _LONG_SPAN = 5, 120
_SHORT_UP_TO_S = 6 * 3600


def calls_and_retries(
    environment: str, *, windows_s: Iterable[int], now: datetime
) -> Mapping[int, Mapping[str, tuple[int, int]]]:
    """Calls and retries by operation, for each window. One query each; windows are made longer to whole spans.

    Indexes: `minute_sum_once` up to an hour, `span_sum_once` beyond.
    """
    minute = to_us(now) // US_PER_S // MINUTE_S
    return {window_s: _window(environment, window_s, minute) for window_s in windows_s}


def _window(environment: str, window_s: int, minute: int) -> Mapping[str, tuple[int, int]]:
    first = minute - window_s // MINUTE_S + 1
    found: QuerySet[Any]
    if window_s <= _MINUTES_UP_TO_S:
        found = MinuteSum.objects.filter(environment=environment, minute__gte=first, minute__lte=minute)
    else:
        span = _SHORT_SPAN if window_s <= _SHORT_UP_TO_S else _LONG_SPAN
        found = SpanSum.objects.filter(
            environment=environment, view=View.EACH, minutes=span, span__gte=first // span, span__lte=minute // span
        )
    grouped = found.exclude(operation="").values_list("operation").annotate(calls=Sum("calls"), retries=Sum("retries"))
    return {operation: (calls, retries) for operation, calls, retries in grouped.order_by() if calls or retries}
