"""The statements of the store, for SQLite and PostgreSQL. Only names of our own columns are put together here."""

# ruff: noqa: S608  (no value ever becomes part of a statement: values are parameters)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from events.fold import AGENT_GROUPS, BREAKER_COLUMNS, COUNTERS, Interval, SumName
from events.models import DEGRADATION_EVENTS

FACT_COLUMNS = (
    *("environment", "uid", "agent_id", "event", "at_us", "received_us", "stated_us", "sequence_number", "severity"),
    *("operation", "breaker", "source", "is_foreground", "run", "category", "state", "provider", "model", "trace_id"),
    *("span_id", "attributes", "body"),
)
"""Every column of a fact but its id, which the database counts."""


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _insert(table: str, columns: Sequence[str], *, tail: str = "") -> str:
    return f"INSERT INTO {table} ({_listed(columns)}) VALUES ({', '.join(['%s'] * len(columns))}){tail}"


def _overwrite(columns: Iterable[str]) -> str:
    return ", ".join(f'"{column}" = excluded."{column}"' for column in columns)


_AGENT_KEY = ("environment", "service", "instance")
_AGENT_COLUMNS = (
    *("first_seen_us", "last_seen_us"),
    *(column for name, columns in AGENT_GROUPS.items() for column in (f"{name}_position", *columns)),
)
_BREAKER_COLUMNS = ("seen_us", "position", *BREAKER_COLUMNS)
INTERVAL_COLUMNS = tuple(one.name for one in fields(Interval))
_SUM_KEY = ("environment", "minute", "dimensions")


def insert_new(rows: int, place: str = "?") -> str:
    """Insert so many facts, passing over those that are there, by one statement of SQLite.

    Not INSERT OR IGNORE, which would pass over a row that breaks *any* constraint, and we would acknowledge it.
    """
    values = f"({', '.join([place] * len(FACT_COLUMNS))})"
    return (
        f"INSERT INTO events_fact ({_listed(FACT_COLUMNS)}) VALUES {', '.join([values] * rows)}"
        " ON CONFLICT (environment, uid) DO NOTHING"
    )


STAGE = (
    f"CREATE TEMP TABLE IF NOT EXISTS fact_stage ON COMMIT DELETE ROWS AS"
    f" SELECT {_listed(FACT_COLUMNS)} FROM events_fact WITH NO DATA"
)
COPY = f"COPY fact_stage ({_listed(FACT_COLUMNS)}) FROM STDIN"
FROM_STAGE = (
    f"INSERT INTO events_fact ({_listed(FACT_COLUMNS)}) SELECT {_listed(FACT_COLUMNS)} FROM fact_stage"
    " ON CONFLICT (environment, uid) DO NOTHING RETURNING environment, uid"
)

SELECT_AGENTS = (
    f"SELECT id, {_listed((*_AGENT_KEY, *_AGENT_COLUMNS))} FROM events_agent WHERE ({_listed(_AGENT_KEY)}) IN (VALUES "
)
INSERT_AGENT = _insert("events_agent", (*_AGENT_KEY, *_AGENT_COLUMNS), tail=" ON CONFLICT DO NOTHING")
UPDATE_AGENT = "UPDATE events_agent SET " + ", ".join(f'"{name}" = %s' for name in _AGENT_COLUMNS) + " WHERE id = %s"

SELECT_BREAKERS = (
    f"SELECT agent_id, breaker, {_listed(_BREAKER_COLUMNS)} FROM events_breakerstate"
    " WHERE (agent_id, breaker) IN (VALUES "
)
UPSERT_BREAKER = _insert(
    "events_breakerstate",
    ("environment", "agent_id", "breaker", *_BREAKER_COLUMNS),
    tail=f" ON CONFLICT (environment, breaker, agent_id) DO UPDATE SET {_overwrite(_BREAKER_COLUMNS)}",
)

_INTERVAL_OF = "FROM events_degradation WHERE agent_id = %s AND operation = %s AND kind = %s"
SELECT_INTERVALS_FROM = f"SELECT id {_INTERVAL_OF} AND last_position >= %s"
SELECT_INTERVAL_BEFORE = (
    f"SELECT id, {_listed(INTERVAL_COLUMNS)} {_INTERVAL_OF} AND last_position < %s ORDER BY last_position DESC LIMIT 1"
)
INSERT_INTERVAL = _insert("events_degradation", ("environment", "agent_id", "operation", "kind", *INTERVAL_COLUMNS))
# The words stand in the statement itself: SQLite uses a partial index only for a condition it can read.
SELECT_MARKERS = (
    f"SELECT {_listed(FACT_COLUMNS)} FROM events_fact WHERE agent_id = %s AND operation = %s AND at_us >= %s"
    f" AND event IN ({', '.join(map(repr, DEGRADATION_EVENTS))})"
)

ADD_SUM = _insert(
    "events_minutesum",
    (*_SUM_KEY, *SumName._fields[2:], *COUNTERS),
    tail=(
        f" ON CONFLICT ({_listed(_SUM_KEY)}) DO UPDATE SET "
        + ", ".join(f'"{name}" = events_minutesum."{name}" + excluded."{name}"' for name in COUNTERS)
    ),
)
