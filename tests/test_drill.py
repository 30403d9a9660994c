"""`manage.py drill`: every fault of the list, on both engines; nothing is lost, doubled or told twice."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recovery_ops.drill.catalogue import FAULTS
from recovery_ops.drill.poisons import POISONS
from recovery_ops.drill.room import beside_the_others
from recovery_ops.drill.work_world import LONGEST_SILENCE_S
from tests.support.processes import ROOT, clean_environment, copy_migrated_sqlite

IN_CI = os.environ.get("CI") == "true"
EVENTS = 100_000 if IN_CI else 10_000
"""On somebody's own machine a tenth: the faults are the same."""
WAYS = ("sqlite", "postgresql")
FIRST_FACTS = 3
WINDOW = re.compile(
    r"3 kills caught \d+ facts that were told and in no file yet, \d+ at most; "
    r"from telling to the outbox \d+ ms at the median and \d+ ms at most, for transitions \d+ and \d+ ms"
)
RATIO = re.compile(r"p99 \d+\.\d\d s beside them, \d+\.\d\d s without: \d+\.\d ×")


def drill(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "manage.py"), "drill", *words]
    return subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=1500)


@pytest.fixture
def told(migrated_postgres_url: str, redis_server: str, tmp_path: Path) -> dict[str, Any]:
    """What one drill of everything says. Redis is asked for so that its absence is named; the drill starts its own."""
    copy_migrated_sqlite(tmp_path)
    stores = ["--postgres", migrated_postgres_url, "--sqlite", str(tmp_path / "db.sqlite3")]
    result = drill("--events", str(EVENTS), "--rounds", "1", "--questions", "4", *stores, "--json")
    found: dict[str, Any] = json.loads(result.stdout)
    assert result.returncode == (0 if found["is_good"] else 1)
    return found


@pytest.mark.full
@pytest.mark.xdist_group("drill")
def test_no_fault_loses_or_doubles_anything(told: dict[str, Any]) -> None:
    every_fault_is_run_and_none_does_harm(told)
    facts_arrive_once(told["facts"])
    work_is_done_once_whatever_is_killed(told["work"])
    assert told["is_good"]


def every_fault_is_run_and_none_does_harm(told: dict[str, Any]) -> None:
    assert (told["failed"], told["missing"], told["not_run"]) == ([], [], [])
    assert [one for one in told["faults"] if not one["is_good"] or one["lost"] or one["doubled"]] == []
    assert list(dict.fromkeys(one["fault"] for one in told["faults"])) == [f"J{number}" for number in range(1, 19)]
    [last] = [one for one in told["faults"] if one["fault"] == "J18"]
    assert "are lost" in last["note"]


def facts_arrive_once(faults: list[dict[str, Any]]) -> None:
    assert [one for one in faults if one["lost"] or one["doubled"] or one["problems"]] == []
    windows = [one["note"] for one in faults if one["fault"] == "J16"]
    assert [bool(WINDOW.match(note)) for note in windows] == [True] * len(WAYS)
    # More than the first fact of each agent that was killed: those are of agents that were still loading.
    assert all(one["sent"] > FIRST_FACTS for one in faults if one["fault"] == "J16")
    sent = sum(one["sent"] for one in faults)
    assert sent == sum(one["acknowledged"] for one in faults) >= EVENTS
    for engine in WAYS:
        names = [one["fault"] for one in faults if one["engine"] == engine]
        assert names == [fault.name for fault in FAULTS if engine == "postgresql" or not fault.needs_postgres]
    said = {fault.name: [one["note"] for one in faults if one["fault"] == fault.name] for fault in FAULTS}
    assert ["every child gone" in note for note in said["J1"]] == [way == "postgresql" for way in WAYS]
    assert all("4 questions decided once by silence, an override ended once" in note for note in said["J9"])
    poisons = [sum(one.protobuf is not None for one in POISONS), sum(one.is_of_json for one in POISONS)]
    words = f"{poisons[0]} poisons in protobuf and {poisons[1]} in JSON"
    assert all(words in note for note in said["J10"])
    assert min(poisons) > 30
    assert all("100 reading slowly" in note and RATIO.search(note) for note in said["J12"])
    assert all("3 stock OpAMP clients that took on" in note for note in said["J15"])
    assert all("two wrong lengths" in note for note in said["J11"])
    assert all("no name of another environment was folded" in note for note in said["J13"])
    assert all(("a volume of its own was full" in note) == bool(beside_the_others()[0]) for note in said["J4"])
    released = subprocess.run(["git", "describe", "--tags", "--match", "v*"], cwd=ROOT, capture_output=True)
    assert all(("the same code was restarted" in note) != (released.returncode == 0) for note in said["J17"])
    outages = [one["note"] for one in faults if one["fault"] in ("J1", "J2", "J3", "J4", "J17")]
    assert all("in which nothing was taken" in note for note in outages)


def work_is_done_once_whatever_is_killed(told: dict[str, Any]) -> None:
    assert told["differences"] == []
    for way in told["ways"].values():
        assert (way["problems"], way["counts"]["which"]) == ([], [])
        assert (way["counts"]["lost"], way["counts"]["doubled"], way["counts"]["twice"]) == (0, 0, 0)
        assert (way["outages"], way["questions"]) == (2, 6)
    services, embedded = told["ways"]["services"], told["ways"]["embedded"]
    assert services["facts"] == embedded["facts"]
    beside = services["beside"]
    assert beside["sent"] == beside["acknowledged"] > 0
    assert (beside["lost"], beside["doubled"]) == (0, 0)
    assert beside["silent_s"] < LONGEST_SILENCE_S
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


def test_an_unknown_fault_is_told() -> None:
    result = drill("facts", "J99")
    assert result.returncode == 2
    assert "there is no fault J99" in result.stderr


def test_a_drill_of_nothing_is_refused() -> None:
    result = drill("work", "--rounds", "0")
    assert result.returncode == 2
    assert "at least 1" in result.stderr
