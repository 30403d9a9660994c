"""Counts, for good, what happens to facts on their way in and may not go unseen. By environment and name."""

from __future__ import annotations

from collections import Counter

from django.db import connection

from events.models import Tally

SET_ASIDE = "set_aside"
LET_GO = "let_go"
"""Set aside, but not kept: there were too many, in one request or in all."""
REPLAYED = "replayed"
DROPPED = "dropped"

_ADD = """
    INSERT INTO events_tally (environment, name, count, last_us) VALUES (%s, %s, %s, %s)
    ON CONFLICT (environment, name) DO UPDATE SET
        count = events_tally.count + excluded.count,
        last_us = CASE WHEN excluded.last_us > events_tally.last_us THEN excluded.last_us ELSE events_tally.last_us END
"""


def add(counts: Counter[tuple[str, str]], at_us: int) -> None:
    """Add to tallies, by environment and name, in the caller's transaction."""
    rows = [(environment, name, count, at_us) for (environment, name), count in sorted(counts.items()) if count]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(_ADD, rows)


def tallies_of(environment: str) -> dict[str, Tally]:
    """The tallies of an environment, by name; what never happened is missing. One query."""
    return {tally.name: tally for tally in Tally.objects.filter(environment=environment)}
