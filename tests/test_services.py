"""A service that the machine lacks is named at the end of the run; where CI says so, it is an error."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.processes import ROOT, clean_environment


@pytest.mark.full
@pytest.mark.parametrize(
    ("ci", "code", "summary"),
    [
        ("", 0, r"=* ?1 skipped(, \d+ deselected)? in .*"),
        ("true", 1, r"=* ?\d+ deselected, 1 error(, \d+ rerun)? in .*|1 error.*"),
    ],
)
def test_a_missing_service_is_named_just_above_pytests_own_summary(ci: str, code: int, summary: str) -> None:
    env = clean_environment({"PATH": "/nowhere", "CI": ci})
    chosen = ["tests/test_services.py", "-k", "needs_a_redis", "-p", "no:cacheprovider"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *chosen], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert result.returncode == code
    *_, before, last = result.stdout.splitlines()
    assert re.fullmatch(summary, last), result.stdout
    assert ("1 tests skipped" if code == 0 else "ERROR") in before
    assert "not on this machine: Redis: apt install redis-server" in result.stdout


def test_it_needs_a_redis(redis_url: str) -> None:
    assert redis_url.startswith("redis://127.0.0.1:")


def test_each_test_has_a_postgresql_of_its_own(postgres_url: str) -> None:
    assert "/test_" in postgres_url
