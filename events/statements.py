"""The statements of the store, for SQLite and PostgreSQL. Only names of our own columns are put together here."""

# ruff: noqa: S608  (no value ever becomes part of a statement: values are parameters)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache

from events import copying
from events.deployments.told import Told, VersionName
from events.fold import AGENT_GROUPS, BREAKER_COLUMNS, SETTINGS_COLUMNS, Interval
from events.models import DEGRADATION_EVENTS, UID_BYTES
from events.summing import COUNTERS, DIMENSIONS

FACT_COLUMNS = (
    *("environment", "uid", "agent_id", "event", "at_us", "received_us", "stated_us", "sequence_number", "severity"),
    *("operation", "breaker", "source", "is_foreground", "run", "category", "state", "provider", "model", "region"),
    *("trace_id", "span_id", "attributes", "body"),
)
"""Every column of a fact but its id, which the database counts."""


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _insert(table: str, columns: Sequence[str], *, tail: str = "") -> str:
    return f"INSERT INTO {table} ({_listed(columns)}) VALUES ({', '.join(['%s'] * len(columns))}){tail}"


@dataclass(frozen=True, slots=True)
class Merge:
    """Rows into one table, each inserted or joined to the one with its key.

    SQLite takes many rows in one statement, because it runs without the interpreter's lock and asks for it again after
    each. PostgreSQL takes them by COPY into a table of this session, and from there in one statement; few rows of
    agents in the statement itself.
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
        return self._with(rows, "?")

    @cache  # noqa: B019
    def with_few(self, rows: int) -> str:
        """So many rows by one statement of PostgreSQL."""
        return self._with(rows, "%s")

    def _with(self, rows: int, place: str) -> str:
        values = f"({', '.join([place] * len(self.columns))})"
        into = f"INSERT INTO {self.table} ({_listed(self.columns)})"
        return f"{into} VALUES {', '.join([values] * rows)} {self.tail}"

    @property
    def stage(self) -> str:
        """Make the table of this session. A transaction may fill it several times; places only grow."""
        return (
            f"CREATE TEMP TABLE IF NOT EXISTS {self.table}_waiting ON COMMIT DELETE ROWS"
            f" AS SELECT {_listed(self.columns)}, 0::bigint AS place FROM {self.table} WITH NO DATA"
        )

    @property
    def copy(self) -> str:
        """Fill it, behind each row its place."""
        return f"COPY {self.table}_waiting ({_listed(self.columns)}, place) FROM STDIN"

    @property
    def from_stage(self) -> str:
        """Take its rows over from a place on. A page with room left may hold a later row before an earlier one."""
        order = " ORDER BY place" if self.locks_in_order else ""
        return (
            f"INSERT INTO {self.table} ({_listed(self.columns)}) SELECT {_listed(self.columns)}"
            f" FROM {self.table}_waiting WHERE place >= %s{order} {self.tail}"
        )


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

    def one_by_one(self, first: Sequence[object]) -> str:
        """The same, with a look into an index for each key: asked for a hundred, PostgreSQL would read the table."""
        same = " AND ".join(f'"{column}" = asked."_{column}"' for column in self.key)
        asked = ", ".join(f'"_{column}"' for column in self.key)
        return (
            f"SELECT found.* FROM {_unnested(first)} AS asked({asked})"
            f" CROSS JOIN LATERAL ({self._select} {same} LIMIT 1) AS found"
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


# Not INSERT OR IGNORE, which would pass over a row that breaks *any* constraint, and we would acknowledge it.
FACTS = Merge("events_fact", FACT_COLUMNS, "ON CONFLICT (environment, uid) DO NOTHING")
"""For SQLite."""
COPY_FACTS = f"COPY events_fact ({_listed(copying.COLUMNS)}) FROM STDIN"
"""For PostgreSQL, as lines of `copying`."""
_ID_COLUMNS = ("environment", "uid", "batch", "day")
IDS = Merge("events_factid", _ID_COLUMNS, "ON CONFLICT DO NOTHING", locks_in_order=True)
"""For PostgreSQL, where a unique index cannot reach over partitions."""
_PIECE = f"substring(%s::bytea FROM place + 1 FOR {UID_BYTES})"
_PIECES = f"generate_series(0, %s - 1, {UID_BYTES}) AS place"
"""Ids in one piece: each by itself takes the driver, which writes all into the statement, twelve times as long."""
TAKE_IDS = f"INSERT INTO events_factid ({_listed(_ID_COLUMNS)}) SELECT %s, {_PIECE}, %s, %s FROM {_PIECES}"
_SAME_ID = "SELECT batch FROM events_factid WHERE environment = {environment} AND uid = asked.uid LIMIT 1"
"""A look into the index for each id: asked for a set, PostgreSQL reads all ids while it has no statistics of them."""
ONE_OF_IDS = (
    f"SELECT 1 FROM (SELECT {_PIECE} AS uid FROM {_PIECES} OFFSET 0) AS asked"
    f" CROSS JOIN LATERAL ({_SAME_ID.format(environment='%s')}) AS known LIMIT 1"
)
IDS_OF_BATCH = (
    "SELECT environment, uid FROM events_factid_waiting AS asked"
    f" CROSS JOIN LATERAL ({_SAME_ID.format(environment='asked.environment')}) AS known WHERE known.batch = %s"
)
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
AGENTS = Merge(
    "events_agent",
    (*_AGENT_KEY, *_AGENT_COLUMNS),
    f"ON CONFLICT ({_listed(_AGENT_KEY)}) DO UPDATE SET {_overwrite(_AGENT_COLUMNS)}",
)

READ_AGENTS = Read("events_agent", _AGENT_KEY, ("id", *_AGENT_KEY, *_AGENT_COLUMNS))
INSERT_AGENT = _insert("events_agent", (*_AGENT_KEY, *_AGENT_COLUMNS), tail=" ON CONFLICT DO NOTHING")
READ_BREAKERS = Read("events_breakerstate", _BREAKER_KEY, (*_BREAKER_KEY, *_BREAKER_COLUMNS))
READ_SETTINGS = Read("events_settingsinforce", _SETTINGS_KEY, (*_SETTINGS_KEY, *_SETTINGS_COLUMNS))
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
