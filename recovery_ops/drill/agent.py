"""An agent with the real outbox that is killed in mid sentence: `agent.py FILE URL KEY`.

Says `.` for each fact that it tells the runtime, and `UID MICROSECONDS RANK` for each that was committed to the outbox,
with the time since it was told. With the word `drain` it says nothing and sends what is there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recovery_ops.rules.enums import State, Trigger
from recovery_ops.rules.events import BreakerStateChanged, Event, Instance, RunStarted
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.telemetry.exporter import Exporter
from recovery_ops.runtime.telemetry.outbox import Entry, Outbox
from recovery_ops.runtime.telemetry.pipeline import Telemetry

FACTS = 4000
_URGENT_EACH = 20


class Telling(Outbox):
    """An outbox that says what it has committed, and how long after it was told."""

    def add(self, entries: Sequence[Entry], **more: Any) -> None:
        """Keep them, then say so."""
        super().add(entries, **more)
        now_ns = time.time_ns()
        if self.is_durable:
            _say("".join(f"{one.uid} {(now_ns - one.at_ns) // 1000} {one.rank.name}\n" for one in entries))


def main(path: str, url: str, key: str, *words: str) -> None:
    """Emit and say, or drain."""
    instance = Instance(service="drill", instance="agent-1")
    outbox = Outbox(Path(path)) if words else Telling(Path(path))
    telemetry = Telemetry(instance, outbox=outbox, clock=Clock(), send=Exporter(url, key))
    if words:
        done = telemetry.flush(60)
        telemetry.close()
        sys.exit(0 if done else 1)
    for number in range(FACTS):
        telemetry.emit(_fact(number))
        _say(".\n")
        if number == 0:
            # OpenTelemetry is loaded now, which takes a second: a time of its own, told as the first fact's.
            telemetry.flush(30)
        time.sleep(0.001)


def _fact(number: int) -> Event:
    if number % _URGENT_EACH != _URGENT_EACH - 1:
        return RunStarted(name=f"run {number}")
    states = (State.OPEN, State.CLOSED)
    state, before = states if number // _URGENT_EACH % 2 else reversed(states)
    return BreakerStateChanged(
        operation="search", breaker="search", state=state, previous_state=before, trigger=Trigger.CONSECUTIVE_FAILURES
    )


def _say(text: str) -> None:
    """In one write, so that two threads never mix their lines and a kill loses none that was said."""
    os.write(sys.stdout.fileno(), text.encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
