"""What people note on a cause of failures."""

from __future__ import annotations

from typing import Required, Unpack

from recovery_ops.control.core.commands import Change, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.issues.models import FailureNote
from recovery_ops.control.issues.selectors import grouping_of
from recovery_ops.control.issues.services.issues import attempt_of, require_known

PERMISSION = "respond"


class Noting(CommandContext):
    """What `note_on_cause` is given: a cause. The reason is the note."""

    fingerprint: Required[str]


def note_on_cause(**asked: Unpack[Noting]) -> CommandResult[FailureNote]:
    """Write a line about a cause; about one that was merged, on the whole. It decides nothing: no version moves.

    Raises CommandRejected: 403, 404, 400.
    """
    environment = asked["environment"]
    name = grouping_of(environment).head(asked["fingerprint"])
    attempt = attempt_of("failure.note", PERMISSION, asked, name)

    def write(revision: int) -> Change[FailureNote]:
        made = FailureNote.objects.create(
            environment=environment,
            fingerprint=name,
            at=attempt.now,
            by=attempt.by.name[:NAME_CHARS],
            text=attempt.reason,
        )
        return Change(object=made, revision=revision, after={"note": made.pk, "fingerprint": name})

    with attempt.noted():
        attempt.check()
        require_known(environment, name, attempt.now)
        return execute(attempt, write, recall=lambda entry: FailureNote.objects.get(pk=(entry.after or {})["note"]))
