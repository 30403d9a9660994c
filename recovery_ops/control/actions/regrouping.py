"""Changing a merge or a split that is in force, and what that would do to the causes of the last days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, NotRequired, Required, Unpack

from events.failures.asking import read_failures
from events.failures.grouping import SPLIT_FIELDS, split_name
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out, require
from recovery_ops.control.actions.failures import attempt_of, require_known
from recovery_ops.control.failures import grouping_by, groupings_in_force
from recovery_ops.control.models import FINGERPRINT_CHARS, FailureGrouping
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused

PERMISSION = "arrange"
PREVIEWED = timedelta(days=7)


class Regrouping(Asked):
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
    """What a change would do to the failures that were read: the newest since a moment; `is_cut`: there are more."""

    moves: Sequence[Move]
    read: int
    since: datetime
    is_cut: bool


def changed_rule(
    environment: str, number: int, *, into: str = "", field: str = "", value: str = ""
) -> tuple[FailureGrouping, FailureGrouping]:
    """A rule in force, and as it would be, not saved. Raises Refused: 404, 409 where it has ended, 400 by field."""
    rule = FailureGrouping.objects.filter(environment=environment, pk=number).first()
    if rule is None:
        detail = f"There is no merge or split {number} in {environment}."
        raise Refused("unknown_grouping", detail, status=UNKNOWN, fields={"grouping": "is not known"})
    if rule.ended_at is not None:
        detail = f"It was taken back or changed by {rule.ended_by}, {rule.ended_at:%H:%M:%S} UTC."
        raise Refused("stale", detail, status=STALE)
    new = FailureGrouping(environment=environment, kind=rule.kind, fingerprint=rule.fingerprint)
    if rule.kind == FailureGrouping.MERGE:
        new.into = into or rule.into
        others = grouping_by([one for one in groupings_in_force(environment) if one.pk != rule.pk])
        if others.head(new.into) == rule.fingerprint:
            raise Refused("invalid", "It would be a part of itself.", fields={"into": "is a part of this cause"})
        return rule, new
    new.field, new.value = field or rule.field, value or rule.value
    new.into = split_name(rule.fingerprint, new.value)
    faults = {}
    if new.field not in SPLIT_FIELDS:
        faults["field"] = f"is one of {', '.join(SPLIT_FIELDS)}"
    if not new.value.isprintable() or len(new.into) > FINGERPRINT_CHARS:
        faults["value"] = "is the value that tells them apart"
    if faults:
        raise Refused("invalid", "That tells nothing apart.", fields=faults)
    return rule, new


def preview_of(rule: FailureGrouping, new: FailureGrouping, *, now: datetime) -> Preview:
    """What becomes of the newest failures of the last seven days, if a rule is changed. A few queries.

    Raises Refused: 404 where nothing is known of the cause that it would make.
    """
    _require_known(rule, new, now)
    held = groupings_in_force(rule.environment)
    sample = read_failures(rule.environment, start=now - PREVIEWED, end=now)
    before, after = grouping_by(held).of(sample), grouping_by([new if one.pk == rule.pk else one for one in held])
    had = Counter(one.fingerprint for one in before.seen)
    moved = Counter(
        (was.fingerprint, will.fingerprint)
        for was, will in zip(before.seen, after.of(sample).seen, strict=True)
        if was.fingerprint != will.fingerprint
    )
    moves = [Move(old, name, number, had[name] > 0) for (old, name), number in moved.most_common()]
    return Preview(moves=moves, read=len(sample.seen), since=sample.since, is_cut=sample.is_cut)


def require_editor(**asked: Unpack[Regrouping]) -> None:
    """Raise Refused (403), and write that down, where they may not: what is in force is told to nobody else."""
    attempt = _attempt(asked)
    with attempt.noted():
        require(attempt.by, attempt.permission, attempt.environment)


def edit_grouping(**asked: Unpack[Regrouping]) -> Done[str]:
    """End a merge or a split and make the changed one in the same step; answers with the cause that it makes.

    Raises Refused: 403, 404, 409 where somebody took it back meanwhile, 400 by field.
    """
    environment, number = asked["environment"], asked["grouping"]
    attempt = _attempt(asked)
    wanted = {name: str(asked.get(name, "")) for name in ("into", "field", "value")}

    def write(revision: int) -> Step[str]:
        rule, new = changed_rule(environment, number, **wanted)
        if _said(rule) == _said(new):
            return Step(object=rule.into, revision=revision, was_already=True)
        FailureGrouping.objects.filter(pk=rule.pk).update(ended_at=attempt.now, ended_by=attempt.by.name)
        new.made_at, new.made_by, new.reason = attempt.now, attempt.by.name, attempt.reason
        new.save()
        return Step(object=new.into, revision=revision, before=_said(rule), after=_said(new))

    with attempt.noted():
        attempt.check()
        if wanted["into"]:
            require_known(environment, wanted["into"], attempt.now)
        return carry_out(attempt, write, recall=lambda entry: str((entry.after or {})["into"]))


def _attempt(asked: Regrouping) -> Attempt:
    return attempt_of("failure.regroup", PERMISSION, asked, f"grouping {asked['grouping']}")


def _require_known(rule: FailureGrouping, new: FailureGrouping, now: datetime) -> None:
    if rule.kind == FailureGrouping.MERGE:
        require_known(rule.environment, new.into, now)


def _said(rule: FailureGrouping) -> dict[str, str]:
    names = ("kind", "fingerprint", "into", "field", "value")
    return {name: str(getattr(rule, name)) for name in names}
