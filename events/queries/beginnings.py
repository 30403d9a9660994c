"""When an environment first gave a sign of life: before that there was nothing to know."""

from __future__ import annotations

from datetime import datetime

from events.models import Agent
from events.moments import from_us


def first_sign_of_life(environment: str) -> datetime | None:
    """When the first instance was heard of; None before that. One query, which reads one row by the primary key."""
    first = Agent.objects.filter(environment=environment).order_by("pk").values_list("first_seen_us", flat=True).first()
    return None if first is None else from_us(first)
