"""Every journey three ways: the rules alone, the runtime in a thread and in a task. All tell the same facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recovery_ops import wire
from recovery_ops.rules.facts import BreakerRejected, Fact, Record
from tests.journeys.playing import FOLDER, Alone, InRuntime, Told

JOURNEYS = sorted(FOLDER.glob("*.json"))


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def plain(fact: Fact) -> dict[str, Any]:
    event = wire.encode(Record(fact=fact, uid="", sequence_number=0, at_ns=0))
    fields = {name: getattr(fact, name) for name in fact.__dataclass_fields__}
    fields = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    return fields | {"event": event.event_name.removeprefix("recovery.")}


def told_once(told: Told) -> list[Fact]:
    """Without refused calls, which drivers add up before they travel."""
    return [fact for fact in told.facts if not isinstance(fact, BreakerRejected)]


def check(told: Told, journey: dict[str, Any]) -> None:
    assert told.ends == [step.get("ends", "answered") for step in journey["calls"] if "ends" in step]
    facts = [plain(fact) for fact in told_once(told)]
    expected = journey["facts"]
    assert [fact["event"] for fact in facts] == [fact["event"] for fact in expected]
    for fact, wanted in zip(facts, expected, strict=True):
        assert {name: fact[name] for name in wanted} == wanted
    if "waits" in journey:
        assert told.waits == pytest.approx(journey["waits"])


@pytest.mark.parametrize("path", JOURNEYS, ids=lambda path: path.stem)
def test_the_rules_alone(path: Path) -> None:
    journey = read(path)
    check(Alone(journey).play(), journey)


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "task"])
@pytest.mark.parametrize("path", JOURNEYS, ids=lambda path: path.stem)
def test_the_runtime_tells_the_same(path: Path, is_async: bool) -> None:
    journey = read(path)
    alone, told = Alone(journey).play(), InRuntime(journey, is_async=is_async).play()
    assert told_once(told) == told_once(alone)
    assert told.ends == alone.ends
    assert told.waits == pytest.approx(alone.waits)
