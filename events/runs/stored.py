"""Reads the facts of runs: of each run some, however many it has, so that the price of a list is that of its rows."""

# ruff: noqa: S608  (only names of our own columns and events are put together; every value is a parameter)

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
_NAMED_AT_ONCE = 2_000
"""Where runs are only named, they are but parameters of one selection."""
_COLUMNS = (
    *("id", "at_us", "event", "operation", "breaker", "category", "state", "provider", "model", "source"),
    *("is_foreground", "trace_id", "span_id"),
)
_WANTED = ", ".join((*_COLUMNS, "run", "agent_id", "sequence_number"))
# The words stand in the statement itself: SQLite uses a partial index only for a condition it can read. And without
# `likely` it would look for all runs after '' in the index, instead of for these.
IS_INDEXED = {"sqlite": "likely(run > '')", "postgresql": "run > ''"}
"""What a statement that looks for named runs has to say, by engine, to be answered by the index `fact_by_run`."""
_OF_RUN = (
    f"SELECT {_WANTED}, attributes FROM events_fact WHERE environment = %s AND at_us >= %s AND run = {{run}}"
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
        yield from _facts_of(environment, runs[begin : begin + AT_ONCE], first, newest, since_us)


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


def _facts_of(
    environment: str, runs: Sequence[str], first: int, newest: int, since_us: int
) -> Iterator[tuple[str, RunFact]]:
    ends = [end for end in (("ASC", first), ("DESC", newest)) if end[1]]
    if connection.vendor == "postgresql":
        found, values = _of_all(environment, since_us, runs, ends)
    else:
        found, values = _of_each(environment, since_us, runs, ends)
    columns = ", ".join(f"f.{column}" for column in _COLUMNS)
    said = "f.attributes::text" if connection.vendor == "postgresql" else "f.attributes"
    statement = (
        f"SELECT f.run, {columns}, a.service, a.instance, a.version, {said} FROM ({found}) f"
        " JOIN events_agent a ON a.id = f.agent_id ORDER BY f.at_us, f.sequence_number, f.id"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows = cursor.fetchall()
    seen: set[int] = set()
    for run, fact_id, *rest in rows:
        if fact_id not in seen:
            seen.add(fact_id)
            yield run, _fact(fact_id, *rest)


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
    fact_id: int,
    at_us: int,
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
