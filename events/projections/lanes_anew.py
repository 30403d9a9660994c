"""Fills the sums of lanes anew from the moves that are stored: for stores that are older than they, and for copies."""

from __future__ import annotations

from typing import Any

import orjson
from django.db import connection

from events.projections.fold import left_by
from events.projections.summing import LaneSpan, LaneSums, one_move, over_lanes

_MINUTE_US = 60_000_000
_CHUNK = 500
_COLUMNS = "environment, agent_id, breaker, minutes, span, moves, worst, first, last"


def sum_lanes_anew() -> int:
    """Make the table what the stored moves say; return how many those are."""
    text = "attributes::text" if connection.vendor == "postgresql" else "attributes"
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT environment FROM events_agent")
        environments = [name for (name,) in cursor.fetchall()]
        cursor.execute("DELETE FROM events_instancemoves")
        return sum(_sum_environment(cursor, name, text) for name in environments)


def _sum_environment(cursor: Any, environment: str, text: str) -> int:
    cursor.execute(
        f"SELECT agent_id, breaker, at_us, state, {text} FROM events_fact"  # noqa: S608  # our own words
        " WHERE environment = %s AND event = 'breaker_state_changed' AND at_us >= 0 AND breaker > '' AND state > ''",
        [environment],
    )
    minutely: LaneSums = {}
    count = 0
    while rows := cursor.fetchmany(_CHUNK):
        for agent_id, breaker, at_us, state, said in rows:
            # The instance stands under its number: whose name that is does not matter here.
            name = LaneSpan(environment, "", str(agent_id), breaker, 1, at_us // _MINUTE_US)
            moved = one_move(at_us, left_by(orjson.loads(said)), state)
            minutely[name] = moved if (known := minutely.get(name)) is None else known.joined(moved)
        count += len(rows)
    into = f"INSERT INTO events_instancemoves ({_COLUMNS}) VALUES ({', '.join(['%s'] * 9)})"  # noqa: S608
    made = [
        (environment, int(name.instance), name.breaker, name.minutes, name.span, *moves)
        for name, moves in over_lanes(minutely).items()
    ]
    for start in range(0, len(made), _CHUNK):
        cursor.executemany(into, made[start : start + _CHUNK])
    return count
