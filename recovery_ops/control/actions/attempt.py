"""The frame of every change: may they, is it sound, is it new, is it fresh; then write, audit, and bump the revision.

All in one transaction that holds the environment's audit chain from the first look to the commit, so that two changes
of one environment never interleave. The revision is bumped last: what a reader finds under a number was all committed
with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from itertools import islice
from typing import Any, Generic, NotRequired, Required, TypedDict, TypeVar

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from events import wakes
from recovery_ops.control import audit, stream
from recovery_ops.control.actions import checks, holding
from recovery_ops.control.actions.past import PAST
from recovery_ops.control.actors import Actor
from recovery_ops.control.desired import current_revision
from recovery_ops.control.impact import Impact
from recovery_ops.control.models import EVERYWHERE, NAME_CHARS, REASON_CHARS, AuditEntry, HeldAct, Revision
from recovery_ops.control.refusals import FORBIDDEN, STALE, Refused
from recovery_ops.rules.scope import ANY, Scope

_MOST_CHANGES = 200
_FORESEEN = ("breaker.expire", "breaker.extend", "load.expire", "work.expire", "run.begun", "run.forget_retry")
"""What the console does that makes nobody late who looked before: what ended by its time, was done, or just went on."""
_NOTED = (FORBIDDEN, STALE)
"""Refusals that stand in the audit log: somebody was held back. A typing mistake is nobody's business."""

SIGN_IN_AGAIN = "sign_in_again"
"""The code of a refusal that ends when a person confirms who they are."""
CONFIRM = (
    "Nothing was changed: this asks for a fresh sign-in. Confirm who you are at /sign-in/again (in another tab, if you "
    "have typed something here), then send it once more."
)

T = TypeVar("T")
"""The row that an action writes."""


class Asked(TypedDict):
    """What every action is given, as keywords.

    `seen` is the revision the asker was looking at (None: they have not looked); `key` an idempotency key: asking again
    with it is answered with what was done the first time. `dry_run` checks everything and writes nothing. `now` is for
    those who know better than the clock. `break_glass` does alone what two have to want. `agreed` is the request to
    which a second person has agreed: only `actions.second` gives it.
    """

    by: Required[Actor]
    environment: Required[str]
    reason: Required[str]
    seen: NotRequired[int | None]
    key: NotRequired[str | None]
    dry_run: NotRequired[bool]
    now: NotRequired[datetime | None]
    break_glass: NotRequired[bool]
    agreed: NotRequired[HeldAct]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[T]):
    """What was done, or would be (`is_dry_run`). `was_already`: it was so before, and nothing was written.

    `revision` is the one to wait for until the change is everywhere.
    """

    revision: int
    object: T
    was_already: bool = False
    is_dry_run: bool = False
    needs_second: bool = False
    """Of a dry run: whether it would wait for a second person."""
    impact: Impact | None = None
    called_off: Sequence[T] = ()
    """What was planned, had not begun, and was ended by this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Generic[T]):
    """What an action wrote under a revision, or found written under it. `before` and `after` are for the audit log."""

    object: T
    revision: int
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    was_already: bool = False
    called_off: Sequence[T] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Somebody wants something: who, where, what, why, and which revision they were looking at."""

    by: Actor
    environment: str
    permission: str
    verb: str
    scope: Scope
    reason: str
    now: datetime
    seen: int | None = None
    key: str | None = None
    is_dry_run: bool = False
    faults: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with what only this action is given, by field."""
    about: str = ""
    """What the audit log calls its object; empty: the scope in words."""
    is_for_agents: bool = True
    """Whether agents have to hear of it: then there is a new revision."""
    needs_fresh: bool = False
    """Whether a person has to have signed in a short time ago."""
    grave: holding.Grave | None = None
    """What waits for a second person where the environment asks for one."""
    is_told_by: Callable[[AuditEntry], bool] | None = None
    """Whether an entry with the same key, object and reason tells of this very wish; None: nothing else can differ."""

    @staticmethod
    def of(
        verb: str,
        permission: str,
        scope: Scope,
        asked: Asked,
        faults: Mapping[str, str] | None = None,
        *,
        about: str = "",
        is_for_agents: bool = True,
        needs_fresh: bool = False,
        grave: holding.Grave | None = None,
        is_told_by: Callable[[AuditEntry], bool] | None = None,
    ) -> Attempt:
        """The attempt that a caller's keywords stand for."""
        return Attempt(
            by=asked["by"],
            environment=asked["environment"],
            permission=permission,
            verb=verb,
            scope=scope,
            reason=checks.said(asked["reason"]),
            now=asked.get("now") or timezone.now(),
            seen=asked.get("seen"),
            key=asked.get("key") or None,
            is_dry_run=asked.get("dry_run", False),
            faults=faults or {},
            about=about,
            is_for_agents=is_for_agents,
            needs_fresh=needs_fresh,
            grave=grave,
            is_told_by=is_told_by,
        )

    @property
    def object(self) -> str:
        """What the audit log says it was about."""
        return self.about or words_of(self.scope)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Write down a refusal by which somebody was held back, on its way to the caller."""
        try:
            yield
        except Refused as refusal:
            self._note(refusal)
            raise

    def check(self) -> None:
        """Raise Refused: 403 when they may not, 400 with the fault of every field."""
        require(self.by, self.permission, self.environment, self.scope.group)
        if self.needs_fresh and not self.by.is_fresh:
            raise Refused(SIGN_IN_AGAIN, CONFIRM, status=FORBIDDEN)
        self.check_said()

    def check_said(self) -> None:
        """Raise Refused (400) with the fault of every field, whoever it is: of what everybody does for themselves."""
        checks.refuse(
            {
                "environment": checks.fault_of_environment(self.environment),
                **checks.faults_of_scope(self.scope),
                "reason": checks.fault_of_reason(self.reason),
                "key": checks.fault_of_key(self.key),
                **self.faults,
            }
        )

    def check_fresh(self, current: int) -> None:
        """Raise Refused (409) when somebody, or a rule, changed the same breaker or operation since they looked."""
        if self.seen is None or self.seen == current:
            return
        if self.seen > current:
            detail = f"Revision {self.seen} does not exist; the newest is {current}. Look again, then decide."
            raise Refused("stale", detail, status=STALE, fields={"seen": f"is at most {current}"})
        changes = self._changes_since(self.seen)
        if changes:
            raise Refused("stale", f"{_told(changes[0])} Look again, then decide.", status=STALE, changes=changes)

    def check_seen(self, version: int, verbs: Collection[str]) -> None:
        """Raise Refused (409) when what has this `version_of` was another when the asker looked, with its last deed."""
        if self.seen is None or self.seen == version:
            return
        done = AuditEntry.objects.filter(environment=self.environment, object=self.object, result=AuditEntry.OK)
        newest = list(done.filter(verb__in=verbs).order_by("-number")[:1])
        told = _told(newest[0]) if newest else f"{self.object} is not what you looked at."
        raise Refused("stale", f"{told} Look again, then decide.", status=STALE, changes=newest)

    def deed(self, step: Step[T], second: Mapping[str, Any]) -> audit.Deed:
        """What the audit log says of it, and of the second person."""
        return audit.Deed(
            verb=self.verb,
            object=self.object,
            operation=self.scope.operation,
            reason=self.reason,
            before=step.before,
            after={**(step.after or {}), **second} if second else step.after,
            revision=step.revision if self.is_for_agents else None,
            key=self.key,
        )

    def repeated(self) -> AuditEntry | None:
        """What was done with this key before. Raises Refused (409) when that was something else."""
        if self.key is None:
            return None
        entry = AuditEntry.objects.filter(environment=self.environment, key=self.key).first()
        if entry is not None and not (self._is_again(entry) and holding.is_same_wish(self)):
            raise holding.key_used(f"This idempotency key was used for another change: {_told(entry)}", [entry])
        return entry

    def _is_again(self, entry: AuditEntry) -> bool:
        mine = (self.verb, self.object, self.by.kind, self.by.id, self.reason)
        its = (entry.verb, entry.object, entry.actor_kind, entry.actor_id, entry.reason)
        return its == mine and (self.is_told_by is None or self.is_told_by(entry))

    def _note(self, refusal: Refused) -> None:
        # Whoever may not even look at an environment leaves no trace in it: else anybody could fill its log.
        is_guest = self.by.kind == "person" and not self.by.may("see", self.environment)
        if refusal.status not in _NOTED or refusal.code == SIGN_IN_AGAIN or self.is_dry_run or is_guest:
            return
        deed = audit.Deed(
            verb=self.verb,
            object=_shown(self.object),
            operation=_shown(self.scope.operation)[:NAME_CHARS],
            reason=_shown(self.reason)[:REASON_CHARS],
            code=refusal.code,
        )
        audit.append(self.environment, deed, by=self.by, at=self.now)

    def _changes_since(self, seen: int) -> list[AuditEntry]:
        family = self.verb.partition(".")[0]
        entries = AuditEntry.objects.filter(
            environment=self.environment, revision__gt=seen, result=AuditEntry.OK, verb__startswith=f"{family}."
        )
        entries = entries.exclude(actor_kind="system", verb__in=_FORESEEN).order_by("-number")
        mine = self.scope.operation
        if ANY not in mine:
            entries = entries.filter(Q(operation=mine) | Q(operation__contains=ANY))
        overlapping = (one for one in entries.iterator() if checks.overlap(one.operation, mine))
        return list(islice(overlapping, _MOST_CHANGES))


def carry_out(
    attempt: Attempt,
    step: Callable[[int], Step[T]],
    *,
    recall: Callable[[AuditEntry], T],
    impact: Impact | None = None,
) -> Done[T]:
    """Run one change in one transaction. `step` writes under the revision it is given, `recall` finds what it wrote.

    What agents need not hear of is given the current revision, and makes no new one. What waits for a second person is
    tried, so that nobody is asked about what could not be done, and taken back. Raises Held for it.
    """
    with transaction.atomic():
        audit.lock(attempt.environment)
        if (earlier := holding.asked_before(attempt)) is not None:
            raise holding.refusal_of(earlier)
        repeated = attempt.repeated()
        if repeated is not None:
            found = recall(repeated)
            revision = repeated.revision or (0 if attempt.is_for_agents else current_revision(attempt.environment))
            return Done(revision=revision, object=found, was_already=True, impact=impact)
        is_waiting = holding.has_to_wait(attempt)
        with transaction.atomic() if is_waiting else nullcontext():
            taken = step(current_revision(attempt.environment) + (1 if attempt.is_for_agents else 0))
            is_held = is_waiting and not taken.was_already and not attempt.is_dry_run
            if is_held:
                transaction.set_rollback(True)
        held = holding.hold(attempt) if is_held else None
        if held is None and not taken.was_already:
            second = {} if is_waiting else holding.second_of(attempt, taken.revision)
            audit.append(attempt.environment, attempt.deed(taken, second), by=attempt.by, at=attempt.now)
            holding.keep_wish(attempt)
            if attempt.is_for_agents:
                bump(attempt.environment, attempt.now)
            if attempt.is_dry_run:
                transaction.set_rollback(True)
    if held is not None:
        raise holding.refusal_of(held)
    return Done(
        revision=taken.revision,
        object=taken.object,
        was_already=taken.was_already,
        is_dry_run=attempt.is_dry_run,
        needs_second=is_waiting and attempt.is_dry_run and not taken.was_already,
        impact=impact,
        called_off=taken.called_off,
    )


def version_of(*state: object) -> int:
    """A number for what is so now, of what counts no versions itself: another state has another."""
    return int(sha256(repr(state).encode()).hexdigest()[:14], 16)


def require(by: Actor, permission: str, environment: str, group: str = ANY) -> None:
    """Raise Refused (403) when they may not, for all agents or for this group of them."""
    has_part = ANY not in group and by.may_for_group is not None and by.may_for_group(permission, environment, group)
    if not has_part and not by.may(permission, environment):
        where = "everywhere" if environment == EVERYWHERE else f"in {environment}"
        detail = f"{by.name} may not {permission.replace('_', ' ')} {where}. Ask an admin for a role that may."
        raise Refused("forbidden", detail, status=FORBIDDEN)


def bump(environment: str, now: datetime) -> None:
    """Announce a new revision: the last thing a transaction does. Every process hears of it at the commit."""
    revision = Revision.objects.filter(environment=environment)
    if not revision.update(number=F("number") + 1, changed_at=now):
        Revision.objects.create(environment=environment, number=1, changed_at=now)
    wakes.announce()
    transaction.on_commit(stream.wake)


def words_of(scope: Scope) -> str:
    """A scope as people read it: `search_web of service research`."""
    words = "every breaker" if scope.operation == ANY else scope.operation
    parts = (("of service", scope.service), ("on instance", scope.instance), ("in group", scope.group))
    return " ".join([words, *(f"{what} {name}" for what, name in parts if name != ANY)])


def _told(entry: AuditEntry) -> str:
    """`Ana tripped search_web at 14:26:04 UTC (revision 8): “the reason”.`"""
    what = f"{entry.actor_name} {PAST.get(entry.verb, entry.verb)} {entry.object}"
    revision = "" if entry.revision is None else f" (revision {entry.revision})"
    return f"{what} at {entry.at:%H:%M:%S} UTC{revision}: “{entry.reason}”."


def _shown(text: str) -> str:
    """A text that was not checked, as far as it can be stored and shown."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
