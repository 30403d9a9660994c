"""How long a fact is in memory before it is written: the schedule of the thread that writes, by a time that is ours."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.enums import Category, State, Trigger
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.telemetry import queue as intake_module
from recovery_ops.runtime.telemetry.outbox import Outbox
from recovery_ops.runtime.telemetry.pipeline import AT_ONCE, Telemetry
from recovery_ops.runtime.telemetry.queue import EventQueue
from tests.support.processes import eventually

PROMISED_S = 0.02


class Waits:
    """A bell whose waits take no time: each is over at once, and in its midst somebody may put an item.

    `planned` are, for each wait of the thread in turn, the share of it that has passed when an item comes, and whether
    that is urgent; None for a wait in which nothing comes.
    """

    def __init__(self, planned: Sequence[tuple[float, bool] | None]) -> None:
        self.now_s = 0.0
        self.intake: EventQueue[tuple[float, bool]] | None = None
        self.is_over = threading.Event()
        self._planned = iter(planned)
        self._rings: SimpleQueue[None] = SimpleQueue()

    def put(self, ring: None) -> None:
        self._rings.put(ring)

    def empty(self) -> bool:
        return self._rings.empty()

    def get(self, timeout: float | None = None) -> None:
        planned = next(self._planned, None) if timeout is not None else next(iter(self._next_item()), None)
        if planned is None and timeout is None:
            self.is_over.set()
            return self._rings.get()
        began_s, wait_s = self.now_s, timeout or 0.0
        if planned is not None and self.intake is not None:
            share, is_urgent = planned
            self.now_s = began_s + share * wait_s
            self.intake.put((self.now_s, is_urgent), is_urgent)
        if self._rings.empty():
            self.now_s = began_s + wait_s
            raise Empty
        return self._rings.get()

    def _next_item(self) -> Iterator[tuple[float, bool]]:
        """A wait without an end ends with the next item, however many waits it would have taken."""
        yield from (one for one in self._planned if one is not None)


def lags_of(planned: Sequence[tuple[float, bool] | None]) -> list[tuple[bool, float]]:
    """Of each item in order: whether it was urgent, and how long after it came it was handed over."""
    waits = Waits(planned)
    handed: list[tuple[bool, float]] = []

    def deliver(items: list[tuple[float, bool]]) -> None:
        handed.extend((is_urgent, waits.now_s - put_at_s) for put_at_s, is_urgent in items)

    intake = EventQueue(deliver, prepare=lambda: None, name="schedule", limit=1000, bell=lambda: waits)
    waits.intake = intake
    intake.start()
    assert waits.is_over.wait(20)
    assert intake.close(20)
    return handed


ORDINARY = [(0.0, False), (0.3, False), (0.999, False)]
URGENT = [(share, True) for share, _ in ORDINARY]


@pytest.mark.parametrize("quiet_waits", [0, 1, 24, 25, 80])
@pytest.mark.parametrize("first", [*ORDINARY, *URGENT])
@pytest.mark.parametrize("second", [*ORDINARY, *URGENT])
def test_a_fact_is_handed_over_within_20_ms_and_an_urgent_one_at_once(
    first: tuple[float, bool], second: tuple[float, bool], quiet_waits: int
) -> None:
    lags = lags_of([first, *[None] * quiet_waits, second, second, *[None] * 30, first])
    assert [is_urgent for is_urgent, _ in lags] == [first[1], second[1], second[1], first[1]]
    assert max(lag_s for _, lag_s in lags) <= PROMISED_S
    assert {lag_s for is_urgent, lag_s in lags if is_urgent} <= {0.0}


KINDS: list[events.Event] = [
    events.BreakerStateChanged(
        operation="search",
        breaker="search",
        state=State.OPEN,
        previous_state=State.CLOSED,
        trigger=Trigger.CONSECUTIVE_FAILURES,
    ),
    events.Escalated(operation="search", queue="people", reason="no way left", category=Category.TIMEOUT),
    events.CheckpointSaved(operation="pay", workflow="payouts", step="pay"),
    events.CheckpointRestored(operation="pay", workflow="payouts", step="pay"),
]


@pytest.mark.parametrize("fact", KINDS, ids=lambda fact: type(fact).__name__)
def test_these_facts_are_in_the_outbox_at_once_and_bring_along_what_waits(
    fact: events.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert type(fact) in AT_ONCE
    monkeypatch.setattr(intake_module, "GATHER_S", 600.0)
    outbox = Outbox(tmp_path / "agent-1.outbox")
    instance = events.Instance(service="research", instance="agent-1")
    telemetry = Telemetry(instance, outbox=outbox, clock=Clock(), send=None)
    telemetry.emit(events.RunStarted(name="waits for company"))
    telemetry.emit(fact)
    eventually(lambda: outbox.pending == 2, what="both facts in the outbox")
    telemetry.close()
