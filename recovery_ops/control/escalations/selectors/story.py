"""The kinds of lines that a question's story can be narrowed to."""

from __future__ import annotations

from collections.abc import Sequence

from recovery_ops.control.escalations.models import EscalationNote
from recovery_ops.control.escalations.services.due import BY as DEADLINE

KINDS = {"said": "Comments and entries", "done": "Actions of users", "itself": "Automatic"}
"""Each kind and what it is called."""
_SAID = ("note", "entry")


def kind_of(note: EscalationNote) -> str:
    """Which of `KINDS` a line is."""
    if note.verb in _SAID:
        return "said"
    return "itself" if note.by in (DEADLINE, "console") else "done"


def of_kind(story: Sequence[EscalationNote], kind: str) -> Sequence[EscalationNote]:
    """The lines of a kind; all of them for no kind."""
    return [note for note in story if kind_of(note) == kind] if kind in KINDS else story
