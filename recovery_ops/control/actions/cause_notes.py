"""What people note on a cause of failures."""

from __future__ import annotations

from typing import Required, Unpack

from recovery_ops.control.actions.attempt import Asked, Done, Step, carry_out
from recovery_ops.control.actions.failures import attempt_of, require_known
from recovery_ops.control.failures import grouping_of
from recovery_ops.control.models import NAME_CHARS, FailureNote

PERMISSION = "respond"


class Noting(Asked):
    """What `note_on_cause` is given: a cause. The reason is the note."""

    fingerprint: Required[str]


def note_on_cause(**asked: Unpack[Noting]) -> Done[FailureNote]:
    """Write a line about a cause; about one that was merged, on the whole. It decides nothing: no version moves.

    Raises Refused: 403, 404, 400.
    """
    environment = asked["environment"]
    name = grouping_of(environment).head(asked["fingerprint"])
    attempt = attempt_of("failure.note", PERMISSION, asked, name)

    def write(revision: int) -> Step[FailureNote]:
        made = FailureNote.objects.create(
            environment=environment,
            fingerprint=name,
            at=attempt.now,
            by=attempt.by.name[:NAME_CHARS],
            text=attempt.reason,
        )
        return Step(object=made, revision=revision, after={"note": made.pk, "fingerprint": name})

    with attempt.noted():
        attempt.check()
        require_known(environment, name, attempt.now)
        return carry_out(attempt, write, recall=lambda entry: FailureNote.objects.get(pk=(entry.after or {})["note"]))
