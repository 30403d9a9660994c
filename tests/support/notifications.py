"""Notifications that detectors find, and their texts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from recovery_ops.control.escalations.opening import open_escalations
from recovery_ops.control.models import Delivery, Escalation
from recovery_ops.control.notify.telling import tell
from recovery_ops.rules.facts import Escalated
from tests.support.stories import NOW, Story


def told(now: datetime = NOW) -> list[str]:
    """The headings of the messages that one look makes."""
    before = set(Delivery.objects.values_list("pk", flat=True))
    tell("dev", now)
    return [one.title for one in Delivery.objects.exclude(pk__in=before).order_by("pk")]


def question(queue: str = "unclassified", **more: Any) -> Escalation:
    Story().tell(
        Escalated(operation="charge_card", queue=queue, reason="unknown", message="teapot"), at=60, **more
    ).store()
    open_escalations("dev", NOW)
    return Escalation.objects.latest("pk")
