"""Where an environment asks for two persons: what has to wait for the second, and how that is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from recovery_ops.control import audit
from recovery_ops.control.actions import checks
from recovery_ops.control.models import AuditEntry, EnvironmentRules, HeldAct, UsedKey
from recovery_ops.control.refusals import FORBIDDEN, STALE, Held, Refused
from recovery_ops.rules.scope import Scope

if TYPE_CHECKING:
    from recovery_ops.control.actions.attempt import Asked, Attempt

WAITS = timedelta(hours=1)
"""How long somebody has to agree: what was asked for longer ago is asked for anew, by who knows how it stands now."""
ASK = "request.ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grave:
    """An act that two have to want where the environment says so: what has to be known to carry it out later.

    `agreed` is the request that a second person has just agreed to; only `actions.second` may say so.
    """

    act: str
    arguments: Mapping[str, Any]
    break_glass: bool = False
    agreed: HeldAct | None = None

    @staticmethod
    def of(act: str, asked: Asked, **arguments: Any) -> Grave:
        """The act of this name, with what an action was asked."""
        return Grave(
            act=act, arguments=arguments, break_glass=asked.get("break_glass", False), agreed=asked.get("agreed")
        )


def is_second_needed(environment: str) -> bool:
    """Whether two persons have to want what reaches everybody. Nowhere, unless an admin said so."""
    said = EnvironmentRules.objects.filter(environment=environment).values_list("is_second_needed", flat=True).first()
    return bool(said)


def is_grave(environment: str, scope: Scope) -> bool:
    """Whether what is imposed on this scope reaches everybody, or anybody in production."""
    return checks.is_production(environment) or checks.is_every_breaker(environment, scope.operation)


def has_to_wait(attempt: Attempt) -> bool:
    """Whether this attempt needs somebody else. Raises Refused (403) for who would break the glass, and may not."""
    grave = attempt.grave
    if grave is None or grave.agreed is not None or attempt.by.kind == "system":
        return False
    if not is_second_needed(attempt.environment):
        return False
    if not grave.break_glass:
        return True
    if not attempt.by.may("break_glass", attempt.environment):
        detail = f"{attempt.by.name} may not act without a second person in {attempt.environment}. An editor may."
        raise Refused("forbidden", detail, status=FORBIDDEN)
    return False


def asked_before(attempt: Attempt) -> HeldAct | None:
    """The request that was made with this idempotency key."""
    if attempt.grave is None or attempt.key is None or attempt.grave.agreed is not None:
        return None
    found = HeldAct.objects.filter(environment=attempt.environment, key=attempt.key, identity=attempt.by.identity)
    held = found.exclude(state=HeldAct.GLASS).first()
    if held is not None and not (held.act == attempt.grave.act and is_same_wish(attempt)):
        raise key_used(f"This idempotency key was used for another request: {held.title}, {held.about}.", [])
    return held


def is_same_wish(attempt: Attempt) -> bool:
    """Whether this key came with this very request before, or nobody noted with which."""
    kept = UsedKey.objects.filter(environment=attempt.environment, key=attempt.key or "").first()
    return kept is None or not attempt.by.wish or kept.wish == attempt.by.wish


def keep_wish(attempt: Attempt) -> None:
    """Note which request came with this key, in the transaction that does what it asks for."""
    if attempt.key and attempt.by.wish:
        kept = UsedKey(environment=attempt.environment, key=attempt.key, wish=attempt.by.wish, at=attempt.now)
        UsedKey.objects.bulk_create([kept], ignore_conflicts=True)


def key_used(told: str, changes: Sequence[AuditEntry]) -> Refused:
    """What who comes with a key of something else is answered."""
    detail = f"{told} Take a new key, or open the form anew."
    return Refused("key_used", detail, status=STALE, fields={"key": "was used before"}, changes=changes)


def hold(attempt: Attempt) -> HeldAct:
    """Write down that it waits, in the transaction that holds the environment's chain."""
    held = _kept(attempt, HeldAct.WAITING)
    deed = audit.Deed(
        verb=ASK,
        object=f"{held.title}: {held.act.replace('_', ' ')} {held.about}",
        operation=attempt.scope.operation,
        reason=attempt.reason,
        after={"id": held.pk, "act": held.act, "arguments": dict(held.arguments)},
    )
    audit.append(attempt.environment, deed, by=attempt.by, at=attempt.now)
    keep_wish(attempt)
    return held


def second_of(attempt: Attempt, revision: int) -> dict[str, Any]:
    """What the audit log says of the second person, in the transaction of the act; keeps what went without one."""
    grave = attempt.grave
    if grave is None or attempt.by.kind == "system":
        return {}
    if grave.agreed is not None:
        return {"request": grave.agreed.number, "asked_by": grave.agreed.by}
    if not grave.break_glass or not is_second_needed(attempt.environment):
        return {}
    return {"request": _kept(attempt, HeldAct.GLASS, revision).number, "break_glass": True}


def refusal_of(held: HeldAct) -> Held:
    """What who asked is told."""
    if held.state == HeldAct.WAITING:
        detail = (
            f"Nothing was changed yet: in {held.environment} this takes two persons. Request {held.number} waits until "
            f"{held.expires_at:%H:%M} UTC for somebody else to agree. An editor may do it alone, and it is reviewed "
            "afterwards."
        )
    else:
        detail = f"This was asked for before: request {held.number} is {held.state}."
    return Held(detail, held)


def _kept(attempt: Attempt, state: str, revision: int | None = None) -> HeldAct:
    grave = attempt.grave
    assert grave is not None  # noqa: S101  # whoever asks has looked
    return HeldAct.objects.create(
        environment=attempt.environment,
        number=_next_number(attempt.environment),
        act=grave.act,
        arguments=dict(grave.arguments),
        about=attempt.object[: HeldAct._meta.get_field("about").max_length],
        reason=attempt.reason,
        by_user_id=attempt.by.user_id,
        by=attempt.by.name,
        identity=attempt.by.identity,
        key=attempt.key or "",
        asked_at=attempt.now,
        expires_at=attempt.now + WAITS,
        state=state,
        revision=revision,
    )


def _next_number(environment: str) -> int:
    newest = HeldAct.objects.filter(environment=environment).order_by("-number").values_list("number", flat=True)
    return (newest.first() or 0) + 1
