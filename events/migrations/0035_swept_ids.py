"""On SQLite: the ids of counted calls whose facts are swept. PostgreSQL has those of all facts in a table (0006)."""

from typing import Any

from django.db import migrations

_TABLE = """
    CREATE TABLE events_sweptid (
        environment varchar(64) NOT NULL,
        uid blob NOT NULL,
        day integer NOT NULL,
        PRIMARY KEY (environment, uid)
    ) WITHOUT ROWID
"""


def forwards(apps: Any, schema_editor: Any) -> None:
    """Make the table, and the index by which it is swept itself."""
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute(_TABLE)
        schema_editor.execute("CREATE INDEX swept_id_by_day ON events_sweptid (day)")


class Migration(migrations.Migration):
    dependencies = [("events", "0034_takes_retries")]

    operations = [migrations.RunPython(forwards, migrations.RunPython.noop)]
