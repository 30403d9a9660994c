"""Sending again what was not delivered, or of which nobody knows: a person decides that, and it is a new message.

The outbox never does so by itself (docs/decisions/0028). Each message is repeated once: whoever is second finds that.
"""

from __future__ import annotations

from typing import Any, NotRequired, Required, Unpack

from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.notifying import PERMISSION
from recovery_ops.control.models import Delivery
from recovery_ops.control.notify.repeating import repeat, repeated_by, since
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope
from recovery_ops.rules.telling import Phase


class Resending(Asked):
    """What it is given: the message's number, and for one in doubt that the asker knows it may arrive twice."""

    number: Required[int]
    may_arrive_twice: NotRequired[bool]


def resend(**asked: Unpack[Resending]) -> Done[Delivery]:
    """Send a message again. Raises Refused: 403, 404, 400 for one in doubt without `may_arrive_twice`.

    And 409 where it was delivered, is still to be sent or was sent again, or where its channel is off or gone.
    """
    old = message_of(asked["environment"], asked["number"])
    is_said = old.state != Delivery.UNKNOWN or asked.get("may_arrive_twice", False)
    faults = {"may_arrive_twice": "" if is_said else "says that you know: it may have arrived, and then arrives twice"}
    given: Any = asked
    attempt = Attempt.of(
        "delivery.resend", PERMISSION, Scope(), given, faults, about=f"message {old.pk}", is_for_agents=False
    )

    def write(revision: int) -> Step[Delivery]:
        one = Delivery.objects.select_related("channel").get(pk=old.pk)
        refuse(one)
        if one.state != old.state:
            raise Refused("stale", f"Message {one.pk} is {one.state} now. Look again, then decide.", status=STALE)
        made = repeat(one, by=attempt.by.name, now=attempt.now)
        after = {"id": made.pk, "repeats": one.pk, "channel": one.channel.name, "was": one.state}
        return Step(object=made, revision=revision, after=after)

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=lambda entry: Delivery.objects.get(pk=entry.after["id"]))


def message_of(environment: str, number: int) -> Delivery:
    """The message of this number. Raises Refused (404)."""
    found = Delivery.objects.filter(environment=environment, pk=number).select_related("channel").first()
    if found is None:
        detail = f"There is no message {number} in {environment}; those of more than 90 days are forgotten."
        raise Refused("unknown", detail, status=UNKNOWN, fields={"number": "is not known"})
    return found


def refuse(one: Delivery) -> None:
    """Raise Refused (409) with the reason why this message cannot be sent again."""
    if one.state not in Delivery.REPEATABLE:
        words = {Delivery.SENT: "was delivered", Delivery.DROPPED: "was dropped with its channel"}
        said = words.get(one.state, "is still to be sent")
        detail = f"Message {one.pk} {said}: only what was not delivered, or is in doubt, can be sent again."
        raise Refused("not_failed", detail, status=STALE)
    if (again := repeated_by([one]).get(one.pk)) is not None:
        detail = f"Message {one.pk} was sent again already, as message {again}. What became of that stands in the log."
        raise Refused("repeated", detail, status=STALE)
    if one.channel.removed_at is not None:
        raise Refused("removed", "The channel was removed, and its address is forgotten.", status=STALE)
    if not one.channel.is_on:
        raise Refused("off", "The channel is switched off: switch it on first.", status=STALE)
    if one.channel.has_key and one.phase != Phase.ENDED and since(one).is_over:
        detail = "Its end was delivered since: sent again, it would open an incident there that nothing closes."
        raise Refused("over", detail, status=STALE)
