"""What people say of capacity events: these are one, this one ends here, back again; and what they note on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Required, Unpack

from events.capacity import arranging
from events.capacity.models import CapacityArrangement, CapacityEvent
from events.moments import to_us
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.models import NAME_CHARS, AuditEntry, CapacityNote
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

PERMISSION, NOTING = "arrange", "annotate"
MERGE_MOST = 20


class Merging(Asked):
    """What `merge_events` is given: the numbers of two or more events. The lowest one names the whole."""

    numbers: Required[Sequence[int]]


class Splitting(Asked):
    """What `split_event` is given: its number, and the moment from which on its failures are another event."""

    number: Required[int]
    at: Required[datetime]


class SettingApart(Asked):
    """What `set_event_apart` is given: the number of a part that the rule joined to others."""

    number: Required[int]


class TakingBack(Asked):
    """What `undo_arrangement` is given: the number of a merge, a split or a part set apart."""

    arrangement: Required[int]


def merge_events(**asked: Unpack[Merging]) -> Done[CapacityEvent]:
    """Make one event of several. Each goes on growing by itself; the numbers of the whole are those of all of them.

    Raises Refused: 403, 400, 404, and 409 when something was arranged since `seen` (`steps_of`).
    """
    numbers = sorted(set(asked["numbers"]))
    faults = {} if 2 <= len(numbers) <= MERGE_MOST else {"numbers": f"are 2 to {MERGE_MOST} different events"}

    def apply(attempt: Attempt) -> tuple[CapacityEvent, bool]:
        first, *others = [_standing(attempt.environment, number) for number in numbers]
        joined = [other for other in others if (other.part_of_id or other.pk) != (first.part_of_id or first.pk)]
        for other in joined:
            arranging.merge(other, first, by=attempt.by.name[:NAME_CHARS], reason=attempt.reason, now=attempt.now)
        held = CapacityEvent.objects.get(pk=first.pk)
        return CapacityEvent.objects.get(pk=held.part_of_id or held.pk), bool(joined)

    about = ", ".join(f"CE-{number}" for number in numbers)
    return _arranged("capacity.merge", asked, about, apply, faults)


def split_event(**asked: Unpack[Splitting]) -> Done[CapacityEvent]:
    """Make two events of one, with all that the rule joined to it; the later half is the answer.

    Raises Refused: 403, 400 where a half would be empty, 404, 409 where it was merged by people, or as `merge_events`.
    """

    def apply(attempt: Attempt) -> tuple[CapacityEvent, bool]:
        held = _standing(attempt.environment, asked["number"])
        if arranging.is_merged_by_people(held):
            detail = f"CE-{held.pk} was merged by a person. Take that back first, then split what is left."
            raise Refused("merged", detail, status=STALE)
        try:
            made = arranging.cut(
                held, to_us(asked["at"]), by=attempt.by.name[:NAME_CHARS], reason=attempt.reason, now=attempt.now
            )
        except arranging.CannotArrange as problem:
            raise Refused("invalid", str(problem), fields={"at": "leaves a half without failures"}) from problem
        return made.event, True

    return _arranged("capacity.split", asked, f"CE-{asked['number']}", apply)


def set_event_apart(**asked: Unpack[SettingApart]) -> Done[CapacityEvent]:
    """Make a part of an event stand by itself, whatever fails at once with it; the part is the answer.

    Raises Refused: 403, 400 where the rule joined it to nothing, 404, or 409 as `merge_events`.
    """

    def apply(attempt: Attempt) -> tuple[CapacityEvent, bool]:
        held = _standing(attempt.environment, asked["number"])
        try:
            arranging.set_apart(held, by=attempt.by.name[:NAME_CHARS], reason=attempt.reason, now=attempt.now)
        except arranging.CannotArrange as problem:
            raise Refused("invalid", str(problem), fields={"number": "is joined to nothing"}) from problem
        return CapacityEvent.objects.get(pk=held.pk), True

    return _arranged("capacity.apart", asked, f"CE-{asked['number']}", apply)


def undo_arrangement(**asked: Unpack[TakingBack]) -> Done[CapacityEvent]:
    """Take a merge, a split or what was set apart back. What has been taken back already is left as it is.

    Raises Refused: 403, 400, 404, or 409 as `merge_events`.
    """
    made = CapacityArrangement.objects.filter(environment=asked["environment"], pk=asked["arrangement"]).first()

    def apply(attempt: Attempt) -> tuple[CapacityEvent, bool]:
        if made is None:
            detail = f"There is no merge or split {asked['arrangement']} in {attempt.environment}."
            raise Refused("unknown_arrangement", detail, status=UNKNOWN, fields={"arrangement": "is not known"})
        held = CapacityArrangement.objects.get(pk=made.pk)
        if held.ended_at is None:
            arranging.take_back(held, by=attempt.by.name[:NAME_CHARS], now=attempt.now)
        return CapacityEvent.objects.get(pk=held.other_id), held.ended_at is None

    about = f"CE-{made.event_id} and CE-{made.other_id}" if made else f"arrangement {asked['arrangement']}"
    return _arranged("capacity.undo", asked, about, apply)


class Noting(Asked):
    """What `note_on_event` is given: the number of an event. The reason is the note."""

    number: Required[int]


def note_on_event(**asked: Unpack[Noting]) -> Done[CapacityNote]:
    """Write a line on the page of an event, which agents need not hear of. Raises Refused: 403, 404, 400."""
    number = asked["number"]
    attempt = Attempt.of("capacity.note", NOTING, Scope(), asked, about=f"CE-{number}", is_for_agents=False)

    def write(revision: int) -> Step[CapacityNote]:
        held = _standing(attempt.environment, number)
        made = CapacityNote.objects.create(
            environment=attempt.environment,
            event=held.part_of_id or held.pk,
            at=attempt.now,
            by=attempt.by.name[:NAME_CHARS],
            text=attempt.reason,
        )
        return Step(object=made, revision=revision, after={"note": made.pk, "event": made.event})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=lambda entry: CapacityNote.objects.get(pk=(entry.after or {})["note"]))


def _arranged(
    verb: str,
    asked: Asked,
    about: str,
    apply: Callable[[Attempt], tuple[CapacityEvent, bool]],
    faults: dict[str, str] | None = None,
) -> Done[CapacityEvent]:
    """Carry an arrangement out: `apply` answers with the event it made, and whether anything changed."""
    seen = asked.get("seen")
    rest: Asked = {**asked, "seen": None}  # events have a step of their own
    attempt = Attempt.of(verb, PERMISSION, Scope(), rest, faults, about=about[:NAME_CHARS], is_for_agents=False)

    def write(revision: int) -> Step[CapacityEvent]:
        step = arranging.steps_of(attempt.environment)
        if seen is not None and seen != step:
            last = CapacityArrangement.objects.filter(environment=attempt.environment).order_by("-pk").first()
            who = f"{last.made_by}, {last.made_at:%H:%M:%S} UTC: “{last.reason}”. " if last else ""
            raise Refused(
                "stale", f"Events were arranged since you looked. {who}Look again, then decide.", status=STALE
            )
        event, is_changed = apply(attempt)
        after = {"event": event.pk, "step": arranging.steps_of(attempt.environment)}
        return Step(object=event, revision=revision, after=after, was_already=not is_changed)

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


def _recalled(entry: AuditEntry) -> CapacityEvent:
    return CapacityEvent.objects.get(pk=(entry.after or {})["event"])


def _standing(environment: str, number: int) -> CapacityEvent:
    """The event of this number, or the one into which it grew."""
    event = CapacityEvent.objects.filter(environment=environment, pk=number).select_related("merged_into").first()
    if event is None:
        detail = f"There is no capacity event CE-{number} in {environment}."
        raise Refused("unknown_event", detail, status=UNKNOWN, fields={"number": "is not known"})
    return event.merged_into or event
