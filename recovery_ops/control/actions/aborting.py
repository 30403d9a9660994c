"""Ends runs by a person's word, and takes that back: a command that becomes state, like a reset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Required, Unpack

from django.db.models import QuerySet

from events.runs.asking import run_of, stories_of
from events.runs.rows import RunStory
from events.wording import count_text
from recovery_ops.control.actions import checks
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.desired import ABORTS_KEPT
from recovery_ops.control.models import NAME_CHARS, AuditEntry, RunAbort
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

ABORTED, WITHDRAWN = "run.abort", "run.withdraw"


class Aborting(Asked):
    """What `abort_run` and `withdraw_abort` are given."""

    run: Required[str]


class AbortingMany(Asked):
    """What `abort_runs` is given."""

    runs: Required[Sequence[str]]


def abort_run(**asked: Unpack[Aborting]) -> Done[RunAbort]:
    """Have a run called off: its waits end at once, nothing in it is tried again or begun; a call under way goes on.

    Until it is taken back, a run that begins again under this name is called off, too, for two days.
    Raises Refused: 403, 400 by field, 404 for a run of which nothing is known, 409 for one that has ended.
    """
    attempt = _attempt(ABORTED, asked, f"run {asked['run']}")
    with attempt.noted():
        attempt.check()
        # Before anything is written: on SQLite nobody else could write while facts are read.
        story = story_to_end(attempt.environment, asked["run"])

        def write(revision: int) -> Step[RunAbort]:
            held = held_abort(attempt.environment, story.run, attempt.now)
            if held is not None:
                return Step(object=held, revision=held.revision, was_already=True)
            if story.ended is not None:
                detail = f"It ended at {checks.moment_of(story.ended, attempt.now)}: there is nothing to abort."
                raise Refused("ended", detail, status=STALE, fields={"run": "has ended"})
            made = _wish(attempt, story, revision)
            return Step(object=made, revision=revision, after=_told(made))

        return carry_out(attempt, write, recall=_recalled)


def abort_runs(**asked: Unpack[AbortingMany]) -> Done[Sequence[RunAbort]]:
    """The same for several, in one revision; those that have ended, or are to end already, are left as they are.

    Raises Refused: 403, 400 by field, 409 where nothing is left to abort.
    """
    wanted = digest_of(asked["runs"])

    def is_told_by(entry: AuditEntry) -> bool:
        return (entry.after or {}).get("asked") == wanted

    attempt = _attempt(ABORTED, asked, count_text(len(asked["runs"]), "run"), is_told_by)
    with attempt.noted():
        attempt.check()
        going = [one for one in stories_of(attempt.environment, list(asked["runs"])) if one.ended is None]

        def write(revision: int) -> Step[Sequence[RunAbort]]:
            held = held_aborts(attempt.environment, asked["runs"], attempt.now)
            made = [_wish(attempt, story, revision) for story in going if story.run not in held]
            if not made:
                detail = "All of them have ended, or are to end already: there is nothing to abort."
                raise Refused("ended", detail, status=STALE, fields={"runs": "have ended"})
            runs = [one.run for one in made]
            after = {"ids": [one.pk for one in made], "runs": runs, "asked": wanted, "abort_at": revision}
            return Step(object=made, revision=revision, after=after)

        return carry_out(attempt, write, recall=_all_recalled)


def withdraw_abort(**asked: Unpack[Aborting]) -> Done[RunAbort]:
    """Let a run go on that was to end: what was called off stays so, and who begins it again may.

    Raises Refused: 403, 400 by field, 404 for a run of which nothing is known, 409 for one that
    nobody wants to end.
    """
    attempt = _attempt(WITHDRAWN, asked, f"run {asked['run']}")

    def write(revision: int) -> Step[RunAbort]:
        held = held_abort(attempt.environment, asked["run"], attempt.now)
        if held is None:
            story_to_end(attempt.environment, asked["run"])
            detail = f"Nobody has the run {asked['run'][:80]} aborted."
            raise Refused("not_aborted", detail, status=STALE, fields={"run": "is not to end"})
        let_go_on(held, attempt, revision)
        return Step(object=held, revision=revision, before=_told(held), after={"id": held.pk})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


def let_go_on(held: RunAbort, attempt: Attempt, revision: int) -> None:
    """Take the wish back under a revision; inside the transaction of an act."""
    held.withdrawn_at, held.withdrawn_by, held.withdrawn_revision = attempt.now, attempt.by.name, revision
    held.save(update_fields=["withdrawn_at", "withdrawn_by", "withdrawn_revision"])


def held_aborts(environment: str, runs: Sequence[str], now: datetime) -> dict[str, RunAbort]:
    """The wishes that these runs end, by their names."""
    return {one.run: one for one in _held(environment, now).filter(run__in=runs)}


def held_abort(environment: str, run: str, now: datetime) -> RunAbort | None:
    """The wish that a run ends, where one rests on it; after `ABORTS_KEPT` no agent is told of it any more."""
    return _held(environment, now).filter(run=run).first()


def _held(environment: str, now: datetime) -> QuerySet[RunAbort]:
    return RunAbort.objects.filter(environment=environment, withdrawn_at=None, at__gt=now - ABORTS_KEPT)


def _wish(attempt: Attempt, story: RunStory, revision: int) -> RunAbort:
    # One that is too old to be told makes room: of those that rest on a run there is one.
    old = RunAbort.objects.filter(environment=attempt.environment, run=story.run, withdrawn_at=None)
    old.update(withdrawn_at=attempt.now, withdrawn_by=attempt.by.name, withdrawn_revision=revision)
    return RunAbort.objects.create(
        environment=attempt.environment,
        run=story.run,
        service=story.service,
        instance=story.holder,
        reason=attempt.reason,
        by_user_id=attempt.by.user_id,
        by=attempt.by.name,
        at=attempt.now,
        revision=revision,
    )


def story_to_end(environment: str, run: str) -> RunStory:
    """What is known of a run. Raises Refused (404) where that is nothing."""
    story = run_of(environment, run) if run.isprintable() and len(run) <= NAME_CHARS else None
    if story is None:
        detail = f"No fact in {environment} carries the run {run[:80]}."
        raise Refused("unknown_run", detail, status=UNKNOWN, fields={"run": "is not known"})
    return story


def _attempt(verb: str, asked: Asked, about: str, is_told_by: Callable[[AuditEntry], bool] | None = None) -> Attempt:
    return Attempt.of(verb, "abort", Scope(), asked, about=about[:NAME_CHARS], is_told_by=is_told_by)


def digest_of(runs: Sequence[str]) -> str:
    """Which runs a wish was about, also those that had ended by then: in any order, each counted once."""
    return sha256("\n".join(sorted(set(runs))).encode("utf-8", "surrogatepass")).hexdigest()


def _told(one: RunAbort) -> dict[str, object]:
    return {"id": one.pk, "run": one.run, "instance": one.instance, "abort_at": one.revision}


def _recalled(entry: AuditEntry) -> RunAbort:
    return RunAbort.objects.get(pk=(entry.after or {})["id"])


def _all_recalled(entry: AuditEntry) -> Sequence[RunAbort]:
    return list(RunAbort.objects.filter(pk__in=(entry.after or {})["ids"]).order_by("pk"))
