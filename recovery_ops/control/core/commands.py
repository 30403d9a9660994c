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
from django.db.models import Q
from django.utils import timezone

from recovery_ops.control.core import approvals as requests
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core import checks
from recovery_ops.control.core.actions import ACTIONS, past_tense
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import EVERYWHERE, NAME_CHARS, REASON_CHARS
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CONFLICT, FORBIDDEN, CommandRejected
from recovery_ops.control.core.revisions import bump_revision, current_revision
from recovery_ops.rules.policy.scope import ANY, Scope

_MOST_CHANGES = 200
_NOTED = (FORBIDDEN, CONFLICT)
"""Refusals that stand in the audit log: somebody was held back. A typing mistake is nobody's business."""

SIGN_IN_AGAIN = "sign_in_again"
"""The code of a refusal that ends when a person confirms who they are."""
CONFIRM = (
    "This change requires a fresh sign-in; nothing changed. Sign in at /sign-in/again (in another tab, to keep the "
    "form), then send the form again."
)

T = TypeVar("T")
"""The row that an action writes."""


class CommandContext(TypedDict):
    """What every action is given, as keywords.

    `seen` is the revision the asker was looking at (None: they have not looked); `key` an idempotency key: asking again
    with it is answered with what was done the first time. `dry_run` checks everything and writes nothing. `now` is for
    those who know better than the clock. `break_glass` does alone what two have to want. `agreed` is the request to
    which a second person has agreed: only `actions.second` gives it. `objects`: how many a bulk action is about.
    """

    by: Required[Actor]
    environment: Required[str]
    reason: Required[str]
    seen: NotRequired[int | None]
    key: NotRequired[str | None]
    dry_run: NotRequired[bool]
    now: NotRequired[datetime | None]
    break_glass: NotRequired[bool]
    agreed: NotRequired[ApprovalRequest]
    objects: NotRequired[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult(Generic[T]):
    """What was done, or would be (`is_dry_run`). `was_already`: it was so before, and nothing was written.

    `revision` is the one to wait for until the change is everywhere.
    """

    revision: int
    object: T
    was_already: bool = False
    is_dry_run: bool = False
    needs_approval: bool = False
    """Of a dry run: whether it would wait for a second person."""
    impact: Any = None
    """What it reaches, in the terms of its room."""
    cancelled: Sequence[T] = ()
    """What was planned, had not begun, and was ended by this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[T]):
    """What an action wrote under a revision, or found written under it. `before` and `after` are for the audit log."""

    object: T
    revision: int
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    was_already: bool = False
    cancelled: Sequence[T] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
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
    objects: int = 1
    """Number of breakers, runs or instances that it is about."""
    gated_action: requests.GatedAction | None = None
    """What waits for a second person where the environment asks for one."""
    is_same_request: Callable[[AuditEntry], bool] | None = None
    """Whether an entry with the same key, object and reason is about this request; None: nothing else can differ."""

    @staticmethod
    def of(
        verb: str,
        scope: Scope,
        asked: CommandContext,
        faults: Mapping[str, str] | None = None,
        *,
        about: str = "",
        permission: str | None = None,
        is_for_agents: bool | None = None,
        needs_fresh: bool = False,
        objects: int = 1,
        gated_action: requests.GatedAction | None = None,
        is_same_request: Callable[[AuditEntry], bool] | None = None,
    ) -> Command:
        """A command of a declared action, with a caller's keywords.

        `permission` and `is_for_agents` are the action's, where what it is about does not decide them. `needs_fresh`:
        this command needs a fresh sign-in, although others of its action do not.
        """
        action = ACTIONS[verb]
        return Command(
            by=asked["by"],
            environment=asked["environment"],
            permission=action.permission if permission is None else permission,
            verb=verb,
            scope=scope,
            reason=checks.normalize_reason(asked["reason"]),
            now=asked.get("now") or timezone.now(),
            seen=asked.get("seen"),
            key=asked.get("key") or None,
            is_dry_run=asked.get("dry_run", False),
            faults=faults or {},
            about=about,
            is_for_agents=action.is_for_agents if is_for_agents is None else is_for_agents,
            needs_fresh=needs_fresh or action.needs_fresh_sign_in,
            objects=max(objects, asked.get("objects", 1)),
            gated_action=gated_action,
            is_same_request=is_same_request,
        )

    @property
    def object(self) -> str:
        """What the audit log says it was about."""
        return self.about or scope_words(self.scope)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Write down a refusal by which somebody was held back, on its way to the caller."""
        try:
            yield
        except CommandRejected as rejection:
            self._note(rejection)
            raise

    def check(self) -> None:
        """Raise Refused: 403 when they may not, 400 with the fault of every field."""
        require_permission(self.by, self.permission, self.environment, self.scope.group)
        if self.needs_fresh and not self.by.is_fresh:
            raise CommandRejected(SIGN_IN_AGAIN, CONFIRM, status=FORBIDDEN)
        self.check_input()

    def check_input(self) -> None:
        """Raise Refused (400) with the fault of every field, whoever it is: of what everybody does for themselves."""
        checks.raise_for_errors(
            {
                "environment": checks.environment_error(self.environment),
                **checks.scope_errors(self.scope),
                "reason": checks.reason_error(self.reason, is_needed=self._needs_reason()),
                "key": checks.key_error(self.key),
                **self.faults,
            }
        )

    def _needs_reason(self) -> bool:
        if len(self.reason) >= checks.LEAST_REASON_CHARS:
            return False
        operation = "" if self.about else self.scope.operation
        return needs_reason(self.verb, self.environment, operation=operation, objects=self.objects)

    def check_fresh(self, current: int) -> None:
        """Raise Refused (409) when somebody, or a rule, changed the same breaker or operation since they looked."""
        if self.seen is None or self.seen == current:
            return
        if self.seen > current:
            detail = f"Revision {self.seen} does not exist; the newest is {current}. Reload, then decide."
            raise CommandRejected("stale", detail, status=CONFLICT, fields={"seen": f"must be at most {current}"})
        changes = self._changes_since(self.seen)
        if changes:
            raise CommandRejected(
                "stale", f"{_told(changes[0])} Reload, then decide.", status=CONFLICT, changes=changes
            )

    def check_version(self, version: int, verbs: Collection[str]) -> None:
        """Raise Refused (409) when what has this `version_of` was another when the asker looked, with its last deed."""
        if self.seen is None or self.seen == version:
            return
        done = AuditEntry.objects.filter(environment=self.environment, object=self.object, result=AuditEntry.OK)
        newest = list(done.filter(verb__in=verbs).order_by("-number")[:1])
        told = _told(newest[0]) if newest else f"{self.object} was changed since you loaded it."
        raise CommandRejected("stale", f"{told} Reload, then decide.", status=CONFLICT, changes=newest)

    def deed(self, step: Change[T], second: Mapping[str, Any]) -> audit.AuditRecord:
        """What the audit log says of it, and of the second person."""
        return audit.AuditRecord(
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
        """What was done with this key before. Raises CommandRejected (409) when that was something else."""
        if self.key is None:
            return None
        entry = AuditEntry.objects.filter(environment=self.environment, key=self.key).first()
        if entry is not None and not (self._is_again(entry) and requests.is_same_request(self)):
            raise requests.key_conflict(f"This idempotency key was used for another change: {_told(entry)}", [entry])
        return entry

    def _is_again(self, entry: AuditEntry) -> bool:
        mine = (self.verb, self.object, self.by.kind, self.by.id, self.reason)
        its = (entry.verb, entry.object, entry.actor_kind, entry.actor_id, entry.reason)
        return its == mine and (self.is_same_request is None or self.is_same_request(entry))

    def _note(self, rejection: CommandRejected) -> None:
        # Whoever may not even look at an environment leaves no trace in it: else anybody could fill its log.
        is_guest = self.by.kind == "person" and not self.by.may("see", self.environment)
        if rejection.status not in _NOTED or rejection.code == SIGN_IN_AGAIN or self.is_dry_run or is_guest:
            return
        deed = audit.AuditRecord(
            verb=self.verb,
            object=_shown(self.object),
            operation=_shown(self.scope.operation)[:NAME_CHARS],
            reason=_shown(self.reason)[:REASON_CHARS],
            code=rejection.code,
        )
        audit.append(self.environment, deed, by=self.by, at=self.now)

    def _changes_since(self, seen: int) -> list[AuditEntry]:
        family = self.verb.partition(".")[0]
        entries = AuditEntry.objects.filter(
            environment=self.environment, revision__gt=seen, result=AuditEntry.OK, verb__startswith=f"{family}."
        )
        expected = [action.verb for action in ACTIONS.values() if action.is_expected]
        entries = entries.exclude(actor_kind="system", verb__in=expected).order_by("-number")
        mine = self.scope.operation
        if ANY not in mine:
            entries = entries.filter(Q(operation=mine) | Q(operation__contains=ANY))
        overlapping = (one for one in entries.iterator() if checks.patterns_overlap(one.operation, mine))
        return list(islice(overlapping, _MOST_CHANGES))


def is_repeated(frame: CommandContext, verb: str) -> bool:
    """Whether something was done with the frame's key and this verb before: the thing is then as that left it."""
    key = frame.get("key")
    return key is not None and AuditEntry.objects.filter(environment=frame["environment"], key=key, verb=verb).exists()


def execute(
    command: Command,
    step: Callable[[int], Change[T]],
    *,
    recall: Callable[[AuditEntry], T],
    impact: Any = None,
) -> CommandResult[T]:
    """Run one change in one transaction. `step` writes under the revision it is given, `recall` finds what it wrote.

    What agents need not hear of is given the current revision, and makes no new one. What waits for a second person is
    tried, so that nobody is asked about what could not be done, and taken back. Raises ApprovalPending for it.
    """
    with transaction.atomic():
        audit.lock(command.environment)
        if (earlier := requests.earlier_request(command)) is not None:
            raise requests.pending_error(earlier)
        repeated = command.repeated()
        if repeated is not None:
            found = recall(repeated)
            revision = repeated.revision or (0 if command.is_for_agents else current_revision(command.environment))
            return CommandResult(revision=revision, object=found, was_already=True, impact=impact)
        is_waiting, is_glass_broken = requests.must_wait(command), requests.breaks_glass(command)
        with transaction.atomic() if is_waiting else nullcontext():
            taken = step(current_revision(command.environment) + (1 if command.is_for_agents else 0))
            is_held = is_waiting and not taken.was_already and not command.is_dry_run
            if is_held:
                transaction.set_rollback(True)
        held = requests.create_request(command) if is_held else None
        if held is None and not taken.was_already:
            second: Mapping[str, Any] = {}
            if not is_waiting:
                second = requests.approval_details(command, taken.revision, is_glass_broken=is_glass_broken)
            audit.append(command.environment, command.deed(taken, second), by=command.by, at=command.now)
            requests.store_request_digest(command)
            if command.is_for_agents:
                bump_revision(command.environment, command.now)
            if command.is_dry_run:
                transaction.set_rollback(True)
    if held is not None:
        raise requests.pending_error(held)
    return CommandResult(
        revision=taken.revision,
        object=taken.object,
        was_already=taken.was_already,
        is_dry_run=command.is_dry_run,
        needs_approval=is_waiting and command.is_dry_run and not taken.was_already,
        impact=impact,
        cancelled=taken.cancelled,
    )


def state_version(*state: object) -> int:
    """A number for what is so now, of what counts no versions itself: another state has another."""
    return int(sha256(repr(state).encode()).hexdigest()[:14], 16)


def require_permission(by: Actor, permission: str, environment: str, group: str = ANY) -> None:
    """Raise Refused (403) when they may not, for all agents or for this group of them."""
    has_part = ANY not in group and by.may_for_group is not None and by.may_for_group(permission, environment, group)
    if not has_part and not by.may(permission, environment):
        where = "everywhere" if environment == EVERYWHERE else f"in {environment}"
        needed = permission.replace("_", " ")
        detail = f"{by.name} lacks the permission to {needed} {where}. An admin can grant a role that has it."
        raise CommandRejected("forbidden", detail, status=FORBIDDEN)


def scope_words(scope: Scope) -> str:
    """A scope as people read it: `search_web of service research`."""
    words = "every breaker" if scope.operation == ANY else scope.operation
    parts = (("of service", scope.service), ("on instance", scope.instance), ("in group", scope.group))
    return " ".join([words, *(f"{what} {name}" for what, name in parts if name != ANY)])


def _told(entry: AuditEntry) -> str:
    """`Ana tripped search_web at 14:26:04 UTC (revision 8): “the reason”.`"""
    what = f"{entry.actor_name} {past_tense(entry.verb)} {entry.object}"
    revision = "" if entry.revision is None else f" (revision {entry.revision})"
    why = f": “{entry.reason}”" if entry.reason else ""
    return f"{what} at {entry.at:%H:%M:%S} UTC{revision}{why}."


def _shown(text: str) -> str:
    """A text that was not checked, as far as it can be stored and shown."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
