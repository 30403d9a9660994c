"""Steps for people: written and taken away for a class of failures, ticked for a question. No agent hears of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any, NamedTuple, NotRequired, Required, TypeVar, Unpack

from django.db.models import CharField, Value

from recovery_ops.control.core.commands import (
    Change,
    Command,
    CommandContext,
    CommandResult,
    execute,
    require_permission,
)
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.runbooks.markdown import Block, fault_of_text, steps_of
from recovery_ops.control.runbooks.models import TEXT_CHARS, Runbook, RunbookTick
from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.scope import Scope

WRITING, TICKING = "write_runbooks", "respond"
_TICKED = "Runbook step of the escalation"
T = TypeVar("T", Runbook, Escalation)


class Tick(NamedTuple):
    """Who did a step for a question, and when."""

    by: str
    at: datetime


class Writing(CommandContext):
    """What `save_runbook` is given. An empty text takes the steps away. `version` is the one the asker looked at."""

    category: Required[str]
    text: Required[str]
    owner: NotRequired[str]
    review_on: NotRequired[date | None]
    version: NotRequired[int | None]


def save_runbook(**asked: Unpack[Writing]) -> CommandResult[Runbook]:
    """Write the steps for a category of failures, or take them away.

    Raises CommandRejected: 403, 400 by field, 409 when somebody else wrote them meanwhile.
    """
    text = "\n".join(line.rstrip() for line in asked["text"].splitlines()).strip()
    owner = asked.get("owner", "").strip()
    verb = "runbook.save" if text else "runbook.remove"
    about = f"the runbook {asked['category'][:32]}"
    command = Command.of(verb, Scope(), asked, _faults(asked, text, owner), about=about)

    def write(revision: int) -> Change[Runbook]:
        found = Runbook.objects.filter(environment=command.environment, category=asked["category"]).first()
        _check_version(found, asked.get("version"))
        before = None if found is None else _told(found)
        one = found or Runbook(environment=command.environment, category=asked["category"], version=0)
        review_on = asked.get("review_on")
        if found is not None and (found.text, found.owner, found.review_on) == (text, owner, review_on):
            return Change(object=found, revision=revision, was_already=True)
        one.text, one.owner, one.review_on = text, owner, review_on
        one.version, one.changed_by, one.changed_at = one.version + 1, command.by.name, command.now
        one.save()
        return Change(object=one, revision=revision, before=before, after=_told(one))

    return _carried_out(command, write, _runbook_recalled)


class Ticking(CommandContext):
    """What `tick_step` is given: the question's number, the key of a step, and whether it is done."""

    number: Required[int]
    step: Required[str]
    is_done: Required[bool]


def tick_step(**asked: Unpack[Ticking]) -> CommandResult[Escalation]:
    """Say that a step was done for a question, or take that back.

    Raises CommandRejected: 403, 404, 409 for a step that the runbook has no more.
    """
    require_permission(asked["by"], TICKING, asked["environment"])
    verb = "runbook.tick" if asked["is_done"] else "runbook.untick"
    given: Any = {**asked, "reason": asked["reason"] or _TICKED}
    command = Command.of(verb, Scope(), given, about=f"ESC-{asked['number']}")

    def write(revision: int) -> Change[Escalation]:
        one = _escalation(asked)
        ticks = RunbookTick.objects.filter(escalation=one, key=asked["step"])
        if not asked["is_done"]:
            held = ticks.first()
            if held is None:
                return Change(object=one, revision=revision, was_already=True)
            held.delete()
            return Change(
                object=one, revision=revision, before={"step": held.step, "number": one.pk}, after={"number": one.pk}
            )
        runbook, step = _step_of(one, asked["step"])
        if ticks.exists():
            return Change(object=one, revision=revision, was_already=True)
        RunbookTick.objects.create(escalation=one, key=step.key, step=step.words, by=command.by.name, at=command.now)
        Runbook.objects.filter(pk=runbook.pk).update(used_at=command.now, used_by=command.by.name)
        return Change(object=one, revision=revision, after={"step": step.words, "number": one.pk})

    return _carried_out(command, write, _escalation_recalled)


def runbook_for(environment: str, category: str) -> Runbook | None:
    """The steps for a category; None where nobody has written any."""
    found = Runbook.objects.filter(environment=environment, category=category) if category else Runbook.objects.none()
    return found.exclude(text="").first()


def steps_and_ticks(one: Escalation) -> tuple[str, dict[str, Tick]]:
    """The steps for what a question is about, as text, and those that were ticked, by their key. One query."""
    written = Runbook.objects.filter(environment=one.environment, category=one.category).exclude(text="")
    nothing = Value("", CharField())
    ticks = RunbookTick.objects.filter(escalation=one).values_list("key", "step", "by", "at")
    rows = list(written.values_list(nothing, "text", nothing, "changed_at").union(ticks, all=True))
    text = next((words for key, words, _, _ in rows if not key), "")
    return text, {key: Tick(by, at) for key, _, by, at in rows if key}


def ticks_of(one: Escalation) -> list[RunbookTick]:
    """The steps that were ticked for a question. One query."""
    return list(RunbookTick.objects.filter(escalation=one))


def _carried_out(
    command: Command, write: Callable[[int], Change[T]], recall: Callable[[AuditEntry], T]
) -> CommandResult[T]:
    with command.noted():
        command.check()
        return execute(command, write, recall=recall)


def _check_version(found: Runbook | None, version: int | None) -> None:
    is_at = 0 if found is None else found.version
    if version is None or version == is_at:
        return
    told = f"{found.changed_by} has changed the runbook" if found is not None else "The runbook does not exist"
    raise CommandRejected("stale", f"{told}. Reload, then save.", status=CONFLICT)


def _escalation(asked: Ticking) -> Escalation:
    found = Escalation.objects.filter(environment=asked["environment"], pk=asked["number"]).first()
    if found is None:
        detail = f"Escalation ESC-{asked['number']} does not exist in {asked['environment']}."
        raise CommandRejected("unknown_escalation", detail, status=NOT_FOUND, fields={"number": "is unknown"})
    return found


def _step_of(one: Escalation, key: str) -> tuple[Runbook, Block]:
    runbook = runbook_for(one.environment, one.category)
    for step in steps_of(runbook.text) if runbook is not None else ():
        if step.key == key and runbook is not None:
            return runbook, step
    detail = "The step no longer exists. Reload the page."
    raise CommandRejected("unknown_step", detail, status=CONFLICT, fields={"step": "is not a step of the runbook"})


def _faults(asked: Writing, text: str, owner: str) -> dict[str, str]:
    faults = {"markdown": fault_of_text(text)}
    if asked["category"] not in set(Category):
        faults["category"] = f"is one of {', '.join(Category)}"
    if len(text) > TEXT_CHARS:
        faults["markdown"] = f"has at most {TEXT_CHARS} characters"
    if len(owner) > NAME_CHARS or not owner.isprintable():
        faults["owner"] = f"is a name of at most {NAME_CHARS} characters"
    review_on = asked.get("review_on")
    if review_on is not None and not date(2000, 1, 1) <= review_on <= date(9000, 1, 1):
        faults["review_on"] = "is a date"
    return faults


def _told(one: Runbook) -> dict[str, Any]:
    return {
        "category": one.category,
        "text": one.text,
        "owner": one.owner,
        "review_on": None if one.review_on is None else one.review_on.isoformat(),
        "version": one.version,
    }


def _runbook_recalled(entry: AuditEntry) -> Runbook:
    return Runbook.objects.get(environment=entry.environment, category=entry.after["category"])


def _escalation_recalled(entry: AuditEntry) -> Escalation:
    return Escalation.objects.get(environment=entry.environment, pk=entry.after["number"])
