"""Has runs begun again by a person's word, and takes that back: a command that becomes state, as a run's abort.

The agent's own function begins it, from its checkpoint. That it was begun is told by the run itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, NotRequired, Required, Unpack

from django.db import transaction
from django.db.models import QuerySet

from events.queries import fleet
from events.runs.again import begun_again
from events.runs.rows import RunStory
from events.runs.selectors import get_runs, reporting_now
from events.wording import count_text
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.actors import Actor, system_actor
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.rejections import CONFLICT, CommandRejected
from recovery_ops.control.core.revisions import bump_revision, current_revision
from recovery_ops.control.core.wording import with_reason
from recovery_ops.control.desired_state.document import RETRIES_KEPT
from recovery_ops.control.runs.models.retries import RunRetry
from recovery_ops.control.runs.retry_status import EXPIRY, Chance, RetryFault, chance_of
from recovery_ops.control.runs.services.aborts import digest_of, held_aborts, let_go_on, story_to_end
from recovery_ops.control.runs.status import standing_of
from recovery_ops.rules.policy.scope import Scope

PERMISSION = "retry"
RETRIED, WITHDRAWN, BEGUN, FORGOTTEN = "run.retry", "run.withdraw_retry", "run.begun", "run.forget_retry"
INPUT_BYTES_MOST = 16 * 1024
INPUT_WAITING_MOST = 512 * 1024
"""So many bytes wait for one instance: agents read documents of 4 MB at most, and escaped a byte may be six."""


class NotRetried(CommandRejected):
    """Nobody can begin this run again: `fault` says why, as a code."""

    def __init__(self, chance: Chance) -> None:
        super().__init__("not_retried", chance.why_not, status=CONFLICT, fields={"run": "cannot be retried"})
        self.fault: RetryFault | None = chance.fault


class Withdrawing(CommandContext):
    """What `withdraw_retry` is given."""

    run: Required[str]


class Retrying(Withdrawing):
    """What `retry_run` is given; without an instance the run's own, or the best that is there."""

    input: NotRequired[str]
    instance: NotRequired[str]


class RetryingMany(CommandContext):
    """What `retry_runs` is given: each with what it had, by the best instance there is."""

    runs: Required[Sequence[str]]


class _Wanted(NamedTuple):
    """One run, and who is to begin it again with what."""

    story: RunStory
    instance: str
    input: str = ""


def retry_run(**asked: Unpack[Retrying]) -> CommandResult[RunRetry]:
    """Have a run begun again from its checkpoint, by one instance; a wish that it ends is taken back with it.

    Raises CommandRejected: 403, 400 by field, 404 for a run of which nothing is known, 409 for one that goes on, came
    to its end or is to begin again already otherwise, and where no instance is there that begins runs again.
    """
    given, wanted_instance = asked.get("input", ""), asked.get("instance", "")
    told = {"asked": digest_of([given]), "wanted": wanted_instance}
    faults = {"input": fault_of_input(given), "instance": _fault_of_name(wanted_instance)}
    command = _attempt(RETRIED, asked, f"run {asked['run']}", told, faults)
    with command.noted():
        command.check()
        # Before anything is written: on SQLite nobody else could write while facts are read.
        story = story_to_end(command.environment, asked["run"])
        chance = _chance_of(command, story)
        known = _resting(command.environment, [story.run])

        def write(revision: int) -> Change[RunRetry]:
            # Refused here, where it is known that this key was not used: by then the run may have begun.
            wanted = _wanted_of(chance, story, wanted_instance, given)
            if held := _in_the_way(command, known).get(story.run):
                return _already(held, wanted)
            _require_room(command.environment, wanted)
            before, made = _write(command, [wanted], known, revision)
            after = _told(made[0]) | told | {"input_bytes": len(given.encode())}
            return Change(object=made[0], revision=revision, before=before, after=after)

        return execute(command, write, recall=_recalled)


def retry_runs(**asked: Unpack[RetryingMany]) -> CommandResult[Sequence[RunRetry]]:
    """The same for several, in one revision; those that cannot be begun again, or are to be already, are left alone.

    Raises CommandRejected: 403, 400 by field, 409 where none is left.
    """
    told = {"asked": digest_of(asked["runs"])}
    command = _attempt(RETRIED, asked, count_text(len(asked["runs"]), "run"), told, runs=len(asked["runs"]))
    with command.noted():
        command.check()
        could = _wanted_of_many(command, asked["runs"])
        known = _resting(command.environment, asked["runs"])

        def write(revision: int) -> Change[Sequence[RunRetry]]:
            held = _in_the_way(command, known)
            wanted = [one for one in could if one.story.run not in held]
            if not wanted:
                detail = "None of the runs can be retried; open a run for the reason."
                raise CommandRejected("not_retried", detail, status=CONFLICT, fields={"runs": "cannot be retried"})
            before, made = _write(command, wanted, known, revision)
            runs = [one.run for one in made]
            after = {"ids": [one.pk for one in made], "runs": runs, **told, "retry_at": revision}
            return Change(object=made, revision=revision, before=before, after=after)

        return execute(command, write, recall=_all_recalled)


def withdraw_retry(**asked: Unpack[Withdrawing]) -> CommandResult[RunRetry]:
    """Take back that a run is to begin again: who has not heard it, does not. What was begun goes on (`begun_at`).

    Raises CommandRejected: 403, 400 by field, 404 for a run of which nothing is known, 409 where nothing is to be taken
    back.
    """
    command = _attempt(WITHDRAWN, asked, f"run {asked['run']}", {})

    def write(revision: int) -> Change[RunRetry]:
        held = _held(command.environment, [asked["run"]], command.now).get(asked["run"])
        if held is None:
            story_to_end(command.environment, asked["run"])
            detail = f"Run {asked['run'][:80]} has no pending retry."
            raise CommandRejected("not_retried", detail, status=CONFLICT, fields={"run": "has no pending retry"})
        held.begun_at = known.begun(held)
        _end(held, command.now, command.by.name, revision)
        return Change(object=held, revision=revision, before=_told(held), after={"id": held.pk})

    with command.noted():
        command.check()
        known = _resting(command.environment, [asked["run"]])
        return execute(command, write, recall=_recalled)


def note_begun(environment: str, *, now: datetime) -> list[RunRetry]:
    """Note which runs have begun again, as they said: no agent is told of them any more. Twice finds nothing."""
    waiting = list(_living(environment, now))
    begun = _begun(environment, waiting)
    at = {one.pk: one.begun_at for one in begun}
    return _note_ended(
        environment, list(at), BEGUN, by=system_actor("runs"), reason="Reported by the run", now=now, begun=at
    )


def end_old(environment: str, *, now: datetime) -> list[RunRetry]:
    """End the wishes that nobody obeyed in `RETRIES_KEPT`, so that no agent is told of them. Twice finds nothing.

    Without that they would be told until something else is changed: what agents are told depends on the revision alone.
    """
    old = RunRetry.objects.filter(environment=environment, ended_at=None, at__lte=now - RETRIES_KEPT)
    due = list(old.values_list("pk", flat=True))
    return _note_ended(
        environment, due, FORGOTTEN, by=system_actor(EXPIRY), reason="No restart within two days", now=now
    )


def _note_ended(
    environment: str,
    ids: Sequence[str],
    verb: str,
    *,
    by: Actor,
    reason: str,
    now: datetime,
    begun: Mapping[str, datetime | None] | None = None,
) -> list[RunRetry]:
    """End those of these wishes that nobody has ended yet, in one revision; `begun`: when their runs began."""
    if not ids:
        return []
    with transaction.atomic():
        audit.lock(environment)
        due = list(RunRetry.objects.filter(pk__in=ids, ended_at=None).order_by("pk"))
        if not due:
            return []
        revision = current_revision(environment) + 1
        for one in due:
            one.begun_at = (begun or {}).get(one.pk)
            _end(one, now, by.name, revision)
        runs = [one.run for one in due]
        deed = audit.AuditRecord(
            verb=verb,
            object=f"run {runs[0]}"[:NAME_CHARS] if len(runs) == 1 else count_text(len(runs), "run"),
            reason=reason,
            after={"ids": [one.pk for one in due], "runs": runs},
            revision=revision,
        )
        audit.append(environment, deed, by=by, at=now)
        bump_revision(environment, now)
    return due


def held_retry(environment: str, run: str, now: datetime) -> RunRetry | None:
    """The wish that a run begins again, where one rests on it; after `RETRIES_KEPT` no agent is told of it any more."""
    return _held(environment, [run], now).get(run)


def fault_of_input(given: str) -> str:
    """What is wrong with what a run is to be given; empty where nothing is."""
    try:
        length = len(given.encode())
    except UnicodeEncodeError:
        return "has characters that cannot be stored"
    if length > INPUT_BYTES_MOST:
        return f"has {length:,} bytes; the limit is {INPUT_BYTES_MOST:,}"
    return "has characters that cannot be stored" if "\0" in given else ""


def _fault_of_name(instance: str) -> str:
    return "" if instance.isprintable() and len(instance) <= NAME_CHARS else "is the name of an instance"


def _chance_of(command: Command, story: RunStory) -> Chance:
    environment, now = command.environment, command.now
    reporting = reporting_now(environment, now) if story.ended is None else frozenset[tuple[str, str]]()
    return chance_of(story, standing_of(story, now, reporting), fleet(environment, now=now), now)


def _wanted_of(chance: Chance, story: RunStory, instance: str, given: str) -> _Wanted:
    """Who begins it. Raises CommandRejected (409) where nobody can, or not who was named."""
    if chance.why_not:
        raise NotRetried(chance)
    names = [one.instance for one in chance.instances]
    if instance and instance not in names:
        detail = f"{instance} is not reporting or does not support retries of {story.service}. Available: "
        raise CommandRejected(
            "not_retried", f"{detail}{', '.join(names[:6])}.", status=CONFLICT, fields={"instance": "cannot retry it"}
        )
    return _Wanted(story, instance or names[0], given)


def _wanted_of_many(command: Command, runs: Sequence[str]) -> list[_Wanted]:
    environment, now = command.environment, command.now
    stories, agents = get_runs(environment, list(runs)), fleet(environment, now=now)
    reporting = frozenset((one.service, one.instance) for one in agents if one.is_reachable)
    chances = ((story, chance_of(story, standing_of(story, now, reporting), agents, now)) for story in stories)
    return [_Wanted(story, chance.instances[0].instance) for story, chance in chances if chance.instances]


class _Known(NamedTuple):
    """The wishes that rest on the runs that are asked for, by run, each with when it was obeyed."""

    runs: Sequence[str]
    wishes: dict[str, RunRetry]

    def begun(self, wish: RunRetry) -> datetime | None:
        """When this wish was obeyed, as far as it was known then; None of another one that came meanwhile."""
        was = self.wishes.get(wish.run)
        return was.begun_at if was is not None and was.pk == wish.pk else None


def _resting(environment: str, runs: Sequence[str]) -> _Known:
    """What is known before anything is written: whether a run has begun is read from its facts."""
    rest = list(_unended(environment, runs))
    _begun(environment, rest)
    return _Known(runs, {one.run: one for one in rest})


def _in_the_way(command: Command, known: _Known) -> dict[str, RunRetry]:
    """The wishes that nobody has obeyed yet, and those that came while facts were read; under the lock of an act.

    A second one beside such a wish would have the run begun twice.
    """
    told = _held(command.environment, known.runs, command.now)
    return {run: one for run, one in told.items() if known.begun(one) is None}


def _write(
    command: Command, wanted: Sequence[_Wanted], known: _Known, revision: int
) -> tuple[dict[str, object] | None, list[RunRetry]]:
    """The wishes, and which wishes that their runs end were taken back for them."""
    runs = [one.story.run for one in wanted]
    aborts = held_aborts(command.environment, runs, command.now)
    for abort in aborts.values():
        let_go_on(abort, command, revision)
    # Those that were obeyed or are too old to be told make room: of those that rest on a run there is one.
    for old in _unended(command.environment, runs):
        old.begun_at = known.begun(old)
        _end(old, command.now, command.by.name, revision)
    made = [_wish(command, one, revision) for one in wanted]
    return ({"aborts": [one.pk for one in aborts.values()]} if aborts else None), made


def _wish(command: Command, wanted: _Wanted, revision: int) -> RunRetry:
    return RunRetry.objects.create(
        environment=command.environment,
        run=wanted.story.run,
        service=wanted.story.service,
        instance=wanted.instance,
        reason=command.reason,
        input=wanted.input,
        by_user_id=command.by.user_id,
        by=command.by.name,
        at=command.now,
        revision=revision,
    )


def _require_room(environment: str, wanted: _Wanted) -> None:
    """Raise Refused (409) where more waits for its instance than it may be told at once."""
    waiting = RunRetry.objects.filter(
        environment=environment, service=wanted.story.service, instance=wanted.instance, ended_at=None
    )
    given = [wanted.input, *waiting.exclude(input="").values_list("input", flat=True)]
    if wanted.input and sum(len(one.encode()) for one in given) > INPUT_WAITING_MOST:
        detail = f"{len(given) - 1} retries with changed input wait for {wanted.instance}, the limit."
        raise CommandRejected(
            "not_retried", detail, status=CONFLICT, fields={"input": f"exceeds the limit of {wanted.instance}"}
        )


def _already(held: RunRetry, wanted: _Wanted) -> Change[RunRetry]:
    """It is asked for already. Raises CommandRejected (409) where something else was asked for."""
    if (held.input, held.instance) == (wanted.input, wanted.instance):
        return Change(object=held, revision=held.revision, was_already=True)
    detail = f"A retry on {held.instance} is requested by {with_reason(held.by, held.reason)}. Cancel it first."
    raise CommandRejected("retried_already", detail, status=CONFLICT, fields={"run": "has a pending retry"})


def _unended(environment: str, runs: Sequence[str]) -> QuerySet[RunRetry]:
    named = [one for one in runs if "\0" not in one]
    return RunRetry.objects.filter(environment=environment, run__in=named, ended_at=None)


def _living(environment: str, now: datetime) -> QuerySet[RunRetry]:
    return RunRetry.objects.filter(environment=environment, ended_at=None, at__gt=now - RETRIES_KEPT)


def _held(environment: str, runs: Sequence[str], now: datetime) -> dict[str, RunRetry]:
    return {one.run: one for one in _unended(environment, runs).filter(at__gt=now - RETRIES_KEPT)}


def _begun(environment: str, wishes: Sequence[RunRetry]) -> list[RunRetry]:
    """Those whose runs have told that they began since, each with when (which is not written yet)."""
    told = begun_again(environment, {one.run: one.at for one in wishes})
    for one in wishes:
        one.begun_at = told[one.run].begun
    return [one for one in wishes if one.begun_at is not None]


def _end(one: RunRetry, now: datetime, by: str, revision: int) -> None:
    one.ended_at, one.ended_by, one.end_revision = now, by, revision
    one.save(update_fields=["begun_at", "ended_at", "ended_by", "end_revision"])


def _attempt(
    verb: str,
    asked: CommandContext,
    about: str,
    wanted: dict[str, str],
    faults: dict[str, str] | None = None,
    *,
    runs: int = 1,
) -> Command:
    def is_same_request(entry: AuditEntry) -> bool:
        told = entry.after or {}
        return all(told.get(name) == value for name, value in wanted.items())

    about = about[:NAME_CHARS]
    return Command.of(verb, Scope(), asked, faults, about=about, objects=runs, is_same_request=is_same_request)


def _told(one: RunRetry) -> dict[str, object]:
    return {"id": one.pk, "run": one.run, "instance": one.instance, "retry_at": one.revision}


def _recalled(entry: AuditEntry) -> RunRetry:
    return RunRetry.objects.get(pk=(entry.after or {})["id"])


def _all_recalled(entry: AuditEntry) -> Sequence[RunRetry]:
    return list(RunRetry.objects.filter(pk__in=(entry.after or {})["ids"]).order_by("revision", "run"))
