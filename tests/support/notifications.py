"""Notifications that detectors find, and their texts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.notifications.models.notifications import Delivery, Notification
from recovery_ops.control.notifications.rules import tell
from recovery_ops.rules.events import Escalated
from tests.support.stories import NOW, Story


def messages(now: datetime = NOW) -> list[Delivery]:
    """The messages that one look makes."""
    before = set(Delivery.objects.values_list("pk", flat=True))
    tell("dev", now)
    return list(Delivery.objects.exclude(pk__in=before).order_by("pk"))


def notes_of(message: Delivery) -> list[Notification]:
    """What a message tells of, in order."""
    return list(message.notifications.order_by("at", "pk"))


def told(now: datetime = NOW) -> list[tuple[str, str]]:
    """Of each message that one look makes, the kind and the subject of what it tells last."""
    lasts = [notes_of(one)[-1] for one in messages(now)]
    return [(last.kind, last.subject) for last in lasts]


def question(queue: str = "unclassified", **more: Any) -> Escalation:
    Story().tell(
        Escalated(operation="charge_card", queue=queue, reason="unknown", message="teapot"), at=60, **more
    ).store()
    open_escalations("dev", NOW)
    return Escalation.objects.latest("pk")
