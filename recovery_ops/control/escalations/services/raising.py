"""A person asks a queue, about a run, a cause of failures or an outage: a question like those that agents ask."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from django.utils import timezone

from events.capacity.asking import numbers_of, wholes_by_number
from events.capacity.occurrences import failures_in
from events.capacity.rows import CapacityEventRow
from events.failures.asking import counts_of_agents, read_failures
from events.failures.met import newest_met
from events.failures.rows import Field, Sample
from events.models import FINGERPRINT_CHARS
from events.moments import to_us
from events.runs.selectors import run_of
from recovery_ops.control.core.checks import LEAST_REASON_CHARS, normalize_reason
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.services.merging import NAMED_MOST, named, open_with_keys
from recovery_ops.control.escalations.terms import terms_now
from recovery_ops.control.issues.selectors import grouping_of
from recovery_ops.control.issues.services.issues import require_known
from recovery_ops.rules.policy.escalation_rules import QUESTION
from recovery_ops.rules.policy.escalation_terms import SEVERITIES
from recovery_ops.rules.policy.scope import Scope

QUEUE_CHARS = 64
QUESTION_CHARS = REASON_CHARS
_LOOKED_BACK = timedelta(days=31)
"""How old a failure may be that a question about its cause still names."""


class Raising(CommandContext):
    """What `raise_about` is given: a run, and the queue that is asked. The reason is the question."""

    run: Required[str]
    queue: Required[str]


class Putting(CommandContext):
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


def raise_about(**asked: Unpack[Raising]) -> CommandResult[Escalation]:
    """Ask a queue about a run. While the question is open the same run asks that queue no second one.

    The run does not wait for the answer, so silence changes nothing. Raises CommandRejected: 403, 404, 400 by field.
    """
    environment, run, queue = asked["environment"], asked["run"], normalize_reason(asked["queue"])
    command = Command.of(
        "escalation.raise",
        Scope(),
        asked,
        {"queue": _fault_of_queue(queue)},
        about=f"run {run}"[:NAME_CHARS],
    )

    def write(revision: int) -> Change[Escalation]:
        story = run_of(environment, run) if run.isprintable() and len(run) <= NAME_CHARS else None
        if story is None:
            detail = f"Run {run[:80]} does not exist in {environment}."
            raise CommandRejected("unknown_run", detail, status=NOT_FOUND, fields={"run": "is unknown"})
        key = _key("raised", queue, run)
        held = Escalation.objects.filter(environment=environment, key=key, resolved_at=None).first()
        if held is not None:
            return Change(object=held, revision=revision, was_already=True)
        failed = [step.operation for step in story.steps if step.operation and step.mark == "open"]
        made = _open(
            command,
            key=key,
            queue=queue,
            message=command.reason,
            operation=failed[-1] if failed else "",
            service=story.service,
            instances=[story.instance],
            runs=[run],
        )
        return Change(object=made, revision=revision, after={"id": made.pk, "queue": queue, "run": run})

    with command.noted():
        command.check()
        return execute(command, write, recall=lambda entry: Escalation.objects.get(pk=(entry.after or {})["id"]))


def raise_about_cause(**asked: Unpack[RaisingCause]) -> CommandResult[Escalation]:
    """Ask a queue about a cause of failures; of one that was merged, about the whole.

    While a question about a cause is open there is no second one, whichever queue is asked: what is open is answered
    with. No run waits for it, so silence changes nothing. Raises CommandRejected: 403, 404, 400 by field.
    """
    environment = asked["environment"]
    name = grouping_of(environment).head(asked["fingerprint"])
    command = _attempt("failure.escalate", asked, name)

    def told() -> dict[str, Any]:
        _require_name(environment, name)
        require_known(environment, name, command.now)
        return {"key": _key_of_cause(name), "fingerprint": name} | _told_of(environment, name, command.now)

    return _put(command, asked, told, lambda: open_about(environment, name), {"fingerprint": name})


def raise_about_event(**asked: Unpack[RaisingEvent]) -> CommandResult[Escalation]:
    """Ask a queue about a capacity event; of one that is part of another, about the whole.

    While a question about an event is open there is no second one, as with causes. Raises CommandRejected: 403, 404,
    400 by field.
    """
    environment, number = asked["environment"], asked["number"]
    now = asked.get("now") or timezone.now()
    row = wholes_by_number(environment, [number], now=now).get(number)
    about = number if row is None else row.id
    command = _attempt("capacity.escalate", asked, f"CE-{about}")

    def told() -> dict[str, Any]:
        if row is None:
            detail = f"Incident CE-{number} does not exist in {environment}."
            raise CommandRejected("unknown_event", detail, status=NOT_FOUND, fields={"number": "is unknown"})
        return {"key": _key_of_event(about), "capacity_event": about} | _told_of_event(environment, row)

    return _put(
        command,
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


def _attempt(verb: str, asked: Putting, about: str) -> Command:
    faults = {
        "queue": _fault_of_queue(normalize_reason(asked["queue"])),
        "question": _fault_of_question(normalize_reason(asked["question"])),
    }
    if (severity := asked.get("severity", "")) and severity not in SEVERITIES:
        faults["severity"] = f"is one of {', '.join(SEVERITIES)}"
    return Command.of(verb, Scope(), asked, faults, about=about[:NAME_CHARS])


def _put(
    command: Command,
    asked: Putting,
    told: Callable[[], dict[str, Any]],
    held_now: Callable[[], Escalation | None],
    after: dict[str, Any],
) -> CommandResult[Escalation]:
    """Put a question, of which `told` says what it is about, or refuses; `held_now` finds the one there is."""
    queue = normalize_reason(asked["queue"])
    more = {"severity": severity} if (severity := asked.get("severity", "")) else {}

    def write(revision: int) -> Change[Escalation]:
        held = held_now()
        if held is not None:
            return Change(object=held, revision=revision, was_already=True)
        made = _open(command, queue=queue, message=normalize_reason(asked["question"]), **about, **more)
        return Change(object=made, revision=revision, after={"id": made.pk, "queue": queue} | after)

    with command.noted():
        command.check()
        # Before anything is written: on SQLite nobody else could write while failures are read.
        about = told()
        return execute(command, write, recall=lambda entry: Escalation.objects.get(pk=(entry.after or {})["id"]))


def _open(command: Command, **of: Any) -> Escalation:
    terms = terms_now(command.environment)[QUESTION]
    told = {"severity": terms.severity, "reason": QUESTION, "occurrences": 1} | of
    made = Escalation.objects.create(
        **told,
        environment=command.environment,
        opened_at=command.now,
        seen_at=command.now,
        acknowledge_in_s=terms.acknowledge_in_s,
        resolve_in_s=terms.resolve_in_s,
        acknowledge_by=command.now + timedelta(seconds=terms.acknowledge_in_s),
        resolve_by=command.now + timedelta(seconds=terms.resolve_in_s),
    )
    EscalationNote.objects.create(
        escalation=made, at=command.now, by=command.by.name, verb="opened", text=command.reason
    )
    return made


def _told_of(environment: str, name: str, now: datetime) -> dict[str, Any]:
    """What the failures of a cause say: operation, category and service of most, and who met it."""
    span: dict[str, Any] = {"start": now - _LOOKED_BACK, "end": now}
    sample = grouping_of(environment).of(read_failures(environment, **span, has_bins=False))
    mine = sample.of([name])

    def most(field: Field) -> str:
        return next((value[:NAME_CHARS] for value, _ in mine.counts(field).most_common(1)), "")

    met = newest_met(mine.kinds, start_us=to_us(span["start"]), end_us=to_us(now), each=NAMED_MOST)
    return {
        "operation": most(Field.OPERATION),
        "category": most(Field.CATEGORY)[:32],
        "service": most(Field.SERVICE),
        "instances": named([], *(one for one, _ in _instances(environment, mine, span).most_common())),
        "runs": named([], *dict.fromkeys(one.run for one in sorted(met, key=lambda one: -one.last_us))),
    }


def _instances(environment: str, mine: Sample, span: dict[str, Any]) -> Counter[str]:
    return counts_of_agents(environment, mine, **span)[Field.INSTANCE] if mine.seen else Counter()


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
        detail = f"The fingerprint is invalid; use one line of at most {FINGERPRINT_CHARS} characters."
        raise CommandRejected("unknown_failure", detail, status=NOT_FOUND, fields={"fingerprint": "is unknown"})


def _fault_of_queue(queue: str) -> str:
    is_queue = bool(queue) and len(queue) <= QUEUE_CHARS and queue.isprintable()
    return "" if is_queue else f"is a queue's name, of at most {QUEUE_CHARS} characters"


def _fault_of_question(question: str) -> str:
    if len(question) < LEAST_REASON_CHARS:
        return f"has at least {LEAST_REASON_CHARS} characters"
    if len(question) > QUESTION_CHARS:
        return f"has at most {QUESTION_CHARS} characters"
    return "" if all(one.isprintable() or one in "\n\t" for one in question) else "has characters that cannot be shown"


def _key_of_cause(name: str) -> str:
    return _key("raised", "cause", name)


def _key_of_event(number: int) -> str:
    return _key("raised", "capacity event", str(number))


def _key(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()
