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
from events.runs.again import as_begun_last, begun_again
from events.runs.asking import reporting_now, stories_of
from events.runs.rows import RunStory
from events.wording import count_text
from recovery_ops.control import audit
from recovery_ops.control.actions.aborting import digest_of, held_aborts, let_go_on, story_to_end
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, bump, carry_out
from recovery_ops.control.actors import Actor, system
from recovery_ops.control.desired import RETRIES_KEPT, current_revision
from recovery_ops.control.models import NAME_CHARS, AuditEntry, RunRetry
from recovery_ops.control.refusals import STALE, Refused
from recovery_ops.control.retried import EXPIRY, Chance, RetryFault, chance_of
from recovery_ops.control.standings import standing_of
from recovery_ops.rules.scope import Scope

PERMISSION = "retry"
RETRIED, WITHDRAWN, BEGUN, FORGOTTEN = "run.retry", "run.withdraw_retry", "run.begun", "run.forget_retry"
INPUT_BYTES_MOST = 16 * 1024
INPUT_WAITING_MOST = 512 * 1024
"""So many bytes wait for one instance: agents read documents of 4 MB at most, and escaped a byte may be six."""


class NotRetried(Refused):
    """Nobody can begin this run again: `fault` says why, as a code."""

    def __init__(self, chance: Chance) -> None:
        super().__init__("not_retried", chance.why_not, status=STALE, fields={"run": "cannot be begun again"})
        self.fault: RetryFault | None = chance.fault


class Withdrawing(Asked):
    """What `withdraw_retry` is given."""

    run: Required[str]


class Retrying(Withdrawing):
    """What `retry_run` is given; without an instance the run's own, or the best that is there."""

    input: NotRequired[str]
    instance: NotRequired[str]


class RetryingMany(Asked):
    """What `retry_runs` is given: each with what it had, by the best instance there is."""

    runs: Required[Sequence[str]]


class _Wanted(NamedTuple):
    """One run, and who is to begin it again with what."""

    story: RunStory
    instance: str
    input: str = ""


def retry_run(**asked: Unpack[Retrying]) -> Done[RunRetry]:
    """Have a run begun again from its checkpoint, by one instance; a wish that it ends is taken back with it.

    Raises Refused: 403, 400 by field, 404 for a run of which nothing is known, 409 for one that goes on, came to its
    end or is to begin again already otherwise, and where no instance is there that begins runs again.
    """
    given, wanted_instance = asked.get("input", ""), asked.get("instance", "")
    told = {"asked": digest_of([given]), "wanted": wanted_instance}
    faults = {"input": fault_of_input(given), "instance": _fault_of_name(wanted_instance)}
    attempt = _attempt(RETRIED, asked, f"run {asked['run']}", told, faults)
    with attempt.noted():
        attempt.check()
        # Before anything is written: on SQLite nobody else could write while facts are read.
        story = story_to_end(attempt.environment, asked["run"])
        chance = _chance_of(attempt, story)
        known = _resting(attempt.environment, [story.run])

        def write(revision: int) -> Step[RunRetry]:
            # Refused here, where it is known that this key was not used: by then the run may have begun.
            wanted = _wanted_of(chance, story, wanted_instance, given)
            if held := _in_the_way(attempt, known).get(story.run):
                return _already(held, wanted)
            _require_room(attempt.environment, wanted)
            before, made = _write(attempt, [wanted], known, revision)
            after = _told(made[0]) | told | {"input_bytes": len(given.encode())}
            return Step(object=made[0], revision=revision, before=before, after=after)

        return carry_out(attempt, write, recall=_recalled)


def retry_runs(**asked: Unpack[RetryingMany]) -> Done[Sequence[RunRetry]]:
    """The same for several, in one revision; those that cannot be begun again, or are to be already, are left alone.

    Raises Refused: 403, 400 by field, 409 where none is left.
    """
    told = {"asked": digest_of(asked["runs"])}
    attempt = _attempt(RETRIED, asked, count_text(len(asked["runs"]), "run"), told)
    with attempt.noted():
        attempt.check()
        could = _wanted_of_many(attempt, asked["runs"])
        known = _resting(attempt.environment, asked["runs"])

        def write(revision: int) -> Step[Sequence[RunRetry]]:
            held = _in_the_way(attempt, known)
            wanted = [one for one in could if one.story.run not in held]
            if not wanted:
                detail = "None of them can be begun again now: open one to read why."
                raise Refused("not_retried", detail, status=STALE, fields={"runs": "cannot be begun again"})
            before, made = _write(attempt, wanted, known, revision)
            runs = [one.run for one in made]
            after = {"ids": [one.pk for one in made], "runs": runs, **told, "retry_at": revision}
            return Step(object=made, revision=revision, before=before, after=after)

        return carry_out(attempt, write, recall=_all_recalled)


def withdraw_retry(**asked: Unpack[Withdrawing]) -> Done[RunRetry]:
    """Take back that a run is to begin again: who has not heard it, does not. What was begun goes on (`begun_at`).

    Raises Refused: 403, 400 by field, 404 for a run of which nothing is known, 409 where nothing is to be taken back.
    """
    attempt = _attempt(WITHDRAWN, asked, f"run {asked['run']}", {})

    def write(revision: int) -> Step[RunRetry]:
        held = _held(attempt.environment, [asked["run"]], attempt.now).get(asked["run"])
        if held is None:
            story_to_end(attempt.environment, asked["run"])
            detail = f"Nobody is waiting for the run {asked['run'][:80]} to begin again."
            raise Refused("not_retried", detail, status=STALE, fields={"run": "is not to begin again"})
        held.begun_at = known.begun(held)
        _end(held, attempt.now, attempt.by.name, revision)
        return Step(object=held, revision=revision, before=_told(held), after={"id": held.pk})

    with attempt.noted():
        attempt.check()
        known = _resting(attempt.environment, [asked["run"]])
        return carry_out(attempt, write, recall=_recalled)


def note_begun(environment: str, *, now: datetime) -> list[RunRetry]:
    """Note which runs have begun again, as they said: no agent is told of them any more. Twice finds nothing."""
    waiting = list(_living(environment, now))
    begun = _begun(environment, waiting)
    at = {one.pk: one.begun_at for one in begun}
    return _note_ended(environment, list(at), BEGUN, by=system("runs"), reason="the run said so", now=now, begun=at)


def end_old(environment: str, *, now: datetime) -> list[RunRetry]:
    """End the wishes that nobody obeyed in `RETRIES_KEPT`, so that no agent is told of them. Twice finds nothing.

    Without that they would be told until something else is changed: what agents are told depends on the revision alone.
    """
    old = RunRetry.objects.filter(environment=environment, ended_at=None, at__lte=now - RETRIES_KEPT)
    due = list(old.values_list("pk", flat=True))
    return _note_ended(environment, due, FORGOTTEN, by=system(EXPIRY), reason="nobody began it in two days", now=now)


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
        deed = audit.Deed(
            verb=verb,
            object=f"run {runs[0]}"[:NAME_CHARS] if len(runs) == 1 else count_text(len(runs), "run"),
            reason=reason,
            after={"ids": [one.pk for one in due], "runs": runs},
            revision=revision,
        )
        audit.append(environment, deed, by=by, at=now)
        bump(environment, now)
    return due


def held_retry(environment: str, run: str, now: datetime) -> RunRetry | None:
    """The wish that a run begins again, where one rests on it; after `RETRIES_KEPT` no agent is told of it any more."""
    return _held(environment, [run], now).get(run)


def fault_of_input(given: str) -> str:
    """What is wrong with what a run is to be given; empty where nothing is."""
    try:
        length = len(given.encode())
    except UnicodeEncodeError:
        return "has characters that cannot be kept"
    if length > INPUT_BYTES_MOST:
        return f"has {length:,} bytes; {INPUT_BYTES_MOST:,} is the most"
    return "has characters that cannot be kept" if "\0" in given else ""


def _fault_of_name(instance: str) -> str:
    return "" if instance.isprintable() and len(instance) <= NAME_CHARS else "is the name of an instance"


def _chance_of(attempt: Attempt, story: RunStory) -> Chance:
    environment, now = attempt.environment, attempt.now
    [story] = as_begun_last(environment, [story])
    reporting = reporting_now(environment, now) if story.ended is None else frozenset[tuple[str, str]]()
    return chance_of(story, standing_of(story, now, reporting), fleet(environment, now=now), now)


def _wanted_of(chance: Chance, story: RunStory, instance: str, given: str) -> _Wanted:
    """Who begins it. Raises Refused (409) where nobody can, or not who was named."""
    if chance.why_not:
        raise NotRetried(chance)
    names = [one.instance for one in chance.instances]
    if instance and instance not in names:
        detail = f"{instance} is not there now, or begins no run of {story.service} again. Those that do: "
        raise Refused(
            "not_retried", f"{detail}{', '.join(names[:6])}.", status=STALE, fields={"instance": "cannot begin it"}
        )
    return _Wanted(story, instance or names[0], given)


def _wanted_of_many(attempt: Attempt, runs: Sequence[str]) -> list[_Wanted]:
    environment, now = attempt.environment, attempt.now
    stories, agents = as_begun_last(environment, stories_of(environment, list(runs))), fleet(environment, now=now)
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


def _in_the_way(attempt: Attempt, known: _Known) -> dict[str, RunRetry]:
    """The wishes that nobody has obeyed yet, and those that came while facts were read; under the lock of an act.

    A second one beside such a wish would have the run begun twice.
    """
    told = _held(attempt.environment, known.runs, attempt.now)
    return {run: one for run, one in told.items() if known.begun(one) is None}


def _write(
    attempt: Attempt, wanted: Sequence[_Wanted], known: _Known, revision: int
) -> tuple[dict[str, object] | None, list[RunRetry]]:
    """The wishes, and which wishes that their runs end were taken back for them."""
    runs = [one.story.run for one in wanted]
    aborts = held_aborts(attempt.environment, runs, attempt.now)
    for abort in aborts.values():
        let_go_on(abort, attempt, revision)
    # Those that were obeyed or are too old to be told make room: of those that rest on a run there is one.
    for old in _unended(attempt.environment, runs):
        old.begun_at = known.begun(old)
        _end(old, attempt.now, attempt.by.name, revision)
    made = [_wish(attempt, one, revision) for one in wanted]
    return ({"aborts": [one.pk for one in aborts.values()]} if aborts else None), made


def _wish(attempt: Attempt, wanted: _Wanted, revision: int) -> RunRetry:
    return RunRetry.objects.create(
        environment=attempt.environment,
        run=wanted.story.run,
        service=wanted.story.service,
        instance=wanted.instance,
        reason=attempt.reason,
        input=wanted.input,
        by_user_id=attempt.by.user_id,
        by=attempt.by.name,
        at=attempt.now,
        revision=revision,
    )


def _require_room(environment: str, wanted: _Wanted) -> None:
    """Raise Refused (409) where more waits for its instance than it may be told at once."""
    waiting = RunRetry.objects.filter(
        environment=environment, service=wanted.story.service, instance=wanted.instance, ended_at=None
    )
    given = [wanted.input, *waiting.exclude(input="").values_list("input", flat=True)]
    if wanted.input and sum(len(one.encode()) for one in given) > INPUT_WAITING_MOST:
        detail = (
            f"{len(given) - 1} runs wait for {wanted.instance} with other input: that is as much as it is told at once."
        )
        raise Refused("not_retried", detail, status=STALE, fields={"input": f"is too much for {wanted.instance} now"})


def _already(held: RunRetry, wanted: _Wanted) -> Step[RunRetry]:
    """It is asked for already. Raises Refused (409) where something else was asked for."""
    if (held.input, held.instance) == (wanted.input, wanted.instance):
        return Step(object=held, revision=held.revision, was_already=True)
    detail = f"{held.by} has asked {held.instance} to begin it again: “{held.reason}”. Take that back first."
    raise Refused("retried_already", detail, status=STALE, fields={"run": "is to begin again already"})


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
    asked: Asked,
    about: str,
    wanted: dict[str, str],
    faults: dict[str, str] | None = None,
) -> Attempt:
    def is_told_by(entry: AuditEntry) -> bool:
        told = entry.after or {}
        return all(told.get(name) == value for name, value in wanted.items())

    return Attempt.of(verb, PERMISSION, Scope(), asked, faults, about=about[:NAME_CHARS], is_told_by=is_told_by)


def _told(one: RunRetry) -> dict[str, object]:
    return {"id": one.pk, "run": one.run, "instance": one.instance, "retry_at": one.revision}


def _recalled(entry: AuditEntry) -> RunRetry:
    return RunRetry.objects.get(pk=(entry.after or {})["id"])


def _all_recalled(entry: AuditEntry) -> Sequence[RunRetry]:
    return list(RunRetry.objects.filter(pk__in=(entry.after or {})["ids"]).order_by("revision", "run"))
