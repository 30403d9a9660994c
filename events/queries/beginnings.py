"""When an environment first gave a sign of life: before that there was nothing to know."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Subquery

from events.issues.models import FailureSum
from events.models import Agent
from events.moments import MINUTE_S, US_PER_S, from_us
from events.runs.models import Run


def first_sign_of_life(environment: str) -> datetime | None:
    """When the first instance was heard of; None before that. One query, which reads one row by the primary key."""
    first = Agent.objects.filter(environment=environment).order_by("pk").values_list("first_seen_us", flat=True).first()
    return None if first is None else from_us(first)


def first_receipt_and_event(environment: str) -> tuple[datetime, datetime] | None:
    """The same, and when the first run or failure happened that is kept, where that is earlier: an instance may have
    been out of reach until then. One query, which reads three rows by their indexes.
    """
    agents = Agent.objects.filter(environment=environment).order_by("pk")
    failures = FailureSum.objects.filter(environment=environment, minutes=1).order_by("span")
    runs = Run.objects.filter(environment=environment).order_by("first_us")
    columns = ("first_seen_us", Subquery(failures.values("span")[:1]), Subquery(runs.values("first_us")[:1]))
    row = agents.values_list(*columns).first()
    if row is None:
        return None
    seen_us, minute, run_us = row
    failed_us = None if minute is None else minute * MINUTE_S * US_PER_S
    return from_us(seen_us), from_us(min(one for one in (seen_us, failed_us, run_us) if one is not None))
