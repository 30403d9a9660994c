"""An agent that begins one run after another, holds the second until it is told to end it, and says what it begins."""

from __future__ import annotations

import sys

from recovery_ops.runtime import Recovery, RunsPaused

if __name__ == "__main__":
    recovery = Recovery("batch-agent", instance="batch-1")
    with recovery.run("the first", source="coordinator_task"):
        pass
    with recovery.run("the second", source="coordinator_task", run_id="run-2"):
        print("holds", flush=True)
        sys.stdin.readline()
    try:
        with recovery.run("the third", source="coordinator_task"):
            print("began the third", flush=True)
    except RunsPaused as error:
        print(f"refused: {error}", flush=True)
    while not recovery.wait_for_work(timeout=60.0):
        pass
    with recovery.run("the fourth", source="coordinator_task"):
        print("began the fourth", flush=True)
    recovery.close()
