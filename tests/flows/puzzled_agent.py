"""An agent whose ledger fails in a way that nobody knows, until a policy names it; it prints what it was told."""

from __future__ import annotations

import sys
import time

from recovery_ops.runtime import Recovery


class LedgerError(Exception):
    """What no rule of ours has a name for."""


def main() -> None:
    recovery = Recovery("ledger-agent", instance=sys.argv[1])

    @recovery.guard("post_entry", idempotent=True, max_retries=0)
    def post_entry(number: int) -> None:
        raise LedgerError(f"partition {number} of the ledger is busy")

    until, seen, category = time.monotonic() + 180, "", ""
    for number in range(10_000):
        with recovery.run("book", source="main_agent"):
            try:
                post_entry(number)
            except LedgerError as error:
                report = recovery.report(error)
                category = str(report.category) if report else ""
        if category != seen:
            seen = category
            print(f"failed: {category}", flush=True)
        if category != "unknown" or time.monotonic() > until:
            break
        time.sleep(0.5)
    recovery.flush()
    recovery.close()


if __name__ == "__main__":
    main()
