"""On PostgreSQL: facts of a breaker are found by an index for each event that is asked for by breaker, and by no other.

An index that held every fact, by environment, breaker, event and time, took a seventh of what PostgreSQL does to store
one (docs/decisions/0112). SQLite takes an index of some events only for events that stand in the statement itself, so
there it stays as it is. In steps, each of which may have been done before: facts that come in wait for one at most.
"""

import time
from typing import Any

from django.db import OperationalError, migrations, transaction

_EVENTS = {
    "failed": "failure_classified",
    "moved": "breaker_state_changed",
    "refused": "breaker_rejected",
    "counted": "calls_counted",
}
_OLD = "CREATE INDEX IF NOT EXISTS fact_by_breaker ON events_fact (environment, breaker, event, at_us)"
_TRIES = 600
_PAUSE_S = 0.5


def forwards(apps: Any, schema_editor: Any) -> None:
    """Make the new ones, then drop the old one."""
    if schema_editor.connection.vendor == "postgresql":
        for name, event in _EVENTS.items():
            schema_editor.execute(
                f"CREATE INDEX IF NOT EXISTS fact_by_breaker_{name} ON events_fact (breaker, environment, at_us)"
                f" WHERE event = '{event}'"
            )
        _drop(schema_editor.connection, "fact_by_breaker")


def backwards(apps: Any, schema_editor: Any) -> None:
    """Make the old one, then drop the others."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(_OLD)
        for name in _EVENTS:
            _drop(schema_editor.connection, f"fact_by_breaker_{name}")


def _drop(connection: Any, index: str) -> None:
    """Its lock keeps everybody out, and everybody waits behind whoever waits for it: give up soon, and try again."""
    for left in reversed(range(_TRIES)):
        try:
            with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '100ms'")
                cursor.execute(f"DROP INDEX IF EXISTS {index}")
        except OperationalError:
            if not left:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("events", "0035_swept_ids")]

    operations = [migrations.RunPython(forwards, backwards)]
