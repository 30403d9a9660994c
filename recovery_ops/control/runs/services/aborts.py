"""Ends runs by a person's word, and takes that back: a command that becomes state, like a reset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Required, Unpack

from django.db.models import QuerySet

from events.runs.rows import RunStory
from events.runs.selectors import get_runs, run_of
from events.wording import count_text
from recovery_ops.control.core import checks
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.desired_state.document import ABORTS_KEPT
from recovery_ops.control.runs.models.aborts import RunAbort
from recovery_ops.rules.policy.scope import Scope

ABORTED, WITHDRAWN = "run.abort", "run.withdraw"


class Aborting(CommandContext):
    """What `abort_run` and `withdraw_abort` are given."""

    run: Required[str]


class AbortingMany(CommandContext):
    """What `abort_runs` is given."""

    runs: Required[Sequence[str]]


def abort_run(**asked: Unpack[Aborting]) -> CommandResult[RunAbort]:
    """Have a run called off: its waits end at once, nothing in it is tried again or begun; a call under way goes on.

    Until it is taken back, a run that begins again under this name is called off, too, for two days.
    Raises CommandRejected: 403, 400 by field, 404 for a run of which nothing is known, 409 for one that has ended.
    """
    command = _attempt(ABORTED, asked, f"run {asked['run']}")
    with command.noted():
        command.check()
        # Before anything is written: on SQLite nobody else could write while facts are read.
        story = story_to_end(command.environment, asked["run"])

        def write(revision: int) -> Change[RunAbort]:
            held = held_abort(command.environment, story.run, command.now)
            if held is not None:
                return Change(object=held, revision=held.revision, was_already=True)
            if story.ended is not None:
                detail = f"The run ended at {checks.short_time(story.ended, command.now)}; it cannot be aborted."
                raise CommandRejected("ended", detail, status=CONFLICT, fields={"run": "has ended"})
            made = _wish(command, story, revision)
            return Change(object=made, revision=revision, after=_told(made))

        return execute(command, write, recall=_recalled)


def abort_runs(**asked: Unpack[AbortingMany]) -> CommandResult[Sequence[RunAbort]]:
    """The same for several, in one revision; those that have ended, or are to end already, are left as they are.

    Raises CommandRejected: 403, 400 by field, 409 where nothing is left to abort.
    """
    wanted = digest_of(asked["runs"])

    def is_same_request(entry: AuditEntry) -> bool:
        return (entry.after or {}).get("asked") == wanted

    command = _attempt(ABORTED, asked, count_text(len(asked["runs"]), "run"), is_same_request, len(asked["runs"]))
    with command.noted():
        command.check()
        going = [one for one in get_runs(command.environment, list(asked["runs"])) if one.ended is None]

        def write(revision: int) -> Change[Sequence[RunAbort]]:
            held = held_aborts(command.environment, asked["runs"], command.now)
            made = [_wish(command, story, revision) for story in going if story.run not in held]
            if not made:
                detail = "All runs have ended or have a pending abort."
                raise CommandRejected("ended", detail, status=CONFLICT, fields={"runs": "have ended"})
            runs = [one.run for one in made]
            after = {"ids": [one.pk for one in made], "runs": runs, "asked": wanted, "abort_at": revision}
            return Change(object=made, revision=revision, after=after)

        return execute(command, write, recall=_all_recalled)


def withdraw_abort(**asked: Unpack[Aborting]) -> CommandResult[RunAbort]:
    """Let a run go on that was to end: what was called off stays so, and who begins it again may.

    Raises CommandRejected: 403, 400 by field, 404 for a run of which nothing is known, 409 for one that
    nobody wants to end.
    """
    command = _attempt(WITHDRAWN, asked, f"run {asked['run']}")

    def write(revision: int) -> Change[RunAbort]:
        held = held_abort(command.environment, asked["run"], command.now)
        if held is None:
            story_to_end(command.environment, asked["run"])
            detail = f"Run {asked['run'][:80]} has no pending abort."
            raise CommandRejected("not_aborted", detail, status=CONFLICT, fields={"run": "has no pending abort"})
        let_go_on(held, command, revision)
        return Change(object=held, revision=revision, before=_told(held), after={"id": held.pk})

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def let_go_on(held: RunAbort, command: Command, revision: int) -> None:
    """Take the wish back under a revision; inside the transaction of an act."""
    held.withdrawn_at, held.withdrawn_by, held.withdrawn_revision = command.now, command.by.name, revision
    held.save(update_fields=["withdrawn_at", "withdrawn_by", "withdrawn_revision"])


def held_aborts(environment: str, runs: Sequence[str], now: datetime) -> dict[str, RunAbort]:
    """The wishes that these runs end, by their names."""
    return {one.run: one for one in _held(environment, now).filter(run__in=runs)}


def held_abort(environment: str, run: str, now: datetime) -> RunAbort | None:
    """The wish that a run ends, where one rests on it; after `ABORTS_KEPT` no agent is told of it any more."""
    return _held(environment, now).filter(run=run).first()


def _held(environment: str, now: datetime) -> QuerySet[RunAbort]:
    return RunAbort.objects.filter(environment=environment, withdrawn_at=None, at__gt=now - ABORTS_KEPT)


def _wish(command: Command, story: RunStory, revision: int) -> RunAbort:
    # One that is too old to be told makes room: of those that rest on a run there is one.
    old = RunAbort.objects.filter(environment=command.environment, run=story.run, withdrawn_at=None)
    old.update(withdrawn_at=command.now, withdrawn_by=command.by.name, withdrawn_revision=revision)
    return RunAbort.objects.create(
        environment=command.environment,
        run=story.run,
        service=story.service,
        instance=story.holder,
        reason=command.reason,
        by_user_id=command.by.user_id,
        by=command.by.name,
        at=command.now,
        revision=revision,
    )


def story_to_end(environment: str, run: str) -> RunStory:
    """What is known of a run. Raises CommandRejected (404) where that is nothing."""
    story = run_of(environment, run) if run.isprintable() and len(run) <= NAME_CHARS else None
    if story is None:
        detail = f"Run {run[:80]} does not exist in {environment}."
        raise CommandRejected("unknown_run", detail, status=NOT_FOUND, fields={"run": "is unknown"})
    return story


def _attempt(
    verb: str,
    asked: CommandContext,
    about: str,
    is_same_request: Callable[[AuditEntry], bool] | None = None,
    runs: int = 1,
) -> Command:
    about = about[:NAME_CHARS]
    return Command.of(verb, Scope(), asked, about=about, objects=runs, is_same_request=is_same_request)


def digest_of(runs: Sequence[str]) -> str:
    """Which runs a wish was about, also those that had ended by then: in any order, each counted once."""
    return sha256("\n".join(sorted(set(runs))).encode("utf-8", "surrogatepass")).hexdigest()


def _told(one: RunAbort) -> dict[str, object]:
    return {"id": one.pk, "run": one.run, "instance": one.instance, "abort_at": one.revision}


def _recalled(entry: AuditEntry) -> RunAbort:
    return RunAbort.objects.get(pk=(entry.after or {})["id"])


def _all_recalled(entry: AuditEntry) -> Sequence[RunAbort]:
    return list(RunAbort.objects.filter(pk__in=(entry.after or {})["ids"]).order_by("pk"))
