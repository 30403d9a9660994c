"""On PostgreSQL: facts of a breaker are found by an index for each event that is asked for by breaker, and by no other.

An index that held every fact, by environment, breaker, event and time, took a seventh of what PostgreSQL does to store
one (docs/decisions/0112). SQLite takes an index of some events only for events that stand in the statement itself, so
there it stays as it is. In steps, each of which may have been done before: facts that come in wait for one at most.
"""

from typing import Any

from django.db import migrations

_EVENTS = {"failed": "failure_classified", "moved": "breaker_state_changed", "refused": "breaker_rejected"}


def forwards(apps: Any, schema_editor: Any) -> None:
    """Make the new ones, then drop the old one, whose lock keeps everybody out."""
    if schema_editor.connection.vendor != "postgresql":
        return
    for name, event in _EVENTS.items():
        schema_editor.execute(
            f"CREATE INDEX IF NOT EXISTS fact_by_breaker_{name} ON events_fact (breaker, environment, at_us)"
            f" WHERE event = '{event}'"
        )
    schema_editor.execute("DROP INDEX IF EXISTS fact_by_breaker")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("events", "0035_swept_ids")]

    operations = [migrations.RunPython(forwards, migrations.RunPython.noop)]
