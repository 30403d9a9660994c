"""Decisions on approval requests: approve, reject, withdraw, and review of break-glass changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Required, Unpack

from django.db import transaction

from recovery_ops.control.breakers.services.load_shedding import extend_shed, shed
from recovery_ops.control.breakers.services.overrides import disable, extend, observe, trip
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.actors import Actor, system_actor
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.key_owners import is_own
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.rejections import CONFLICT, FORBIDDEN, NOT_FOUND, CommandRejected
from recovery_ops.control.policies.services.review import set_rules
from recovery_ops.rules.policy.scope import Scope

ACTS: Mapping[str, Callable[..., CommandResult[Any]]] = {
    "trip": trip,
    "disable": disable,
    "observe": observe,
    "extend": extend,
    "shed": shed,
    "extend_shed": extend_shed,
    "set_rules": set_rules,
}
"""Actions that can require a second approver, by their stored name."""


_PERMISSIONS = {"extend_shed": "shed"}
"""Permission of an action whose permission has another name."""


class Deciding(CommandContext):
    """Arguments of a decision. `seen` is the revision on the user's screen."""

    number: Required[int]


def agree(**asked: Unpack[Deciding]) -> CommandResult[ApprovalRequest]:
    """Approve a request: its change is applied at once, under both names. Needs the permission of the change itself.

    Raises CommandRejected: 403 also for the requester, 404, 409 when it is decided or expired, and every rejection of
    the change itself; the request then keeps waiting.
    """
    return _decided("agree", ApprovalRequest.AGREED, asked, _carry_out)


def reject(**asked: Unpack[Deciding]) -> CommandResult[ApprovalRequest]:
    """Reject a request, or withdraw one's own. Raises CommandRejected as `agree`."""
    held = _found(asked)
    is_theirs = held.identity == asked["by"].identity
    verb, state = ("withdraw", ApprovalRequest.WITHDRAWN) if is_theirs else ("reject", ApprovalRequest.REJECTED)
    return _decided(verb, state, asked, lambda held, command: None)


def review_glass(**asked: Unpack[Deciding]) -> CommandResult[ApprovalRequest]:
    """Mark a break-glass change as reviewed by another user."""

    def looked_at(held: ApprovalRequest, command: Command) -> None:
        _refuse_own(held, command.by)

    return _decided("review", ApprovalRequest.REVIEWED, asked, looked_at, expected=ApprovalRequest.GLASS)


def end_unanswered(environment: str, *, now: datetime) -> list[ApprovalRequest]:
    """Expire the requests that were not approved in time; idempotent."""
    by = system_actor("expiry")
    with transaction.atomic():
        audit.lock(environment)
        due = ApprovalRequest.objects.filter(
            environment=environment, state=ApprovalRequest.WAITING, expires_at__lte=now
        )
        ended = list(due.order_by("number"))
        for held in ended:
            held.state, held.decided_by, held.decided_at = ApprovalRequest.EXPIRED, by.name, held.expires_at
            held.save(update_fields=["state", "decided_by", "decided_at"])
            deed = audit.AuditRecord(
                verb="request.expire", object=held.title, reason="not approved in time", after={"id": held.pk}
            )
            audit.append(environment, deed, by=by, at=now)
    return ended


def _decided(
    verb: str,
    state: str,
    asked: Deciding,
    act: Callable[[ApprovalRequest, Command], int | None],
    *,
    expected: str = ApprovalRequest.WAITING,
) -> CommandResult[ApprovalRequest]:
    found = _found(asked)
    permission, scope = "agree", Scope()
    if verb == "withdraw":  # the permission to request includes the withdrawal
        permission, scope = _PERMISSIONS.get(found.act, found.act), _scope_of(found)
    command = Command.of(f"request.{verb}", scope, asked, about=found.title, permission=permission)

    def write(revision: int) -> Change[ApprovalRequest]:
        held = ApprovalRequest.objects.get(pk=found.pk)
        if held.state == state and held.decided_by == command.by.name:
            return Change(object=held, revision=held.revision or revision, was_already=True)
        if held.state_at(command.now) != expected:
            _refuse_over(held, command.now)
        done_under = act(held, command)
        held.revision = held.revision if done_under is None else done_under
        held.state, held.decided_by, held.decided_at = state, command.by.name, command.now
        held.decision_reason = command.reason
        held.save()
        after = {"id": held.pk, "asked_by": held.by, "revision": held.revision}
        return Change(object=held, revision=held.revision or revision, after=after)

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def _carry_out(held: ApprovalRequest, command: Command) -> int:
    """Apply the requested change in the transaction of the approval."""
    _refuse_own(held, command.by)
    arguments = dict(held.arguments)
    if "scope" in arguments:
        arguments["scope"] = _scope_of(held)
    done = ACTS[held.act](
        **arguments,
        by=replace(command.by, name=f"{held.by} and {command.by.name}"[:NAME_CHARS]),
        environment=held.environment,
        reason=held.reason,
        seen=command.seen,
        now=command.now,
        agreed=held,
    )
    return done.revision


def _scope_of(held: ApprovalRequest) -> Scope:
    return Scope(**held.arguments.get("scope", {}))


def _refuse_own(held: ApprovalRequest, by: Actor) -> None:
    """Raise CommandRejected (403) for the requester, in person or through a key that they created."""
    if is_own(by, held.identity, held.environment):
        raise CommandRejected("own_work", "You made this request; another user has to decide.", status=FORBIDDEN)


def _refuse_over(held: ApprovalRequest, now: datetime) -> None:
    state = held.state_at(now)
    whose = f" by {held.decided_by}" if held.decided_by and state != ApprovalRequest.EXPIRED else ""
    word = "approved" if state == ApprovalRequest.AGREED else state
    detail = f"Request {held.number} is already {word}{whose}. If the change is still needed, create a new request."
    raise CommandRejected("decided", detail, status=CONFLICT)


def _found(asked: Deciding) -> ApprovalRequest:
    environment, number = asked["environment"], asked["number"]
    held = ApprovalRequest.objects.filter(environment=environment, number=number).first()
    if held is None:
        detail = f"{environment} has no approval request {number}; see the list of approval requests."
        raise CommandRejected("unknown_request", detail, status=NOT_FOUND, fields={"number": "is unknown"})
    return held


def _recalled(entry: AuditEntry) -> ApprovalRequest:
    return ApprovalRequest.objects.get(pk=entry.after["id"])
