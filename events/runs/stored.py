"""Reads the facts of runs: of each run some, however many it has, so that the price of a list is that of its rows."""

# ruff: noqa: S608  (only names of our own columns and events are put together; every value is a parameter)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson
from django.db import connection
from django.db.models import QuerySet

from events.models import Fact
from events.moments import from_us
from events.queries.readings import category_or_none
from events.runs.rows import RunFact
from events.runs.story import TOLD

AT_ONCE = 200
"""SQLite puts no more than 500 selections together, and a run takes two."""
FEW = 64
"""Most runs have no more facts than this: many such runs are read whole, which is quicker than to look for the ends of
each."""
_NAMED_AT_ONCE = 2_000
"""Where runs are only named, they are but parameters of one selection."""
_COLUMNS = (
    *("at_us", "sequence_number", "id", "event", "operation", "breaker", "category", "state", "provider", "model"),
    *("source", "is_foreground", "trace_id", "span_id"),
)
_WANTED = ", ".join((*_COLUMNS, "run", "agent_id"))
# The words stand in the statement itself: SQLite uses a partial index only for a condition it can read. And without
# `likely` it would look for all runs after '' in the index, instead of for these.
IS_INDEXED = {"sqlite": "likely(run > '')", "postgresql": "run > ''"}
"""What a statement that looks for named runs has to say, by engine, to be answered by the index `fact_by_run`."""
_OF_TOLD = f"event IN ({', '.join(map(repr, TOLD))})"
_OF_RUN = (
    f"SELECT {_WANTED}, attributes FROM events_fact WHERE environment = %s AND at_us >= %s AND run = {{run}}"
    f" AND {{is_indexed}} AND {_OF_TOLD}"
    " ORDER BY at_us {way}, sequence_number {way}, id {way} LIMIT %s"
)


def facts_of(
    environment: str, runs: Sequence[str], *, first: int, newest: int, since_us: int = 0
) -> Iterator[tuple[str, RunFact]]:
    """The first and the newest facts of each of these runs since a moment, each once, in order.

    A query for each `AT_ONCE` runs, two where they have many facts. Index: `fact_by_run`; on PostgreSQL that of each
    day since then.
    """
    for begin in range(0, len(runs), AT_ONCE):
        some = runs[begin : begin + AT_ONCE]
        whole = _whole(environment, some, since_us) if len(some) > 1 else None
        rows = _ends_of(environment, some, first, newest, since_us) if whole is None else _cut(whole, first, newest)
        for run, *columns in rows:
            yield run, _fact(*columns)


def begun_before(environment: str, runs: Sequence[str], us: int) -> set[str]:
    """Those of these runs of which there is a fact from before a moment. A query for each 2,000; `fact_by_run`."""
    found: set[str] = set()
    is_indexed = IS_INDEXED[connection.vendor]
    for begin in range(0, len(runs), _NAMED_AT_ONCE):
        some = list(runs[begin : begin + _NAMED_AT_ONCE])
        if connection.vendor == "postgresql":
            earlier = f"SELECT FROM events_fact WHERE environment = %s AND run = r.name AND {is_indexed} AND at_us < %s"
            statement = f"SELECT r.name FROM unnest(%s::text[]) AS r(name), LATERAL ({earlier} LIMIT 1) o"
            values: list[Any] = [some, environment, us]
        else:
            among = ", ".join(["%s"] * len(some))
            statement = (
                f"SELECT DISTINCT run FROM events_fact WHERE environment = %s AND run IN ({among})"
                f" AND {is_indexed} AND at_us < %s"
            )
            values = [environment, *some, us]
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            found.update(run for (run,) in cursor.fetchall())
    return found


def facts_of_run(environment: str, run: str) -> QuerySet[Fact]:
    """All facts of one run, in no order; `fact_by_run`."""
    found = Fact.objects.filter(environment=environment, run=run)
    return found.extra(where=[IS_INDEXED[connection.vendor]])  # noqa: S610  (a constant)


def is_told_of(environment: str, run: str) -> bool:
    """Whether any fact names this run. One query; `fact_by_run`."""
    return facts_of_run(environment, run).exists()


def _whole(environment: str, runs: Sequence[str], since_us: int) -> list[tuple[Any, ...]] | None:
    """All facts of these runs, run by run and in order; None where they have more than a `FEW` each."""
    most = FEW * len(runs)
    if connection.vendor == "postgresql":
        named, value = "unnest(%s::text[]) AS r(value) JOIN", list(runs)
    else:  # the words say in which order: it would rather look through all runs
        named, value = "json_each(%s) r CROSS JOIN", orjson.dumps(list(runs)).decode()
    statement = (
        f"{_selected()} FROM {named} events_fact f ON f.run = r.value JOIN events_agent a ON a.id = f.agent_id"
        f" WHERE f.environment = %s AND f.at_us >= %s AND {IS_INDEXED[connection.vendor]} AND {_OF_TOLD}"
        " LIMIT %s"
    )
    rows = _rows(statement, [value, environment, since_us, most + 1])
    return None if len(rows) > most else sorted(rows)  # by run and in order, as their first columns are


def _cut(rows: list[tuple[Any, ...]], first: int, newest: int) -> Iterator[tuple[Any, ...]]:
    """The first and the newest of each run, of all its facts."""
    for _, of_run in groupby(rows, key=itemgetter(0)):
        told = list(of_run)
        yield from told if len(told) <= first + newest else [*told[:first], *told[len(told) - newest :]]


def _ends_of(
    environment: str, runs: Sequence[str], first: int, newest: int, since_us: int
) -> Iterator[tuple[Any, ...]]:
    """The same, looked for from both ends of each run."""
    ends = [end for end in (("ASC", first), ("DESC", newest)) if end[1]]
    if connection.vendor == "postgresql":
        found, values = _of_all(environment, since_us, runs, ends)
    else:
        found, values = _of_each(environment, since_us, runs, ends)
    joined = f"{_selected()} FROM ({found}) f JOIN events_agent a ON a.id = f.agent_id"
    seen: set[int] = set()
    for row in _rows(f"{joined} ORDER BY f.at_us, f.sequence_number, f.id", values):
        fact_id = row[3]
        if fact_id not in seen:
            seen.add(fact_id)
            yield row


def _selected() -> str:
    columns = ", ".join(f"f.{column}" for column in _COLUMNS)
    said = "f.attributes::text" if connection.vendor == "postgresql" else "f.attributes"
    return f"SELECT f.run, {columns}, a.service, a.instance, a.version, {said}"


def _rows(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


def _of_run(run: str, way: str) -> str:
    return _OF_RUN.format(run=run, way=way, is_indexed=IS_INDEXED[connection.vendor])


_Ends = Sequence[tuple[str, int]]
"""From which ends of a run, ascending or descending, how many facts."""


def _of_each(environment: str, since_us: int, runs: Sequence[str], ends: _Ends) -> tuple[str, list[Any]]:
    """A statement with a part for each run, which SQLite plans in no time."""
    parts = [(run, way, count) for run in runs for way, count in ends]
    found = (f"SELECT * FROM ({_of_run('%s', way)})" for _, way, _ in parts)
    return " UNION ALL ".join(found), [
        value for run, _, count in parts for value in (environment, since_us, run, count)
    ]


def _of_all(environment: str, since_us: int, runs: Sequence[str], ends: _Ends) -> tuple[str, list[Any]]:
    """One plan for all runs: PostgreSQL would take longer to plan each of them, in every partition, than to read it."""
    named = "SELECT o.* FROM unnest(%s::text[]) AS r(name), LATERAL"
    found = (f"{named} ({_of_run('r.name', way)}) o" for way, _ in ends)
    return " UNION ALL ".join(found), [
        value for _, count in ends for value in (list(runs), environment, since_us, count)
    ]


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
