"""Reads the events of runs: of each run so many from its ends."""

# ruff: noqa: S608  (only names of our own columns and events are put together; every value is a parameter)

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson
from django.db import connection
from django.db.models import QuerySet

from events.models import Fact
from events.moments import US_PER_S, from_us
from events.queries.readings import category_or_none
from events.runs.fold import RUN_EVENTS
from events.runs.rows import RunFact
from events.runs.store import IS_INDEXED

LASTS_US = 2 * 86_400 * US_PER_S
"""Most runs take no longer."""
AT_ONCE = 500
"""The facts of so many runs are held at once."""
_COLUMNS = (
    *("at_us", "sequence_number", "id", "event", "operation", "breaker", "category", "state", "provider", "model"),
    *("source", "is_foreground", "trace_id", "span_id"),
)
_ID = 1 + _COLUMNS.index("id")
"""Where a fact's number stands behind the run."""
_OF_RUN = (
    "SELECT {what} FROM events_fact WHERE environment = %s AND at_us >= %s AND run = {run}"
    f" AND {{is_indexed}} AND event IN ({', '.join(map(repr, sorted(RUN_EVENTS)))})"
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
