"""Escalations that agents report, and what people do with them."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model

from recovery_ops.control.core.actors import Actor
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.actions import respond
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import Escalated
from tests.support.stories import NOW, Story


def asked(category: Category = Category.UNKNOWN, operation: str = "charge_card", **more: Any) -> Escalated:
    given: dict[str, Any] = {"queue": "unclassified", "reason": category.value, "message": "teapot"} | more
    return Escalated(operation=operation, category=category, **given)


def person(name: str = "ana", *, may: tuple[str, ...] = ("see", "respond", "decide")) -> Actor:
    user, _ = get_user_model().objects.get_or_create(username=name)
    return Actor(
        name=name, kind="person", channel="web", may=lambda permission, environment: permission in may, user_id=user.pk
    )


def one_open(*, at: float = 1000, **more: Any) -> Escalation:
    Story().tell(asked(**more), at=at, run="run-1").store()
    open_escalations("dev", NOW)
    return Escalation.objects.latest("pk")


def act(verb: str, one: Escalation, **more: Any) -> Any:
    given: dict[str, Any] = {"by": person(), "environment": "dev", "reason": "", "now": NOW} | more
    return respond(verb, number=one.pk, **given).object
