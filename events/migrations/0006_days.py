"""On PostgreSQL: facts in a partition for each day, their ids in a table beside it. On both: sums by their subject."""

# ruff: noqa: S608  (only names of our own are put together)

from datetime import UTC, datetime
from typing import Any

from django.db import migrations, models

from events import partitions

_COLUMNS = (
    "environment, uid, event, at_us, received_us, stated_us, sequence_number, severity, operation, breaker, source,"
    " is_foreground, run, category, state, provider, model, trace_id, span_id, attributes, body, agent_id, id"
)
_FORWARDS = f"""
    ALTER TABLE events_fact RENAME TO events_fact_before;
    CREATE SEQUENCE events_fact_number AS bigint;
    SELECT setval('events_fact_number', (SELECT COALESCE(MAX(id), 0) + 1 FROM events_fact_before), false);
    CREATE TABLE events_fact (LIKE events_fact_before) PARTITION BY RANGE (at_us);
    ALTER TABLE events_fact ALTER COLUMN id SET DEFAULT nextval('events_fact_number');
    ALTER SEQUENCE events_fact_number OWNED BY events_fact.id;
    DROP INDEX fact_by_event, fact_by_breaker, fact_degradations;
    CREATE INDEX fact_by_id ON events_fact (id);
    CREATE INDEX fact_by_event ON events_fact (environment, event, at_us);
    CREATE INDEX fact_by_breaker ON events_fact (environment, breaker, event, at_us);
    CREATE INDEX fact_degradations ON events_fact (agent_id, operation, at_us)
        WHERE event IN ('degradation_started', 'degradation_ended');
    CREATE TABLE {partitions.LAST} PARTITION OF events_fact DEFAULT;
    CREATE TABLE events_factid (
        environment varchar(64) NOT NULL,
        uid bytea NOT NULL,
        batch bigint NOT NULL,
        day integer NOT NULL,
        PRIMARY KEY (environment, uid)
    );
    CREATE INDEX fact_id_by_day ON events_factid USING brin (day);
    INSERT INTO events_factid SELECT environment, uid, 0, received_us / 86400000000 FROM events_fact_before;
"""


def forwards(apps: Any, schema_editor: Any) -> None:
    """Move what is there into days."""
    if schema_editor.connection.vendor != "postgresql":
        return
    schema_editor.execute(_FORWARDS)
    partitions.make_ahead(datetime.now(UTC).date(), behind=partitions.BEHIND_DAYS)
    schema_editor.execute(f"INSERT INTO events_fact ({_COLUMNS}) SELECT {_COLUMNS} FROM events_fact_before")
    schema_editor.execute("DROP TABLE events_fact_before")


class Migration(migrations.Migration):
    dependencies = [("events", "0005_quarantine_and_names")]

    operations = [
        migrations.RunPython(forwards, migrations.RunPython.noop),
        migrations.RemoveIndex("minutesum", "minute_sum_by_breaker"),
        migrations.RemoveIndex("spansum", "span_sum_by_breaker"),
        *(
            migrations.AddField(
                name,
                "subject",
                models.CharField(default="", help_text="The breaker, or the operation without one.", max_length=200),
            )
            for name in ("minutesum", "spansum")
        ),
        *(
            migrations.RunSQL(
                f"UPDATE {table} SET subject = CASE breaker WHEN '' THEN operation ELSE breaker END",
                migrations.RunSQL.noop,
            )
            for table in ("events_minutesum", "events_spansum")
        ),
        migrations.AddIndex(
            "minutesum", models.Index(fields=["environment", "subject", "minute"], name="minute_sum_by_subject")
        ),
        migrations.AddIndex(
            "spansum",
            models.Index(fields=["environment", "view", "subject", "minutes", "span"], name="span_sum_by_subject"),
        ),
    ]
