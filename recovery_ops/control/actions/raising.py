"""A person asks a queue about a run: a question like those that agents ask, with the run named in it."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Required, Unpack

from events.runs.asking import run_of
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.checks import said
from recovery_ops.control.escalations.terms import terms_now
from recovery_ops.control.models import NAME_CHARS, Escalation, EscalationNote
from recovery_ops.control.refusals import UNKNOWN, Refused
from recovery_ops.rules.escalations import QUESTION
from recovery_ops.rules.scope import Scope

QUEUE_CHARS = 64


class Raising(Asked):
    """What `raise_about` is given: a run, and the queue that is asked. The reason is the question."""

    run: Required[str]
    queue: Required[str]


def raise_about(**asked: Unpack[Raising]) -> Done[Escalation]:
    """Ask a queue about a run. While the question is open the same run asks that queue no second one.

    The run does not wait for the answer, so silence changes nothing. Raises Refused: 403, 404, 400 by field.
    """
    environment, run, queue = asked["environment"], asked["run"], said(asked["queue"])
    is_queue = bool(queue) and len(queue) <= QUEUE_CHARS and queue.isprintable()
    faults = {} if is_queue else {"queue": f"is a queue's name, of at most {QUEUE_CHARS} characters"}
    attempt = Attempt.of(
        "escalation.raise", "respond", Scope(), asked, faults, about=f"run {run}"[:NAME_CHARS], is_for_agents=False
    )

    def write(revision: int) -> Step[Escalation]:
        story = run_of(environment, run) if run.isprintable() and len(run) <= NAME_CHARS else None
        if story is None:
            detail = f"No fact in {environment} carries the run {run[:80]}."
            raise Refused("unknown_run", detail, status=UNKNOWN, fields={"run": "is not known"})
        key = hashlib.blake2b(f"raised\0{queue}\0{run}".encode(), digest_size=16).hexdigest()
        held = Escalation.objects.filter(environment=environment, key=key, resolved_at=None).first()
        if held is not None:
            return Step(object=held, revision=revision, was_already=True)
        terms = terms_now(environment)[QUESTION]
        failed = [step.operation for step in story.steps if step.operation and step.mark == "open"]
        made = Escalation.objects.create(
            environment=environment,
            key=key,
            queue=queue,
            reason=QUESTION,
            operation=failed[-1] if failed else "",
            message=attempt.reason,
            service=story.service,
            instances=[story.instance],
            runs=[run],
            occurrences=1,
            opened_at=attempt.now,
            seen_at=attempt.now,
            severity=terms.severity,
            acknowledge_in_s=terms.acknowledge_in_s,
            resolve_in_s=terms.resolve_in_s,
            acknowledge_by=attempt.now + timedelta(seconds=terms.acknowledge_in_s),
            resolve_by=attempt.now + timedelta(seconds=terms.resolve_in_s),
        )
        EscalationNote.objects.create(
            escalation=made, at=attempt.now, by=attempt.by.name, verb="opened", text=attempt.reason
        )
        return Step(object=made, revision=revision, after={"id": made.pk, "queue": queue, "run": run})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=lambda entry: Escalation.objects.get(pk=(entry.after or {})["id"]))
