"""Ends runs by a person's word, and takes that back: a command that becomes state, like a reset."""

from __future__ import annotations

from typing import Required, Unpack

from events.runs.asking import run_of
from events.runs.rows import RunStory
from events.wording import clock_text
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.models import NAME_CHARS, AuditEntry, RunAbort
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

ABORTED, WITHDRAWN = "run.abort", "run.withdraw"


class Aborting(Asked):
    """What `abort_run` and `withdraw_abort` are given."""

    run: Required[str]


def abort_run(**asked: Unpack[Aborting]) -> Done[RunAbort]:
    """Have a run called off: its waits end at once, nothing in it is tried again or begun; a call under way goes on.

    Until it is taken back, a run that begins again under this name is called off, too, for two days.
    Raises Refused: 403, 400 by field, 404 for a run of which nothing is known, 409 for one that has ended.
    """
    attempt = _attempt(ABORTED, asked)
    with attempt.noted():
        attempt.check()
        # Before anything is written: on SQLite nobody else could write while facts are read.
        story = story_to_end(attempt.environment, asked["run"])

        def write(revision: int) -> Step[RunAbort]:
            held = held_abort(attempt.environment, story.run)
            if held is not None:
                return Step(object=held, revision=held.revision, was_already=True)
            if story.ended is not None:
                detail = f"It ended at {clock_text(story.ended, today=attempt.now)} UTC: there is nothing to abort."
                raise Refused("ended", detail, status=STALE, fields={"run": "has ended"})
            made = RunAbort.objects.create(
                environment=attempt.environment,
                run=story.run,
                service=story.service,
                instance=story.instance,
                reason=attempt.reason,
                by_user_id=attempt.by.user_id,
                by=attempt.by.name,
                at=attempt.now,
                revision=revision,
            )
            return Step(object=made, revision=revision, after=_told(made))

        return carry_out(attempt, write, recall=_recalled)


def withdraw_abort(**asked: Unpack[Aborting]) -> Done[RunAbort]:
    """Let a run go on that was to end: what was called off stays so, and who begins it again may.

    Raises Refused: 403, 400 by field, 404 for a run of which nothing is known, 409 for one that
    nobody wants to end.
    """
    attempt = _attempt(WITHDRAWN, asked)

    def write(revision: int) -> Step[RunAbort]:
        held = held_abort(attempt.environment, asked["run"])
        if held is None:
            story_to_end(attempt.environment, asked["run"])
            detail = f"Nobody has the run {asked['run'][:80]} aborted."
            raise Refused("not_aborted", detail, status=STALE, fields={"run": "is not to end"})
        held.withdrawn_at, held.withdrawn_by, held.withdrawn_revision = attempt.now, attempt.by.name, revision
        held.save(update_fields=["withdrawn_at", "withdrawn_by", "withdrawn_revision"])
        return Step(object=held, revision=revision, before=_told(held), after={"id": held.pk})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


def held_abort(environment: str, run: str) -> RunAbort | None:
    """The wish that a run ends, where one rests on it."""
    return RunAbort.objects.filter(environment=environment, run=run, withdrawn_at=None).first()


def story_to_end(environment: str, run: str) -> RunStory:
    """What is known of a run. Raises Refused (404) where that is nothing."""
    story = run_of(environment, run) if run.isprintable() and len(run) <= NAME_CHARS else None
    if story is None:
        detail = f"No fact in {environment} carries the run {run[:80]}."
        raise Refused("unknown_run", detail, status=UNKNOWN, fields={"run": "is not known"})
    return story


def _attempt(verb: str, asked: Aborting) -> Attempt:
    return Attempt.of(verb, "abort", Scope(), asked, about=f"run {asked['run']}"[:NAME_CHARS])


def _told(one: RunAbort) -> dict[str, object]:
    return {"id": one.pk, "run": one.run, "instance": one.instance, "abort_at": one.revision}


def _recalled(entry: AuditEntry) -> RunAbort:
    return RunAbort.objects.get(pk=(entry.after or {})["id"])
