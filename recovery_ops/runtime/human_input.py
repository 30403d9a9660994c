"""Puts a question to a person and waits for the answer, or takes it up later by its ticket.

`Recovery.ask`, `Recovery.escalate` and `Recovery.answer_to` lead here.

The question is an event, so it reaches the console's queue through the outbox, also when the server is away now; the
answer is part of the desired state, so it reaches an agent that was restarted meanwhile. Who never hears of an answer
takes the default by its own clock: silence denies, unless the caller says otherwise.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Literal, TypedDict

from recovery_ops.rules.classification.redaction import masked
from recovery_ops.rules.desired_state import Answer
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import Escalated
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.escalation_rules import DENY, QUESTION, faults_of_question
from recovery_ops.runtime.aio.waker import waited, waited_async
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import ConfigurationError, RunCancelled
from recovery_ops.runtime.guards.argument_checks import check_names
from recovery_ops.runtime.guards.options import seconds
from recovery_ops.runtime.process.clock import uuid7
from recovery_ops.runtime.runs.context import current_scope

if TYPE_CHECKING:
    from recovery_ops.runtime.calls.deadline import Duration

TIMEOUT_S = 1800.0


class QuestionOptions(TypedDict, total=False):
    """Options of a question to a person; `Recovery.ask` documents them."""

    proposal: str
    queue: str
    reason: str
    operation: str
    category: Category | None
    timeout: Duration
    default: Literal["deny", "allow"]
    ticket: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Decision of an escalation. `by` is the user, or `deadline` if nobody answered in time.

    `text` is the proposal, or its edited version. `is_default`: the default action applied. `Recovery.answer_to` finds
    it by its `ticket`. Rules: docs/guide/human-input.md

    >>> decision = recovery.escalate("May 120 EUR be refunded?", timeout=600, default="deny")
    >>> decision.is_approved, decision.is_default
    (False, True)
    """

    ticket: str
    is_approved: bool
    text: str = ""
    by: str = ""
    is_default: bool = False


def escalate(recovery: Engine, question: str, said: QuestionOptions) -> Decision:
    """Ask a person and block this thread until there is a decision."""
    return waited(recovery.waker, _wait(recovery, question, said))


async def escalate_async(recovery: Engine, question: str, said: QuestionOptions) -> Decision:
    """Ask a person and wait for the decision in this task."""
    return await waited_async(recovery.waker, _wait(recovery, question, said))


def ask(recovery: Engine, question: str, said: QuestionOptions) -> str:
    """Ask a person and do not wait; the ticket finds the answer later."""
    _check(question, said)
    ticket = said.get("ticket", "") or uuid7(recovery.clock.wall_ns())
    scope = current_scope()
    event = Escalated(
        operation=said.get("operation", ""),
        queue=said.get("queue", "review"),
        reason=said.get("reason", QUESTION),
        escalation_id=ticket,
        category=said.get("category"),
        message=masked(question.strip()),
        proposal=masked(said.get("proposal", "")),
        deadline_s=_timeout_s(said),
        default_action=said.get("default", "deny"),
    )
    with recovery.lock:
        recovery.record(event, scope=scope)
    return ticket


def answer_to(recovery: Engine, ticket: str, *, proposal: str = "") -> Decision | None:
    """What was decided under a ticket; None while nothing is known."""
    for one in recovery.desired.answers:
        if one.ticket == ticket:
            found = _decision(one)
            return found if found.text else _with_proposal(found, proposal)
    return None


def _wait(recovery: Engine, question: str, said: QuestionOptions) -> Generator[float, None, Decision]:
    """Yields how long to wait before the next look."""
    _check(question, said)
    proposal = said.get("proposal", "")
    known = answer_to(recovery, said.get("ticket", ""), proposal=proposal)
    if known is not None:
        return known
    ticket = ask(recovery, question, said)
    ends_at = recovery.clock.now() + _timeout_s(said)
    scope = current_scope()
    if scope is not None:
        scope.hold(recovery.clock.now())  # waiting for a person suspends the run
    try:
        while (found := answer_to(recovery, ticket, proposal=proposal)) is None:
            if scope is not None and scope.is_cancelled:
                raise RunCancelled(said.get("operation") or "the question", note=scope.called_off_note)
            left_s = ends_at - recovery.clock.now()
            if left_s <= 0:
                return Decision(
                    ticket=ticket,
                    is_approved=said.get("default") == "allow",
                    text=proposal,
                    by="deadline",
                    is_default=True,
                )
            yield left_s
        return found
    finally:
        if scope is not None:
            scope.let_go(recovery.clock.now())


def _check(question: str, said: QuestionOptions) -> None:
    """Refuse what nobody could answer, where it is written. Raises ConfigurationError."""
    check_names("a question to a person", said, QuestionOptions.__annotations__)
    faults = faults_of_question(
        question=question,
        queue=said.get("queue", "review"),
        reason=said.get("reason", QUESTION),
        deadline_s=_timeout_s(said),
        default=said.get("default", DENY),
        ticket=said.get("ticket", ""),
    )
    if faults:
        told = "; ".join(f"{_OPTION_OF.get(name, name)} {fault}" for name, fault in faults.items())
        raise ConfigurationError(f"a question to a person: {told}")


_OPTION_OF = {"deadline_s": "timeout"}


def _timeout_s(said: QuestionOptions) -> float:
    found = seconds(said.get("timeout"))
    return TIMEOUT_S if found is None else found


def _decision(one: Answer) -> Decision:
    return Decision(
        ticket=one.ticket,
        is_approved=one.is_approval,
        text=one.text,
        by=one.by,
        is_default=one.by == "deadline",
    )


def _with_proposal(found: Decision, proposal: str) -> Decision:
    return Decision(
        ticket=found.ticket, is_approved=found.is_approved, text=proposal, by=found.by, is_default=found.is_default
    )
