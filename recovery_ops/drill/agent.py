"""An agent with the real outbox that is killed in mid sentence: `agent.py FILE URL KEY`.

Says the uid of each fact once it must be in the outbox. With the word `drain` it says nothing and sends what is there.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from pathlib import Path

from recovery_ops.rules.facts import Instance, RunStarted
from recovery_ops.runtime.clock import Clock
from recovery_ops.runtime.delivery.outbox import Outbox
from recovery_ops.runtime.delivery.sender import Sender
from recovery_ops.runtime.telemetry import Telemetry

KEPT_AFTER_S = 0.25
"""Ten times what the outbox promises: the machine is busy with a drill."""
FACTS = 4000


def main(path: str, url: str, key: str, *words: str) -> None:
    """Emit and say, or drain."""
    instance = Instance(service="drill", instance="agent-1")
    telemetry = Telemetry(instance, outbox=Outbox(Path(path)), clock=Clock(), send=Sender(url, key))
    if words:
        done = telemetry.flush(60)
        telemetry.close()
        sys.exit(0 if done else 1)
    emitted: deque[tuple[float, str]] = deque()
    telemetry.add_reader(lambda record: emitted.append((time.monotonic(), record.uid)))
    for number in range(FACTS):
        telemetry.emit(RunStarted(name=f"run {number}"))
        while emitted and time.monotonic() - emitted[0][0] > KEPT_AFTER_S:
            print(emitted.popleft()[1], flush=True)
        time.sleep(0.001)


if __name__ == "__main__":
    main(*sys.argv[1:])
