"""The statements of the store, for SQLite and PostgreSQL. Only names of our own columns are put together here."""

# ruff: noqa: S608  (no value ever becomes part of a statement: values are parameters)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache

from django.apps import apps
from django.db import connection

from events.deployments.told import Told, VersionName
from events.issues.fold import Failed, KindName, SumName
from events.models import DEGRADATION_EVENTS, UID_BYTES
from events.projections.fold import AGENT_GROUPS, BREAKER_COLUMNS, SETTINGS_COLUMNS, Interval
from events.projections.summing import COUNTERS, DIMENSIONS
from events.runs.fold import RUN_COLUMNS, RUN_KEY

FACT_COLUMNS = (
    *("environment", "uid", "agent_id", "event", "at_us", "received_us", "stated_us", "sequence_number", "severity"),
    *("operation", "breaker", "source", "is_foreground", "run", "category", "state", "provider", "model", "region"),
    *("trace_id", "span_id", "attributes", "body"),
)
"""Every column of a fact but its id, which the database counts."""
SHARED_COLUMNS = (
    *("environment", "agent_id", "received_us", "event", "severity", "operation", "breaker", "source"),
    *("is_foreground", "category", "state", "provider", "model", "region"),
)
"""Those in which many facts of a transaction say the same: they are written once for all of them."""
OWN_COLUMNS = tuple(column for column in FACT_COLUMNS if column not in SHARED_COLUMNS)


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _insert(table: str, columns: Sequence[str], *, tail: str = "") -> str:
    return f"INSERT INTO {table} ({_listed(columns)}) VALUES ({', '.join(['%s'] * len(columns))}){tail}"


def _places(values: int, rows: int) -> str:
    return ", ".join([f"({', '.join(['?'] * values)})"] * rows)


@dataclass(frozen=True, slots=True)
class Merge:
    """Rows into one table, each inserted or joined to the one with its key.

    SQLite takes many rows in one statement, because it runs without the interpreter's lock and asks for it again after
    each. PostgreSQL takes an array for each column, of which it reads few words.
    """

    table: str
    columns: tuple[str, ...]
    tail: str
    """What to do with a row whose key is there, from ON CONFLICT on."""
    locks_in_order: bool = False
    """Whether PostgreSQL has to lock rows in the order of their keys, which are the first columns, against deadlocks.
    Rows of agents need none: those are locked."""

    @cache  # noqa: B019  # a handful of constants
    def insert(self, rows: int) -> str:
        """So many rows by one statement of SQLite."""
        return f"{self._into} VALUES {_places(len(self.columns), rows)} {self.tail}"

    @cache  # noqa: B019
    def by_arrays(self) -> str:
        """Rows by one statement of PostgreSQL, in their order."""
        [model] = [one for one in apps.get_models() if one._meta.db_table == self.table]
        types = {one.column: one.db_type(connection) or "" for one in model._meta.local_fields}
        # A cast to varchar(n) would cut what is too long without a word.
        words = ("text" if types[one].startswith("varchar") else types[one] for one in self.columns)
        return f"{self._into} SELECT * FROM unnest({', '.join(f'%s::{one}[]' for one in words)}) {self.tail}"

    @property
    def _into(self) -> str:
        return f"INSERT INTO {self.table} ({_listed(self.columns)})"


@dataclass(frozen=True, slots=True)
class Read:
    """The rows of a table whose key is one of those asked for."""

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]

    def by_values(self, count: int) -> str:
        """With a place for each value of so many keys."""
        places = f"({', '.join(['%s'] * len(self.key))})"
        return f"{self._select} ({_listed(self.key)}) IN (VALUES {', '.join([places] * count)})"

    def by_arrays(self, first: Sequence[object], tail: str) -> str:
        """With an array for each column of the key, as the first key has them: PostgreSQL reads fewer words."""
        return f"{self._select} ({_listed(self.key)}) IN (SELECT * FROM {_unnested(first)}){tail}"

    def one_by_one(self, first: Sequence[object], tail: str = "") -> str:
        """The same, with a look into an index for each key: asked for a hundred, PostgreSQL would read the table."""
        same = " AND ".join(f'"{column}" = asked."_{column}"' for column in self.key)
        asked = ", ".join(f'"_{column}"' for column in self.key)
        return (
            f"SELECT found.* FROM {_unnested(first)} AS asked({asked})"
            f" CROSS JOIN LATERAL ({self._select} {same} LIMIT 1{tail}) AS found"
        )

    @property
    def _select(self) -> str:
        return f"SELECT {_listed(self.columns)} FROM {self.table} WHERE"


def _unnested(first: Sequence[object]) -> str:
    arrays = ("%s::bigint[]" if isinstance(value, int) else "%s::text[]" for value in first)
    return f"unnest({', '.join(arrays)})"


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
_SPAN_KEY = ("environment", "view", "minutes", "span", "dimensions")


def _added(table: str) -> str:
    return ", ".join(f'"{name}" = {table}."{name}" + excluded."{name}"' for name in COUNTERS)


MAKE_HEADS = f"CREATE TEMP TABLE IF NOT EXISTS events_head (number INTEGER PRIMARY KEY, {_listed(SHARED_COLUMNS)})"
"""For SQLite: what facts of a transaction have in common. Columns without types keep what they are given."""
FORGET_HEADS = "DELETE FROM temp.events_head"


@cache
def insert_heads(count: int) -> str:
    """So many heads by one statement of SQLite, each a number and its `SHARED_COLUMNS`."""
    return f"INSERT INTO temp.events_head VALUES {_places(1 + len(SHARED_COLUMNS), count)}"


@cache
def insert_facts(count: int) -> str:
    """So many facts by one statement of SQLite, each the number of its head and its `OWN_COLUMNS`.

    Not INSERT OR IGNORE, which would pass over a row that breaks *any* constraint, and we would acknowledge it; and a
    left join, because a fact without a head has to fail.
    """
    own = ", ".join(f"told.column{number}" for number in range(2, 2 + len(OWN_COLUMNS)))
    return (
        f"INSERT INTO events_fact ({_listed((*SHARED_COLUMNS, *OWN_COLUMNS))})"
        f" SELECT {_listed(SHARED_COLUMNS)}, {own} FROM (VALUES {_places(1 + len(OWN_COLUMNS), count)}) AS told"
        " LEFT JOIN temp.events_head AS head ON head.number = told.column1"
        " WHERE true ON CONFLICT (environment, uid) DO NOTHING"
    )


COPY_FACTS = f"COPY events_fact ({_listed((*SHARED_COLUMNS, *OWN_COLUMNS))}) FROM STDIN"
"""For PostgreSQL, as lines of `copying`."""
_PIECE = f"substring(%s::bytea FROM place + 1 FOR {UID_BYTES})"
_PIECES = f"generate_series(0, %s - 1, {UID_BYTES}) AS place"
"""Ids in one piece: each by itself takes the driver, which writes all into the statement, twelve times as long."""
TAKE_IDS = f"INSERT INTO events_factid (environment, uid, batch, day) SELECT %s, {_PIECE}, %s, %s FROM {_PIECES}"
"""For PostgreSQL, where a unique index cannot reach over partitions."""
TAKE_NEW_IDS = f"{TAKE_IDS} ON CONFLICT DO NOTHING"
_KNOWN = (
    f"FROM (SELECT {_PIECE} AS uid FROM {_PIECES} OFFSET 0) AS asked CROSS JOIN LATERAL"
    " (SELECT batch FROM events_factid WHERE environment = %s AND uid = asked.uid LIMIT 1) AS known"
)
"""A look into the index for each id: asked for a set, PostgreSQL reads all ids while it has no statistics of them."""
ONE_OF_IDS = f"SELECT 1 {_KNOWN} LIMIT 1"
IDS_OF_BATCH = f"SELECT asked.uid {_KNOWN} WHERE known.batch = %s"
SUMS = Merge(
    "events_minutesum",
    (*_SUM_KEY, "subject", *DIMENSIONS, *COUNTERS),
    f"ON CONFLICT ({_listed(_SUM_KEY)}) DO UPDATE SET {_added('events_minutesum')}",
    locks_in_order=True,
)
SPANS = Merge(
    "events_spansum",
    (*_SPAN_KEY, "subject", *DIMENSIONS, *COUNTERS),
    f"ON CONFLICT ({_listed(_SPAN_KEY)}) DO UPDATE SET {_added('events_spansum')}",
    locks_in_order=True,
)
_LANE_KEY = ("environment", "breaker", "minutes", "span", "agent_id")


def _further(column: str, sign: str, table: str = "events_instancemoves") -> str:
    mine, theirs = f'{table}."{column}"', f'excluded."{column}"'
    return f'"{column}" = CASE WHEN {theirs} {sign} {mine} THEN {theirs} ELSE {mine} END'


LANES = Merge(
    "events_instancemoves",
    (*_LANE_KEY, "moves", "worst", "first", "last"),
    f"ON CONFLICT ({_listed(_LANE_KEY)}) DO UPDATE SET moves = events_instancemoves.moves + excluded.moves,"
    f" {_further('worst', '>')}, {_further('first', '<')}, {_further('last', '>')}",
)
_VERSION_KEY = VersionName._fields
VERSIONS = Merge(
    "events_serviceversion",
    (*_VERSION_KEY, *Told._fields),
    f"ON CONFLICT ({_listed(_VERSION_KEY)}) DO UPDATE SET {_further('first_us', '<', 'events_serviceversion')},"
    f" {_further('last_us', '>', 'events_serviceversion')}, {_further('beat_us', '>', 'events_serviceversion')}",
    locks_in_order=True,
)
_BREAKER_KEY = ("environment", "breaker", "agent_id")
BREAKERS = Merge(
    "events_breakerstate",
    (*_BREAKER_KEY, *_BREAKER_COLUMNS),
    f"ON CONFLICT ({_listed(_BREAKER_KEY)}) DO UPDATE SET {_overwrite(_BREAKER_COLUMNS)}",
)
_SETTINGS_KEY = ("agent_id", "operation")
_SETTINGS_COLUMNS = ("position", *SETTINGS_COLUMNS)
SETTINGS = Merge(
    "events_settingsinforce",
    ("environment", *_SETTINGS_KEY, *_SETTINGS_COLUMNS),
    f"ON CONFLICT ({_listed(_SETTINGS_KEY)}) DO UPDATE SET {_overwrite(_SETTINGS_COLUMNS)}",
)
_RUN_FAILURE_KEY = ("environment", "run", "kind")
RUNS = Merge(
    "events_run",
    (*RUN_KEY, *RUN_COLUMNS),
    f"ON CONFLICT ({_listed(RUN_KEY)}) DO UPDATE SET {_overwrite(RUN_COLUMNS)}",
    locks_in_order=True,
)
NEW_RUNS = Merge(
    "events_run", RUNS.columns, f"ON CONFLICT DO NOTHING RETURNING {_listed(RUN_KEY)}", locks_in_order=True
)
FAILURE_KINDS = Merge(
    "events_failurekind",
    ("digest", *KindName._fields),
    "ON CONFLICT (digest) DO NOTHING",
    locks_in_order=True,
)


def _failures(table: str, key: tuple[str, ...]) -> Merge:
    return Merge(
        table,
        (*key, *Failed._fields),
        f"ON CONFLICT ({_listed(key)}) DO UPDATE SET failures = {table}.failures + excluded.failures,"
        f" {_further('first_us', '<', table)}, {_further('last_us', '>', table)}",
        locks_in_order=True,
    )


RUN_FAILURES = _failures("events_runfailure", _RUN_FAILURE_KEY)
FAILURE_SUMS = _failures("events_failuresum", SumName._fields)
INSTANCE_FAILURE_SUMS = _failures("events_instancefailuresum", (*SumName._fields, "agent_id"))
AGENTS = Merge(
    "events_agent",
    (*_AGENT_KEY, *_AGENT_COLUMNS),
    f"ON CONFLICT ({_listed(_AGENT_KEY)}) DO UPDATE SET changes = events_agent.changes + 1,"
    f" {_overwrite(_AGENT_COLUMNS)}",
)

READ_AGENTS = Read("events_agent", _AGENT_KEY, ("id", *_AGENT_KEY, *_AGENT_COLUMNS))
FIND_AGENTS = Read("events_agent", _AGENT_KEY, ("id",))
READ_AGENTS_BY_ID = Read("events_agent", ("id",), READ_AGENTS.columns)
INSERT_AGENT = _insert("events_agent", (*_AGENT_KEY, *_AGENT_COLUMNS), tail=" ON CONFLICT DO NOTHING")
READ_BREAKERS = Read("events_breakerstate", _BREAKER_KEY, (*_BREAKER_KEY, *_BREAKER_COLUMNS))
READ_SETTINGS = Read("events_settingsinforce", _SETTINGS_KEY, (*_SETTINGS_KEY, *_SETTINGS_COLUMNS))
READ_RUNS = Read("events_run", RUN_KEY, (*RUN_KEY, "fold"))
READ_VERSIONS = Read("events_serviceversion", _VERSION_KEY, (*_VERSION_KEY, *Told._fields))
_INTERVAL_OF = "FROM events_degradation WHERE agent_id = %s AND operation = %s AND kind = %s"
SELECT_INTERVAL_FROM = (
    f"SELECT id, last_position, ended_us {_INTERVAL_OF} AND last_position >= %s ORDER BY last_position LIMIT 1"
)
SELECT_INTERVAL_BEFORE = (
    f"SELECT id, {_listed(INTERVAL_COLUMNS)} {_INTERVAL_OF} AND last_position < %s ORDER BY last_position DESC LIMIT 1"
)
INSERT_INTERVAL = _insert("events_degradation", ("environment", "agent_id", "operation", "kind", *INTERVAL_COLUMNS))
# The words stand in the statement itself: SQLite uses a partial index only for a condition it can read.
SELECT_MARKERS = (
    f"SELECT {_listed(FACT_COLUMNS)} FROM events_fact WHERE agent_id = %s AND operation = %s"
    f" AND at_us BETWEEN %s AND %s AND event IN ({', '.join(map(repr, DEGRADATION_EVENTS))})"
)
