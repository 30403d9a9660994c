"""An agent that is in a run until it is stopped, and says what becomes of the run, of a call and of a new run."""

from __future__ import annotations

import time

from recovery_ops.runtime import Recovery, RunCancelled, RunsPaused

if __name__ == "__main__":
    recovery = Recovery("batch-agent", instance="batch-1")

    @recovery.guard("look_up", read_only=True)
    def look_up() -> str:
        return "found"

    try:
        with recovery.run("the first", source="coordinator_task", run_id="run-1"):
            print("works", flush=True)
            while look_up():
                time.sleep(0.02)
    except RunCancelled as error:
        print(f"aborted: {error.note}", flush=True)
    try:
        look_up()
    except RunsPaused as error:
        print(f"rejected: {error.is_stop}", flush=True)
    try:
        with recovery.run("the second", source="coordinator_task"):
            print("began the second", flush=True)
    except RunsPaused as error:
        print(f"refused: {error.is_stop}", flush=True)
    while not recovery.wait_for_work(timeout=60.0):
        pass
    with recovery.run("the third", source="coordinator_task"):
        print(f"began the third: {look_up()}", flush=True)
    recovery.close()
