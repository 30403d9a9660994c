"""Who reports: the instances of an environment, whether they can be reached, and when anybody lived to report."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db.models import F, Q, QuerySet

from events.models import Agent
from events.moments import US_PER_S, Span, from_us, to_us, united
from events.queries.readings import length_s_or_none
from events.rows import AgentRow, Presence

FORGOTTEN_AFTER = timedelta(hours=24)
"""An instance that was silent for longer is no longer missed."""
STOPPED = "stopped"
RETIRED = Q(retired_us__gte=F("last_seen_us"))
"""Somebody said that it is gone, and nothing was heard since: it counts as one that stopped at its last word."""
_LISTED_FOR = timedelta(days=31)
"""How long an instance stands among the retired ones."""
NAMELESS = "(no instance id)"
"""What a sender is called that does not say which instance of its service it is."""


def fleet(environment: str, *, now: datetime, include_stopped: bool = False) -> list[AgentRow]:
    """The instances that reported within the last day, by service and name. One query; index `agent_once`."""
    agents = remembered(environment, now)
    if not include_stopped:
        agents = agents.exclude(Q(status=STOPPED) | RETIRED)
    # Named tuples: to make objects of a large fleet took longer than to read it.
    rows: Iterable[Any] = agents.order_by("service", "instance").values_list(named=True)
    return [agent_row(agent, now) for agent in rows]


def count_silent(environment: str, *, now: datetime) -> int:
    """How many of these are unreachable. One query; index `agent_once`."""
    missed = remembered(environment, now).exclude(Q(status=STOPPED) | RETIRED)
    return missed.filter(last_seen_us__lt=silent_since_us(now)).count()


def retired(environment: str, *, now: datetime) -> list[AgentRow]:
    """The instances that people retired within a month, the newest first. One query; index `agent_once`."""
    agents = Agent.objects.filter(RETIRED, environment=environment, retired_us__gte=to_us(now - _LISTED_FOR))
    return [agent_row(agent, now) for agent in agents.order_by("-retired_us", "service", "instance")]


def is_retired(agent: Agent) -> bool:
    """`RETIRED`, of one that was read."""
    return agent.retired_us >= agent.last_seen_us


def remembered(environment: str, now: datetime) -> QuerySet[Agent]:
    """The instances that are not forgotten yet, stopped ones included."""
    return Agent.objects.filter(environment=environment, last_seen_us__gte=to_us(now - FORGOTTEN_AFTER))


def silent_since_us(now: datetime) -> int:
    """Who was last seen before this moment is unreachable at `now`."""
    return to_us(now) - settings.UNREACHABLE_AFTER_S * US_PER_S


def agent_row(agent: Agent, now: datetime) -> AgentRow:
    """One instance as it stands at `now`."""
    now_us = to_us(now)
    is_refusing = agent.rejected_us is not None and agent.rejected_us > (agent.applied_us or 0)
    return AgentRow(
        id=agent.id,
        service=agent.service,
        instance=agent.instance or NAMELESS,
        version=agent.version,
        group=agent.group,
        status=STOPPED if is_retired(agent) else agent.status,
        first_seen=from_us(agent.first_seen_us),
        last_seen=from_us(agent.last_seen_us),
        is_reachable=not has_ended(agent) and agent.last_seen_us >= silent_since_us(now),
        heartbeat_age_s=None if agent.heartbeat_us is None else max(0.0, (now_us - agent.heartbeat_us) / US_PER_S),
        uptime_s=length_s_or_none(agent.uptime_s) or 0.0,
        revision=agent.revision,
        config_hash=agent.config_hash,
        applied_at=None if agent.applied_us is None else from_us(agent.applied_us),
        rejected_revision=agent.rejected_revision if is_refusing else None,
        rejected_reason=agent.rejected_reason if is_refusing else "",
        schema_version=agent.schema_version,
        clamped=_words(agent.clamped),
        breakers_open=agent.breakers_open,
        runs_in_flight=agent.runs_in_flight,
        outbox_pending=agent.outbox_pending,
        outbox_dropped=agent.outbox_dropped,
        region=agent.region,
        takes_new_work=agent.takes_new_work,
        takes_retries=agent.takes_retries,
        retired_at=from_us(agent.retired_us) if is_retired(agent) else None,
    )


def has_ended(agent: Agent) -> bool:
    """Whether it said that it stops, or somebody said that it is gone."""
    return agent.status == STOPPED or is_retired(agent)


def reporting_spans(environment: str, *, start: datetime, end: datetime) -> list[Span]:
    """When at least one instance lived to report; outside of these, a zero says nothing. One query.

    An instance counts from its first sign of life until it stops, or until its silence is long enough to be noticed.
    """
    grace_us = settings.UNREACHABLE_AFTER_S * US_PER_S
    lives = Agent.objects.filter(
        environment=environment, first_seen_us__lt=to_us(end), last_seen_us__gte=to_us(start) - grace_us
    ).values_list("first_seen_us", "last_seen_us", "status", "retired_us")
    return united(
        (born, last if status == STOPPED or gone >= last else last + grace_us) for born, last, status, gone in lives
    )


def living_spans(agents: Iterable[AgentRow]) -> list[Span]:
    """The same for instances that were read already."""
    grace_us = settings.UNREACHABLE_AFTER_S * US_PER_S
    return united(
        (to_us(one.first_seen), to_us(one.last_seen) + (0 if one.status == STOPPED else grace_us)) for one in agents
    )


def present_spans(presences: Iterable[Presence], *, start: datetime, end: datetime) -> list[Span]:
    """The same for the instances of this window: of silences only one that the window ends with counts."""
    start_us, end_us = to_us(start), to_us(end)
    lived = ((one.born_us, _reported_until_us(one, end_us)) for one in presences)
    # Whoever was silent when it began is told of only from then on, and had ended before.
    return united((born, until) for born, until in lived if until > start_us)


def _reported_until_us(one: Presence, end_us: int) -> int:
    if one.silences and one.silences[-1][1] >= end_us:
        return one.silences[-1][0]
    return end_us if one.ended_us is None else one.ended_us


@lru_cache(maxsize=256)
def _words(text: str) -> tuple[str, ...]:
    try:
        found = json.loads(text)
    except ValueError:
        return ()
    return tuple(str(word) for word in found) if isinstance(found, list) else ()
