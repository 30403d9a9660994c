"""Puts a question to a person and waits for the answer, or takes it up later by its ticket.

found = escalate_to_human(recovery, "May 120 EUR be refunded?", proposal='{"amount": 120}', deadline_s=1800)
if found.is_approved:
    refund(json.loads(found.text))

The question is a fact, so it reaches the console's queue through the outbox, also when the server is away now; the
answer is part of the desired state, so it reaches an agent that was restarted meanwhile. Who never hears of an answer
takes the default by its own clock: silence denies, unless the caller says otherwise.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from recovery_ops.rules.escalations import DENY, QUESTION, faults_of_question
from recovery_ops.rules.facts import Escalated
from recovery_ops.rules.intent import Answer
from recovery_ops.rules.masking import masked
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.words import Category
from recovery_ops.runtime.clock import uuid7
from recovery_ops.runtime.errors import NotConfigured, RunCancelled
from recovery_ops.runtime.run import CURRENT

if TYPE_CHECKING:
    from recovery_ops.runtime.recovery import Recovery

LOOK_EVERY_S = 5.0
"""A new desired state wakes whoever waits at once; this bounds what a wake that was missed can cost."""
DEADLINE_S = 1800.0


class Asking(TypedDict, total=False):
    """What more may be said of a question.

    `ticket` is a name of the caller's for it, unique in the environment: who asks under it again, after a restart,
    asks the same question, and gets the answer that it may have by now.
    """

    proposal: str
    """What is to be done if it is approved; it comes back as `text`, or what a person made of it."""
    queue: str
    reason: str
    """A word of `rules.escalations.REASONS`; `question` unless said."""
    operation: str
    category: Category | None
    deadline_s: float
    """From 1 s to 30 days."""
    default: Literal["deny", "allow"]
    ticket: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What came of a question. `by` is a person's name, or `deadline` where nobody answered in time."""

    ticket: str
    is_approved: bool
    text: str = ""
    by: str = ""
    is_default: bool = False


def escalate_to_human(recovery: Recovery, question: str, **said: Unpack[Asking]) -> Decision:
    """Ask a person and block this thread until they answer or the deadline has passed; the run's own stands still.

    Raises RunCancelled when the run is called off meanwhile, NotConfigured for a question that is none (see `Asking`).
    """
    waiting = _wait(recovery, question, said)
    try:
        delay_s = next(waiting)
        while True:
            recovery.waker.wait(delay_s)
            delay_s = next(waiting)
    except StopIteration as end:
        decision: Decision = end.value
        return decision
    finally:
        waiting.close()


async def escalate_to_human_async(recovery: Recovery, question: str, **said: Unpack[Asking]) -> Decision:
    """Like `escalate_to_human`, in a task; a cancel of the task passes through."""
    waiting = _wait(recovery, question, said)
    try:
        delay_s = next(waiting)
        while True:
            await recovery.waker.wait_async(delay_s)
            delay_s = next(waiting)
    except StopIteration as end:
        decision: Decision = end.value
        return decision
    finally:
        waiting.close()


def ask(recovery: Recovery, question: str, **said: Unpack[Asking]) -> str:
    """Ask a person and do not wait; the ticket finds the answer later, here or in another process of the service."""
    _check(question, said)
    ticket = said.get("ticket", "") or uuid7(recovery.clock.wall_ns())
    scope = CURRENT.get()
    fact = Escalated(
        operation=said.get("operation", ""),
        queue=said.get("queue", "review"),
        reason=said.get("reason", QUESTION),
        escalation_id=ticket,
        category=said.get("category"),
        message=masked(question.strip()),
        proposal=masked(said.get("proposal", "")),
        deadline_s=said.get("deadline_s", DEADLINE_S),
        default_action=said.get("default", "deny"),
    )
    with recovery.lock:
        recovery.record(fact, scope=scope)
    return ticket


def answer_to(recovery: Recovery, ticket: str, *, proposal: str = "") -> Decision | None:
    """What was decided under a ticket; None while nothing is known.

    `proposal` is what was proposed: it is the `text` where a person left it as it was, as it is for who waits. The
    console does not send it back: it has heard it masked.
    """
    for one in recovery.desired.answers:
        if one.ticket == ticket:
            found = _decision(one)
            return found if found.text else _with_proposal(found, proposal)
    return None


def _wait(recovery: Recovery, question: str, said: Asking) -> Generator[float, None, Decision]:
    """Yields how long to wait before the next look."""
    _check(question, said)
    proposal = said.get("proposal", "")
    known = answer_to(recovery, said.get("ticket", ""), proposal=proposal)
    if known is not None:
        return known
    ticket = ask(recovery, question, **said)
    ends_at = recovery.clock.now() + said.get("deadline_s", DEADLINE_S)
    scope = CURRENT.get()
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
            yield min(left_s, LOOK_EVERY_S)
        return found
    finally:
        if scope is not None:
            scope.let_go(recovery.clock.now())


def _check(question: str, said: Asking) -> None:
    """Refuse what nobody could answer, where it is written. Raises NotConfigured."""
    unknown = [f"{name} is not known" for name in said if name not in Asking.__annotations__]
    faults = faults_of_question(
        question=question,
        queue=said.get("queue", "review"),
        reason=said.get("reason", QUESTION),
        deadline_s=said.get("deadline_s", DEADLINE_S),
        default=said.get("default", DENY),
        ticket=said.get("ticket", ""),
    )
    told = [*unknown, *(f"{name} {fault}" for name, fault in faults.items())]
    if told:
        raise NotConfigured(f"a question to a person: {'; '.join(told)}")


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
