"""Operations of the initial migrations: many models at once, and the tables that only one engine has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import migrations
from django.db.migrations.operations.base import Operation

from events.store import partitions

_SQLITE = (
    """
    CREATE TABLE events_sweptid (
        environment varchar(64) NOT NULL,
        uid blob NOT NULL,
        day integer NOT NULL,
        PRIMARY KEY (environment, uid)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX swept_id_by_day ON events_sweptid (day)",
)
"""Ids of counted calls whose facts are swept. PostgreSQL keeps those of all facts in `events_factid`."""

_BREAKER_EVENTS = {
    "failed": "failure_classified",
    "moved": "breaker_state_changed",
    "refused": "breaker_rejected",
    "counted": "calls_counted",
}
"""Events that are read by breaker: each has an index of its own. One index of every fact took a seventh of what
PostgreSQL does to store a fact. SQLite uses a partial index only for events that stand in the
statement itself, so there the model's index of all of them stays."""

_POSTGRESQL = f"""
    ALTER TABLE events_fact RENAME TO events_fact_before;
    CREATE SEQUENCE events_fact_number AS bigint;
    CREATE TABLE events_fact (LIKE events_fact_before) PARTITION BY RANGE (at_us);
    DROP TABLE events_fact_before;
    ALTER TABLE events_fact ALTER COLUMN id SET DEFAULT nextval('events_fact_number');
    ALTER SEQUENCE events_fact_number OWNED BY events_fact.id;
    CREATE INDEX fact_by_id ON events_fact (id);
    CREATE TABLE {partitions.LAST} PARTITION OF events_fact DEFAULT;
    CREATE TABLE events_factid (
        environment varchar(64) NOT NULL,
        uid bytea NOT NULL,
        batch bigint NOT NULL,
        day integer NOT NULL,
        PRIMARY KEY (environment, uid)
    );
    CREATE INDEX fact_id_by_day ON events_factid USING brin (day);
"""


def _create(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "sqlite":
        for statement in _SQLITE:
            schema_editor.execute(statement)
        return
    while schema_editor.deferred_sql:  # indexes of the model's own table, which is replaced here
        schema_editor.execute(schema_editor.deferred_sql.pop(0), None)
    schema_editor.execute(_POSTGRESQL)
    fact = apps.get_model("events", "Fact")
    for index in fact._meta.indexes:
        if index.name != "fact_by_breaker":
            schema_editor.execute(index.create_sql(fact, schema_editor))
    for name, event in _BREAKER_EVENTS.items():
        schema_editor.execute(
            f"CREATE INDEX fact_by_breaker_{name} ON events_fact (breaker, environment, at_us) WHERE event = '{event}'"
        )
    partitions.make_ahead(datetime.now(UTC).date(), behind=partitions.BEHIND_DAYS)


class CreateModels(Operation):
    """Create the tables of many models. Django renders all related models anew after each `CreateModel`: an initial
    migration of 58 models took three times as long.
    """

    serialization_expand_args = ["operations"]
    reduces_to_sql = True

    def __init__(self, operations: Sequence[migrations.CreateModel]) -> None:
        self.operations = operations

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        """How a migration names it."""
        return type(self).__name__, [], {"operations": self.operations}

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Add the models to a state that renders them once, when they are asked for."""
        state.__dict__.pop("apps", None)
        for operation in self.operations:
            operation.state_forwards(app_label, state)

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Create the tables."""
        for operation in self.operations:
            operation.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Drop the tables."""
        for operation in reversed(self.operations):
            operation.database_backwards(app_label, schema_editor, from_state, to_state)

    def describe(self) -> str:
        """What the command line shows of it."""
        return f"Create {len(self.operations)} models"


class CreateEngineTables(migrations.RunPython):
    """Create them, on tables that are empty."""

    def __init__(self) -> None:
        super().__init__(_create, migrations.RunPython.noop)

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        """How a migration names it."""
        return type(self).__name__, [], {}
