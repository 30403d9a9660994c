"""A person asks a queue, about a run or about a cause of failures: a question like those that agents ask."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from events.failures.asking import read_failures
from events.failures.rows import Field, Sample
from events.runs.asking import run_of
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.checks import LEAST_REASON_CHARS, said
from recovery_ops.control.actions.failures import require_known
from recovery_ops.control.escalations.merging import named, open_with_keys
from recovery_ops.control.escalations.terms import terms_now
from recovery_ops.control.failures import grouping_of
from recovery_ops.control.models import FINGERPRINT_CHARS, NAME_CHARS, REASON_CHARS, Escalation, EscalationNote
from recovery_ops.control.refusals import UNKNOWN, Refused
from recovery_ops.rules.escalation_terms import SEVERITIES
from recovery_ops.rules.escalations import QUESTION
from recovery_ops.rules.scope import Scope

QUEUE_CHARS = 64
QUESTION_CHARS = REASON_CHARS
_LOOKED_BACK = timedelta(days=31)
"""How old a failure may be that a question about its cause still names."""


class Raising(Asked):
    """What `raise_about` is given: a run, and the queue that is asked. The reason is the question."""

    run: Required[str]
    queue: Required[str]


class RaisingCause(Asked):
    """What `raise_about_cause` is given: a cause, the queue that is asked, and what it is asked.

    Without a `severity` it is the one that the policy gives to questions.
    """

    fingerprint: Required[str]
    queue: Required[str]
    question: Required[str]
    severity: NotRequired[str]


def raise_about(**asked: Unpack[Raising]) -> Done[Escalation]:
    """Ask a queue about a run. While the question is open the same run asks that queue no second one.

    The run does not wait for the answer, so silence changes nothing. Raises Refused: 403, 404, 400 by field.
    """
    environment, run, queue = asked["environment"], asked["run"], said(asked["queue"])
    attempt = Attempt.of(
        "escalation.raise",
        "respond",
        Scope(),
        asked,
        {"queue": _fault_of_queue(queue)},
        about=f"run {run}"[:NAME_CHARS],
        is_for_agents=False,
    )

    def write(revision: int) -> Step[Escalation]:
        story = run_of(environment, run) if run.isprintable() and len(run) <= NAME_CHARS else None
        if story is None:
            detail = f"No fact in {environment} carries the run {run[:80]}."
            raise Refused("unknown_run", detail, status=UNKNOWN, fields={"run": "is not known"})
        key = _key("raised", queue, run)
        held = Escalation.objects.filter(environment=environment, key=key, resolved_at=None).first()
        if held is not None:
            return Step(object=held, revision=revision, was_already=True)
        failed = [step.operation for step in story.steps if step.operation and step.mark == "open"]
        made = _open(
            attempt,
            key=key,
            queue=queue,
            message=attempt.reason,
            operation=failed[-1] if failed else "",
            service=story.service,
            instances=[story.instance],
            runs=[run],
        )
        return Step(object=made, revision=revision, after={"id": made.pk, "queue": queue, "run": run})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=lambda entry: Escalation.objects.get(pk=(entry.after or {})["id"]))


def raise_about_cause(**asked: Unpack[RaisingCause]) -> Done[Escalation]:
    """Ask a queue about a cause of failures; of one that was merged, about the whole.

    While a question about a cause is open there is no second one, whichever queue is asked: what is open is answered
    with. No run waits for it, so silence changes nothing. Raises Refused: 403, 404, 400 by field.
    """
    environment, queue, question = asked["environment"], said(asked["queue"]), said(asked["question"])
    severity = asked.get("severity", "")
    name = grouping_of(environment).head(asked["fingerprint"])
    faults = {"queue": _fault_of_queue(queue), "question": _fault_of_question(question)}
    if severity and severity not in SEVERITIES:
        faults["severity"] = f"is one of {', '.join(SEVERITIES)}"
    attempt = Attempt.of(
        "failure.escalate", "respond", Scope(), asked, faults, about=name[:NAME_CHARS], is_for_agents=False
    )

    def write(revision: int) -> Step[Escalation]:
        held = open_about(environment, name)
        if held is not None:
            return Step(object=held, revision=revision, was_already=True)
        key, more = _key_of_cause(name), {"severity": severity} if severity else {}
        made = _open(attempt, key=key, queue=queue, message=question, fingerprint=name, **told, **more)
        return Step(object=made, revision=revision, after={"id": made.pk, "queue": queue, "fingerprint": name})

    with attempt.noted():
        attempt.check()
        _require_name(environment, name)
        require_known(environment, name, attempt.now)
        # Before anything is written: on SQLite nobody else could write while failures are read.
        told = _told_of(environment, name, attempt.now)
        return carry_out(attempt, write, recall=lambda entry: Escalation.objects.get(pk=(entry.after or {})["id"]))


def open_about(environment: str, fingerprint: str) -> Escalation | None:
    """The open question that a person asked about a cause or a part of it, or the one it was merged into."""
    parts = grouping_of(environment).parts(fingerprint)
    return open_with_keys(environment, [_key_of_cause(part) for part in parts])


def _open(attempt: Attempt, **of: Any) -> Escalation:
    terms = terms_now(attempt.environment)[QUESTION]
    told = {"severity": terms.severity, "reason": QUESTION, "occurrences": 1} | of
    made = Escalation.objects.create(
        **told,
        environment=attempt.environment,
        opened_at=attempt.now,
        seen_at=attempt.now,
        acknowledge_in_s=terms.acknowledge_in_s,
        resolve_in_s=terms.resolve_in_s,
        acknowledge_by=attempt.now + timedelta(seconds=terms.acknowledge_in_s),
        resolve_by=attempt.now + timedelta(seconds=terms.resolve_in_s),
    )
    EscalationNote.objects.create(
        escalation=made, at=attempt.now, by=attempt.by.name, verb="opened", text=attempt.reason
    )
    return made


def _told_of(environment: str, name: str, now: datetime) -> dict[str, Any]:
    """What the newest failures of a cause say: operation, category and service of most, and who met it."""
    sample = grouping_of(environment).of(read_failures(environment, start=now - _LOOKED_BACK, end=now))
    mine = Sample(
        seen=[one for one in sample.seen if one.fingerprint == name], is_cut=sample.is_cut, since=sample.since
    )

    def most(field: Field) -> str:
        return next((value[:NAME_CHARS] for value, _ in mine.counts(field).most_common(1)), "")

    return {
        "operation": most(Field.OPERATION),
        "category": most(Field.CATEGORY)[:32],
        "service": most(Field.SERVICE),
        "instances": named([], *mine.counts(Field.INSTANCE)),
        "runs": named([], *(one.run for one in mine.seen)),
    }


def _require_name(environment: str, name: str) -> None:
    if not name or not name.isprintable() or len(name) > FINGERPRINT_CHARS:
        detail = f"A cause is asked about by a name in one line of at most {FINGERPRINT_CHARS} characters."
        raise Refused("unknown_failure", detail, status=UNKNOWN, fields={"fingerprint": "is not known"})


def _fault_of_queue(queue: str) -> str:
    is_queue = bool(queue) and len(queue) <= QUEUE_CHARS and queue.isprintable()
    return "" if is_queue else f"is a queue's name, of at most {QUEUE_CHARS} characters"


def _fault_of_question(question: str) -> str:
    if len(question) < LEAST_REASON_CHARS:
        return f"has to say what is asked in at least {LEAST_REASON_CHARS} characters"
    if len(question) > QUESTION_CHARS:
        return f"has at most {QUESTION_CHARS} characters"
    return "" if all(one.isprintable() or one in "\n\t" for one in question) else "has characters that cannot be shown"


def _key_of_cause(name: str) -> str:
    return _key("raised", "cause", name)


def _key(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()
