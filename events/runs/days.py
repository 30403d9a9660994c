"""On PostgreSQL: from which day to which each run has facts, so that nobody asks each day that is kept for a run.

Written in the background, not by whoever takes facts in, from all facts that have come since the last time. What was
told of a run by then is known; newer facts are of the last days, which are read anyway. SQLite, whose index of runs
reaches over all days, has none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.utils import timezone

from events.failures.asking import settled_number
from events.moments import US_PER_S, to_us
from events.partitions import is_partitioned

KEEP = timedelta(days=90)
"""So long after its last fact a run is known; some facts are kept for longer, and are looked for in each day."""
STEP = 20_000
"""So many facts are looked through in one transaction."""
_DAY_US = 86_400 * US_PER_S
# Facts by their numbers lie in few days; the sums of days are taken over by run, in order against deadlocks.
_NOTE = f"""
    INSERT INTO events_runday (environment, run, first_day, last_day)
    SELECT environment, run, min(at_us) / {_DAY_US}, max(at_us) / {_DAY_US} FROM events_fact
    WHERE id > %s AND id <= %s AND run > '' GROUP BY environment, run ORDER BY environment, run
    ON CONFLICT (environment, run) DO UPDATE SET
        first_day = LEAST(events_runday.first_day, excluded.first_day),
        last_day = GREATEST(events_runday.last_day, excluded.last_day)
    WHERE events_runday.first_day > excluded.first_day OR events_runday.last_day < excluded.last_day
"""  # noqa: S608  (a constant)
_FORGET = (
    "DELETE FROM events_runday WHERE ctid = ANY(ARRAY(SELECT ctid FROM events_runday WHERE last_day < %s LIMIT %s))"
)
_ASK = """
    SELECT k.until_us, d.run, d.first_day FROM events_rundays k LEFT JOIN events_runday d
    ON d.environment = %s AND d.run = ANY(ARRAY(SELECT unnest(%s::text[]))) AND d.first_day <= %s
"""


def note_days(now: datetime, *, may_go_on: Callable[[], bool] = lambda: True) -> None:
    """Note the days of runs of which facts have come. What is left is for the next time."""
    if not is_partitioned():
        return
    newest = settled_number(now)
    while True:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT number FROM events_rundays FOR UPDATE")
            number = cursor.fetchone()[0]
            upto = max(number, min(number + STEP, newest))
            cursor.execute(_NOTE, [number, upto])
            is_done = upto >= newest
            until_us = to_us(now) if is_done else 0
            cursor.execute("UPDATE events_rundays SET number = %s, until_us = GREATEST(until_us, %s)", [upto, until_us])
        if is_done or not may_go_on():
            return


def forget_days(before_us: int, step_rows: int, may_go_on: Callable[[], bool]) -> None:
    """Forget runs of which nothing happened since, in steps."""
    count = step_rows
    while is_partitioned() and count == step_rows and may_go_on():
        with connection.cursor() as cursor:
            cursor.execute(_FORGET, [before_us // _DAY_US, step_rows])
            count = cursor.rowcount


def begun_by(environment: str, runs: Sequence[str], us: int) -> dict[str, int] | None:
    """Those of these runs that have facts of the day of this moment or earlier ones, and when their first day began.

    None where it is not noted that far, or may be forgotten. One query; the primary key.
    """
    if us < to_us(timezone.now() - KEEP):
        return None
    with connection.cursor() as cursor:
        cursor.execute(_ASK, [environment, list(runs), us // _DAY_US])
        rows = cursor.fetchall()
    if not rows or rows[0][0] < us:
        return None
    return {run: day * _DAY_US for _, run, day in rows if run is not None}
