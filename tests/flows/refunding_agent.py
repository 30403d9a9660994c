"""An agent that asks a person about one refund and makes it once, whatever is killed meanwhile.

`wait` waits for the answer inside a step; `ticket` asks, keeps the ticket, and looks for the answer by it.

python -m tests.flows.refunding_agent wait|ticket ORDER LEDGER
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from recovery_ops.runtime import Decision, Recovery, Workflow

PROPOSAL = "120 EUR"
_QUESTION = "May order {} be refunded?"


def told(decision: Decision) -> list[str]:
    return ["approved" if decision.is_approved else "rejected", decision.text, decision.by]


def by_waiting(recovery: Recovery, order: str) -> list[str]:
    question = _QUESTION.format(order)
    return told(recovery.escalate(question, proposal=PROPOSAL, queue="refunds", ticket=order))


def by_ticket(recovery: Recovery, ticket: str) -> list[str]:
    while (decision := recovery.answer_to(ticket, proposal=PROPOSAL)) is None:
        time.sleep(0.05)
    return told(decision)


def write(ledger: Path, line: str) -> None:
    with ledger.open("a") as file:
        file.write(f"{line}\n")


def main(form: str, order: str, ledger: Path) -> None:
    """Ask, do as was said, and say what that was."""
    recovery = Recovery("billing-agent", instance=f"billing-{order}")
    with recovery.run("refund", source="user_request"), Workflow("refund", order, recovery=recovery) as workflow:
        print("at work", flush=True)
        if form == "ticket":
            question = _QUESTION.format(order)
            ticket = workflow.step("ask", recovery.ask, question, identity=order, proposal=PROPOSAL, queue="refunds")
            print("asked", flush=True)
            decided, text, by = workflow.step("hear", by_ticket, recovery, ticket, identity=order)
        else:
            decided, text, by = workflow.step("hear", by_waiting, recovery, order, identity=order)
        workflow.step("do", write, ledger, f"{order}: {decided} {text} by {by}", identity=order)
    print(f"told: {decided} {text} by {by}", flush=True)
    recovery.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
