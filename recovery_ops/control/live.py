"""The live stream of the console: what is newest in each environment, and who sees it."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Max

from events.live import INTERVAL_S, LiveDoor, Sees
from events.models import Agent
from events.pulse import Pulse
from recovery_ops.control.models import EscalationNote
from recovery_ops.control.roles import grants_of


class Newest:
    """Reads a number for each environment, which grows with each event and each line about an escalation.

    Tasks write such lines, with no newer event. The number is the time of the newest event, in microseconds, and the
    number of the newest line together. Two queries: lines are read from where the last call ended.
    """

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}

    def __call__(self) -> Mapping[str, int]:
        new = EscalationNote.objects.filter(pk__gt=max(self._lines.values(), default=0))
        self._lines |= new.order_by().values_list("escalation__environment").annotate(Max("pk"))
        seen = dict(Agent.objects.values_list("environment").annotate(Max("last_seen_us")))
        return {name: seen.get(name, 0) + self._lines.get(name, 0) for name in {*seen, *self._lines}}


def sees_of(user: AbstractBaseUser) -> Sees:
    """Which environments a user may see. One query."""
    grants = grants_of(user)
    return lambda environment: grants.may("see", environment)


app = LiveDoor(Pulse(Newest(), INTERVAL_S), sees_of)
