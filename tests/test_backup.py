"""What was backed up by the documented commands comes back whole: facts, what is folded from them, the audit log."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from events.management.commands import backup
from events.models import Fact
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.revisions import current_revision
from tests.support import stores
from tests.support.actions import small_fleet, trip
from tests.support.stores import sqlite_at


def live() -> None:
    """Some facts, and something that somebody did."""
    small_fleet(5)
    trip()


def assert_whole(facts: int) -> None:
    """Everything is there and fits together; and life goes on from it."""
    assert Fact.objects.count() == facts
    assert (Override.objects.count(), current_revision("dev"), AuditEntry.objects.count()) == (1, 1, 1)
    assert "say what the tables say" in said("verify_facts")
    assert "dev" in said("audit", "verify")
    trip(reason="after the restore it goes on")
    assert current_revision("dev") == 2


def said(*words: str) -> str:
    """What a command says; one that finds something wrong raises."""
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


@pytest.mark.django_db(transaction=True)
def test_a_backup_of_sqlite_comes_back_whole(tmp_path: Path) -> None:
    live()
    facts, kept = Fact.objects.count(), tmp_path / "kept.sqlite3"
    assert "and sound" in said("backup", str(kept))
    assert kept.stat().st_mode & 0o777 == 0o600
    trip(reason="this comes after the backup")
    with sqlite_at(kept):
        assert_whole(facts)


@pytest.mark.django_db(transaction=True)
def test_a_backup_is_of_one_moment_whatever_is_written_between_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live()
    facts, kept, steps = Fact.objects.count(), tmp_path / "kept.sqlite3", []

    @contextmanager
    def busy(words: str, total: int | None) -> Iterator[Callable[[int], None]]:
        def write(done: int) -> None:
            steps.append(done)
            assert len(steps) < 1000, "it begins anew whenever something is written"
            trip(reason="while the backup is made")

        yield write

    monkeypatch.setattr(backup, "_STEP_PAGES", 10)
    monkeypatch.setattr(backup, "progress_bar", busy)
    said("backup", str(kept))
    assert len(steps) > 3
    assert steps == sorted(steps)
    with sqlite_at(kept):
        assert_whole(facts)


@pytest.mark.django_db(transaction=True)
def test_what_takes_long_has_a_bar_on_a_terminal_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    live()
    commands = (["verify_facts"], ["audit", "verify"], ["audit", "export"], ["backup", str(tmp_path / "kept")])
    for words in commands:
        said(*words)
        assert capsys.readouterr().err == ""
    (tmp_path / "kept").unlink()
    monkeypatch.setenv("FORCE_COLOR", "1")  # so rich takes what pytest reads for a terminal
    for words in commands:
        said(*words)
        assert "━" in capsys.readouterr().err


@pytest.mark.django_db(transaction=True)
def test_a_backup_overwrites_nothing_and_leaves_no_half_of_one(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("precious")
    with pytest.raises(CommandError, match="overwrites nothing"):
        call_command("backup", str(there))
    assert there.read_text() == "precious"
    with pytest.raises(CommandError, match="could not be made"):
        call_command("backup", str(tmp_path / "nowhere" / "kept"))
    assert list(tmp_path.iterdir()) == [there]


@pytest.mark.django_db
def test_a_dump_of_postgresql_comes_back_whole(
    migrated_postgres_url: str, postgres_server: str, tmp_path: Path, run_tool: Callable[..., None]
) -> None:
    name, dump = f"restored_{uuid4().hex}", tmp_path / "kept.dump"
    with stores.store_at(migrated_postgres_url):
        live()
        facts = Fact.objects.count()
        run_tool("pg_dump", "--format=custom", f"--file={dump}", migrated_postgres_url)
        with pytest.raises(CommandError, match="pg_dump"):
            call_command("backup", str(tmp_path / "no"))
    restored = stores.create_database(postgres_server, name)
    try:
        run_tool("pg_restore", "--no-owner", "--exit-on-error", f"--dbname={restored}", str(dump))
        with stores.store_at(restored):
            assert_whole(facts)
    finally:
        stores.drop_database(postgres_server, name)


@pytest.fixture
def run_tool() -> Callable[..., None]:
    """Run one of PostgreSQL's own tools, which have to be of the server's version or newer."""

    def run(*words: str) -> None:
        subprocess.run(words, check=True, capture_output=True, timeout=60)

    return run
