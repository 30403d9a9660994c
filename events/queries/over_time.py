"""How one instance stood over time, by its own heartbeats: running, draining, silent; and when it waited."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.conf import settings
from django.db.models import Subquery
from django.db.models.functions import Coalesce

from events.models import INSTANCE_EVENTS, Fact
from events.moments import US_PER_S, Span, from_us, to_us, united
from events.queries.fleet import STOPPED
from events.queries.readings import length_s_or_none, text_of
from events.rows import AgentRow
from events.store.retention import KEEP
from recovery_ops.rules.events import GateClosed, InstanceHeartbeat, WaitHeartbeat
from recovery_ops.wire import names

LONGEST = timedelta(hours=24)
"""So much is told of it at most: an instance says 5,760 times a day that it lives."""
READ = 12_000
"""With more facts than this in a window only its newer part is told."""
UNREACHABLE = "unreachable"
_KEPT_US = int(KEEP[names.EVENTS[InstanceHeartbeat].name].total_seconds()) * US_PER_S
_HEARTBEAT = names.EVENTS[InstanceHeartbeat].name
_GATE_CLOSED = names.EVENTS[GateClosed].name
# SQLite uses a partial index only for a condition that it can read in the statement itself.
_IS_INDEXED = f"event IN ({', '.join(map(repr, INSTANCE_EVENTS))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A span in which it stood so. `word` is its own (`running`, `draining` …), or `unreachable`."""

    word: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStates:
    """What is told of [start, end): `stretches` without a gap since its first sign of life, and spans of waiting."""

    start: datetime
    """Later than what was asked for where the range is longer than `LONGEST`, or has more than `READ` facts."""
    end: datetime
    stretches: Sequence[Stretch]
    waits: Sequence[Stretch]
    """When an operation of it was held back because a server said so, or a run went on waiting; `word` says which."""
    restarts: Sequence[datetime]
    """When it began again under the same name, as its uptime tells."""


@dataclass(frozen=True, slots=True)
class _Beat:
    at_us: int
    word: str
    uptime_s: float
    lasts_us: int
    """How long it is believed without another."""


def instance_over_time(agent: AgentRow, *, start: datetime, end: datetime) -> InstanceStates | None:
    """How it stood in the last `LONGEST` of the window, or what `READ` facts tell of it; None for who tells no
    heartbeats. One query; index `fact_by_instance`.
    """
    if agent.heartbeat_age_s is None:
        return None
    start = max(start, end - LONGEST)
    grace_us = settings.UNREACHABLE_AFTER_S * US_PER_S
    start_us, end_us = to_us(start), to_us(end)
    told = Fact.objects.filter(agent_id=agent.id).extra(where=[_IS_INDEXED])  # noqa: S610  (a constant)
    newest, read_us = told.order_by("-at_us"), start_us - grace_us
    # What it said last before still holds: that it stopped, or that it speaks seldom. Nothing older is kept, and
    # PostgreSQL plans for no older day.
    kept_us = read_us - _KEPT_US
    before = newest.filter(event=_HEARTBEAT, at_us__lt=read_us, at_us__gte=kept_us).values("at_us")[:1]
    told = newest.filter(at_us__gte=Coalesce(Subquery(before), read_us), at_us__lt=end_us).filter(at_us__gte=kept_us)
    rows = list(told.values_list("at_us", "event", "operation", "attributes")[:READ])[::-1]
    if len(rows) == READ:
        start_us = max(start_us, next((row[0] for row in rows if row[1] == _HEARTBEAT), rows[0][0]))
    beats = [_beat(at_us, said, grace_us) for at_us, event, _, said in rows if event == _HEARTBEAT]
    waits = [_wait(*row) for row in rows if row[1] != _HEARTBEAT]
    born_us = min([max(start_us, to_us(agent.first_seen)), *(one.at_us for one in beats[:1])])
    spans = _spans(beats, max(start_us, born_us), end_us)
    return InstanceStates(
        start=from_us(start_us),
        end=end,
        stretches=[Stretch(word=word, start=from_us(begin), end=from_us(until)) for word, begin, until in spans],
        waits=_joined(waits, start_us, end_us),
        restarts=[from_us(at) for at in _restarts(beats) if start_us <= at < end_us],
    )


def _beat(at_us: int, said: Any, grace_us: int) -> _Beat:
    said = said if isinstance(said, dict) else {}

    def number(field: str) -> float:
        return length_s_or_none(said.get(names.attribute_of(InstanceHeartbeat, field))) or 0.0

    word = text_of(said.get(names.attribute_of(InstanceHeartbeat, "status"))) or "running"
    # Who speaks seldom is not silent between two words.
    lasts_us = max(grace_us, int(min(number("interval_s"), 3600.0) * 2 * US_PER_S))
    return _Beat(at_us, word, number("uptime_s"), lasts_us)


def _spans(beats: Sequence[_Beat], born_us: int, end_us: int) -> list[tuple[str, int, int]]:
    """How it stood, one after the other: each beat holds until the next, but no longer than it is believed."""
    found: list[tuple[str, int, int]] = []

    def add(word: str, begin: int, until: int) -> None:
        begin, until = max(begin, born_us), min(until, end_us)
        if begin >= until:
            return
        if found and found[-1][0] == word:
            found[-1] = (word, found[-1][1], until)
        else:
            found.append((word, begin, until))

    add(UNREACHABLE, born_us, beats[0].at_us if beats else end_us)
    for place, one in enumerate(beats):
        following = beats[place + 1].at_us if place + 1 < len(beats) else end_us
        holds_us = following if one.word == STOPPED else min(following, one.at_us + one.lasts_us)
        add(one.word, one.at_us, holds_us)
        add(UNREACHABLE, holds_us, following)
    return found


def _restarts(beats: Sequence[_Beat]) -> Iterable[int]:
    for before, one in pairwise(beats):
        if one.uptime_s < before.uptime_s:
            yield max(before.at_us, one.at_us - int(one.uptime_s * US_PER_S))


def _wait(at_us: int, event: str, operation: str, said: Any) -> tuple[str, int, int]:
    said = said if isinstance(said, dict) else {}

    def us(kind: type[Any], field: str) -> int:
        return int(min(length_s_or_none(said.get(names.attribute_of(kind, field))) or 0.0, 86_400.0) * US_PER_S)

    named = operation or "a run"
    if event == _GATE_CLOSED:
        label = text_of(said.get(names.attribute_of(GateClosed, "credential")))
        why = f"key {label} rests" if label else "held back, the server said when to come back"
        return f"{named}: {why}", at_us, at_us + us(GateClosed, "wait_s")
    began_us, ends_us = at_us - us(WaitHeartbeat, "waited_s"), at_us + us(WaitHeartbeat, "remaining_s")
    return f"{named}: a long wait", began_us, ends_us


def _joined(waits: Iterable[tuple[str, int, int]], start_us: int, end_us: int) -> list[Stretch]:
    by_word: dict[str, list[Span]] = {}
    for word, begin, until in waits:
        if max(begin, start_us) < min(until, end_us):
            by_word.setdefault(word, []).append((max(begin, start_us), min(until, end_us)))
    found = [
        Stretch(word=word, start=from_us(begin), end=from_us(until))
        for word, spans in by_word.items()
        for begin, until in united(spans)
    ]
    return sorted(found, key=lambda one: (one.start, one.word))
