"""Changing a merge or a split that is in force, and what that would do to the causes of the last days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, NotRequired, Required, Unpack

from events.failures.asking import read_failures
from events.failures.grouping import SPLIT_FIELDS, split_name
from events.models import FINGERPRINT_CHARS
from recovery_ops.control.core.commands import (
    Change,
    Command,
    CommandContext,
    CommandResult,
    execute,
    require_permission,
)
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.issues.models import FailureGrouping
from recovery_ops.control.issues.selectors import grouping_by, groupings_in_force
from recovery_ops.control.issues.services.issues import attempt_of, require_known

PERMISSION = "arrange"
PREVIEWED = timedelta(days=7)


class Regrouping(CommandContext):
    """What `edit_grouping` is given: the number of a merge or a split that is in force.

    Of a merge `into`, the cause that it is to belong to; of a split `field` and `value`, what tells its part apart.
    What is not given stays.
    """

    grouping: Required[int]
    into: NotRequired[str]
    field: NotRequired[str]
    value: NotRequired[str]


class Move(NamedTuple):
    """So many failures of one cause would be another's. `is_together`: that one has failures now, too."""

    before: str
    after: str
    failures: int
    is_together: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a change would do to the failures since a moment; `read`: how many these are."""

    moves: Sequence[Move]
    read: int
    since: datetime


def changed_rule(
    environment: str, number: int, *, into: str = "", field: str = "", value: str = ""
) -> tuple[FailureGrouping, FailureGrouping]:
    """A rule in force, and as it would be, not saved.

    Raises CommandRejected: 404, 409 where it has ended, 400 by field.
    """
    rule = FailureGrouping.objects.filter(environment=environment, pk=number).first()
    if rule is None:
        detail = f"Grouping {number} does not exist in {environment}."
        raise CommandRejected("unknown_grouping", detail, status=NOT_FOUND, fields={"grouping": "is unknown"})
    if rule.ended_at is not None:
        detail = f"The grouping was ended or edited by {rule.ended_by}, {rule.ended_at:%H:%M:%S} UTC."
        raise CommandRejected("stale", detail, status=CONFLICT)
    new = FailureGrouping(environment=environment, kind=rule.kind, fingerprint=rule.fingerprint)
    if rule.kind == FailureGrouping.MERGE:
        new.into = into or rule.into
        others = grouping_by([one for one in groupings_in_force(environment) if one.pk != rule.pk])
        if others.head(new.into) == rule.fingerprint:
            raise CommandRejected(
                "invalid", "An issue cannot be merged into itself.", fields={"into": "is part of this issue"}
            )
        return rule, new
    new.field, new.value = field or rule.field, value or rule.value
    new.into = split_name(rule.fingerprint, new.value)
    faults = {}
    if new.field not in SPLIT_FIELDS:
        faults["field"] = f"is one of {', '.join(SPLIT_FIELDS)}"
    if not new.value.isprintable() or len(new.into) > FINGERPRINT_CHARS:
        faults["value"] = "is the value to split by"
    if faults:
        raise CommandRejected("invalid", "The split has no effect; use another value.", fields=faults)
    return rule, new


def preview_of(rule: FailureGrouping, new: FailureGrouping, *, now: datetime) -> Preview:
    """What becomes of the failures of the last seven days, if a rule is changed. A few queries.

    Raises CommandRejected: 404 where nothing is known of the cause that it would make.
    """
    _require_known(rule, new, now)
    held = groupings_in_force(rule.environment)
    sample = read_failures(rule.environment, start=now - PREVIEWED, end=now, has_bins=False)
    before, after = grouping_by(held).of(sample), grouping_by([new if one.pk == rule.pk else one for one in held])
    moved = Counter[tuple[str, str]]()
    for was, will in zip(before.seen, after.of(sample).seen, strict=True):
        if was.fingerprint != will.fingerprint:
            moved[was.fingerprint, will.fingerprint] += was.failures
    moves = [Move(old, name, number, name in before.causes) for (old, name), number in moved.most_common()]
    return Preview(moves=moves, read=sample.total, since=now - PREVIEWED)


def require_editor(**asked: Unpack[Regrouping]) -> None:
    """Raise Refused (403), and write that down, where they may not: what is in force is told to nobody else."""
    command = _attempt(asked)
    with command.noted():
        require_permission(command.by, command.permission, command.environment)


def edit_grouping(**asked: Unpack[Regrouping]) -> CommandResult[str]:
    """End a merge or a split and make the changed one in the same step; answers with the cause that it makes.

    Raises CommandRejected: 403, 404, 409 where somebody took it back meanwhile, 400 by field.
    """
    environment, number = asked["environment"], asked["grouping"]
    command = _attempt(asked)
    wanted = {name: str(asked.get(name, "")) for name in ("into", "field", "value")}

    def write(revision: int) -> Change[str]:
        rule, new = changed_rule(environment, number, **wanted)
        if _said(rule) == _said(new):
            return Change(object=rule.into, revision=revision, was_already=True)
        FailureGrouping.objects.filter(pk=rule.pk).update(ended_at=command.now, ended_by=command.by.name)
        new.made_at, new.made_by, new.reason = command.now, command.by.name, command.reason
        new.save()
        return Change(object=new.into, revision=revision, before=_said(rule), after=_said(new))

    with command.noted():
        command.check()
        if wanted["into"]:
            require_known(environment, wanted["into"], command.now)
        return execute(command, write, recall=lambda entry: str((entry.after or {})["into"]))


def _attempt(asked: Regrouping) -> Command:
    return attempt_of("failure.regroup", PERMISSION, asked, f"grouping {asked['grouping']}")


def _require_known(rule: FailureGrouping, new: FailureGrouping, now: datetime) -> None:
    if rule.kind == FailureGrouping.MERGE:
        require_known(rule.environment, new.into, now)


def _said(rule: FailureGrouping) -> dict[str, str]:
    names = ("kind", "fingerprint", "into", "field", "value")
    return {name: str(getattr(rule, name)) for name in names}
