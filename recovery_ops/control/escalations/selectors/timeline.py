"""What was put to people in a window: the lanes that timelines show below the facts."""

from __future__ import annotations

from datetime import datetime

from django.db.models import F, Q
from django.urls import reverse
from django.utils import timezone

from events.pages.window import Window
from events.timelines import Question
from events.timelines.narrowing import EVERY, Narrow
from recovery_ops.control.escalations.models import Escalation

MOST = 500
"""So many questions of a window are read: those that are open first, then the newest."""


def questions_in(environment: str, window: Window, breaker: str, narrow: Narrow = EVERY) -> list[Question]:
    """The questions that were open at any time in the window, those still open first; of a `breaker` or a service its
    own.

    What was merged into another one is told there. One query.
    """
    now = timezone.now()  # whoever snoozed one did so until a moment of the clock, not of the window
    still_open = Q(resolved_at=None) | Q(resolved_at__gte=window.start)
    found = Escalation.objects.filter(still_open, environment=environment, opened_at__lt=window.end)
    if breaker:
        found = found.filter(operation=breaker)
    if narrow.service:
        found = found.filter(service=narrow.service)
    found = found.exclude(resolution=Escalation.MERGED)
    return [_question(one, now) for one in found.order_by(F("resolved_at").desc(nulls_first=True), "-opened_at")[:MOST]]


def _question(one: Escalation, now: datetime) -> Question:
    has_let_lie = one.is_open and one.acknowledged_at is None
    return Question(
        name=str(one),
        what=": ".join(part for part in (one.operation, one.reason.replace("_", " ")) if part),
        breaker=one.operation,
        href=reverse("escalation", args=[one.pk]),
        asked=one.opened_at,
        taken=None if has_let_lie else one.first_acknowledged_at,
        by=one.acknowledged_by,
        ended=one.resolved_at,
        is_snoozed=one.is_open and one.is_snoozed_at(now),
    )
