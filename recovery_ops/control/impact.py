"""What a change would touch, said before the click: instances, calls, and what callers would get instead.

Honest about what is not known: a number that nobody measured is None, a fallback that was never seen is not promised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Min, Sum

from events.models import Fact, MinuteSum
from events.queries import breakers, degradations, fleet, instance_states
from events.rows import AgentRow, InstanceState
from recovery_ops.rules.facts import FallbackActivated
from recovery_ops.rules.scope import ANY, Place, Scope
from recovery_ops.rules.words import State
from recovery_ops.wire import names as wire_names

MEASURED_MINUTES = 5
FALLBACKS_SEEN_FOR = timedelta(hours=24)
RAMPED_FROM = 11
"""Up to ten instances may come back at once."""
RAMP_PER_INSTANCE_S = 0.25
LONGEST_RAMP_S = 30.0
_MEASURES = ("calls", "rejections", "fallbacks")
_MOST_FACTS = 200
_WITHDRAWN = "withdrawn"
_FALLBACK = wire_names.EVENTS[FallbackActivated]
_FALLBACK_NAME = wire_names.attribute_of(FallbackActivated, "fallback")


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What a scope touches now. Rates are per minute over the last five, None where nothing was measured for it."""

    breakers: tuple[str, ...] = ()
    """The breakers of that name, or of those names, that somebody reported."""
    instances: int = 0
    """How many instances in the scope have such a breaker …"""
    unreachable: int = 0
    """… and how many of them cannot be reached: they obey when they come back."""
    in_scope: int = 0
    """How many instances the scope reaches, whether or not they have reported the breaker yet."""
    states: dict[State, int] = field(default_factory=dict)
    """What the reachable ones of `instances` last reported."""
    calls_per_min: float | None = None
    rejected_per_min: float | None = None
    fallbacks_per_min: float | None = None
    fallbacks: tuple[str, ...] = ()
    """What answered instead in the last 24 hours."""
    is_withdrawn: bool = False
    """Whether runs were told in the last 24 hours that the tool is not there, instead of getting an error."""

    @property
    def ramp_s(self) -> float:
        """Over how long this many instances should come back, so that they do not come back at once."""
        return ramp_s(self.instances)

    @property
    def consequence(self) -> str:
        """What a caller gets while calls are refused, as far as it has been seen."""
        if self.fallbacks:
            return f"Runs will answer from {' or '.join(self.fallbacks)}: seen in the last 24 hours."
        if self.is_withdrawn:
            return "Runs will go on without it: it was withdrawn in the last 24 hours."
        return "Callers will get an error unless their code has a fallback: none was seen in the last 24 hours."


def ramp_s(instances: int) -> float:
    """Nothing for up to ten instances, then a quarter of a second each, at most 30 s."""
    return 0.0 if instances < RAMPED_FROM else min(LONGEST_RAMP_S, RAMP_PER_INSTANCE_S * instances)


def impact_of(environment: str, scope: Scope, *, now: datetime) -> Impact:
    """What a change in this scope touches now. Six queries for one breaker."""
    names = _names(environment, scope, now)
    having = [one for name in names for one in instance_states(environment, name, now=now) if _holds(scope, one)]
    agents = {one.agent.id: one.agent for one in having}
    sums = _sums(environment, scope, now)
    fallbacks, is_withdrawn = _answers_instead(environment, scope, {row["operation"] for row in sums}, now)
    # The sums know services, not instances: of a part of a service nothing is known.
    is_measured = bool(sums) and scope.instance == ANY and scope.group == ANY
    rates = [_rate(sums, measure, now) if is_measured else None for measure in _MEASURES]
    return Impact(
        breakers=tuple(sorted({one.breaker for one in having})),
        instances=len(agents),
        unreachable=sum(not agent.is_reachable for agent in agents.values()),
        in_scope=sum(_reaches(scope, row) for row in fleet(environment, now=now)),
        states=dict(Counter(one.state for one in having if one.state is not None)),
        calls_per_min=rates[0],
        rejected_per_min=rates[1],
        fallbacks_per_min=rates[2],
        fallbacks=fallbacks,
        is_withdrawn=is_withdrawn,
    )


def _names(environment: str, scope: Scope, now: datetime) -> Sequence[str]:
    if ANY not in scope.operation:
        return [scope.operation]
    rows = breakers(environment, now=now)
    return [row.name for row in rows if any(_is_named(scope, name) for name in (row.name, *row.operations))]


def _is_named(scope: Scope, operation: str) -> bool:
    return Scope(operation=scope.operation).holds(Place(service="", instance="", operation=operation))


def _holds(scope: Scope, one: InstanceState) -> bool:
    return _reaches(scope, one.agent)


def _reaches(scope: Scope, row: AgentRow) -> bool:
    return scope.reaches(service=row.service, instance=row.instance, group=row.group)


def _sums(environment: str, scope: Scope, now: datetime) -> list[Mapping[str, Any]]:
    """What was counted of the scope's operations in its services, over the last minutes."""
    last = int(now.timestamp()) // 60
    counted = MinuteSum.objects.filter(
        environment=environment, minute__gt=last - MEASURED_MINUTES, minute__lte=last
    ).values("service", "operation", "breaker")
    rows = counted.annotate(**{measure: Sum(measure) for measure in _MEASURES}, since=Min("minute")).order_by()
    narrowed = Scope(service=scope.service, operation=scope.operation)
    return [
        row
        for row in rows
        if narrowed.holds(
            Place(service=row["service"], instance="", operation=row["operation"], breaker=row["breaker"])
        )
    ]


def _rate(sums: Sequence[Mapping[str, Any]], measure: str, now: datetime) -> float:
    minutes = now.timestamp() / 60 - min(int(row["since"]) for row in sums)
    return sum(float(row[measure]) for row in sums) / max(1.0, minutes)


def _answers_instead(
    environment: str, scope: Scope, behind: Collection[str], now: datetime
) -> tuple[tuple[str, ...], bool]:
    """What answered in the last day instead of the operations in scope and those `behind` its breakers."""
    start = now - FALLBACKS_SEEN_FOR

    def is_mine(operation: str) -> bool:
        return operation in behind or _is_named(scope, operation)

    lately = [one for one in degradations(environment, start=start, end=now) if is_mine(one.operation)]
    mine = [one for one in lately if scope.service in (ANY, one.service)]
    names = [one.to_name for one in mine if one.kind != _WITHDRAWN]
    # An agent that is not ours may tell of fallbacks without telling of degradations.
    facts = Fact.objects.filter(environment=environment, event=_FALLBACK.name, at_us__gte=int(start.timestamp() * 1e6))
    told = facts.order_by("-at_us").values_list("operation", "attributes")[:_MOST_FACTS]
    names += [str(said.get(_FALLBACK_NAME, "")) for operation, said in told if is_mine(operation)]
    return tuple(dict.fromkeys(name for name in names if name)), any(one.kind == _WITHDRAWN for one in mine)
