"""`manage.py drill work`: workers killed, Redis flushed, and the same tables and messages as in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, clean_environment, copy_migrated_sqlite

IN_CI = os.environ.get("CI") == "true"


@pytest.mark.xdist_group("drill")
def test_nothing_is_lost_or_sent_twice_whatever_is_killed(
    migrated_postgres_url: str, redis_server: str, tmp_path: Path
) -> None:
    """Redis is asked for so that its absence is named; the drill starts its own, to harm it."""
    copy_migrated_sqlite(tmp_path)
    words = ["drill", "work", "--rounds", "1", "--questions", "4", "--json"]
    words += ["--postgres", migrated_postgres_url, "--sqlite", str(tmp_path / "db.sqlite3")]
    command = [sys.executable, str(ROOT / "manage.py"), *words]
    result = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=300)
    told = json.loads(result.stdout)
    assert told["missing"] == [] or not IN_CI
    assert (told["failed"], told["differences"]) == ([], [])
    for way in told["ways"].values():
        assert (way["problems"], way["counts"]["which"]) == ([], [])
        assert (way["counts"]["lost"], way["counts"]["doubled"], way["counts"]["twice"]) == (0, 0, 0)
        assert (way["outages"], way["questions"]) == (2, 6)
    services, embedded = told["ways"]["services"], told["ways"]["embedded"]
    assert services["facts"] == embedded["facts"]
    # One message is held while its worker dies; the other worker, which dies too, may have been about to send one.
    assert services["counts"]["in_doubt"] in (1, 2)
    assert embedded["counts"]["in_doubt"] == 0
    assert services["done"] == {
        "workers killed while sending": 2,
        "workers killed while opening questions": 1,
        "workers killed while telling people": 1,
        "workers killed while finding outages": 1,
        "Redis flushed": 1,
        "Redis killed": 1,
        "schedulers killed": 1,
    }
    assert result.returncode == 0


def test_a_drill_of_nothing_is_refused() -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "drill", "work", "--rounds", "0"]
    result = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=240)
    assert result.returncode == 2
    assert "at least 1" in result.stderr
