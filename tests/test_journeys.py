"""Every journey three ways: replayed by the rules alone, by the runtime in a thread and in a task. All tell the same.

There are journeys of calls (`playing`), of runs with their guards (`running`) and of the playbook (`dispatching`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recovery_ops import wire
from recovery_ops.rules.events import BreakerRejected, CompensationFinished, Escalated, Event, Record, ReversalRefused
from tests.journeys import dispatching, running
from tests.journeys.playing import InRuntime, Told
from tests.support.journeys import JOURNEYS, alone, read

pytestmark = pytest.mark.quick


def plain(fact: Event) -> dict[str, Any]:
    event = wire.encode(Record(event=fact, uid="", sequence_number=0, at_ns=0))
    fields = {name: getattr(fact, name) for name in fact.__dataclass_fields__}
    fields = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    return fields | {"event": event.event_name.removeprefix("recovery.")}


def told_once(told: Told) -> list[Event]:
    """Without refused calls, which drivers add up before they travel."""
    return [fact for fact in told.facts if not isinstance(fact, BreakerRejected)]


def check(told: Told, journey: dict[str, Any]) -> None:
    ends = journey.get("ends")
    if ends is None:
        ends = [step.get("ends", "answered") for step in journey["calls"] if "ends" in step]
    assert told.ends == ends
    facts = [plain(fact) for fact in told_once(told)]
    expected = journey["facts"]
    assert [fact["event"] for fact in facts] == [fact["event"] for fact in expected]
    for fact, wanted in zip(facts, expected, strict=True):
        assert {name: fact[name] for name in wanted} == wanted
    if "waits" in journey:
        assert told.waits == pytest.approx(journey["waits"])


def in_runtime(journey: dict[str, Any], *, is_async: bool) -> Told:
    """The journey as an agent lives it."""
    kind = journey.get("kind", "calls")
    if kind == "run":
        return running.in_runtime(journey, is_async=is_async)
    if kind == "dispatch":
        return dispatching.in_runtime(journey, is_async=is_async)
    return InRuntime(journey, is_async=is_async).play()


@pytest.mark.parametrize("path", JOURNEYS, ids=lambda path: path.stem)
def test_the_rules_alone(path: Path) -> None:
    journey = read(path)
    check(alone(journey), journey)


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "task"])
@pytest.mark.parametrize("path", JOURNEYS, ids=lambda path: path.stem)
def test_the_runtime_tells_the_same(path: Path, is_async: bool) -> None:
    journey = read(path)
    by_rules, told = alone(journey), in_runtime(journey, is_async=is_async)
    assert [comparable(fact) for fact in told_once(told)] == [comparable(fact) for fact in told_once(by_rules)]
    assert told.ends == by_rules.ends
    assert told.waits == pytest.approx(by_rules.waits)


def comparable(fact: Event) -> Event:
    """Without what is made by chance: the number of a question, and of an order that is to be undone."""
    if isinstance(fact, ReversalRefused):
        return replace(fact, action_id=None)
    return replace(fact, escalation_id=None) if isinstance(fact, Escalated) else fact


@pytest.mark.parametrize(
    "path", [path for path in JOURNEYS if path.stem.startswith("dispatch-")], ids=lambda path: path.stem
)
def test_recorded_failures_lead_to_the_same_compensation(path: Path) -> None:
    journey = read(path)
    told = alone(journey).facts
    finished = [fact for fact in told if isinstance(fact, CompensationFinished)]
    replayed = [pair for pair in dispatching.replayed(told, journey) if pair[1] is not None]
    assert [(fact.verdict, fact.compensation) for fact in finished] == replayed[-1:] or not finished
