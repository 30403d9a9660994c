"""What a second person says of what waits for them: they agree, or not; and they look at what went without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Required, Unpack

from django.db import transaction

from recovery_ops.control import audit
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.hands import is_own
from recovery_ops.control.actions.overrides import disable, extend, observe, trip
from recovery_ops.control.actions.review import set_rules
from recovery_ops.control.actions.shedding import extend_shed, shed
from recovery_ops.control.actors import Actor, system
from recovery_ops.control.models import NAME_CHARS, AuditEntry, HeldAct
from recovery_ops.control.refusals import FORBIDDEN, STALE, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

ACTS: Mapping[str, Callable[..., Done[Any]]] = {
    "trip": trip,
    "disable": disable,
    "observe": observe,
    "extend": extend,
    "shed": shed,
    "extend_shed": extend_shed,
    "set_rules": set_rules,
}
"""What can wait for a second person, by the name under which it is kept."""


_PERMISSIONS = {"extend_shed": "shed"}
"""What an act takes where that is not its name."""


class Deciding(Asked):
    """What acts on a request are given: its number. `seen` is the revision that was looked at."""

    number: Required[int]


def agree(**asked: Unpack[Deciding]) -> Done[HeldAct]:
    """Want it too: it is done now, under both names, if it still can be. It takes the permission of the act itself.

    Raises Refused: 403 also for who asked for it, 404, 409 when it was decided or its time is over, and whatever the
    act itself is refused with: then the request waits on.
    """
    return _decided("agree", HeldAct.AGREED, asked, _carry_out)


def reject(**asked: Unpack[Deciding]) -> Done[HeldAct]:
    """Say no to it, or take back what one has asked for oneself. Raises Refused as `agree`."""
    held = _found(asked)
    is_theirs = held.identity == asked["by"].identity
    verb, state = ("withdraw", HeldAct.WITHDRAWN) if is_theirs else ("reject", HeldAct.REJECTED)
    return _decided(verb, state, asked, lambda held, attempt: None)


def review_glass(**asked: Unpack[Deciding]) -> Done[HeldAct]:
    """Take what went without a second person off the list: somebody else has looked at it, and says what of it."""

    def looked_at(held: HeldAct, attempt: Attempt) -> None:
        _refuse_own(held, attempt.by)

    return _decided("review", HeldAct.REVIEWED, asked, looked_at, expected=HeldAct.GLASS)


def end_unanswered(environment: str, *, now: datetime) -> list[HeldAct]:
    """Note which requests nobody agreed to in time. Asked twice, the second finds nothing."""
    by = system("expiry")
    with transaction.atomic():
        audit.lock(environment)
        due = HeldAct.objects.filter(environment=environment, state=HeldAct.WAITING, expires_at__lte=now)
        ended = list(due.order_by("number"))
        for held in ended:
            held.state, held.decided_by, held.decided_at = HeldAct.EXPIRED, by.name, held.expires_at
            held.save(update_fields=["state", "decided_by", "decided_at"])
            deed = audit.Deed(
                verb="request.expire", object=held.title, reason="nobody agreed in time", after={"id": held.pk}
            )
            audit.append(environment, deed, by=by, at=now)
    return ended


def _decided(
    verb: str,
    state: str,
    asked: Deciding,
    act: Callable[[HeldAct, Attempt], int | None],
    *,
    expected: str = HeldAct.WAITING,
) -> Done[HeldAct]:
    found = _found(asked)
    permission, scope = "agree", Scope()
    if verb == "withdraw":  # who may ask may also take it back
        permission, scope = _PERMISSIONS.get(found.act, found.act), _scope_of(found)
    attempt = Attempt.of(f"request.{verb}", permission, scope, asked, about=found.title, is_for_agents=False)

    def write(revision: int) -> Step[HeldAct]:
        held = HeldAct.objects.get(pk=found.pk)
        if held.state == state and held.decided_by == attempt.by.name:
            return Step(object=held, revision=held.revision or revision, was_already=True)
        if held.state_at(attempt.now) != expected:
            _refuse_over(held, attempt.now)
        done_under = act(held, attempt)
        held.revision = held.revision if done_under is None else done_under
        held.state, held.decided_by, held.decided_at = state, attempt.by.name, attempt.now
        held.decision_reason = attempt.reason
        held.save()
        after = {"id": held.pk, "asked_by": held.by, "revision": held.revision}
        return Step(object=held, revision=held.revision or revision, after=after)

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


def _carry_out(held: HeldAct, attempt: Attempt) -> int:
    """Do what was asked for, in the transaction of the agreement."""
    _refuse_own(held, attempt.by)
    arguments = dict(held.arguments)
    if "scope" in arguments:
        arguments["scope"] = _scope_of(held)
    done = ACTS[held.act](
        **arguments,
        by=replace(attempt.by, name=f"{held.by} and {attempt.by.name}"[:NAME_CHARS]),
        environment=held.environment,
        reason=held.reason,
        seen=attempt.seen,
        now=attempt.now,
        agreed=held,
    )
    return done.revision


def _scope_of(held: HeldAct) -> Scope:
    return Scope(**held.arguments.get("scope", {}))


def _refuse_own(held: HeldAct, by: Actor) -> None:
    """Raise Refused (403) for who asked, whether in person or through keys of their making."""
    if is_own(by, held.identity, held.environment):
        raise Refused("own_work", "You asked for it yourself; somebody else has to agree.", status=FORBIDDEN)


def _refuse_over(held: HeldAct, now: datetime) -> None:
    state = held.state_at(now)
    whose = f" by {held.decided_by}" if held.decided_by and state != HeldAct.EXPIRED else ""
    detail = f"Request {held.number} is {state}{whose}; there is nothing to decide. Ask for it anew if it is needed."
    raise Refused("decided", detail, status=STALE)


def _found(asked: Deciding) -> HeldAct:
    environment, number = asked["environment"], asked["number"]
    held = HeldAct.objects.filter(environment=environment, number=number).first()
    if held is None:
        detail = f"There is no request {number} in {environment}. The list of requests names those that there are."
        raise Refused("unknown_request", detail, status=UNKNOWN, fields={"number": "is not known"})
    return held


def _recalled(entry: AuditEntry) -> HeldAct:
    return HeldAct.objects.get(pk=entry.after["id"])
