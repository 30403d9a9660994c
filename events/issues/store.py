"""Joins failures to their sums by kind, in the transaction that stores them."""

# ruff: noqa: S608  (only names of our own are put together; every value is a parameter)

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from events.ingest.records import AgentName
from events.issues.fold import (
    FAILED,
    Failed,
    FailureCell,
    FailureName,
    Failures,
    InstanceSumName,
    KindName,
    SumName,
    add_failures,
    digest_of,
    sums_of,
)
from events.issues.models import FAILURE_MINUTES
from events.store import statements

if TYPE_CHECKING:
    from events.store.writes import StoreWriter

_MINUTE_US = 60_000_000
_TABLES = {
    "events_failuresum": SumName._fields,
    "events_instancefailuresum": (*SumName._fields, "agent_id"),
}


def join_failures(
    writer: StoreWriter, failures: Failures, altered: Collection[FailureCell], kinds_of_runs: Collection[KindName] = ()
) -> None:
    """Add these to the sums; altered cells are folded anew from their failures. Kinds are stored in every transaction
    that counts them, by one statement: retention deletes unused ones (`events.issues.kinds`).

    A transaction locks nothing after these sums. So altered cells, whose rows are not replaced in the order in which
    others add to them, may lock the whole table on PostgreSQL: they wait for others, and never for ever.
    """
    apart = set(altered)
    news = {name: failed for name, failed in failures.items() if name.cell not in apart}
    kinds = {one.kind for one in news} | {one.kind for one in apart} | set(kinds_of_runs)
    writer.merge(statements.FAILURE_KINDS, [(digest_of(kind), *kind) for kind in kinds])
    if apart and writer.is_postgres:
        writer.cursor.execute("LOCK TABLE events_failuresum IN SHARE ROW EXCLUSIVE MODE")
    together, each = sums_of(news)
    _add(writer, together, each)
    if apart:
        _replace(writer, apart, _fold_anew(writer, apart))


def _add(writer: StoreWriter, together: dict[SumName, Failed], each: dict[InstanceSumName, Failed]) -> None:
    writer.merge(statements.FAILURE_SUMS, [(*name, *failed) for name, failed in together.items()])
    rows = [(*name[:-1], writer.agent_ids[name.agent], *failed) for name, failed in each.items()]
    writer.merge(statements.INSTANCE_FAILURE_SUMS, rows)


def _fold_anew(writer: StoreWriter, cells: Collection[FailureCell]) -> Failures:
    """The failures of these cells by the stored events."""
    found: Failures = {}
    columns = ", ".join(f'f."{column}"' for column in statements.FACT_COLUMNS)
    for environment, minute in sorted({(cell.kind.environment, cell.minute) for cell in cells}):
        writer.cursor.execute(
            f"SELECT a.service, a.instance, {columns} FROM events_fact f JOIN events_agent a ON a.id = f.agent_id"
            f" WHERE f.environment = %s AND event = '{FAILED}' AND at_us >= %s AND at_us < %s",
            [environment, minute * _MINUTE_US, (minute + 1) * _MINUTE_US],
        )
        rows = [
            writer.row_of(values, AgentName(environment, service, instance))
            for service, instance, *values in writer.cursor.fetchall()
        ]
        for row in rows:
            writer.agent_ids[row.agent] = row.agent_id
        add_failures(found, {}, rows)
    return {name: failed for name, failed in found.items() if name.cell in cells}


def _replace(writer: StoreWriter, cells: Collection[FailureCell], again: dict[FailureName, Failed]) -> None:
    """Let the minutes of these cells be as folded anew, and each longer span the sum of the shorter ones in it."""
    spans = {_Span(cell.kind.environment, cell.minute, digest_of(cell.kind), cell.variant) for cell in cells}
    _delete(writer, 1, sorted(spans))
    together, each = sums_of(again)
    _add(
        writer,
        {name: failed for name, failed in together.items() if name.minutes == 1},
        {name: failed for name, failed in each.items() if name.minutes == 1},
    )
    for shorter, longer in pairwise(FAILURE_MINUTES):
        spans = {one._replace(span=one.span * shorter // longer) for one in spans}
        _delete(writer, longer, sorted(spans))
        _sum_up(writer, shorter, longer, sorted(spans))


class _Span(NamedTuple):
    environment: str
    span: int
    kind: bytes
    variant: int


_OF_ONE = "environment = %s AND minutes = %s AND span >= %s AND span < %s AND kind = %s AND variant = %s"


def _delete(writer: StoreWriter, minutes: int, spans: Collection[_Span]) -> None:
    for table in _TABLES:
        for one in spans:
            bounds = (minutes, one.span, one.span + 1)
            writer.cursor.execute(
                f"DELETE FROM {table} WHERE {_OF_ONE}", [one.environment, *bounds, one.kind, one.variant]
            )


def _sum_up(writer: StoreWriter, shorter: int, longer: int, spans: Collection[_Span]) -> None:
    for table, key in _TABLES.items():
        rest = ", ".join(key[3:])
        into = f"INSERT INTO {table} ({', '.join((*key, *Failed._fields))})"
        counts = "SUM(failures), MIN(first_us), MAX(last_us)"
        for one in spans:
            first = one.span * longer // shorter
            bounds = [first, first + longer // shorter]
            writer.cursor.execute(
                f"{into} SELECT environment, %s, %s, {rest}, {counts} FROM {table}"
                f" WHERE {_OF_ONE} GROUP BY environment, {rest}",
                [longer, one.span, one.environment, shorter, *bounds, one.kind, one.variant],
            )
