"""What a change would touch, said before the click: instances, calls, and what callers would get instead.

Honest about what is not known: a number that nobody measured is None, a fallback that was never seen is not promised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, Sum

from events.models import Fact, MinuteSum
from events.queries import breakers, degradations, fleet
from events.queries.breakers import measured_minutes, states_of
from events.rows import AgentRow, InstanceState
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import FallbackActivated
from recovery_ops.rules.policy.scope import ANY, Place, Scope
from recovery_ops.wire import names as wire_names

FALLBACKS_SEEN_FOR = timedelta(hours=24)
RAMPED_FROM = 11
"""Up to ten instances may come back at once."""
RAMP_PER_INSTANCE_S = 0.25
LONGEST_RAMP_S = 30.0
_MEASURES = ("calls", "rejections", "fallbacks")
_MOST_FACTS = 200
_MOST_NAMED = 4
_WITHDRAWN = "withdrawn"
_NOT_CLOSED = (State.OPEN, State.HALF_OPEN, State.FORCED_OPEN)
_FALLBACK = wire_names.EVENTS[FallbackActivated]
_FALLBACK_NAME = wire_names.attribute_of(FallbackActivated, "fallback")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instead:
    """What callers of one operation get while its calls are refused, as far as it was seen in the last 24 hours."""

    operation: str
    calls_per_min: float | None = None
    fallbacks: tuple[str, ...] = ()
    is_withdrawn: bool = False

    @property
    def is_covered(self) -> bool:
        """Whether something stood in for it, or runs went on without it."""
        return bool(self.fallbacks) or self.is_withdrawn

    @property
    def sentence(self) -> str:
        """In a few words: a fallback that was never seen is not promised."""
        if self.fallbacks:
            return f"fallback: {' or '.join(self.fallbacks)}"
        return "degraded: runs continue without it" if self.is_withdrawn else "error: no fallback seen in the last 24 h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What a scope touches now. Rates have the window of the breakers' list; None where nothing was measured for it."""

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
    not_closed: int = 0
    """Breakers of instances that a reset would close: with more than one it goes in steps."""
    runs_in_flight: int = 0
    """Runs under way on the reachable ones of `instances`; which of them call it next is not known."""
    calls_per_min: float | None = None
    rejected_per_min: float | None = None
    fallbacks_per_min: float | None = None
    fallbacks: tuple[str, ...] = ()
    """What answered instead in the last 24 hours."""
    is_withdrawn: bool = False
    """Whether runs were told in the last 24 hours that the tool is not there, instead of getting an error."""
    operations: tuple[Instead, ...] = ()
    """The operations behind these breakers that are known, those that are called most first."""

    @property
    def uncovered(self) -> tuple[Instead, ...]:
        """The operations whose callers would get an error."""
        return tuple(one for one in self.operations if not one.is_covered)

    @property
    def ramp_s(self) -> float:
        """Over how long this many instances should come back, so that they do not come back at once."""
        return ramp_s(self.instances)

    @property
    def consequence(self) -> str:
        """What a caller gets while calls are refused, as far as it has been seen."""
        if self.uncovered and len(self.uncovered) < len(self.operations):
            names = [one.operation for one in self.uncovered]
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            covered = f"{len(self.operations) - len(names)} of {len(self.operations)} operations"
            return (
                f"{covered} had a fallback in the last 24 h. Callers of {', '.join(names[:_MOST_NAMED])}{more} "
                "get an error unless their code has a fallback."
            )
        if self.fallbacks:
            return f"Runs use the fallback {' or '.join(self.fallbacks)}, seen in the last 24 h."
        if self.is_withdrawn:
            return "Runs continue without the tool: it was withdrawn in the last 24 h."
        return "Callers get an error unless their code has a fallback: none seen in the last 24 h."


def ramp_s(instances: int) -> float:
    """Nothing for up to ten instances, then a quarter of a second each, at most 30 s."""
    return 0.0 if instances < RAMPED_FROM else min(LONGEST_RAMP_S, RAMP_PER_INSTANCE_S * instances)


def impact_of(environment: str, scope: Scope, *, now: datetime) -> Impact:
    """What a change in this scope touches now. Six queries for one breaker."""
    return impact_of_all(environment, [scope], now=now)


def impact_of_all(environment: str, scopes: Sequence[Scope], *, now: datetime) -> Impact:
    """What one change in each of these scopes touches now, each instance, call and operation once.

    As many queries for many scopes as for one.
    """
    names = _names(environment, scopes, now)
    rows = states_of(environment, now=now, names=names) if names else []
    having = [one for one in rows if any(_holds(scope, one) for scope in scopes)]
    agents = {one.agent.id: one.agent for one in having}
    sums = _sums(environment, scopes, now)
    # The sums know services, not instances: of a part of a service nothing is known.
    is_measured = bool(sums) and all(scope.instance == ANY and scope.group == ANY for scope in scopes)
    rates = [_rate(sums, measure, now) if is_measured else None for measure in _MEASURES]
    operations = _instead(environment, scopes, sums, having, now, is_measured=is_measured)
    return Impact(
        breakers=tuple(sorted({one.breaker for one in having})),
        instances=len(agents),
        unreachable=sum(not agent.is_reachable for agent in agents.values()),
        in_scope=sum(any(_reaches(scope, row) for scope in scopes) for row in fleet(environment, now=now)),
        states=dict(Counter(one.state for one in having if one.state is not None)),
        not_closed=sum(one.reported_state in _NOT_CLOSED and one.agent.is_follower for one in having),
        runs_in_flight=sum(agent.runs_in_flight for agent in agents.values() if agent.is_reachable),
        calls_per_min=rates[0],
        rejected_per_min=rates[1],
        fallbacks_per_min=rates[2],
        fallbacks=tuple(dict.fromkeys(name for one in operations for name in one.fallbacks)),
        is_withdrawn=any(one.is_withdrawn for one in operations),
        operations=operations,
    )


def _names(environment: str, scopes: Sequence[Scope], now: datetime) -> Sequence[str]:
    exact = [scope.operation for scope in scopes if ANY not in scope.operation]
    patterns = [scope for scope in scopes if ANY in scope.operation]
    rows = breakers(environment, now=now) if patterns else []
    found = [
        row.name
        for row in rows
        if any(_is_named(scope, name) for scope in patterns for name in (row.name, *row.operations))
    ]
    return [*exact, *found]


def _is_named(scope: Scope, operation: str) -> bool:
    return Scope(operation=scope.operation).holds(Place(service="", instance="", operation=operation))


def _holds(scope: Scope, one: InstanceState) -> bool:
    is_named = ANY in scope.operation or one.breaker == scope.operation
    return is_named and _reaches(scope, one.agent)


def _reaches(scope: Scope, row: AgentRow) -> bool:
    return scope.reaches(service=row.service, instance=row.instance, group=row.group)


def _sums(environment: str, scopes: Sequence[Scope], now: datetime) -> list[Mapping[str, Any]]:
    """What was counted of the scopes' operations in their services, in the last whole minute and the one that runs."""
    last = int(now.timestamp()) // 60
    counted = MinuteSum.objects.filter(environment=environment, minute__gte=last - 1, minute__lte=last)
    names = {scope.operation for scope in scopes}
    if not any(ANY in name for name in names):
        counted = counted.filter(Q(operation__in=names) | Q(breaker__in=names))
    grouped = counted.values("service", "operation", "breaker")
    rows: Iterable[Any] = grouped.annotate(**{measure: Sum(measure) for measure in _MEASURES}).order_by()
    narrowed = [Scope(service=scope.service, operation=scope.operation) for scope in scopes]
    return [row for row in rows if any(scope.holds(_place_of(row)) for scope in narrowed)]


def _place_of(row: Mapping[str, Any]) -> Place:
    return Place(service=row["service"], instance="", operation=row["operation"], breaker=row["breaker"])


def _rate(sums: Sequence[Mapping[str, Any]], measure: str, now: datetime) -> float:
    return sum(float(row[measure]) for row in sums) / measured_minutes(now)


def _instead(
    environment: str,
    scopes: Sequence[Scope],
    sums: Sequence[Mapping[str, Any]],
    having: Sequence[InstanceState],
    now: datetime,
    *,
    is_measured: bool,
) -> tuple[Instead, ...]:
    """What callers would get instead of each operation that was called, reported or replaced lately."""
    called: dict[str, list[Mapping[str, Any]]] = {}
    for row in sums:
        called.setdefault(row["operation"], []).append(row)
    names = dict.fromkeys([*called, *(one.operation for one in having)])
    stood_in, withdrawn = _answers_instead(environment, scopes, names, now)
    names |= dict.fromkeys([*stood_in, *withdrawn])
    found = [
        Instead(
            operation=name,
            calls_per_min=_rate(called[name], "calls", now) if is_measured and name in called else None,
            fallbacks=tuple(stood_in.get(name, ())),
            is_withdrawn=name in withdrawn,
        )
        for name in names
        if name
    ]
    return tuple(sorted(found, key=lambda one: (-(one.calls_per_min or 0.0), one.operation)))


def _answers_instead(
    environment: str, scopes: Sequence[Scope], behind: Collection[str], now: datetime
) -> tuple[dict[str, dict[str, None]], set[str]]:
    """By operation, what answered in the last day instead of those in scope and those `behind` its breakers; and which
    of them were withdrawn.
    """
    start = now - FALLBACKS_SEEN_FOR
    services = {scope.service for scope in scopes}

    def is_mine(operation: str) -> bool:
        return operation in behind or any(_is_named(scope, operation) for scope in scopes)

    stood_in: dict[str, dict[str, None]] = {}
    withdrawn = set()
    for one in degradations(environment, start=start, end=now):
        if not is_mine(one.operation) or (ANY not in services and one.service not in services):
            continue
        if one.kind == _WITHDRAWN:
            withdrawn.add(one.operation)
        elif one.to_name:
            stood_in.setdefault(one.operation, {})[one.to_name] = None
    # An agent that is not ours may tell of fallbacks without telling of degradations.
    facts = Fact.objects.filter(environment=environment, event=_FALLBACK.name, at_us__gte=int(start.timestamp() * 1e6))
    for operation, said in facts.order_by("-at_us").values_list("operation", "attributes")[:_MOST_FACTS]:
        if is_mine(operation) and said.get(_FALLBACK_NAME):
            stood_in.setdefault(operation, {})[str(said[_FALLBACK_NAME])] = None
    return stood_in, withdrawn
