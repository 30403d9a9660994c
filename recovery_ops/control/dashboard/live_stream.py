"""The live stream of the console: what is newest in each environment, and who sees it."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Sum

from events.live.pulse import Pulse
from events.live.stream import INTERVAL_S, LiveDoor, Sees
from events.models import Agent
from recovery_ops.control.access.selectors import grants_of
from recovery_ops.control.escalations.models import EscalationNote

LINES_READ = 200
"""Newest lines about escalations that are read each time: so many are not written while one of them is committed."""


class Newest:
    """Reads a number for each environment, which changes with each commit of events or of lines about escalations.

    Tasks write such lines, with no newer event. On PostgreSQL rows are not committed in the order of their moments or
    numbers, so transactions are counted, and of the newest lines those that no call has read before. Two queries.
    """

    def __init__(self) -> None:
        self._read: set[int] = set()
        self._lines: dict[str, int] = {}

    def __call__(self) -> Mapping[str, int]:
        newest = EscalationNote.objects.order_by("-pk").values_list("pk", "escalation__environment")[:LINES_READ]
        lines = dict(newest)
        for number in sorted(lines.keys() - self._read):
            environment = lines[number]
            self._lines[environment] = max(number, self._lines.get(environment, 0) + 1)
        self._read = set(lines)
        stored = dict(Agent.objects.values_list("environment").annotate(Sum("changes")))
        return {name: stored.get(name, 0) + self._lines.get(name, 0) for name in {*stored, *self._lines}}


def sees_of(user: AbstractBaseUser) -> Sees:
    """Which environments a user may see. One query."""
    grants = grants_of(user)
    return lambda environment: grants.may("see", environment)


app = LiveDoor(Pulse(Newest(), INTERVAL_S), sees_of)
