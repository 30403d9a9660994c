"""A run of the tests that has to end by a moment leaves out what would begin after it, and says how much that was."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.processes import ROOT, clean_environment

SOME = "tests/rules/test_breaker.py"


def summary(until_s: float) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", SOME]
    env = clean_environment() | {"RECOVERY_OPS_TEST_UNTIL": str(until_s)}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.parametrize("left_s", [-1.0, 3600.0], ids=["none left", "enough"])
def test_what_there_is_no_time_for_is_left_out_and_counted(left_s: float) -> None:
    said = summary(time.time() + left_s)
    assert ("tests skipped, not on this machine: the time for it" in said) == (left_s < 0), said
    assert (" passed" in said.splitlines()[-1]) == (left_s > 0), said
