"""When each instance lived, and when it was silent: outside of that nobody knows what its breakers did."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db.models import F, Min, Q, Window
from django.db.models.functions import Lag

from events.models import Agent, Fact
from events.moments import US_PER_S, Span, to_us, united
from events.queries.fleet import FORGOTTEN_AFTER, STOPPED
from recovery_ops.rules.facts import InstanceHeartbeat
from recovery_ops.wire import names

HEARTBEATS_READ = 5_000
"""More heartbeats than this are not read for the silences between them; the one at its end is known anyway."""
_HEARTBEAT = names.EVENTS[InstanceHeartbeat].name


@dataclass(slots=True)
class Life:
    """One instance in a window: born, perhaps stopped, perhaps silent now and then (microseconds since the epoch)."""

    agent_id: int
    service: str
    instance: str
    born_us: int
    ended_us: int | None
    """When it said that it stops; None for one that goes on, or fell silent without a word."""
    heartbeat_interval_s: float
    silences: list[Span] = field(default_factory=list)


def lives(environment: str, *, start: datetime, end: datetime) -> dict[int, Life]:
    """The instances that lived in the window, or were missed in it, by their id. At most three queries.

    Who was silent for a day before the window is not missed any more. Silences between heartbeats are found only while
    the window holds few enough of them.
    """
    start_us, end_us = to_us(start), to_us(end)
    missed_us = to_us(start - FORGOTTEN_AFTER)
    is_there = Q(last_seen_us__gte=start_us) | (Q(last_seen_us__gte=missed_us) & ~Q(status=STOPPED))
    grace_us = settings.UNREACHABLE_AFTER_S * US_PER_S
    found: dict[int, Life] = {}
    for agent in Agent.objects.filter(is_there, environment=environment, first_seen_us__lt=end_us):
        has_stopped = agent.status == STOPPED
        life = Life(
            agent_id=agent.pk,
            service=agent.service,
            instance=agent.instance,
            born_us=agent.first_seen_us,
            ended_us=agent.last_seen_us if has_stopped else None,
            heartbeat_interval_s=agent.heartbeat_interval_s if agent.heartbeat_us is not None else 0.0,
        )
        if not has_stopped and agent.last_seen_us + grace_us < end_us:
            life.silences.append((max(start_us, agent.last_seen_us + grace_us), end_us))
        found[agent.pk] = life
    _add_silences(environment, found, start_us, end_us, grace_us)
    return found


def _add_silences(environment: str, found: dict[int, Life], start_us: int, end_us: int, grace_us: int) -> None:
    """Where two heartbeats are further apart than a silence that counts, the instance was away between them."""
    beating = [life for life in found.values() if 0 < life.heartbeat_interval_s * US_PER_S < grace_us]
    expected = sum((end_us - max(start_us, life.born_us)) / US_PER_S / life.heartbeat_interval_s for life in beating)
    if not beating or expected > HEARTBEATS_READ:
        return
    beats = Fact.objects.filter(
        environment=environment, event=_HEARTBEAT, at_us__gte=start_us - grace_us, at_us__lt=end_us
    )
    before = Window(Lag("at_us"), partition_by=F("agent_id"), order_by=F("at_us").asc())
    gaps = beats.annotate(before_us=before).filter(at_us__gt=F("before_us") + grace_us)
    for agent_id, before_us, at_us in gaps.values_list("agent_id", "before_us", "at_us"):
        if agent_id in found:
            found[agent_id].silences.append((before_us + grace_us, at_us))
    # No beat shortly before the window, but one in it: it was away when the window began.
    for agent_id, first_us in beats.values_list("agent_id").annotate(first_us=Min("at_us")).order_by():
        life = found.get(agent_id)
        if life is not None and first_us > max(start_us, life.born_us + grace_us):
            life.silences.append((max(start_us, life.born_us + grace_us), first_us))
    for life in found.values():
        life.silences = united(life.silences)
