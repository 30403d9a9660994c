"""Makes up facts of a fleet that had trouble, as many as are asked for: to measure with, and to look at full pages.

The same numbers give the same facts. They go in by the store's own door, in the order of their moments, so that what
is folded is right; only the way from the socket is left out. Each kind of fact is encoded and read once, as if an agent
had sent it, and then told again and again with other names and moments.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from events.ingest.records import AgentName, Row, read_records
from events.moments import to_us
from events.otlp.sent import Batch, Sent
from events.store.writes import store_facts
from recovery_ops.rules import events as facts
from recovery_ops.rules.enums import Category, DelaySource, Evidence, RunStatus, State, Trigger
from recovery_ops.wire import encode

GROUP_ROWS = 8_000
VERSION = "1.4.2"
_SOURCES = ("main_agent", "sub_agent", "background", "evaluation")
_BACKENDS = (("helios", "helios-large"), ("helios", "helios-small"), ("selene", "selene-2"))
_SERVICES = ("research", "billing", "support", "triage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much of what, spread evenly from `start` to `end`."""

    facts: int
    agents: int
    breakers: int
    runs: int
    start: datetime
    end: datetime
    environment: str
    seed: int = 1


def seed(plan: Plan) -> Iterator[int]:
    """Store what was planned; yield how many facts there are after each transaction."""
    made = 0
    for rows in _grouped(_rows(plan)):
        with transaction.atomic():
            store_facts(rows)
        made += len(rows)
        yield made


def _grouped(rows: Iterator[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:
        group.append(row)
        if len(group) == GROUP_ROWS:
            yield group
            group = []
    if group:
        yield group


def _rows(plan: Plan) -> Iterator[Row]:
    """All facts in the order of their moments."""
    chance = random.Random(plan.seed)  # made up, and the same each time
    kinds = [_kinds(*backend) for backend in _BACKENDS]
    fleet = fleet_of(plan)
    start_us, length_us = to_us(plan.start), to_us(plan.end) - to_us(plan.start)
    steps: dict[tuple[int, int, int], int] = {}
    runs = _Runs(plan)
    for number, kind in enumerate(_chosen(chance, list(_weights()), plan.facts)):
        at_us = start_us + length_us * number // plan.facts
        # An operation is of one service, asks one backend and is called by one source, as they mostly are.
        which = int(chance.random() * plan.breakers)
        agent = caller_of(plan, which, chance.random())
        run = runs.named(kind, at_us, chance.random())
        kind = kind if run else _SUCCEEDED  # noqa: PLW2901  # nothing to begin or to end
        run = run or run_name(plan, at_us, 0.5)
        step = steps.get((agent, which, kind), 0)
        steps[agent, which, kind] = step + 1
        cycle = kinds[which % len(_BACKENDS)][kind]
        told = cycle[step % len(cycle)]
        name = operation_name(which) if told.has_operation else ""
        yield Row(
            **told.values,
            environment=plan.environment,
            uid=_uid(at_us, plan.seed, number),
            at_us=at_us,
            received_us=at_us,
            sequence_number=number,
            operation=name,
            breaker=name if told.has_breaker else "",
            source=_SOURCES[which % len(_SOURCES)] if told.has_operation else "",
            run=run if told.has_run else "",
            agent=fleet[agent],
        )


def fleet_of(plan: Plan) -> list[AgentName]:
    """Every instance; neighbours are of different services."""
    services = _services(plan)
    return [
        AgentName(plan.environment, _SERVICES[number % services], f"agent-{number:04d}")
        for number in range(plan.agents)
    ]


def caller_of(plan: Plan, operation: int, share: float) -> int:
    """The place in the fleet of an instance that calls an operation; `share` (0 to 1) chooses which of them."""
    services = _services(plan)
    return min(plan.agents - 1, operation % services + services * int(share * plan.agents / services))


def operation_name(number: int) -> str:
    """What operations, and their breakers, are called."""
    return f"operation_{number:03d}"


def run_name(plan: Plan, at_us: int, share: float) -> str:
    """One of the runs that go on at a moment; `share` (0 to 1) chooses which.

    They begin evenly, most are over within the hour, and one of fifty goes on for two days.
    """
    is_long = share >= _SHORT
    age_us = _LONG_US * (share - _SHORT) / (1 - _SHORT) if is_long else _SHORT_US * (share / _SHORT) ** 2
    number = max(0, min(plan.runs - 1, _newest_run(plan, at_us - age_us)))
    return f"run-{number // _ONE_OF * _ONE_OF if is_long else number}"


def _newest_run(plan: Plan, at_us: float) -> int:
    """The run that began last by then; below zero, and above the last, where there is none."""
    start_us, length_us = to_us(plan.start), to_us(plan.end) - to_us(plan.start)
    return math.floor(plan.runs * (at_us - start_us) / length_us)


class _Runs:
    """Which run a fact is of: one begins before all else is told of it, and ends once it is over."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._begun = self._ended = -1

    def named(self, kind: int, at_us: int, share: float) -> str:
        """Empty where no run is there to begin, or to end, that has not been said to."""
        if kind == _STARTED:
            next_one = _newest_run(self._plan, at_us) + 1
            if not self._begun < next_one < self._plan.runs:
                return ""
            self._begun = next_one
            return f"run-{next_one}"
        if kind == _FINISHED:
            over = _newest_run(self._plan, at_us - _SHORT_US) - 1  # whose slot is over, too
            if over <= self._ended or over % _ONE_OF == 0:
                return ""
            self._ended = over
            return f"run-{over}"
        return run_name(self._plan, at_us, share)


_SHORT = 0.96
_ONE_OF = 50
_SHORT_US = 3_600_000_000
_LONG_US = 48 * _SHORT_US


def told_once(plan: Plan, fact: facts.Event, *, at: datetime, agent: AgentName, run: str, number: int) -> Row:
    """One fact beside those of the plan, as an agent would send it and the store would read it."""
    at_us = to_us(at)
    uid = UUID(bytes=_uid(at_us, plan.seed, _BESIDE | number))
    event = encode(facts.Record(event=fact, uid=str(uid), sequence_number=number, at_ns=at_us * 1000, run=run))
    sent = Sent(event.event_name, at_us * 1000, 0, event.severity, event.body, event.attributes, "", "")
    resource: dict[str, object] = {
        "service.name": agent.service,
        "service.instance.id": agent.instance,
        "service.version": VERSION,
    }
    [row] = read_records([Batch(resource, "seed", [sent])], plan.environment, at_us).rows
    return row


_BESIDE = 1 << 62
"""In the ids of facts beside those of the plan, so that none is one of the plan's."""


def _services(plan: Plan) -> int:
    return min(len(_SERVICES), plan.agents)


@dataclass(frozen=True, slots=True)
class _Told:
    """What all facts that are like one have in common."""

    values: dict[str, Any]
    has_operation: bool
    has_breaker: bool
    has_run: bool


_OWN = frozenset(
    {
        *("environment", "uid", "at_us", "received_us", "sequence_number", "operation", "breaker", "source", "run"),
        *("agent", "agent_id"),
    }
)


def _told(fact: facts.Event) -> _Told:
    """The fact as an agent would send it and the store would read it."""
    event = encode(facts.Record(event=fact, uid=str(UUID(int=1)), sequence_number=1, at_ns=0, run="run"))
    sent = Sent(event.event_name, 10**18, 0, event.severity, event.body, event.attributes, "", "")
    [row] = read_records([Batch({"service.version": VERSION}, "seed", [sent])], "", 10**15).rows
    values = {one.name: getattr(row, one.name) for one in fields(Row) if one.name not in _OWN}
    return _Told(values, bool(row.operation), bool(row.breaker), bool(row.run))


def _chosen(chance: random.Random, weights: Sequence[float], count: int) -> Iterator[int]:
    for done in range(0, count, GROUP_ROWS):
        yield from chance.choices(range(len(weights)), weights, k=min(GROUP_ROWS, count - done))


_TROUBLES = (
    (Category.OVERLOADED, 529, 0.24),
    (Category.RATE_LIMITED, 429, 0.12),
    (Category.TIMEOUT, None, 0.08),
    (Category.SERVER_ERROR, 502, 0.04),
)


def _weights() -> Iterator[float]:
    """How often each kind is told beside the others; in the order of `_kinds`."""
    for _, _, weight in _TROUBLES:
        yield from (weight, weight / 2)
    yield from (0.08, 0.12, 0.02, 0.02, 0.005, 0.005, 0.03, 0.006, 0.004)


_SUCCEEDED = 2 * len(_TROUBLES)
_STARTED, _FINISHED = _SUCCEEDED + 4, _SUCCEEDED + 5
"""The places of these among `_kinds`."""


def _kinds(provider: str, model: str) -> list[Sequence[_Told]]:
    """Everything that is told of an operation with this backend: single facts, and some that follow each other."""
    found: list[Sequence[facts.Event]] = []
    for category, code, _ in _TROUBLES:
        failed = facts.FailureClassified(
            **_NAMES,
            category=category,
            evidence=Evidence.HTTP_STATUS,
            retryable=True,
            attempt=1,
            status_code=code,
            message=f"{provider} answered {code or 'nothing in time'}",
            provider=provider,
            model=model,
            duration_s=1.5,
        )
        retried = facts.RetryScheduled(
            operation="o", attempt=2, delay_s=1.5, delay_source=DelaySource.BACKOFF, category=category, max_retries=3
        )
        found += [[failed], [retried]]
    found += [
        [facts.AttemptSucceeded(**_NAMES, attempt=2, duration_s=0.4)],
        [facts.CallsCounted(**_NAMES, interval_s=10.0, calls=40, attempts=46, successes=37)],
        [facts.BreakerRejected(**_NAMES, state=State.OPEN, count=7)],
        [facts.FallbackActivated(**_NAMES, fallback="cache", level=1, category=Category.OVERLOADED)],
        [facts.RunStarted(name="answer")],
        [facts.RunFinished(status=RunStatus.SUCCEEDED, duration_s=_SHORT_US / 1_000_000, turns=4)],
        [_HEARTBEAT],
        list(_moves()),
        _DEGRADED,
    ]
    return [[_told(fact) for fact in cycle] for cycle in found]


_NAMES: dict[str, Any] = {"operation": "o", "breaker": "o"}
_HEARTBEAT = facts.InstanceHeartbeat(
    interval_s=60.0, uptime_s=3600.0, revision=3, config_hash="seeded", schema_version=1, status="running"
)
_DEGRADED = (
    facts.DegradationStarted(operation="o", kind="fallback", reason="breaker_open", to_name="cache"),
    facts.DegradationEnded(operation="o", kind="fallback", duration_s=60.0, to_name="cache", calls=12),
)


def _moves() -> Iterator[facts.BreakerStateChanged]:
    """A breaker opens, tries, and closes again."""
    path = (State.CLOSED, State.OPEN, State.HALF_OPEN, State.CLOSED)
    triggers = (Trigger.FAILURE_RATE, Trigger.WAIT_ELAPSED, Trigger.PROBE_SUCCEEDED)
    for before, after, trigger in zip(path, path[1:], triggers, strict=False):
        yield facts.BreakerStateChanged(
            **_NAMES,
            state=after,
            previous_state=before,
            trigger=trigger,
            calls=20,
            failures=12,
            failure_rate=0.6,
            threshold=0.5,
            last_category=Category.OVERLOADED,
            wait_s=30.0,
        )


def _uid(at_us: int, seed: int, number: int) -> bytes:
    """Sixteen bytes with the moment in front, as a UUID of version 7 has them."""
    return (at_us // 1000).to_bytes(6, "big") + struct.pack(">HQ", 0x7000 | seed & 0xFFF, 1 << 63 | number)
