"""Escalations as the pages of the queue show them."""

from __future__ import annotations

from typing import Any

from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from tests.support.escalations import asked
from tests.support.stories import NOW, Story


def questions(*operations: str, at: float = 1000, **more: Any) -> list[Escalation]:
    story = Story()
    for operation in operations:
        story.tell(asked(operation=operation, **more), at=at, run=f"run-{operation}")
    story.store()
    open_escalations("dev", NOW)
    return list(Escalation.objects.filter(operation__in=operations).order_by("pk"))
