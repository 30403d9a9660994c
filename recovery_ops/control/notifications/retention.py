"""How long messages are kept: long enough to ask what happened, not for ever."""

from __future__ import annotations

from datetime import datetime, timedelta

from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.control.notifications.models.notifications import (
    BurnAlert,
    Delivery,
    Notification,
    RetryBudget,
    SeenFailure,
)

KEPT_FOR = timedelta(days=90)
_AT_ONCE = 5_000


def forget_old(now: datetime) -> int:
    """Delete what is older than 90 days and over; return how many messages that was. Harmless when doubled.

    What still goes on stays, so that its end can be told; a failure that was not seen for so long is new again.
    """
    before = now - KEPT_FOR
    told = Notification.objects.filter(found_at__lt=before, is_open=False)
    Notification.objects.filter(pk__in=list(told.values_list("pk", flat=True)[:_AT_ONCE])).delete()
    over = Delivery.objects.filter(made_at__lt=before, notifications=None).exclude(state__in=Delivery.UNFINISHED)
    found = list(over.values_list("pk", flat=True)[:_AT_ONCE])
    Delivery.objects.filter(pk__in=found).delete()
    NoticeSnooze.objects.filter(expires_at__lt=before, notices=None).delete()
    BurnAlert.objects.filter(ended_at__lt=before).delete()
    RetryBudget.objects.filter(at__lt=before).delete()
    SeenFailure.objects.filter(last_at__lt=before).delete()
    return len(found)
