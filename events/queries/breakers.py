"""Breakers across the fleet and instance by instance: the state that each last reported, and how calls go now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import (
    BooleanField,
    Case,
    CharField,
    Count,
    Exists,
    ExpressionWrapper,
    F,
    FloatField,
    IntegerField,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
    Window,
)
from django.db.models.functions import RowNumber

from events.models import Agent, BreakerState, MinuteSum, SpanSum
from events.moments import MINUTE_S, US_PER_S, from_us, to_us
from events.projections.sum_views import View
from events.queries.fleet import FORGOTTEN_AFTER, STOPPED, agent_row, has_ended, silent_since_us
from events.queries.readings import category_or_none, state_or_none, trigger_or_none
from events.rows import RANK, BreakerRow, InstanceState, Quarter
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.fleet.breaker_trouble import Counted, Trouble, trouble_of

_RATE = ("failure_rate", "threshold", "last_category")
_MEASURES = ("calls", "attempts", "failures", "rejections")
SPAN_MINUTES, QUARTER_SPANS = 5, 3
"""The quarter of an hour is read from three whole spans and the one that runs."""
LONGEST_WAIT_S = 366 * 86_400.0
"""A breaker that says that it waits longer is not believed."""
_TOGETHER_US = 15 * MINUTE_S * US_PER_S
"""Instances whose last reports are no further apart were the fleet when all of it fell silent."""
_DAY, _DAY_SPAN_MINUTES = timedelta(days=1), 120
_PROBING = (State.OPEN, State.HALF_OPEN)
"""What a wait that was told with a move ends in a probe in."""


@dataclass(slots=True)
class _Tally:
    """What is being added up about one breaker."""

    counts: dict[State, int] = field(default_factory=dict)
    since: dict[State, int] = field(default_factory=dict)
    probe_us: float | None = None
    unknown: int = 0
    stale: set[State] = field(default_factory=set)
    """What its unreachable instances reported last."""
    operations: set[str] = field(default_factory=set)
    services: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    measured: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_MEASURES, 0))
    evidence: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 0
    failures: dict[Category, int] = field(default_factory=dict)
    first_span: int | None = None
    last_span: int | None = None


def breakers(environment: str, *, now: datetime) -> list[BreakerRow]:
    """Every breaker that a remembered instance reported, the worst first, each with its last quarter. Three queries.

    Indexes: `breaker_state_once` with the agents' primary key; `minute_sum_once` over two minutes, `span_sum_once`
    over four spans.
    """
    rows = _rows(environment, now=now)
    return sorted(rows, key=lambda row: (-RANK[row.worst], row.trouble is None, row.name))


def breakers_named(environment: str, names: Collection[str] | None, *, now: datetime) -> list[BreakerRow]:
    """How these breakers stand (None: every one), the worst first, without how calls go. One query."""
    standing = _standing(environment, now)
    tallies: dict[str, _Tally] = {}
    for found in _counted(standing if names is None else standing.filter(breaker__in=names), now):
        _add_state(tallies.setdefault(found["breaker"], _Tally()), found)
    rows = (_row(breaker_name, tally, 1.0, 0) for breaker_name, tally in tallies.items())
    return sorted(rows, key=lambda row: (-RANK[row.worst], row.name))


def standing_of(environment: str, name: str, *, since: datetime) -> list[BreakerState]:
    """One breaker in every instance that is remembered `since`, with the instances, for questions to share. One query.

    Who is long gone stays stored for months, and there are many of them where instances are replaced with each deploy.
    """
    return list(_standing_of(environment, name, since))


def standing_among(environment: str, name: str, *, since: datetime) -> tuple[list[BreakerState], tuple[str, str]]:
    """The same, and the names of the breakers before and after it; empty where there is none. One query."""
    others = BreakerState.objects.filter(environment=environment).values("breaker")
    before = others.filter(breaker__lt=name).order_by("-breaker")[:1]
    after = others.filter(breaker__gt=name).order_by("breaker")[:1]
    beside = {"before": Subquery(before), "after": Subquery(after)}
    rows: list[BreakerState] = list(_standing_of(environment, name, since).annotate(**beside))
    first, last = (getattr(rows[0], word) or "" for word in beside) if rows else ("", "")
    return rows, (first, last)


def _standing_of(environment: str, name: str, since: datetime) -> QuerySet[BreakerState]:
    rows = BreakerState.objects.filter(environment=environment, breaker=name)
    return rows.filter(agent__last_seen_us__gte=to_us(since - FORGOTTEN_AFTER)).select_related("agent")


def breaker(
    environment: str, name: str, *, now: datetime, standing: Sequence[BreakerState] | None = None
) -> BreakerRow | None:
    """One breaker; None if nobody ever reported it. One whose instances are all gone has `instances` 0. Two queries,
    one with `standing`.
    """
    rows = standing_of(environment, name, since=now) if standing is None else standing
    remembered = _of_those_left(rows, now)
    if not remembered:
        return _row(name, _Tally(), 1.0, 0) if rows or is_reported(environment, name) else None
    tally = _Tally(evidence=_newest_rate(rows))
    for row in remembered:
        _add_state(
            tally,
            {
                "state": row.state,
                "is_reached": row.agent.last_seen_us >= silent_since_us(now) and not has_ended(row.agent),
                "instances": 1,
                "since_us": row.at_us,
                "probe_us": _probe_us(row),
                "agent__service": row.agent.service,
                "agent__group": row.agent.group,
                "operation": row.operation,
            },
        )
    [found] = _with_sums({name: tally}, environment, now)
    return found


def is_reported(environment: str, name: str) -> bool:
    """Whether anybody ever reported a breaker of this name. One query; index `breaker_state_once`."""
    return BreakerState.objects.filter(environment=environment, breaker=name).exists()


def is_named(environment: str, name: OuterRef) -> Exists:
    """Whether anybody ever reported the breaker that a row names, to be asked with the row; `breaker_state_once`."""
    return Exists(BreakerState.objects.filter(environment=environment, breaker=name))


def instance_states(
    environment: str, name: str, *, now: datetime, standing: Sequence[BreakerState] | None = None
) -> list[InstanceState]:
    """Each remembered instance's state of one breaker: unknown first, then the worst. One query, or `standing`."""
    rows = standing_of(environment, name, since=now) if standing is None else standing
    found = [instance_state(row, now) for row in _of_those_left(rows, now)]

    def place(one: InstanceState) -> tuple[bool, int, str, str]:
        return one.state is not None, -RANK[one.state], one.agent.service, one.agent.instance

    return sorted(found, key=place)


def states_of(
    environment: str, *, now: datetime, names: Iterable[str] | None = None, states: Iterable[State] | None = None
) -> list[InstanceState]:
    """Many breakers, instance by instance: those of these names that last said one of these states. One query."""
    rows = _standing(environment, now)
    if names is not None:
        rows = rows.filter(breaker__in=list(names))
    if states is not None:
        rows = rows.filter(state__in=[state.value for state in states])
    ordered = rows.select_related("agent").order_by("breaker", "agent__service", "agent__instance")
    return [instance_state(row, now) for row in ordered]


def counts_among(
    environment: str, first: Collection[int], second: Collection[int], *, now: datetime
) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[str, ...]]]:
    """How many of these agents (ids of `AgentRow`) have each breaker, by its name: of the first, of the second; and
    beside it `providers_of`. One query.
    """
    nobody = {"provider": Value("", CharField())}
    counted = (
        BreakerState.objects.filter(environment=environment, agent_id__in={*first, *second})
        .order_by()
        .values(name=F("breaker"), **nobody)
        .annotate(first=Count("id", filter=Q(agent_id__in=first)), second=Count("id", filter=Q(agent_id__in=second)))
        .values_list("name", "provider", "first", "second")
    )
    none = Value(0, IntegerField())
    named = _named(environment, now).values_list("subject", "provider", none, none)
    rows = list(named.union(counted, all=True) if first or second else named)
    return {name: (one, other) for name, provider, one, other in rows if not provider}, _providers(
        (name, provider) for name, provider, *_ in rows if provider
    )


@dataclass(slots=True)
class Reported:
    """One breaker as the instances that can be reached last told of it: how many are in each state."""

    counts: dict[State, int] = field(default_factory=dict)
    operations: set[str] = field(default_factory=set)

    @property
    def instances(self) -> int:
        """How many report it."""
        return sum(self.counts.values())

    def number(self, *states: State) -> int:
        """How many are in one of these."""
        return sum(self.counts.get(state, 0) for state in states)


def reported(environment: str, *, now: datetime) -> dict[str, Reported]:
    """Every breaker that somebody reports now, by name. One query, a few rows per breaker."""
    found: dict[str, Reported] = {}
    standing = _standing(environment, now).filter(agent__last_seen_us__gte=silent_since_us(now))
    grouped = standing.values_list("breaker", "state", "operation").annotate(Count("id")).order_by()
    for breaker_name, said, operation, count in grouped:
        one = found.setdefault(breaker_name, Reported())
        state = state_or_none(said) or State.CLOSED
        one.counts[state] = one.counts.get(state, 0) + count
        one.operations |= {operation} - {""}
    return found


def providers_of(environment: str, *, now: datetime) -> dict[str, tuple[str, ...]]:
    """Of each breaker that was called within the last day the providers that somebody said. One query; index
    `span_sum_once` over thirteen spans of two hours.
    """
    return _providers(_named(environment, now).values_list("subject", "provider"))


def served_by(environment: str, provider: str, *, now: datetime) -> Sequence[QuerySet[Any, str]]:
    """The breakers whose calls of the last day named this provider, and the operations behind those that somebody
    reports now. No query: they are conditions of another one.
    """
    named = _named(environment, now).filter(provider=provider).values_list("subject", flat=True)
    standing = _standing(environment, now).filter(agent__last_seen_us__gte=silent_since_us(now), breaker__in=named)
    return named, standing.exclude(operation="").values_list("operation", flat=True).distinct()


def _named(environment: str, now: datetime) -> QuerySet[SpanSum]:
    first = to_us(now - _DAY) // US_PER_S // MINUTE_S // _DAY_SPAN_MINUTES
    last = to_us(now) // US_PER_S // MINUTE_S // _DAY_SPAN_MINUTES
    sums = SpanSum.objects.filter(
        environment=environment, view=View.EACH, minutes=_DAY_SPAN_MINUTES, span__gte=first, span__lte=last
    )
    return sums.exclude(provider="").order_by().distinct()


def _providers(named: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for breaker_name, provider in named:
        found.setdefault(breaker_name, set()).add(provider)
    return {breaker_name: tuple(sorted(providers)) for breaker_name, providers in found.items()}


def _standing(environment: str, now: datetime) -> QuerySet[BreakerState]:
    """As `_is_remembered` says."""
    rows = BreakerState.objects.filter(environment=environment, agent__retired_us__lt=F("agent__last_seen_us"))
    return rows.exclude(agent__status=STOPPED).filter(agent__last_seen_us__gte=to_us(now - FORGOTTEN_AFTER))


def _last_standing(environment: str) -> QuerySet[BreakerState]:
    """The breakers of the instances that reported last, stopped and retired ones too."""
    last = Agent.objects.filter(environment=environment).order_by("-last_seen_us").values("last_seen_us")[:1]
    return BreakerState.objects.filter(environment=environment, agent__last_seen_us__gte=Subquery(last) - _TOGETHER_US)


def _of_those_left(rows: Sequence[BreakerState], now: datetime) -> list[BreakerState]:
    """Those of remembered instances; where there is none, of the instances that reported last."""
    since_us = max((row.agent.last_seen_us for row in rows), default=0) - _TOGETHER_US
    remembered = [row for row in rows if _is_remembered(row.agent, now)]
    return remembered or [row for row in rows if row.agent.last_seen_us >= since_us]


def _is_remembered(agent: Agent, now: datetime) -> bool:
    return not has_ended(agent) and agent.last_seen_us >= to_us(now - FORGOTTEN_AFTER)


def instance_state(row: BreakerState, now: datetime) -> InstanceState:
    """One breaker in one instance, which has been read with it."""
    agent = agent_row(row.agent, now)
    reported = state_or_none(row.state) or State.CLOSED
    return InstanceState(
        agent=agent,
        breaker=row.breaker,
        state=reported if agent.is_reachable else None,
        reported_state=reported,
        since=None if row.at_us is None else from_us(row.at_us),
        trigger=trigger_or_none(row.trigger),
        calls=row.calls,
        failures=row.failures,
        failure_rate=row.failure_rate,
        threshold=row.threshold,
        last_category=category_or_none(row.last_category),
        wait_s=row.wait_s,
        override_id=row.override_id,
        revision=row.revision,
        operation=row.operation,
    )


def _rows(environment: str, *, now: datetime) -> list[BreakerRow]:
    tallies: dict[str, _Tally] = {}
    for found in _counted(_standing(environment, now), now):
        _add_state(tallies.setdefault(found["breaker"], _Tally()), found)
    if not tallies:  # nobody reports any more: what was reported last is stale
        for found in _counted(_last_standing(environment), now):
            _add_state(tallies.setdefault(found["breaker"], _Tally()), {**found, "is_reached": False})
    if not tallies:
        return []
    for row in _evidence(environment):
        if row["breaker"] in tallies:
            tallies[row["breaker"]].evidence = row
    return _with_sums(tallies, environment, now)


def _with_sums(tallies: Mapping[str, _Tally], environment: str, now: datetime) -> list[BreakerRow]:
    """The rows, once it is added to the tallies how calls go. One query."""
    for sums in _lately(environment, now):
        known = tallies.get(sums.breaker or sums.operation)
        if known is not None and sums.is_minute:
            _add_sums(known, sums)
        elif known is not None:
            _add_quarter(known, sums)
    minutes = measured_minutes(now)
    first_span = to_us(now) // US_PER_S // MINUTE_S // SPAN_MINUTES - QUARTER_SPANS
    return [_row(breaker_name, tally, minutes, first_span) for breaker_name, tally in tallies.items()]


def measured_minutes(now: datetime) -> float:
    """How long rates per minute are measured: the last whole minute and the one that runs, in minutes."""
    return 1.0 + to_us(now) / US_PER_S % MINUTE_S / MINUTE_S


def _counted(standing: QuerySet[BreakerState], now: datetime) -> Iterable[Mapping[str, Any]]:
    """Instances by breaker and state: a few rows per breaker, however large the fleet."""
    is_seen = When(agent__last_seen_us__gte=silent_since_us(now), then=Value(True))
    is_reached = Case(is_seen, default=Value(False), output_field=BooleanField())
    probe_us = ExpressionWrapper(F("at_us") + F("wait_s") * US_PER_S, FloatField())
    grouped = standing.values("breaker", "state", "operation", "agent__service", "agent__group", is_reached=is_reached)
    is_believed = Q(wait_s__gte=0.0, wait_s__lte=LONGEST_WAIT_S)
    sums = {"instances": Count("id"), "since_us": Min("at_us"), "probe_us": Min(probe_us, filter=is_believed)}
    return grouped.annotate(**sums).order_by()


def _probe_us(row: BreakerState) -> float | None:
    """The same of one row."""
    if row.at_us is None or row.wait_s is None or not 0.0 <= row.wait_s <= LONGEST_WAIT_S:
        return None
    return row.at_us + row.wait_s * US_PER_S


def _add_state(tally: _Tally, found: Mapping[str, Any]) -> None:
    state = state_or_none(found["state"]) or State.CLOSED
    if found["is_reached"]:
        tally.counts[state] = tally.counts.get(state, 0) + found["instances"]
        if found["since_us"] is not None:
            tally.since[state] = min(tally.since.get(state, found["since_us"]), found["since_us"])
        if state in _PROBING and found["probe_us"] is not None:
            probe_us = float(found["probe_us"])
            tally.probe_us = probe_us if tally.probe_us is None else min(tally.probe_us, probe_us)
    else:
        tally.unknown += found["instances"]
        tally.stale.add(state)
    tally.services.add(found["agent__service"])
    tally.groups.update({found["agent__group"]} - {""})
    tally.operations.update({found["operation"]} - {""})


def _evidence(environment: str) -> Iterable[Mapping[str, Any]]:
    """The newest move of each breaker that came with a rate."""
    moved = BreakerState.objects.filter(environment=environment, failure_rate__isnull=False)
    newest = Window(RowNumber(), partition_by=F("breaker"), order_by=F("at_us").desc())
    found: Iterable[Mapping[str, Any]] = moved.annotate(place=newest).filter(place=1).values("breaker", *_RATE)
    return found


def _newest_rate(rows: Iterable[BreakerState]) -> Mapping[str, Any]:
    """The same of one breaker's rows; empty where none came with a rate."""
    newest = max((row for row in rows if row.failure_rate is not None), key=lambda row: row.at_us or 0, default=None)
    return {} if newest is None else {name: getattr(newest, name) for name in _RATE}


class _Sums(NamedTuple):
    """What was counted of one operation: in the last two minutes, or of one category in the spans of the quarter."""

    breaker: str
    operation: str
    category: str
    is_minute: bool
    first_span: int | None
    last_span: int | None
    calls: int
    attempts: int
    failures: int
    rejections: int


def _lately(environment: str, now: datetime) -> Iterator[_Sums]:
    """What was counted in the last whole minute and in the one that runs, and over the last quarter. One query."""
    minute = to_us(now) // US_PER_S // MINUTE_S
    sums = {f"all_{measure}": Sum(measure) for measure in _MEASURES}
    fresh = MinuteSum.objects.filter(environment=environment, minute__gte=minute - 1, minute__lte=minute)
    fresh_rows = fresh.annotate(kind=Value("", CharField()), is_minute=Value(1)).annotate(
        first_span=Value(None, IntegerField()), last_span=Value(None, IntegerField())
    )
    span = minute // SPAN_MINUTES
    longer = SpanSum.objects.filter(
        environment=environment, view=View.EACH, minutes=SPAN_MINUTES, span__gte=span - QUARTER_SPANS, span__lte=span
    )
    was_called = Q(calls__gt=0) | Q(rejections__gt=0) | Q(failures__gt=0)
    longer_rows = longer.annotate(kind=F("category"), is_minute=Value(0))
    keys = ("breaker", "operation", "kind", "is_minute")
    spans = ("first_span", "last_span")
    columns = (*keys, *spans, *sums)
    first = fresh_rows.values(*keys, *spans).annotate(**sums).order_by().values_list(*columns)
    called = {"first_span": Min("span", filter=was_called), "last_span": Max("span", filter=was_called)}
    second = longer_rows.values(*keys).annotate(**called, **sums).order_by()
    return map(_Sums._make, first.union(second.values_list(*columns), all=True))


def _add_sums(tally: _Tally, sums: _Sums) -> None:
    tally.operations.update({sums.operation} - {""})
    for measure in _MEASURES:
        tally.measured[measure] += getattr(sums, measure)


def _add_quarter(tally: _Tally, sums: _Sums) -> None:
    tally.attempts += sums.attempts
    category = category_or_none(sums.category)
    if category is not None and sums.failures:
        tally.failures[category] = tally.failures.get(category, 0) + sums.failures
    if sums.first_span is not None and sums.last_span is not None:
        tally.first_span = min(sums.first_span, tally.first_span or sums.first_span)
        tally.last_span = max(sums.last_span, tally.last_span or 0)


def _row(name: str, tally: _Tally, minutes: float, first_span: int) -> BreakerRow:
    worst = max(tally.counts, key=RANK.__getitem__, default=None)
    since_us = tally.since.get(worst) if worst is not None else None
    return BreakerRow(
        name=name,
        operations=tuple(sorted(tally.operations)) or (name,),
        services=tuple(sorted(tally.services)),
        groups=tuple(sorted(tally.groups)),
        counts=dict(sorted(tally.counts.items(), key=lambda item: -RANK[item[0]])),
        unknown=tally.unknown,
        instances=sum(tally.counts.values()) + tally.unknown,
        worst=worst,
        since=None if since_us is None else from_us(since_us),
        failure_rate=_failure_rate(tally, worst),
        threshold=tally.evidence.get("threshold"),
        calls_per_min=tally.measured["calls"] / minutes,
        failures_per_min=tally.measured["failures"] / minutes,
        rejected_per_min=tally.measured["rejections"] / minutes,
        last_category=category_or_none(tally.evidence.get("last_category")),
        since_by={state: from_us(at_us) for state, at_us in tally.since.items()},
        next_probe=None if tally.probe_us is None else from_us(round(tally.probe_us)),
        last_worst=max(tally.stale, key=RANK.__getitem__, default=None),
        calls_trouble=_trouble(tally),
        quarter=Quarter(
            # What is younger than a quarter of an hour was not counted for one.
            start=_span_start(first_span if tally.first_span is None else tally.first_span),
            attempts=tally.attempts,
            failures=tally.failures,
            last_call_at=None if tally.last_span is None else _span_start(tally.last_span + 1),
        ),
    )


def _trouble(tally: _Tally) -> Trouble | None:
    return trouble_of(
        Counted(**tally.measured, quarter_attempts=tally.attempts, quarter_failures=sum(tally.failures.values()))
    )


def _span_start(span: int) -> datetime:
    return from_us(span * SPAN_MINUTES * MINUTE_S * US_PER_S)


def _failure_rate(tally: _Tally, worst: State | None) -> float | None:
    """While a breaker blocks, few calls or none are made: then what opened it says more than what trickles through."""
    if worst in (State.OPEN, State.HALF_OPEN, State.FORCED_OPEN):
        evidence = tally.evidence.get("failure_rate")
        return None if evidence is None else float(evidence)
    attempts = tally.measured["attempts"]
    return min(1.0, tally.measured["failures"] / attempts) if attempts else None
