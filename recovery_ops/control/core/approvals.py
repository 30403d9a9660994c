"""Second approver: which changes wait for an approval request, and how it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core import checks
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.audit import AuditEntry, UsedKey
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.core.production import is_production
from recovery_ops.control.core.rejections import CONFLICT, FORBIDDEN, ApprovalPending, CommandRejected
from recovery_ops.rules.policy.scope import Scope

if TYPE_CHECKING:
    from recovery_ops.control.core.commands import Command, CommandContext

WAITS = timedelta(hours=1)
"""Lifetime of an approval request. An older one is requested again, because the situation has changed since."""
ASK = "request.ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedAction:
    """A change that can require a second approver, with the arguments to apply it later.

    `agreed` is the request that was approved just now; only `approvals.services` sets it.
    """

    act: str
    arguments: Mapping[str, Any]
    break_glass: bool = False
    agreed: ApprovalRequest | None = None

    @staticmethod
    def of(act: str, asked: CommandContext, **arguments: Any) -> GatedAction:
        """The gated action of this name, from the arguments of a command."""
        return GatedAction(
            act=act, arguments=arguments, break_glass=asked.get("break_glass", False), agreed=asked.get("agreed")
        )


def requires_second_approver(environment: str) -> bool:
    """Whether changes with wide reach need a second approver; off unless an admin turned it on."""
    said = EnvironmentRules.objects.filter(environment=environment).values_list("is_second_needed", flat=True).first()
    return bool(said)


def has_wide_reach(environment: str, scope: Scope) -> bool:
    """Whether the scope covers every breaker, or is in production."""
    return is_production(environment) or checks.is_every_breaker(environment, scope.operation)


def must_wait(command: Command) -> bool:
    """Whether this command waits for a second approver.

    Raises CommandRejected (403) for a break-glass without permission.
    """
    gated_action = command.gated_action
    if gated_action is None or gated_action.agreed is not None or command.by.kind == "system":
        return False
    if not requires_second_approver(command.environment):
        return False
    if not gated_action.break_glass:
        return True
    if not command.by.may("break_glass", command.environment):
        detail = (
            f"{command.by.name} lacks the permission for break-glass in {command.environment}. The role editor has it."
        )
        raise CommandRejected("forbidden", detail, status=FORBIDDEN)
    return False


def earlier_request(command: Command) -> ApprovalRequest | None:
    """The approval request that was made with this idempotency key."""
    if command.gated_action is None or command.key is None or command.gated_action.agreed is not None:
        return None
    found = ApprovalRequest.objects.filter(
        environment=command.environment, key=command.key, identity=command.by.identity
    )
    pending = found.exclude(state=ApprovalRequest.GLASS).first()
    if pending is not None and not (pending.act == command.gated_action.act and is_same_request(command)):
        raise key_conflict(f"This idempotency key was used for another request: {pending.title}, {pending.about}.", [])
    return pending


def is_same_request(command: Command) -> bool:
    """Whether the stored request of this idempotency key is the same, or none is stored."""
    kept = UsedKey.objects.filter(environment=command.environment, key=command.key or "").first()
    return kept is None or not command.by.request_digest or kept.request_digest == command.by.request_digest


def store_request_digest(command: Command) -> None:
    """Store the digest of the request beside its idempotency key, in the transaction of the change."""
    if command.key and command.by.request_digest:
        kept = UsedKey(
            environment=command.environment, key=command.key, request_digest=command.by.request_digest, at=command.now
        )
        UsedKey.objects.bulk_create([kept], ignore_conflicts=True)


def key_conflict(told: str, changes: Sequence[AuditEntry]) -> CommandRejected:
    """Rejection of an idempotency key that was used for another request."""
    detail = f"{told} Use a new key, or open the form again."
    return CommandRejected("key_used", detail, status=CONFLICT, fields={"key": "was used before"}, changes=changes)


def create_request(command: Command) -> ApprovalRequest:
    """Store an approval request, in the transaction that holds the environment's audit chain."""
    pending = _kept(command, ApprovalRequest.WAITING)
    deed = audit.AuditRecord(
        verb=ASK,
        object=f"{pending.title}: {pending.act.replace('_', ' ')} {pending.about}",
        operation=command.scope.operation,
        reason=command.reason,
        after={"id": pending.pk, "act": pending.act, "arguments": dict(pending.arguments)},
    )
    audit.append(command.environment, deed, by=command.by, at=command.now)
    store_request_digest(command)
    return pending


def breaks_glass(command: Command) -> bool:
    """Whether this action goes without the second approver that the environment requires at this moment."""
    gated_action = command.gated_action
    if gated_action is None or gated_action.agreed is not None or command.by.kind == "system":
        return False
    return gated_action.break_glass and requires_second_approver(command.environment)


def approval_details(command: Command, revision: int, *, is_glass_broken: bool) -> dict[str, Any]:
    """Fields of the audit row about the second approver, in the action's transaction; stores a broken glass for review.

    `is_glass_broken` is `breaks_glass` before the action's step: the step itself may end the requirement.
    """
    gated_action = command.gated_action
    if gated_action is None or command.by.kind == "system":
        return {}
    if gated_action.agreed is not None:
        return {"request": gated_action.agreed.number, "asked_by": gated_action.agreed.by}
    if not is_glass_broken:
        return {}
    return {"request": _kept(command, ApprovalRequest.GLASS, revision).number, "break_glass": True}


def pending_error(pending: ApprovalRequest) -> ApprovalPending:
    """Answer to the requester."""
    if pending.state == ApprovalRequest.WAITING:
        detail = (
            f"The change is not applied yet: {pending.environment} requires a second approver. Request "
            f"{pending.number} expires at {pending.expires_at:%H:%M} UTC. An editor can use break-glass; another user "
            "reviews that change later."
        )
    else:
        word = "approved" if pending.state == ApprovalRequest.AGREED else pending.state
        detail = f"This change was already requested: request {pending.number} is {word}."
    return ApprovalPending(detail, pending)


def _kept(command: Command, state: str, revision: int | None = None) -> ApprovalRequest:
    gated_action = command.gated_action
    assert gated_action is not None  # noqa: S101  # callers check it
    return ApprovalRequest.objects.create(
        environment=command.environment,
        number=_next_number(command.environment),
        act=gated_action.act,
        arguments=dict(gated_action.arguments),
        about=command.object[: ApprovalRequest._meta.get_field("about").max_length],
        reason=command.reason,
        by_user_id=command.by.user_id,
        by=command.by.name,
        identity=command.by.identity,
        key=command.key or "",
        asked_at=command.now,
        expires_at=command.now + WAITS,
        state=state,
        revision=revision,
    )


def _next_number(environment: str) -> int:
    newest = (
        ApprovalRequest.objects.filter(environment=environment).order_by("-number").values_list("number", flat=True)
    )
    return (newest.first() or 0) + 1
