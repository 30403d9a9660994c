"""When an issue was seen first and last, of all failures whose sums are kept."""

# ruff: noqa: S608  (only words of our own are put together; every value is a parameter)

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.db import connection

from events.failures.asking import KINDS, cause_of
from events.failures.grouping import Grouping
from events.moments import from_us

_VARIANTS_MOST = 64
"""A kind has at most so many rows in one minute."""
_EDGE = (
    "(SELECT {find}({column}) FROM (SELECT {column} FROM events_failuresum s WHERE s.minutes = 1"
    f" AND s.kind = k.digest ORDER BY s.span {{order}} LIMIT {_VARIANTS_MOST}) edge)"
)
_FIRST = _EDGE.format(find="MIN", column="first_us", order="ASC")
_LAST = _EDGE.format(find="MAX", column="last_us", order="DESC")
_NAMED = ", ".join(f"k.{name}" for name in ("fingerprint", *KINDS[1:]))


class Ever(NamedTuple):
    """The first and the last failure of an issue."""

    first: datetime
    last: datetime


def seen_ever(environment: str, name: str, grouping: Grouping) -> Ever | None:
    """The first and the last failure that belongs to an issue now; None where none is kept.

    One query; indexes `failure_kind_by_issue`, `failure_sum_by_kind`.
    """
    parts = grouping.parts(name)
    marks = {*parts, *filter(None, map(grouping.split_from, parts))}
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_NAMED}, {_FIRST}, {_LAST} FROM events_failurekind k WHERE k.environment = %s"
            f" AND k.fingerprint IN ({', '.join(['%s'] * len(marks))})",
            [environment, *sorted(marks)],
        )
        rows = cursor.fetchall()
    seen = [
        (first_us, last_us)
        for *kind, first_us, last_us in rows
        if first_us is not None and cause_of(grouping, *kind) == name
    ]
    if not seen:
        return None
    return Ever(from_us(min(first for first, _ in seen)), from_us(max(last for _, last in seen)))
