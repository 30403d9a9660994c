"""A new version under load: the migration first, then one server after the other."""

from __future__ import annotations

import time

from recovery_ops.drill.faults import Drill
from recovery_ops.drill.history import History

_MOST_WAIT = "2s"
"""So long a migration may wait for the lock of a table, with everybody else behind it."""


def deploys(drill: Drill, history: History) -> None:
    """J17: while senders go on, the newest migration and a column on the table of facts, then every server in turn."""
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.loader import MigrationLoader

    [(_, newest)] = MigrationLoader(connection).graph.leaf_nodes("control")
    [(_, before)] = MigrationLoader(connection).graph.node_map["control", newest].parents or [("", "zero")]
    # The senders' door knows nothing of these tables, so it can be the old version beside the new schema.
    call_command("migrate", "control", before, verbosity=0)
    widened_s = 0.0
    try:
        with drill.senders(history):
            time.sleep(0.5)
            call_command("migrate", verbosity=0)
            began = time.monotonic()
            with connection.cursor() as cursor:
                cursor.execute(f"SET lock_timeout = '{_MOST_WAIT}'")
                cursor.execute("ALTER TABLE events_fact ADD COLUMN drilled integer")
                cursor.execute("RESET lock_timeout")
            widened_s = time.monotonic() - began
            for server in drill.servers:
                time.sleep(0.3)
                server.restart()
    finally:
        call_command("migrate", verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE events_fact DROP COLUMN IF EXISTS drilled")
    words = f"{newest} and a column of facts ({widened_s:.2f} s) migrated"
    history.notes.append(f"{words}, {len(drill.servers)} servers restarted in turn")
