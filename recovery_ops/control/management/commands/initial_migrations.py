"""Writes the one initial migration of each app anew, from the models. For developers, until 0.1.0 is released."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from django.apps import apps
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db.migrations import AddConstraint, AddIndex, CreateModel, Migration
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.questioner import NonInteractiveMigrationQuestioner
from django.db.migrations.state import ProjectState
from django.db.migrations.writer import MigrationWriter

from events.store.migration_operations import CreateEngineTables, CreateModels
from recovery_ops import __version__

APPS = ("events", "control")


class Command(BaseCommand):
    """`manage.py initial_migrations`."""

    help = (
        "Writes events/migrations/0001_initial.py and recovery_ops/control/migrations/0001_initial.py anew from the"
        " models. Data directories of the schema before it are refused afterwards, so this ends with 0.1.0."
    )
    requires_system_checks: list[str] = []

    def handle(self, *_: Any, **__: Any) -> None:
        """Replace the migrations of both apps."""
        if "dev" not in __version__:
            raise CommandError(f"{__version__} is released: add a migration with makemigrations instead.")
        folders = {app: Path(apps.get_app_config(app).path) / "migrations" for app in APPS}
        for folder in folders.values():
            for old in folder.glob("0*.py"):
                old.unlink()
        written = []
        for app, migration in initial_migrations().items():
            written.append(folders[app] / "0001_initial.py")
            written[-1].write_text(MigrationWriter(migration, include_header=False).as_string())
        # Where the tests' packages are not installed, `manage.py lint --fix` formats them later.
        for step in (["check", "--fix", "--quiet"], ["format", "--quiet"]):
            words = [sys.executable, "-m", "ruff", *step, *map(str, written)]
            subprocess.run(words, cwd=settings.BASE_DIR, check=False, capture_output=True)
        for path in written:
            self.stdout.write(str(path.relative_to(settings.BASE_DIR)))


def initial_migrations() -> dict[str, Migration]:
    """One migration for each app that makes all its tables."""
    loader = MigrationLoader(None)
    others = sorted(key for key in loader.graph.leaf_nodes() if key[0] not in APPS)
    detector = MigrationAutodetector(
        loader.project_state([key for key in loader.graph.leaf_nodes() if key[0] not in APPS]),
        ProjectState.from_apps(apps),
        NonInteractiveMigrationQuestioner(specified_apps=set(APPS), dry_run=True),
    )
    changes = detector.changes(graph=loader.graph, convert_apps=set(APPS), migration_name="initial")
    made: dict[str, Migration] = {}
    for app in APPS:
        if len(changes[app]) != 1:
            raise CommandError(f"the models of {app} need {len(changes[app])} migrations, because they form a circle")
        [found] = changes[app]
        operations = [CreateModels(_folded(found.operations)), *([CreateEngineTables()] if app == "events" else [])]
        # The migrations of other apps come first: each of them loads all models again that lead to its own.
        dependencies = [*(one for one in found.dependencies if one[0] in APPS), *others]
        parts = {"initial": True, "operations": operations, "dependencies": dependencies}
        made[app] = type("Migration", (Migration,), parts)(found.name, app)
    return made


def _folded(operations: Sequence[Operation]) -> list[CreateModel]:
    """The models' own operations, with the indexes and constraints inside them."""
    models = {one.name_lower: one for one in operations if isinstance(one, CreateModel)}
    for one in operations:
        if isinstance(one, AddIndex | AddConstraint):
            name = "indexes" if isinstance(one, AddIndex) else "constraints"
            what = one.index if isinstance(one, AddIndex) else one.constraint
            cast("list[Any]", models[one.model_name_lower].options.setdefault(name, [])).append(what)
        elif not isinstance(one, CreateModel):
            raise CommandError(
                f"{one.describe()}: only models, indexes and constraints are expected of a first migration"
            )
    return list(models.values())
