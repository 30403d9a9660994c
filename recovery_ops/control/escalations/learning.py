"""What is read of a question to learn from it: starred lines, kinds of lines and follow-ups."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from recovery_ops.control.escalations.due import BY as DEADLINE
from recovery_ops.control.models import Escalation, EscalationNote, FollowUp

KINDS = {
    "starred": "Starred",
    "said": "Comments and entries",
    "done": "Done by people",
    "itself": "By itself",
}
"""What lines of a story can be narrowed to, and what it is called."""
_SAID = ("note", "entry")
_OPENED = "opened"
FOLLOW_UPS_MOST = 50


def is_starred(note: EscalationNote) -> bool:
    """Whether somebody starred a line; it was read with its star."""
    return getattr(note, "star", None) is not None


def kind_of(note: EscalationNote) -> str:
    """Which of `KINDS` a line is, whether it is starred or not."""
    if note.verb in _SAID:
        return "said"
    return "itself" if note.by in (DEADLINE, "console") else "done"


def of_kind(story: Sequence[EscalationNote], kind: str) -> Sequence[EscalationNote]:
    """The lines of a kind; all of them for no kind."""
    if kind not in KINDS:
        return story
    return [note for note in story if (is_starred(note) if kind == "starred" else kind_of(note) == kind)]


def follow_ups_of(one: Escalation) -> list[FollowUp]:
    """What is still to be done first, the earliest day first; then what was done. One query."""
    found = list(one.follow_ups.order_by("pk")[:FOLLOW_UPS_MOST])
    return sorted(found, key=_place)


def _place(one: FollowUp) -> tuple[bool, bool, date]:
    return one.done_at is not None, one.due_on is None, one.due_on or one.made_at.date()
