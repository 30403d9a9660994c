"""`python -m recovery_ops.runtime.self_test`: one failure on purpose, where the agent runs, to see its way to people.

A call of operation `self_test` times out once and succeeds when it is made again. It says where what it told went, and
what kept it from that: a pause of new work, a tripped breaker, or a policy that makes nothing again.
"""

from __future__ import annotations

import sys

from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.errors import CallRejected, RecoveryError

OPERATION = "self_test"


def fail_once(recovery: Recovery) -> int:
    """Fail once, recover, tell; return how often it was tried."""
    tries = 0

    @recovery.guard(OPERATION, read_only=True)
    def call() -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise TimeoutError("a test failure, on purpose")
        return tries

    with recovery.run("self test", source="main_agent"):
        return call()


def outcome(recovery: Recovery) -> tuple[str, bool]:
    """What became of it, as a sentence, and whether something failed on purpose: not where what an operator set holds
    for a test, too, and nothing was called.
    """
    try:
        return f"{OPERATION} failed once and succeeded at try {fail_once(recovery)}.", True
    except CallRejected as refused:
        return f"Nothing failed: {refused}.", False
    except (RecoveryError, TimeoutError) as ended:
        return f"{OPERATION} failed, and was not made good: {ended}.", True


def main() -> int:
    """0 where a server took what was told of the failure."""
    recovery = Recovery()
    (said, has_failed), url = outcome(recovery), recovery.identity.url
    is_told = recovery.flush() and bool(url) and not recovery.undelivered
    recovery.close()
    why = f"{url} has not taken it" if url else "RECOVERY_OPS_URL says no server"
    sys.stdout.write(f"{said}\n")
    sys.stdout.write(f"Told {url}.\n" if is_told else f"Not told: {why}.\n")
    return 0 if is_told and has_failed else 1


if __name__ == "__main__":
    sys.exit(main())
