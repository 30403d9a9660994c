"""Removal of everything that is stored of one environment, in small steps: events, what is folded from them, keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.apps import apps
from django.db import connection, models, transaction
from django.db.models import QuerySet

from events.capacity.models import CapacityArrangement, CapacityEvent
from events.derived.open_parents import OpenParent
from events.models import Agent, AgentKey, Fact
from events.store import partitions
from events.store.schema import SchemaStamp

STEP_ROWS = 1000
_LAST = (CapacityArrangement, CapacityEvent, Agent, AgentKey)
"""What other tables refer to; and keys, which make an environment known."""
_OF_NO_ENVIRONMENT = (OpenParent, SchemaStamp)
"""Open parents are digests that a sweep forgets after a day."""


def remove_environment(environment: str, *, may_go_on: Callable[[], bool] = lambda: True) -> bool:
    """Delete all rows of an environment; whether nothing is left.

    Asks `may_go_on` after each step. What comes in meanwhile is for the next removal.
    """
    for table in _tables():
        while ids := list(_of(table, environment).values_list("pk", flat=True)[:STEP_ROWS]):
            delete_rows(table._default_manager.filter(pk__in=ids))
            if not may_go_on():
                return False
    while count := _forget_ids(environment):
        if count and not may_go_on():
            return False
    for table in _LAST:
        with transaction.atomic():  # events refer to each other
            delete_rows(_of(table, environment))
    return True


def delete_rows(rows: QuerySet[Any]) -> None:
    """Delete rows without Django's questions about what refers to them."""
    rows._raw_delete(rows.db)


def count_events(environment: str) -> int:
    """The number of stored events of an environment."""
    return Fact.objects.filter(environment=environment).count()


def _tables() -> Sequence[type[models.Model]]:
    every = apps.get_app_config("events").get_models()
    return [table for table in every if table not in (*_LAST, *_OF_NO_ENVIRONMENT)]


def _of(table: type[models.Model], environment: str) -> QuerySet[Any]:
    return table._default_manager.filter(environment=environment)


def _forget_ids(environment: str) -> int:
    """Forget some ids of events that are gone: sent again, they are new."""
    with connection.cursor() as cursor:
        if partitions.is_partitioned():
            cursor.execute(
                "DELETE FROM events_factid WHERE ctid = ANY(ARRAY("
                "SELECT ctid FROM events_factid WHERE environment = %s LIMIT %s))",
                [environment, STEP_ROWS],
            )
        else:
            cursor.execute(
                "DELETE FROM events_sweptid WHERE (environment, uid) IN"
                " (SELECT environment, uid FROM events_sweptid WHERE environment = %s LIMIT %s)",
                [environment, STEP_ROWS],
            )
        return int(cursor.rowcount)
