"""A person asks a queue, about a run, a cause of failures or an outage: a question like those that agents ask."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from django.utils import timezone

from events.capacity.asking import failures_in, numbers_of, wholes_by_number
from events.capacity.rows import CapacityEventRow
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


class Putting(Asked):
    """The queue that is asked, and what it is asked. Without a `severity` it is what the policy gives to questions."""

    queue: Required[str]
    question: Required[str]
    severity: NotRequired[str]


class RaisingCause(Putting):
    """What `raise_about_cause` is given: a cause beside what is asked."""

    fingerprint: Required[str]


class RaisingEvent(Putting):
    """What `raise_about_event` is given: the number of a capacity event beside what is asked."""

    number: Required[int]


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
    environment = asked["environment"]
    name = grouping_of(environment).head(asked["fingerprint"])
    attempt = _attempt("failure.escalate", asked, name)

    def told() -> dict[str, Any]:
        _require_name(environment, name)
        require_known(environment, name, attempt.now)
        return {"key": _key_of_cause(name), "fingerprint": name} | _told_of(environment, name, attempt.now)

    return _put(attempt, asked, told, lambda: open_about(environment, name), {"fingerprint": name})


def raise_about_event(**asked: Unpack[RaisingEvent]) -> Done[Escalation]:
    """Ask a queue about a capacity event; of one that is part of another, about the whole.

    While a question about an event is open there is no second one, as with causes. Raises Refused: 403, 404, 400 by
    field.
    """
    environment, number = asked["environment"], asked["number"]
    now = asked.get("now") or timezone.now()
    row = wholes_by_number(environment, [number], now=now).get(number)
    about = number if row is None else row.id
    attempt = _attempt("capacity.escalate", asked, f"CE-{about}")

    def told() -> dict[str, Any]:
        if row is None:
            detail = f"There is no capacity event CE-{number} in {environment}."
            raise Refused("unknown_event", detail, status=UNKNOWN, fields={"number": "is not known"})
        return {"key": _key_of_event(about), "capacity_event": about} | _told_of_event(environment, row)

    return _put(
        attempt,
        asked,
        told,
        lambda: None if row is None else open_about_event(environment, row),
        {"capacity_event": about},
    )


def open_about(environment: str, fingerprint: str) -> Escalation | None:
    """The open question that a person asked about a cause or a part of it, or the one it was merged into."""
    parts = grouping_of(environment).parts(fingerprint)
    return open_with_keys(environment, [_key_of_cause(part) for part in parts])


def open_about_event(environment: str, row: CapacityEventRow) -> Escalation | None:
    """The same about a capacity event, its parts and what grew into them."""
    numbers = numbers_of(row, environment).values_list("pk", flat=True)
    return open_with_keys(environment, [_key_of_event(number) for number in numbers])


def _attempt(verb: str, asked: Putting, about: str) -> Attempt:
    faults = {"queue": _fault_of_queue(said(asked["queue"])), "question": _fault_of_question(said(asked["question"]))}
    if (severity := asked.get("severity", "")) and severity not in SEVERITIES:
        faults["severity"] = f"is one of {', '.join(SEVERITIES)}"
    return Attempt.of(verb, "respond", Scope(), asked, faults, about=about[:NAME_CHARS], is_for_agents=False)


def _put(
    attempt: Attempt,
    asked: Putting,
    told: Callable[[], dict[str, Any]],
    held_now: Callable[[], Escalation | None],
    after: dict[str, Any],
) -> Done[Escalation]:
    """Put a question, of which `told` says what it is about, or refuses; `held_now` finds the one there is."""
    queue = said(asked["queue"])
    more = {"severity": severity} if (severity := asked.get("severity", "")) else {}

    def write(revision: int) -> Step[Escalation]:
        held = held_now()
        if held is not None:
            return Step(object=held, revision=revision, was_already=True)
        made = _open(attempt, queue=queue, message=said(asked["question"]), **about, **more)
        return Step(object=made, revision=revision, after={"id": made.pk, "queue": queue} | after)

    with attempt.noted():
        attempt.check()
        # Before anything is written: on SQLite nobody else could write while failures are read.
        about = told()
        return carry_out(attempt, write, recall=lambda entry: Escalation.objects.get(pk=(entry.after or {})["id"]))


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


def _told_of_event(environment: str, row: CapacityEventRow) -> dict[str, Any]:
    """What most of its failures were, which service it reached most, and who met the newest of them."""
    newest = failures_in(row, environment)
    return {
        "operation": next(iter(row.operations), row.operation),
        "category": next((one.value for one in row.categories), ""),
        "service": max(row.services, key=lambda name: row.services[name], default=""),
        "instances": named([], *(one.instance for one in newest)),
        "runs": named([], *(one.run for one in newest)),
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


def _key_of_event(number: int) -> str:
    return _key("raised", "capacity event", str(number))


def _key(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()
