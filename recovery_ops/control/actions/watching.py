"""Watching a breaker: a person is told by e-mail when it moves or is stuck, until they stop.

A watch is a rule of the notifications with one person behind it, so that it is told, held back, retried and logged like
any other, and who keeps the notifications sees it and can take it away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Required, TypeVar, Unpack

from django.contrib.auth import get_user_model

from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.checks import require_known_breaker
from recovery_ops.control.models import NAME_CHARS, AuditEntry, Channel, Notification, NotificationRule
from recovery_ops.control.notify.people import addresses_of, without_address
from recovery_ops.control.refusals import FORBIDDEN, STALE, Refused
from recovery_ops.rules.scope import Scope

W = TypeVar("W", bound=NotificationRule | None)
PERMISSION = "respond"
TRIGGERS = ("breaker_moved", "breaker_stuck")
_REASON = "to be told when it moves"


class Watching(Asked):
    """What both are given: the breaker."""

    name: Required[str]


def watch(**asked: Unpack[Watching]) -> Done[NotificationRule]:
    """Tell the asker from now on when a breaker moves.

    Raises Refused: 403 also for a key, 404 for a breaker nobody reported, 409 where no e-mail could reach them.
    """
    attempt = _attempt("watch.begin", asked)

    def write(revision: int) -> Step[NotificationRule]:
        person = _person(attempt)
        held = watch_of(attempt.environment, asked["name"], person)
        if held is not None:
            return Step(object=held, revision=revision, was_already=True)
        channel = Channel.objects.filter(
            environment=attempt.environment, kind=Channel.PEOPLE, removed_at=None, is_on=True
        ).first()
        if channel is None:
            detail = (
                "No channel writes to people here: an editor sets up “E-mail to people” under Settings, Notifications."
            )
            raise Refused("no_channel", detail, status=STALE)
        if not addresses_of(person, attempt.environment, now=attempt.now):
            raise Refused("no_address", without_address(person), status=STALE)
        made = NotificationRule.objects.create(
            environment=attempt.environment,
            name=f"{person} watches {asked['name']}"[:NAME_CHARS],
            channel=channel,
            triggers=list(TRIGGERS),
            operation=asked["name"],
            person=person,
            since=attempt.now,
            changed_at=attempt.now,
            changed_by=attempt.by.name,
        )
        return Step(object=made, revision=revision, after={"id": made.pk, "person": person})

    return _carried_out(attempt, write, asked["name"])


def unwatch(**asked: Unpack[Watching]) -> Done[NotificationRule | None]:
    """Tell the asker no more. Raises Refused: 403 also for a key, 404 for a breaker nobody reported."""
    attempt = _attempt("watch.end", asked)

    def write(revision: int) -> Step[NotificationRule | None]:
        person = _person(attempt)
        held = watch_of(attempt.environment, asked["name"], person)
        if held is None:
            return Step(object=None, revision=revision, was_already=True)
        held.removed_at, held.changed_at, held.changed_by = attempt.now, attempt.now, attempt.by.name
        held.save(update_fields=["removed_at", "changed_at", "changed_by"])
        Notification.objects.filter(rule=held, delivery=None).delete()
        return Step(object=held, revision=revision, after={"id": held.pk, "person": person})

    return _carried_out(attempt, write, asked["name"])


def watch_of(environment: str, name: str, person: str) -> NotificationRule | None:
    """The rule by which a person watches a breaker; None where they do not."""
    found = NotificationRule.objects.filter(environment=environment, removed_at=None, person=person, operation=name)
    return found.first() if person else None


def watches(environment: str) -> frozenset[tuple[str, str]]:
    """Every watch there as its person and its breaker. One query."""
    held = NotificationRule.objects.filter(environment=environment, removed_at=None).exclude(person="")
    return frozenset(held.values_list("person", "operation"))


def _attempt(verb: str, asked: Watching) -> Attempt:
    given: Any = {**asked, "reason": asked["reason"] or _REASON}
    return Attempt.of(verb, PERMISSION, Scope(operation=asked["name"]), given, about=asked["name"], is_for_agents=False)


def _person(attempt: Attempt) -> str:
    if attempt.by.user_id is None:
        raise Refused("not_a_person", "People watch; a key has no mailbox.", status=FORBIDDEN)
    return str(get_user_model().objects.get(pk=attempt.by.user_id).get_username())


def _carried_out(attempt: Attempt, write: Callable[[int], Step[W]], name: str) -> Done[W]:
    with attempt.noted():
        attempt.check()
        require_known_breaker(attempt.environment, Scope(operation=name))
        return carry_out(attempt, write, recall=_recalled)


def _recalled(entry: AuditEntry) -> Any:
    return NotificationRule.objects.get(pk=entry.after["id"])
