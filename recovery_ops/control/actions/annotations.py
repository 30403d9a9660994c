"""Annotations on the time axis: added, ended, removed. They change nothing; agents need not hear of any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from django.db.models import Max
from django.utils import timezone

from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out, require, version_of
from recovery_ops.control.models import Annotation, AuditEntry
from recovery_ops.control.models.annotations import TAG_CHARS, TAGS_MOST, TEXT_CHARS
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.rules.scope import ANY, Scope

PERMISSION = "annotate"
AHEAD_MOST = timedelta(days=31)
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_CHANGING = ("annotation.end", "annotation.remove")


class Noting(Asked):
    """What `annotate` is given. `at`: now, where it is not said; `until` ends what lasts, `goes_on` leaves it open."""

    text: Required[str]
    at: NotRequired[datetime | None]
    until: NotRequired[datetime | None]
    goes_on: NotRequired[bool]
    operation: NotRequired[str]
    tags: NotRequired[Sequence[str]]


def annotate(**asked: Unpack[Noting]) -> Done[Annotation]:
    """Note something at a moment or over a span. Raises Refused: 403, 400 by field."""
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
    attempt = Attempt.of("annotation.add", PERMISSION, scope, asked, faults, about=about, is_for_agents=False)

    def write(revision: int) -> Step[Annotation]:
        mine = Annotation.objects.filter(environment=attempt.environment)
        made = Annotation.objects.create(
            environment=attempt.environment,
            number=(mine.aggregate(last=Max("number"))["last"] or 0) + 1,
            text=text,
            tags=f"|{'|'.join(tags)}|" if tags else "",
            operation=operation,
            at=at,
            lasts=lasts,
            until=until,
            by_user_id=attempt.by.user_id,
            by=attempt.by.name,
            made_at=attempt.now,
        )
        return Step(object=made, revision=revision, after=_told(made))

    return _carried_out(attempt, write)


class Choosing(Asked):
    """What the acts on an annotation are given: its number."""

    number: Required[int]


def end_annotation(**asked: Unpack[Choosing]) -> Done[Annotation]:
    """Let what goes on end now. Raises Refused: 403, 404, 409 for what does not go on."""

    def end(one: Annotation, attempt: Attempt) -> None:
        if not one.goes_on:
            raise Refused("not_going_on", f"{one} does not go on.", status=STALE)
        one.until, one.ended_by = max(one.at, attempt.now), attempt.by.name

    return _changed("annotation.end", asked, end)


def remove_annotation(**asked: Unpack[Choosing]) -> Done[Annotation]:
    """Take it from the time axis; the audit log keeps it. Raises Refused: 403, 404."""

    def remove(one: Annotation, attempt: Attempt) -> None:
        one.removed_at, one.ended_by = attempt.now, attempt.by.name

    return _changed("annotation.remove", asked, remove)


def version_of_annotation(one: Annotation) -> int:
    """What `seen` is compared with: another one after whatever is done to it."""
    return version_of(one.pk, one.text, one.until, one.removed_at)


def _changed(verb: str, asked: Any, change: Callable[[Annotation, Attempt], None]) -> Done[Annotation]:
    require(asked["by"], PERMISSION, asked["environment"])
    held = _found(asked)
    scope = Scope(operation=held.operation or ANY)
    attempt = Attempt.of(verb, PERMISSION, scope, asked, about=str(held), is_for_agents=False)

    def write(revision: int) -> Step[Annotation]:
        one = _found(asked)
        attempt.check_seen(version_of_annotation(one), _CHANGING)
        before = _told(one)
        change(one, attempt)
        one.save(update_fields=["until", "ended_by", "removed_at"])
        return Step(object=one, revision=revision, before=before, after=_told(one))

    return _carried_out(attempt, write)


def _carried_out(attempt: Attempt, write: Callable[[int], Step[Annotation]]) -> Done[Annotation]:
    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


def _recalled(entry: AuditEntry) -> Annotation:
    return Annotation.objects.get(environment=entry.environment, number=entry.after["number"])


def _found(asked: Any) -> Annotation:
    found = Annotation.objects.filter(environment=asked["environment"], number=asked["number"], removed_at=None).first()
    if found is None:
        detail = f"There is no annotation {asked['number']} in {asked['environment']}."
        raise Refused("unknown_annotation", detail, status=UNKNOWN, fields={"number": "is not known"})
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
        return "is not said of what goes on"
    return _fault_of_moment(until, now) if until > at else "is later than the beginning"


def _fault_of_tags(tags: Sequence[str]) -> str:
    if len(tags) > TAGS_MOST:
        return f"are at most {TAGS_MOST}"
    is_sound = all(len(tag) <= TAG_CHARS and tag.isprintable() and "|" not in tag for tag in tags)
    return "" if is_sound else f"are words of at most {TAG_CHARS} characters that can be shown, without |"
