"""When each instance lived, and when it was silent: outside of that nobody knows what its breakers did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F, Q, Window
from django.db.models.functions import Lag

from events.models import Agent, Fact
from events.moments import US_PER_S, Span, to_us, united
from events.queries.fleet import FORGOTTEN_AFTER, NAMELESS, RETIRED, STOPPED, has_ended
from events.rows import Presence
from recovery_ops.rules.events import InstanceHeartbeat
from recovery_ops.wire import names

HEARTBEATS_READ = 5_000
"""More heartbeats than this are not read for the silences between them; the one at its end is known anyway."""
US = timedelta(microseconds=1)
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
    """In order, and apart from each other."""


def lives(environment: str, *, start: datetime, end: datetime, service: str = "") -> dict[int, Life]:
    """The instances (of one service) that lived in the window, or were missed in it, by their id. At most two queries.

    Who was silent for a day before the window is not missed any more. Silences between heartbeats are found only while
    the window holds few enough of them.
    """
    is_there = Q(last_seen_us__gte=to_us(start)) | (
        Q(last_seen_us__gte=_missed_us(start)) & ~Q(status=STOPPED) & ~RETIRED
    )
    agents = Agent.objects.filter(is_there, environment=environment, first_seen_us__lt=to_us(end))
    if service:
        agents = agents.filter(service=service)
    rows: Iterable[Any] = agents.values_list(named=True)
    return _lives_of(environment, rows, start, end)


def lives_among(environment: str, agents: Iterable[Agent], *, start: datetime, end: datetime) -> dict[int, Life]:
    """The same among these instances. At most one query."""
    start_us, end_us, missed_us = to_us(start), to_us(end), _missed_us(start)
    there = [
        agent
        for agent in agents
        if agent.first_seen_us < end_us
        and (agent.last_seen_us >= start_us or (agent.last_seen_us >= missed_us and not has_ended(agent)))
    ]
    return _lives_of(environment, there, start, end)


def presence_of(life: Life) -> Presence:
    """Its life as figures draw it: who is silent for a day is missed no more."""
    ended_us = life.ended_us
    if ended_us is None and life.silences:
        quiet_us, heard_us = life.silences[-1]
        forgotten_us = quiet_us + FORGOTTEN_AFTER // US
        ended_us = forgotten_us if forgotten_us < heard_us else None
    name = life.instance or NAMELESS
    return Presence(name=name, born_us=life.born_us, ended_us=ended_us, silences=tuple(life.silences))


def _missed_us(start: datetime) -> int:
    return to_us(start - FORGOTTEN_AFTER)


def _lives_of(environment: str, agents: Iterable[Agent], start: datetime, end: datetime) -> dict[int, Life]:
    start_us, end_us = to_us(start), to_us(end)
    grace_us = settings.UNREACHABLE_AFTER_S * US_PER_S
    found: dict[int, Life] = {}
    for agent in agents:
        has_stopped = has_ended(agent)
        life = Life(
            agent_id=agent.id,
            service=agent.service,
            instance=agent.instance,
            born_us=agent.first_seen_us,
            ended_us=agent.last_seen_us if has_stopped else None,
            heartbeat_interval_s=agent.heartbeat_interval_s if agent.heartbeat_us is not None else 0.0,
        )
        if not has_stopped and agent.last_seen_us + grace_us < end_us:
            life.silences.append((max(start_us, agent.last_seen_us + grace_us), end_us))
        found[agent.id] = life
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
    telling = Q(before_us=None) | Q(at_us__gt=F("before_us") + grace_us)
    for agent_id, before_us, at_us in (
        beats.annotate(before_us=before).filter(telling).values_list("agent_id", "before_us", "at_us")
    ):
        if (life := found.get(agent_id)) is None:
            continue
        if before_us is not None:
            life.silences.append((before_us + grace_us, at_us))
        elif at_us > max(start_us, life.born_us + grace_us):
            # No beat shortly before the window, but one in it: it was away when the window began.
            life.silences.append((max(start_us, life.born_us + grace_us), at_us))
    for life in found.values():
        life.silences = united(life.silences)
