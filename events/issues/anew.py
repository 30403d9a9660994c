"""Sums failures anew from those that are stored: for copies of stores."""

from __future__ import annotations

from django.db import connection, transaction

from events.ingest.records import AgentName
from events.issues.fold import FAILED, Failures, add_failures
from events.issues.models import FailureSum, InstanceFailureSum
from events.issues.store import join_failures
from events.models import Agent, Fact
from events.store import statements
from events.store.writes import StoreWriter, row_of

_CHUNK = 2_000
_SUMMED_AT_ONCE = 200_000


def sum_failures_anew() -> int:
    """Make the tables what the stored failures say, in one transaction; return how many these are."""
    agents = {one.pk: AgentName(one.environment, one.service, one.instance) for one in Agent.objects.all()}
    found = Fact.objects.filter(event=FAILED).values_list(*statements.FACT_COLUMNS)
    place = statements.FACT_COLUMNS.index("agent_id")
    count, sums = 0, Failures()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {FailureSum._meta.db_table}")  # noqa: S608  (our own tables)
        cursor.execute(f"DELETE FROM {InstanceFailureSum._meta.db_table}")  # noqa: S608
        writer = StoreWriter(cursor)
        writer.agent_ids = {name: number for number, name in agents.items()}
        for values in found.iterator(chunk_size=_CHUNK):
            add_failures(sums, {}, [row_of(values, agents[values[place]])])
            count += 1
            if count % _SUMMED_AT_ONCE == 0:
                join_failures(writer, sums, ())
                sums = Failures()
        join_failures(writer, sums, ())
    return count
