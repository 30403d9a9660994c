"""An agent that pays and then tells, dies in between where that is wanted, and begins runs again when asked.

What it did stands in a file, a line each. It says what it was asked, and goes on until its input ends.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from recovery_ops.runtime import Recovery, RetryRequest, Workflow

LEDGER = Path(sys.argv[1])
IS_DOOMED = sys.argv[2:] == ["doomed"]


def note(words: str) -> str:
    with LEDGER.open("a") as file:
        file.write(f"{words}\n")
    return words


def tell(order: str) -> str:
    if IS_DOOMED:
        recovery.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    return note(f"told {order}")


def work(run: str, order: str) -> None:
    with recovery.run("refund", source="user_request", run_id=run), Workflow("refund", run) as flow:
        flow.step("pay", note, f"paid {run}")
        flow.step(f"tell {order}", tell, order)


def again(asked: RetryRequest) -> None:
    print(f"asked by {asked.by}: {asked.reason}", flush=True)
    work(asked.run, asked.input)
    print("done", flush=True)


if __name__ == "__main__":
    recovery = Recovery("refund-agent", instance="refund-1", on_retry=again)
    if IS_DOOMED:
        work("run-7", "ben")
    print("up", flush=True)
    sys.stdin.readline()
    recovery.close()
