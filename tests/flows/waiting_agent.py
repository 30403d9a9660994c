"""An agent whose run waits half an hour for a provider, and prints why it did not."""

from __future__ import annotations

import sys

from recovery_ops.runtime import Recovery, RunCancelled, Settings


class Overloaded(Exception):
    status_code = 503
    headers = {"retry-after": "1800"}  # as a response has them


if __name__ == "__main__":
    recovery = Recovery("batch-agent", instance="batch-1")

    @recovery.guard("load_ledger", idempotent=True, settings=Settings(persistent=True))
    def load_ledger() -> None:
        print("called", flush=True)
        raise Overloaded

    try:
        with recovery.run("close the books", source="coordinator_task", run_id=sys.argv[1]):
            load_ledger()
    except RunCancelled as error:
        print(f"ended: {error}", flush=True)
    recovery.close()
