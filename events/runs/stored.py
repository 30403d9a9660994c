"""Reads the facts of runs: of each run some, however many it has, so that the price of a list is that of its rows."""

# ruff: noqa: S608  (only names of our own columns and events are put together; every value is a parameter)

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson
from django.db import connection
from django.db.models import QuerySet

from events.models import Fact
from events.moments import from_us
from events.partitions import is_partitioned
from events.queries.readings import category_or_none
from events.runs.days import begun_by
from events.runs.rows import RunFact
from events.runs.story import TOLD

AT_ONCE = 500
"""The facts of so many runs are held at once."""
_NAMED_AT_ONCE = 2_000
"""Where runs are only named, they are but parameters of one selection."""
_COLUMNS = (
    *("at_us", "sequence_number", "id", "event", "operation", "breaker", "category", "state", "provider", "model"),
    *("source", "is_foreground", "trace_id", "span_id"),
)
_ID = 1 + _COLUMNS.index("id")
"""Where a fact's number stands behind the run."""
_IN_BRIEF = (
    *("at_us", "sequence_number", "id", "event", "operation", "breaker", "category", "source", "agent_id"),
    "attributes",
)
_BACKEND = ("provider", "model")
_FEW = 64
"""A run of so many facts is read whole, which is quicker than to look for its ends, and cut then."""
# The words stand in the statement itself: SQLite uses a partial index only for a condition it can read. And without
# `likely` it would look for all runs after '' in the index, instead of for these.
IS_INDEXED = {"sqlite": "likely(run > '')", "postgresql": "run > ''"}
"""What a statement that looks for named runs has to say, by engine, to be answered by the index `fact_by_run`."""
_OF_RUN = (
    "SELECT {what} FROM events_fact WHERE environment = %s AND at_us >= %s AND run = {run}"
    f" AND {{is_indexed}} AND event IN ({', '.join(map(repr, TOLD))})"
    " ORDER BY at_us {way}, sequence_number {way}, id {way} LIMIT %s"
)


def facts_of(
    environment: str, runs: Sequence[str], *, first: int, newest: int, since_us: int = 0
) -> Iterator[tuple[str, RunFact]]:
    """The first and the newest facts of each of these runs since a moment, each once, in order.

    A query for each `AT_ONCE` runs. Index: `fact_by_run`; on PostgreSQL that of each day since then.
    """
    for begin in range(0, len(runs), AT_ONCE):
        rows = _facts_of(environment, runs[begin : begin + AT_ONCE], first, newest, since_us)
        for run, *columns in sorted(rows):  # by run and in order, as their first columns are
            yield run, _fact(*columns)


class BriefFact(NamedTuple):
    """A fact of a run as it lies in the store. They are read as bare tuples of this shape: of many, each name costs."""

    place: int
    """Of its run, among those that were asked for."""
    at_us: int
    sequence_number: int
    fact_id: int
    event: str
    operation: str
    breaker: str
    category: str
    source: str
    agent: int
    attributes: str
    provider: str = ""
    """This and the model are left out where nobody asks for them."""
    model: str = ""


class Teller(NamedTuple):
    """Who told a fact."""

    service: str
    instance: str
    version: str


def briefs_of(
    environment: str,
    runs: Sequence[str],
    *,
    first: int,
    newest: int,
    since_us: int = 0,
    has_backends: bool = False,
) -> tuple[Sequence[Sequence[Any]], dict[int, Teller]]:
    """The same of at most `AT_ONCE` runs as `facts_of`, as rows (`BriefFact`) that are in order; and who told them.

    Two queries; on SQLite three, and one more where some run has more than `_FEW` facts. Index: `fact_by_run`.
    """
    if not runs:
        return [], {}
    with connection.cursor() as cursor:

        def read(statement: str, values: Sequence[Any]) -> list[Any]:
            cursor.execute(statement, values)
            found: list[Any] = cursor.fetchall()
            return found

        asked = _Asked(read, environment, since_us, (*_IN_BRIEF, *_BACKEND) if has_backends else _IN_BRIEF)
        is_postgres = connection.vendor == "postgresql"
        rows = (_ends_in_brief if is_postgres else _short_and_long)(asked, list(enumerate(runs)), first, newest)
        rows.sort()  # by run and in order, as their first columns are
        agents = list({row[_AGENT] for row in rows})
        among = ", ".join(["%s"] * len(agents))
        named = read(f"SELECT id, service, instance, version FROM events_agent WHERE id IN ({among})", agents)
    return rows, {number: Teller(*names) for number, *names in named}


_AGENT = BriefFact._fields.index("agent")


class _Asked(NamedTuple):
    """What is asked of runs: where, since when, and which columns of their facts."""

    read: Callable[[str, Sequence[Any]], list[Any]]
    environment: str
    since_us: int
    columns: Sequence[str]


def _short_and_long(asked: _Asked, named: Sequence[tuple[int, str]], first: int, newest: int) -> list[Any]:
    """For SQLite: runs of few facts in one go along the index, the others by their ends."""
    of_run = f"environment = %s AND at_us >= %s AND run = r.value AND {IS_INDEXED['sqlite']}"
    counted = f"SELECT count(*) FROM (SELECT 1 FROM events_fact WHERE {of_run} LIMIT {_FEW + 1})"
    of = [asked.environment, asked.since_us, orjson.dumps([run for _, run in named]).decode()]
    counts = asked.read(f"SELECT r.key, ({counted}) FROM json_each(%s) r", of)
    long = {place for place, count in counts if count > _FEW}
    short = orjson.dumps([None if place in long else run for place, run in named]).decode()
    columns = ", ".join(f"f.{column}" for column in asked.columns)
    told = f"f.event IN ({', '.join(map(repr, TOLD))})"
    whole = f"SELECT r.key, {columns} FROM json_each(%s) r CROSS JOIN events_fact f WHERE {of_run} AND {told}"
    rows = asked.read(whole, [short, asked.environment, asked.since_us])
    return rows + _ends_in_brief(asked, [named[place] for place in sorted(long)], first, newest)


def _ends_in_brief(asked: _Asked, named: Sequence[tuple[int, str]], first: int, newest: int) -> list[Any]:
    """Rows of these runs by their ends, each once; `named` are their places and names."""
    if not named:
        return []
    is_postgres = connection.vendor == "postgresql"
    ends = [end for end in (("ASC", first), ("DESC", newest)) if end[1]]
    runs = [run for _, run in named]
    found, values = (_of_all if is_postgres else _of_each)(asked.environment, asked.since_us, runs, ends)
    # As text: on PostgreSQL it is JSON of its own type.
    columns = ", ".join(f"f.{one}{'::text' * (is_postgres and one == 'attributes')}" for one in asked.columns)
    place_of = {run: place for place, run in named}
    rows = asked.read(f"SELECT f.run, {columns} FROM {found}", values)
    return list({row[_ID]: (place_of[row[0]], *row[1:]) for row in rows}.values())


def begun_before(environment: str, runs: Sequence[str], us: int) -> dict[str, int]:
    """Those of these runs of which there is a fact from before a moment, and a moment before which none is.

    On PostgreSQL a run that began later in the day of that moment may be among them. A query for each 2,000, two where
    it is not noted of which days they are; primary key, `fact_by_run`.
    """
    found: dict[str, int] = {}
    for begin in range(0, len(runs), _NAMED_AT_ONCE):
        some = list(runs[begin : begin + _NAMED_AT_ONCE])
        noted = begun_by(environment, some, us) if is_partitioned() else None
        found |= dict.fromkeys(_asked_each_day(environment, some, us), 0) if noted is None else noted
    return found


def _asked_each_day(environment: str, runs: Sequence[str], us: int) -> list[str]:
    """Those of these runs of which there is a fact from before a moment."""
    is_indexed = IS_INDEXED[connection.vendor]
    if connection.vendor == "postgresql":
        earlier = f"SELECT FROM events_fact WHERE environment = %s AND run = r.name AND {is_indexed} AND at_us < %s"
        statement = f"SELECT r.name FROM unnest(%s::text[]) AS r(name), LATERAL ({earlier} LIMIT 1) o"
        values: list[Any] = [list(runs), environment, us]
    else:
        among = ", ".join(["%s"] * len(runs))
        statement = (
            f"SELECT DISTINCT run FROM events_fact WHERE environment = %s AND run IN ({among})"
            f" AND {is_indexed} AND at_us < %s"
        )
        values = [environment, *runs, us]
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return [run for (run,) in cursor.fetchall()]


def facts_among(environment: str, runs: Sequence[str]) -> QuerySet[Fact]:
    """All facts of these runs, in no order; `fact_by_run`."""
    if connection.vendor != "postgresql":
        found = Fact.objects.filter(environment=environment, run__in=runs)
        return found.extra(where=[IS_INDEXED[connection.vendor]])  # noqa: S610  (a constant)
    # Of runs that stand in the statement PostgreSQL would reckon for each how frequent it is, and in each day anew.
    among = "run = ANY(ARRAY(SELECT unnest(%s::text[])))"
    found = Fact.objects.filter(environment=environment)
    return found.extra(where=[IS_INDEXED[connection.vendor], among], params=[list(runs)])  # noqa: S610  (constants)


def facts_of_run(environment: str, run: str) -> QuerySet[Fact]:
    """All facts of one run, in no order; `fact_by_run`."""
    found = Fact.objects.filter(environment=environment, run=run)
    return found.extra(where=[IS_INDEXED[connection.vendor]])  # noqa: S610  (a constant)


def is_told_of(environment: str, run: str) -> bool:
    """Whether any fact names this run. One query; `fact_by_run`."""
    # In order, because PostgreSQL would look for just one in any index that begins with the environment.
    return bool(facts_of_run(environment, run).order_by("at_us").values_list("at_us")[:1])


def _facts_of(
    environment: str, runs: Sequence[str], first: int, newest: int, since_us: int
) -> Iterable[tuple[Any, ...]]:
    ends = [end for end in (("ASC", first), ("DESC", newest)) if end[1]]
    is_postgres = connection.vendor == "postgresql"
    found, values = (_of_all if is_postgres else _of_each)(environment, since_us, runs, ends)
    columns = ", ".join(f"f.{column}" for column in _COLUMNS)
    said = "f.attributes::text" if is_postgres else "f.attributes"
    statement = (
        f"SELECT f.run, {columns}, a.service, a.instance, a.version, {said}"
        f" FROM {found} JOIN events_agent a ON a.id = f.agent_id"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return {row[_ID]: row for row in cursor.fetchall()}.values()


_Ends = Sequence[tuple[str, int]]
"""From which ends of a run, ascending or descending, how many facts."""


def _of_each(environment: str, since_us: int, runs: Sequence[str], ends: _Ends) -> tuple[str, list[Any]]:
    """For SQLite, which knows no lateral joins: the facts by their numbers, which are looked for run by run."""
    numbers = " UNION ".join(f"SELECT id FROM ({_of_run('r.value', way, 'id')})" for way, _ in ends)
    values = [value for _, count in ends for value in (environment, since_us, count)]
    named = orjson.dumps(list(runs)).decode()
    return f"json_each(%s) r CROSS JOIN events_fact f ON f.id IN ({numbers})", [named, *values]


def _of_all(environment: str, since_us: int, runs: Sequence[str], ends: _Ends) -> tuple[str, list[Any]]:
    """For PostgreSQL, which would look for a fact by its number in every partition."""
    wanted = ", ".join((*_COLUMNS, "run", "agent_id"))
    named = "SELECT o.* FROM unnest(%s::text[]) AS r(value), LATERAL"
    found = " UNION ALL ".join(f"{named} ({_of_run('r.value', way, wanted + ', attributes')}) o" for way, _ in ends)
    return f"({found}) f", [value for _, count in ends for value in (list(runs), environment, since_us, count)]


def _of_run(run: str, way: str, what: str) -> str:
    return _OF_RUN.format(what=what, run=run, way=way, is_indexed=IS_INDEXED[connection.vendor])


def _fact(
    at_us: int,
    sequence_number: int,
    fact_id: int,
    event: str,
    operation: str,
    breaker: str,
    category: str,
    state: str,
    provider: str,
    model: str,
    source: str,
    is_foreground: bool,
    trace_id: str,
    span_id: str,
    service: str,
    instance: str,
    version: str,
    attributes: str,
) -> RunFact:
    said = orjson.loads(attributes)
    return RunFact(
        fact_id,
        from_us(at_us),
        event,
        operation,
        breaker,
        category_or_none(category),
        state,
        provider,
        model,
        source,
        bool(is_foreground),
        service,
        instance,
        version,
        said if isinstance(said, dict) else {},
        trace_id,
        span_id,
    )
