"""The revision of an environment's desired state: reading it, and announcing the next one."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.dispatch import Signal

from events.live import wakes
from recovery_ops.control.core.models.revisions import Revision

committed = Signal()
"""Sent in this process after a transaction with a new revision was committed."""


def current_revision(environment: str) -> int:
    """The revision that agents have to reach; 0 before the first change."""
    return Revision.objects.filter(environment=environment).values_list("number", flat=True).first() or 0


def bump_revision(environment: str, now: datetime) -> None:
    """Announce a new revision: the last thing a transaction does, so that all of it is committed under that number."""
    revision = Revision.objects.filter(environment=environment)
    if not revision.update(number=F("number") + 1, changed_at=now):
        Revision.objects.create(environment=environment, number=1, changed_at=now)
    wakes.announce()
    transaction.on_commit(lambda: committed.send(sender=Revision))
