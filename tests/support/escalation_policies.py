"""Escalation policies with levels, and the clock that they follow."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.notifications.models.notifications import Channel, Delivery, EscalationChain
from recovery_ops.control.notifications.rules import tell
from recovery_ops.control.notifications.services.settings import save_chain
from tests.support.actions import asked
from tests.support.channels import EVA
from tests.support.stories import NOW


def chain(*steps: tuple[float, Channel], name: str = "*", **more: Any) -> EscalationChain:
    rows = [{"after_s": minutes * 60, "channel": to.pk, "person": more.get("person", "")} for minutes, to in steps]
    return save_chain(**asked(by=EVA, name=name, steps=rows)).object


def minutes(number: float) -> datetime:
    return NOW + timedelta(minutes=number)


def told(now: datetime) -> list[tuple[str, str]]:
    """Which channels one look tells, and what."""
    before = set(Delivery.objects.values_list("pk", flat=True))
    keep_deadlines("dev", now)
    tell("dev", now)
    made = Delivery.objects.exclude(pk__in=before).order_by("pk").select_related("channel")
    return [(one.channel.name, one.phase) for one in made]
