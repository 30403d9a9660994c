"""What people say of capacity events: these are one, this one ends here, back again; and what they note on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Required, Unpack

from events.capacity import arranging
from events.capacity.models import CapacityArrangement, CapacityEvent
from events.moments import to_us
from recovery_ops.control.capacity.models import CapacityNote
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.core.wording import with_reason
from recovery_ops.rules.policy.scope import Scope

PERMISSION, NOTING = "arrange", "annotate"
MERGE_MOST = 20


class Merging(CommandContext):
    """What `merge_events` is given: the numbers of two or more events. The lowest one names the whole."""

    numbers: Required[Sequence[int]]


class Splitting(CommandContext):
    """What `split_event` is given: its number, and the moment from which on its failures are another event."""

    number: Required[int]
    at: Required[datetime]


class SettingApart(CommandContext):
    """What `set_event_apart` is given: the number of a part that the rule joined to others."""

    number: Required[int]


class TakingBack(CommandContext):
    """What `undo_arrangement` is given: the number of a merge, a split or a part set apart."""

    arrangement: Required[int]


def merge_events(**asked: Unpack[Merging]) -> CommandResult[CapacityEvent]:
    """Make one event of several. Each goes on growing by itself; the numbers of the whole are those of all of them.

    Raises CommandRejected: 403, 400, 404, and 409 when something was arranged since `seen` (`steps_of`).
    """
    numbers = sorted(set(asked["numbers"]))
    faults = {} if 2 <= len(numbers) <= MERGE_MOST else {"numbers": f"are 2 to {MERGE_MOST} different events"}

    def apply(command: Command) -> tuple[CapacityEvent, bool]:
        first, *others = [_standing(command.environment, number) for number in numbers]
        joined = [other for other in others if (other.part_of_id or other.pk) != (first.part_of_id or first.pk)]
        for other in joined:
            arranging.merge(other, first, by=command.by.name[:NAME_CHARS], reason=command.reason, now=command.now)
        held = CapacityEvent.objects.get(pk=first.pk)
        return CapacityEvent.objects.get(pk=held.part_of_id or held.pk), bool(joined)

    about = ", ".join(f"CE-{number}" for number in numbers)
    return _arranged("capacity.merge", asked, about, apply, faults)


def split_event(**asked: Unpack[Splitting]) -> CommandResult[CapacityEvent]:
    """Make two events of one, with all that the rule joined to it; the later half is the answer.

    Raises CommandRejected: 403, 400 where a half would be empty, 404, 409 where it was merged by people, or as
    `merge_events`.
    """

    def apply(command: Command) -> tuple[CapacityEvent, bool]:
        held = _standing(command.environment, asked["number"])
        if arranging.is_merged_by_people(held):
            detail = f"CE-{held.pk} was merged by a person. Take that back first, then split what is left."
            raise CommandRejected("merged", detail, status=CONFLICT)
        try:
            made = arranging.cut(
                held, to_us(asked["at"]), by=command.by.name[:NAME_CHARS], reason=command.reason, now=command.now
            )
        except arranging.CannotArrange as problem:
            raise CommandRejected("invalid", str(problem), fields={"at": "leaves a half without failures"}) from problem
        return made.event, True

    return _arranged("capacity.split", asked, f"CE-{asked['number']}", apply)


def set_event_apart(**asked: Unpack[SettingApart]) -> CommandResult[CapacityEvent]:
    """Make a part of an event stand by itself, whatever fails at once with it; the part is the answer.

    Raises CommandRejected: 403, 400 where the rule joined it to nothing, 404, or 409 as `merge_events`.
    """

    def apply(command: Command) -> tuple[CapacityEvent, bool]:
        held = _standing(command.environment, asked["number"])
        try:
            arranging.set_apart(held, by=command.by.name[:NAME_CHARS], reason=command.reason, now=command.now)
        except arranging.CannotArrange as problem:
            raise CommandRejected("invalid", str(problem), fields={"number": "is joined to nothing"}) from problem
        return CapacityEvent.objects.get(pk=held.pk), True

    return _arranged("capacity.apart", asked, f"CE-{asked['number']}", apply)


def undo_arrangement(**asked: Unpack[TakingBack]) -> CommandResult[CapacityEvent]:
    """Take a merge, a split or what was set apart back. What has been taken back already is left as it is.

    Raises CommandRejected: 403, 400, 404, or 409 as `merge_events`.
    """
    made = CapacityArrangement.objects.filter(environment=asked["environment"], pk=asked["arrangement"]).first()

    def apply(command: Command) -> tuple[CapacityEvent, bool]:
        if made is None:
            detail = f"There is no merge or split {asked['arrangement']} in {command.environment}."
            raise CommandRejected(
                "unknown_arrangement", detail, status=NOT_FOUND, fields={"arrangement": "is not known"}
            )
        held = CapacityArrangement.objects.get(pk=made.pk)
        if held.ended_at is None:
            arranging.take_back(held, by=command.by.name[:NAME_CHARS], now=command.now)
        return CapacityEvent.objects.get(pk=held.other_id), held.ended_at is None

    about = f"CE-{made.event_id} and CE-{made.other_id}" if made else f"arrangement {asked['arrangement']}"
    return _arranged("capacity.undo", asked, about, apply)


class Noting(CommandContext):
    """What `note_on_event` is given: the number of an event. The reason is the note."""

    number: Required[int]


def note_on_event(**asked: Unpack[Noting]) -> CommandResult[CapacityNote]:
    """Write a line on the page of an event, which agents need not hear of. Raises CommandRejected: 403, 404, 400."""
    number = asked["number"]
    command = Command.of("capacity.note", Scope(), asked, about=f"CE-{number}")

    def write(revision: int) -> Change[CapacityNote]:
        held = _standing(command.environment, number)
        made = CapacityNote.objects.create(
            environment=command.environment,
            event=held.part_of_id or held.pk,
            at=command.now,
            by=command.by.name[:NAME_CHARS],
            text=command.reason,
        )
        return Change(object=made, revision=revision, after={"note": made.pk, "event": made.event})

    with command.noted():
        command.check()
        return execute(command, write, recall=lambda entry: CapacityNote.objects.get(pk=(entry.after or {})["note"]))


def _arranged(
    verb: str,
    asked: CommandContext,
    about: str,
    apply: Callable[[Command], tuple[CapacityEvent, bool]],
    faults: dict[str, str] | None = None,
) -> CommandResult[CapacityEvent]:
    """Carry an arrangement out: `apply` answers with the event it made, and whether anything changed."""
    seen = asked.get("seen")
    rest: CommandContext = {**asked, "seen": None}  # events have a step of their own
    command = Command.of(verb, Scope(), rest, faults, about=about[:NAME_CHARS])

    def write(revision: int) -> Change[CapacityEvent]:
        step = arranging.steps_of(command.environment)
        if seen is not None and seen != step:
            last = CapacityArrangement.objects.filter(environment=command.environment).order_by("-pk").first()
            who = f"{last.made_at:%H:%M:%S} UTC by {with_reason(last.made_by, last.reason)}. " if last else ""
            raise CommandRejected(
                "stale", f"Events were arranged since you looked. {who}Look again, then decide.", status=CONFLICT
            )
        event, is_changed = apply(command)
        after = {"event": event.pk, "step": arranging.steps_of(command.environment)}
        return Change(object=event, revision=revision, after=after, was_already=not is_changed)

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def _recalled(entry: AuditEntry) -> CapacityEvent:
    return CapacityEvent.objects.get(pk=(entry.after or {})["event"])


def _standing(environment: str, number: int) -> CapacityEvent:
    """The event of this number, or the one into which it grew."""
    event = CapacityEvent.objects.filter(environment=environment, pk=number).select_related("merged_into").first()
    if event is None:
        detail = f"There is no capacity event CE-{number} in {environment}."
        raise CommandRejected("unknown_event", detail, status=NOT_FOUND, fields={"number": "is not known"})
    return event.merged_into or event
