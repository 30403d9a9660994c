"""An agent that asks a person whether it may refund, waits, and prints what it was told."""

from __future__ import annotations

import sys

from recovery_ops.runtime import Recovery

if __name__ == "__main__":
    recovery = Recovery("billing-agent", instance=sys.argv[1])
    with recovery.run("refund", source="user_request"):
        print("asking", flush=True)
        found = recovery.escalate(
            "May 120 EUR be refunded?",
            proposal="120 EUR",
            queue="refunds",
            operation="refund",
            timeout=600.0,
            ticket=sys.argv[2],
        )
    print(f"told: {found.is_approved} {found.text} by {found.by}", flush=True)
    recovery.close()
