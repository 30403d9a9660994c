"""`manage.py drill facts`: faults on purpose, on both engines, and every fact stored once."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from recovery_ops.drill.catalogue import FAULTS
from tests.processes import ROOT, clean_environment

IN_CI = os.environ.get("CI") == "true"
EVENTS = 100_000 if IN_CI else 10_000
"""On somebody's own machine a tenth: the faults are the same."""


def drill(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "manage.py"), "drill", "facts", *words]
    return subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=900)


@pytest.mark.xdist_group("drill")
def test_no_fault_loses_or_doubles_a_fact() -> None:
    result = drill("--events", str(EVENTS), "--json")
    told = json.loads(result.stdout)
    assert [one for one in told["faults"] if one["lost"] or one["doubled"] or one["problems"]] == []
    assert told["failed"] == []
    assert result.returncode == 0, result.stdout
    assert (told["lost"], told["doubled"]) == (0, 0)
    assert told["sent"] == told["acknowledged"] >= EVENTS
    engines = {one["engine"] for one in told["faults"]}
    assert engines == {"sqlite", "postgresql"} or (told["missing"] and not IN_CI)
    for engine in engines:
        names = [one["fault"] for one in told["faults"] if one["engine"] == engine]
        assert names == [fault.name for fault in FAULTS if engine == "postgresql" or not fault.needs_postgres]


def test_an_unknown_fault_is_told() -> None:
    result = drill("J99")
    assert result.returncode == 2
    assert "there is no fault J99" in result.stderr
