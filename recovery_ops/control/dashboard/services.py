"""Annotations on the time axis: added, ended, removed. They change nothing; agents need not hear of any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from django.db.models import Max
from django.utils import timezone

from recovery_ops.control.core.commands import (
    Change,
    Command,
    CommandContext,
    CommandResult,
    execute,
    is_repeated,
    require_permission,
    state_version,
)
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.dashboard.models import TAG_CHARS, TAGS_MOST, TEXT_CHARS, Annotation
from recovery_ops.rules.policy.scope import ANY, Scope

PERMISSION = "annotate"
AHEAD_MOST = timedelta(days=31)
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_CHANGING = ("annotation.end", "annotation.remove")


class Noting(CommandContext):
    """What `annotate` is given. `at`: now, where it is not said; `until` ends what lasts, `goes_on` leaves it open."""

    text: Required[str]
    at: NotRequired[datetime | None]
    until: NotRequired[datetime | None]
    goes_on: NotRequired[bool]
    operation: NotRequired[str]
    tags: NotRequired[Sequence[str]]


def annotate(**asked: Unpack[Noting]) -> CommandResult[Annotation]:
    """Note something at a moment or over a span. Raises CommandRejected: 403, 400 by field."""
    text, operation = asked["text"].strip(), asked.get("operation", "").strip()
    tags = sorted({tag.strip().lower() for tag in asked.get("tags", ())} - {""})
    scope = Scope(operation=operation or ANY)
    now = asked.get("now") or timezone.now()
    at, until = asked.get("at") or now, asked.get("until")
    lasts = until is not None or asked.get("goes_on", False)
    faults = {
        "text": _fault_of_text(text),
        "at": _fault_of_moment(at, now),
        "until": _fault_of_end(at, until, now, goes_on=asked.get("goes_on", False)),
        "tags": _fault_of_tags(tags),
    }

    about = text[:TEXT_CHARS] or "nothing"
    command = Command.of("annotation.add", scope, asked, faults, about=about)

    def write(revision: int) -> Change[Annotation]:
        mine = Annotation.objects.filter(environment=command.environment)
        made = Annotation.objects.create(
            environment=command.environment,
            number=(mine.aggregate(last=Max("number"))["last"] or 0) + 1,
            text=text,
            tags=f"|{'|'.join(tags)}|" if tags else "",
            operation=operation,
            at=at,
            lasts=lasts,
            until=until,
            by_user_id=command.by.user_id,
            by=command.by.name,
            made_at=command.now,
        )
        return Change(object=made, revision=revision, after=_told(made))

    return _carried_out(command, write)


class Choosing(CommandContext):
    """What the acts on an annotation are given: its number."""

    number: Required[int]


def end_annotation(**asked: Unpack[Choosing]) -> CommandResult[Annotation]:
    """Let what goes on end now. Raises CommandRejected: 403, 404, 409 for what does not go on."""

    def end(one: Annotation, command: Command) -> None:
        if not one.goes_on:
            raise CommandRejected("not_going_on", f"{one} has no open end.", status=CONFLICT)
        one.until, one.ended_by = max(one.at, command.now), command.by.name

    return _changed("annotation.end", asked, end)


def remove_annotation(**asked: Unpack[Choosing]) -> CommandResult[Annotation]:
    """Take it from the time axis; the audit log keeps it. Raises CommandRejected: 403, 404."""

    def remove(one: Annotation, command: Command) -> None:
        one.removed_at, one.ended_by = command.now, command.by.name

    return _changed("annotation.remove", asked, remove)


def version_of_annotation(one: Annotation) -> int:
    """What `seen` is compared with: another one after whatever is done to it."""
    return state_version(one.pk, one.text, one.until, one.removed_at)


def _changed(verb: str, asked: Any, change: Callable[[Annotation, Command], None]) -> CommandResult[Annotation]:
    require_permission(asked["by"], PERMISSION, asked["environment"])
    held = _found(asked, is_removed=is_repeated(asked, verb))
    scope = Scope(operation=held.operation or ANY)
    command = Command.of(verb, scope, asked, about=str(held))

    def write(revision: int) -> Change[Annotation]:
        one = _found(asked)
        command.check_version(version_of_annotation(one), _CHANGING)
        before = _told(one)
        change(one, command)
        one.save(update_fields=["until", "ended_by", "removed_at"])
        return Change(object=one, revision=revision, before=before, after=_told(one))

    return _carried_out(command, write)


def _carried_out(command: Command, write: Callable[[int], Change[Annotation]]) -> CommandResult[Annotation]:
    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def _recalled(entry: AuditEntry) -> Annotation:
    return Annotation.objects.get(environment=entry.environment, number=entry.after["number"])


def _found(asked: Any, *, is_removed: bool = False) -> Annotation:
    """The annotation of a number; `is_removed`: also one that is no longer on the time axis."""
    found = Annotation.objects.filter(environment=asked["environment"], number=asked["number"]).first()
    if found is None or (found.removed_at is not None and not is_removed):
        detail = f"Annotation {asked['number']} does not exist in {asked['environment']}."
        raise CommandRejected("unknown_annotation", detail, status=NOT_FOUND, fields={"number": "is not known"})
    return found


def _told(one: Annotation) -> dict[str, Any]:
    return {
        "number": one.number,
        "text": one.text,
        "tags": one.tag_names,
        "at": one.at.isoformat(),
        "until": None if one.until is None else one.until.isoformat(),
        "goes_on": one.goes_on,
        "is_removed": one.removed_at is not None,
    }


def _fault_of_text(text: str) -> str:
    fits = text and len(text) <= TEXT_CHARS and text.isprintable()
    return "" if fits else f"has 1 to {TEXT_CHARS} characters that can be shown"


def _fault_of_moment(at: datetime, now: datetime) -> str:
    return "" if _EARLIEST <= at <= now + AHEAD_MOST else f"is at most {AHEAD_MOST.days} days ahead"


def _fault_of_end(at: datetime, until: datetime | None, now: datetime, *, goes_on: bool) -> str:
    if until is None:
        return ""
    if goes_on:
        return "is not set for an open end"
    return _fault_of_moment(until, now) if until > at else "is later than the start"


def _fault_of_tags(tags: Sequence[str]) -> str:
    if len(tags) > TAGS_MOST:
        return f"are at most {TAGS_MOST}"
    is_sound = all(len(tag) <= TAG_CHARS and tag.isprintable() and "|" not in tag for tag in tags)
    return "" if is_sound else f"are words of at most {TAG_CHARS} characters that can be shown, without |"
