"""A store of another schema is refused before anything of it changes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command

from events.store.migration_operations import CreateModels
from events.store.schema import OtherSchema, SchemaStamp, check_schema, fingerprint, stamp_schema
from recovery_ops.control.management.commands.initial_migrations import initial_migrations
from tests.support.processes import ROOT, clean_environment, copy_migrated_sqlite

OTHER = "0" * 64


@pytest.mark.django_db
def test_store_of_same_schema_is_accepted() -> None:
    stamp_schema()
    check_schema()
    assert SchemaStamp.objects.get().fingerprint == fingerprint()


@pytest.mark.django_db
def test_store_of_other_schema_names_its_commit() -> None:
    stamp_schema()
    SchemaStamp.objects.update(fingerprint=OTHER, commit="abc123")
    with pytest.raises(OtherSchema) as refused:
        call_command("migrate", verbosity=0)
    assert refused.value.commit == "commit abc123"
    assert "abc123" in str(refused.value)


def test_fingerprint_changes_with_migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint()
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / "0001_initial.py").write_text("")
    monkeypatch.setattr(apps.get_app_config("events"), "path", str(tmp_path))
    assert fingerprint() != before


@pytest.mark.parametrize("command", ["up", "migrate"])
@pytest.mark.parametrize("is_stamped", [True, False])
def test_other_schema_changes_no_byte(tmp_path: Path, command: str, is_stamped: bool) -> None:
    copy_migrated_sqlite(tmp_path)
    with sqlite3.connect(tmp_path / "db.sqlite3") as store:
        change = f"UPDATE events_schemastamp SET fingerprint = '{OTHER}', commit = 'abc123'"
        store.execute(change.replace("commit =", '"commit" =') if is_stamped else "DROP TABLE events_schemastamp")
    store.close()
    before = (tmp_path / "db.sqlite3").read_bytes()
    options = ["--no-demo", "--port", "0"] if command == "up" else []
    words = [sys.executable, str(ROOT / "manage.py"), command, "--data", str(tmp_path), *options]
    done = subprocess.run(words, env=clean_environment(), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert ("abc123" in done.stderr, str(tmp_path) in done.stderr) == (is_stamped, True)
    assert (tmp_path / "db.sqlite3").read_bytes() == before


def test_each_app_has_one_migration() -> None:
    """Until 0.1.0; and `initial_migrations` would write those that are there."""
    for app, migration in initial_migrations().items():
        folder = Path(apps.get_app_config(app).path) / "migrations"
        assert [path.name for path in folder.glob("0*.py")] == ["0001_initial.py"]
        assert migration.initial
        [first, *_] = migration.operations
        assert isinstance(first, CreateModels)
        assert len(first.operations) > 10
