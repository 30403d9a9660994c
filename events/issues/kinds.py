"""Deletes kinds of failures of which no count is left, beside processes that store failures of the same kinds."""

# ruff: noqa: S608  (only names of our own are put together; every value is a parameter)

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from django.db import DatabaseError, connection, transaction

from events.issues.models import FAILURE_MINUTES

logger = logging.getLogger(__name__)

_LOCK = (
    "SET LOCAL lock_timeout = '100ms'",
    "LOCK TABLE events_failurekind IN SHARE ROW EXCLUSIVE MODE",
)
"""For PostgreSQL. Who stores failures inserts their kinds first, and so has locked the table, even where all kinds were
there, until its counts are committed. What stores waits behind us: give up instead, the next sweep tries again."""
_READ = 500


def delete_unused_kinds(environment: str, before_minute: int, rows: int) -> Iterator[int]:
    """Delete kinds without a count, in transactions of so many rows at most; yield how many rows each has deleted.

    Counts of minutes before `before_minute` may be deleted, or not yet.
    """
    after = 0
    while kinds := _unused(environment, before_minute, after):
        after = kinds[-1][0]
        for start in range(0, len(kinds), rows):
            yield _delete(environment, before_minute, [number for number, _ in kinds[start : start + rows]])


def _unused(environment: str, before_minute: int, after: int) -> Sequence[tuple[int, bytes]]:
    condition, values = _without_counts(environment, before_minute)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT id, digest FROM events_failurekind kind WHERE environment = %s AND id > %s AND {condition}"
            " ORDER BY id LIMIT %s",
            [environment, after, *values, _READ],
        )
        return list(cursor.fetchall())


def _delete(environment: str, before_minute: int, numbers: Sequence[int]) -> int:
    """Delete those of these kinds that still have no count."""
    condition, values = _without_counts(environment, before_minute)
    places = ", ".join(["%s"] * len(numbers))
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            for statement in _LOCK if connection.vendor == "postgresql" else ():
                cursor.execute(statement)
            cursor.execute(
                f"DELETE FROM events_failurekind AS kind WHERE id IN ({places}) AND {condition}", [*numbers, *values]
            )
            return int(cursor.rowcount)
    except DatabaseError as error:
        logger.warning("could not delete unused kinds of failures: %s", error)
        return 0


def _without_counts(environment: str, before_minute: int) -> tuple[str, list[str | int]]:
    """Whether a kind has no count left, asked so that an index answers each part.

    Longer spans are sums of minutes: of a kind without minutes, they are left only at the end of what is deleted.
    """
    parts = [
        "SELECT 1 FROM events_failuresum one WHERE one.minutes = 1 AND one.kind = kind.digest",
        "SELECT 1 FROM events_runfailure one WHERE one.kind = kind.digest",
    ]
    values: list[str | int] = []
    for table in ("events_failuresum", "events_instancefailuresum"):
        for minutes in FAILURE_MINUTES:
            parts.append(
                f"SELECT 1 FROM {table} one WHERE one.environment = %s AND one.minutes = %s AND one.span <= %s"
                " AND one.kind = kind.digest"
            )
            values += [environment, minutes, before_minute // minutes]
    return " AND ".join(f"NOT EXISTS ({part})" for part in parts), values
