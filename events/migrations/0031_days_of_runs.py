"""On PostgreSQL: from which day to which each run has facts. A task fills it, old facts first, in steps."""

from typing import Any

from django.db import migrations

_FORWARDS = """
    CREATE TABLE events_runday (
        environment varchar(64) NOT NULL,
        run varchar(200) NOT NULL,
        first_day integer NOT NULL,
        last_day integer NOT NULL,
        PRIMARY KEY (environment, run)
    );
    CREATE INDEX run_day_by_last ON events_runday USING brin (last_day);
    CREATE TABLE events_rundays (number bigint NOT NULL, until_us bigint NOT NULL);
    INSERT INTO events_rundays VALUES (0, 0);
"""


def forwards(apps: Any, schema_editor: Any) -> None:
    """Make the tables."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(_FORWARDS)


def backwards(apps: Any, schema_editor: Any) -> None:
    """Drop them."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP TABLE events_runday, events_rundays")


class Migration(migrations.Migration):
    dependencies = [("events", "0030_makers_of_keys")]

    operations = [migrations.RunPython(forwards, backwards)]
