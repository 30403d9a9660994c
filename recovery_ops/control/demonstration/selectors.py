"""Reads of the demonstration: until when its history was generated, and what of it is stored."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings

from recovery_ops.control.demonstration.models import Demonstration


def demonstration_of(environment: str) -> Demonstration | None:
    """The demonstration of an environment. No query for any environment but the demonstration's own."""
    if environment != settings.DEMO_ENVIRONMENT:
        return None
    return Demonstration.objects.filter(environment=environment).first()


def generated_until(environment: str) -> datetime | None:
    """The end of an environment's generated history; None where none was generated, or all was removed."""
    found = demonstration_of(environment)
    return found.history_end if found is not None and found.removed_at is None else None


def observed_since(environment: str, since: datetime, now: datetime) -> datetime:
    """`since`, or the end of the generated history where that is later: alerts and reports read nothing before it.

    A `now` within the history is that of the simulated users, who see it.
    """
    end = generated_until(environment)
    return since if end is None or now < end else max(since, end)
