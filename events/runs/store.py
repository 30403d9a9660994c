"""Joins what new events report of runs to the tables of runs, in the transaction that stores the events."""

# ruff: noqa: S608  (only names of our own are put together; every value is a parameter)

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from events.ingest.records import AgentName
from events.issues.fold import Failures, KindName, RunFailures, add_failures, digest_of
from events.runs.fold import RUN_EVENTS, RunFold, RunFolds, RunName, add_runs, run_values
from events.store import statements

if TYPE_CHECKING:
    from events.store.writes import StoreWriter

IS_INDEXED = {"sqlite": "likely(run > '')", "postgresql": "run > ''"}
"""What a statement that looks for named runs has to say, by engine, to be answered by the index `fact_by_run`.

SQLite uses a partial index only for a condition in the statement; without `likely` it looks for all runs after ''.
"""
_EVENTS = ", ".join(map(repr, sorted(RUN_EVENTS)))


def join_runs(
    writer: StoreWriter, runs: RunFolds, failures: RunFailures, altered: Collection[RunName]
) -> set[KindName]:
    """Add these to the tables; runs with an altered event are folded anew from all their events. Return the kinds of
    failures that were counted, whose rows the caller stores.
    """
    apart = set(altered)
    news = {name: runs[name] for name in sorted(runs) if name not in apart}
    counted = {name: failed for name, failed in failures.items() if RunName(name.environment, name.run) not in apart}
    if writer.is_postgres:
        _join_locked(writer, news)
    else:
        for name, known in _stored(writer, list(news)):
            news[name].join(known)
        writer.merge(statements.RUNS, _rows(news))
    if apart:
        again, counted_again = _fold_anew(writer, sorted(apart))
        writer.merge(statements.RUNS, _rows(again))
        counted |= counted_again
    counts = [(name.environment, name.run, digest_of(name.kind), *failed) for name, failed in counted.items()]
    writer.merge(statements.RUN_FAILURES, counts)
    return {name.kind for name in counted}


def _join_locked(writer: StoreWriter, news: RunFolds) -> None:
    """Runs that are new by their insertion; then the others, locked. Both in the order of their names, so two processes
    wait for each other and never for ever.
    """
    made = set[RunName]()
    for rows in writer.inserted(statements.NEW_RUNS, _rows(news)):
        made.update(RunName(*row) for row in rows)
    known = {name: fold for name, fold in news.items() if name not in made}
    for name, stored in _stored(writer, list(known)):
        known[name].join(stored)
    writer.merge(statements.RUNS, _rows(known))


def _rows(folds: Mapping[RunName, RunFold]) -> list[tuple[object, ...]]:
    return [(*name, *run_values(fold)) for name, fold in folds.items()]


def _stored(writer: StoreWriter, names: Sequence[RunName]) -> Iterator[tuple[RunName, RunFold]]:
    for rows in writer.read_by(statements.READ_RUNS, names, is_locked=True):
        for environment, run, packed in rows:
            yield RunName(environment, run), RunFold.of(packed)


def _fold_anew(writer: StoreWriter, names: Sequence[RunName]) -> tuple[RunFolds, RunFailures]:
    """These runs by their stored events. One without any is deleted."""
    folds: RunFolds = {}
    failures: RunFailures = {}
    by_minute: Failures = {}
    list(writer.read_by(statements.READ_RUNS, names, is_locked=True))
    columns = ", ".join(f'f."{column}"' for column in statements.FACT_COLUMNS)
    is_indexed = IS_INDEXED["postgresql" if writer.is_postgres else "sqlite"]
    for name in names:
        writer.cursor.execute(
            f"SELECT a.service, a.instance, {columns} FROM events_fact f JOIN events_agent a ON a.id = f.agent_id"
            f" WHERE f.environment = %s AND run = %s AND {is_indexed} AND event IN ({_EVENTS})",
            name,
        )
        rows = [
            writer.row_of(values, AgentName(name.environment, service, instance))
            for service, instance, *values in writer.cursor.fetchall()
        ]
        add_runs(folds, rows)
        add_failures(by_minute, failures, rows)
        for table in ("events_runfailure", *(() if name in folds else ("events_run",))):
            writer.cursor.execute(f"DELETE FROM {table} WHERE environment = %s AND run = %s", name)
    return folds, failures
