"""A message that a person sends again: one of its own, which says what it repeats (docs/decisions/0028)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from recovery_ops.control.models import Delivery, Notification
from recovery_ops.control.models.notifying import TEXT_CHARS, TITLE_CHARS
from recovery_ops.control.notify.wording import shown
from recovery_ops.rules.telling import Phase

_AGAIN = "Again: "
_CHAIN = "chain:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """What was told of the same after a message: how many messages, and the newest that went out."""

    count: int
    newest: Delivery | None

    @property
    def is_over(self) -> bool:
        """Whether its end went out already."""
        return self.newest is not None and self.newest.phase == Phase.ENDED


def repeat(old: Delivery, *, by: str, now: datetime) -> Delivery:
    """Make the message that says the same again. Raises IntegrityError where there is one already.

    Of a step of a chain it is the repetition that counts from now on.
    """
    state = "is in doubt" if old.state == Delivery.UNKNOWN else "was not delivered"
    said = f"Sent again by {by}: message {old.pk} of {old.made_at:%Y-%m-%d %H:%M} UTC {state}."
    made = Delivery.objects.create(
        environment=old.environment,
        channel=old.channel,
        origin=old.origin,
        person=old.person,
        lane=old.lane,
        phase=old.phase,
        severity=old.severity,
        title=shown(f"{_AGAIN}{old.title.removeprefix(_AGAIN)}", TITLE_CHARS),
        lines=[*(line for line in old.lines if not str(line).startswith("Sent again by ")), shown(said, TEXT_CHARS)],
        things=old.things,
        path=old.path,
        made_at=now,
        not_before=now,
        repeats=old.pk,
    )
    if old.origin.startswith(_CHAIN):
        Notification.objects.filter(delivery=old).update(delivery=made)
    return made


def repeated_by(messages: Iterable[Delivery]) -> dict[int, int]:
    """By which message each was sent again, of those that were. One query where one of them may have been."""
    numbers = [one.pk for one in messages if one.state in Delivery.REPEATABLE]
    if not numbers:
        return {}
    found = Delivery.objects.filter(repeats__in=numbers).values_list("repeats", "pk")
    return {repeats: pk for repeats, pk in found if repeats is not None}


def since(one: Delivery) -> Since:
    """What was told of the same subject by the same channel later on. Two queries; index `delivery_by_origin`."""
    later = Delivery.objects.filter(origin=one.origin, made_at__gte=one.made_at, lane=one.lane, pk__gt=one.pk)
    later = later.filter(channel=one.channel)
    return Since(count=later.count(), newest=later.filter(state=Delivery.SENT).order_by("-pk").first())
