"""Spend caps decided again: a lower cap would have been reached, a higher one leaves open what would have come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recovery_ops.rules.enums import RunStatus
from recovery_ops.rules.events import CallsCounted, Event, RunFinished, SpendCapReached
from tests.support.recording import Studio
from tests.support.replays import BUILT_IN_DOCUMENT, compared

pytestmark = pytest.mark.django_db

ENDED = RunFinished(status=RunStatus.SUCCEEDED, duration_s=9.0, input_tokens=800, output_tokens=200, cost_usd=2.5)
COUNTED = CallsCounted(
    operation="ask", interval_s=10.0, calls=6, attempts=8, successes=6, input_tokens=4000, output_tokens=1000
)
PARKED = SpendCapReached(operation="ask", account="run:run-1", measure="calls", spent=20.0, limit=20.0, action="park")
STEPPED_DOWN = replace(PARKED, spent=16.0, limit=16.0, action="cheaper_model", to_model="small")
RUNS, DAYS = "runs_at_a_spend_cap", "days_at_a_spend_cap"
CHEAPER = {"action": "cheaper_model", "cheaper_share": 0.2}


def looped(old: dict[str, Any], new: dict[str, Any], *facts: Event) -> list[dict[str, int]]:
    """What both policies make of a run that told these facts, and what cannot be known under the new one."""
    documents = [{**BUILT_IN_DOCUMENT, "spend_caps": caps} for caps in (old, new)]
    studio = Studio(documents[0])
    for fact in facts:
        studio.tape.emit(fact, source="main_agent", run="" if isinstance(fact, CallsCounted) else "run-1")
    found = compared(studio, documents[1], documents[0])
    whole = [found["loop"]["old"], found["loop"]["new"], found["loop_unknown"]["new"]]
    return [{name: count for name, count in one.items() if name in (RUNS, DAYS)} for one in whole]


@pytest.mark.parametrize(
    ("old", "new", "facts", "decided"),
    [
        ({}, {"run_tokens": 1000}, [ENDED], [{}, {RUNS: 1}, {}]),
        ({}, {"run_tokens": 1001}, [ENDED], [{}, {}, {}]),
        ({}, {"run_cost_usd": 2.5}, [ENDED], [{}, {RUNS: 1}, {}]),
        ({}, {"source_cost_usd": 2.0, "day_cost_usd": 2.0}, [ENDED], [{}, {DAYS: 2}, {}]),
        ({}, {"day_tokens": 5000}, [COUNTED], [{}, {DAYS: 1}, {}]),
        ({}, {"source_calls": 8, "day_calls": 9}, [COUNTED], [{}, {DAYS: 1}, {}]),
        ({"run_calls": 20}, {"run_calls": 10}, [PARKED], [{RUNS: 1}, {RUNS: 1}, {}]),
        ({"run_calls": 20}, {"run_calls": 30}, [PARKED], [{RUNS: 1}, {}, {RUNS: 1}]),
        ({"run_calls": 20, **CHEAPER}, {"run_calls": 15}, [STEPPED_DOWN], [{RUNS: 1}, {RUNS: 1}, {}]),
        ({"run_calls": 20, **CHEAPER}, {"run_calls": 40, **CHEAPER}, [STEPPED_DOWN], [{RUNS: 1}, {}, {RUNS: 1}]),
        ({}, {"run_calls": 1}, [replace(PARKED, account="nobody's")], [{}, {}, {}]),
    ],
)
def test_caps_are_decided_again(
    old: dict[str, Any], new: dict[str, Any], facts: list[Event], decided: list[dict[str, int]]
) -> None:
    assert looped(old, new, *facts) == decided
