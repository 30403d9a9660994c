"""A new version under load: the version before it, the migration, then one server after the other."""

from __future__ import annotations

import time

from recovery_ops.drill.faults import Drill
from recovery_ops.drill.history import History
from recovery_ops.drill.last_release import last_release
from recovery_ops.drill.world import ROOT

_MOST_WAIT = "2s"
"""So long a migration may wait for the lock of a table, with everybody else behind it."""


def deploys(drill: Drill, history: History) -> None:
    """J17: servers of the version before, at its schema, take facts; under load the new version migrates, with a column
    on the table of facts beside it, the old servers go on beside the new schema, and one after the other becomes new.
    """
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.loader import MigrationLoader

    newest = {app: leaf for app, leaf in MigrationLoader(connection).graph.leaf_nodes() if app in ("control", "events")}
    widened_s, migrated_s = 0.0, 0.0
    with last_release() as earlier:
        if earlier is None:
            history.notes.append("no release yet: the same code was restarted")
        else:
            for app, leaf in earlier.leaves.items():
                call_command("migrate", app, leaf, verbosity=0)
            for server in drill.servers:
                server.root = earlier.root
                server.restart()
        try:
            with drill.senders(history):
                time.sleep(0.5)
                began = time.monotonic()
                call_command("migrate", verbosity=0)
                migrated_s, began = time.monotonic() - began, time.monotonic()
                with connection.cursor() as cursor:
                    cursor.execute(f"SET lock_timeout = '{_MOST_WAIT}'")
                    cursor.execute("ALTER TABLE events_fact ADD COLUMN drilled integer")
                    cursor.execute("RESET lock_timeout")
                widened_s = time.monotonic() - began
                for server in drill.servers:
                    time.sleep(0.5)
                    server.root = ROOT
                    server.restart()
        finally:
            for server in drill.servers:
                server.root = ROOT
            call_command("migrate", verbosity=0)
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE events_fact DROP COLUMN IF EXISTS drilled")
    if earlier is not None:
        done = [f"{app} {newest[app]}" for app, leaf in earlier.leaves.items() if newest[app] != leaf]
        history.notes.append(f"{earlier.tag} beside {', '.join(done)} ({migrated_s:.1f} s)")
    history.notes.append(f"a column of facts ({widened_s:.2f} s), {len(drill.servers)} servers restarted in turn")
