"""What instances counted of their calls in a window: by instance, the policy that decided, and operation."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import orjson
from django.db import connection
from django.db.models.fields.json import KeyTextTransform

from events.models import Fact
from events.moments import to_us
from events.queries.readings import number_in
from recovery_ops.rules.events import CallsCounted
from recovery_ops.rules.fleet.health_gate import Counts
from recovery_ops.wire import names

COUNTED_WITHIN = timedelta(seconds=15)
"""Whoever has calls under way counts every ten seconds; the rest is the way here."""
COUNTS_READ = 5_000
"""More counts than this within that time are not read."""
_CHUNK = 2000
_EVENT = names.EVENTS[CallsCounted].name
_A = {
    name: names.attribute_of(CallsCounted, name)
    for name in ("calls", "rejected", "exhausted", "failures", "latency_bounds_s", "latency_counts")
}


class Counter(NamedTuple):
    """Whose counts: an instance by its row, the version of the policy it decided by, and an operation."""

    agent_id: int
    policy_version: str
    operation: str


def counted(
    environment: str, agent_ids: Collection[int], *, start: datetime, end: datetime
) -> Mapping[Counter, Counts]:
    """The sums of what these instances counted. One query; index `fact_by_event`.

    Its price is that of what they sent in the window, whatever else is stored: one count an operation and instance each
    ten seconds. The sums of `MinuteSum` know neither the instance nor the policy that decided.
    """
    found: dict[Counter, _Sum] = {}
    for agent_id, operation, _, said in _told(environment, agent_ids, start, end):
        whose = Counter(agent_id, str(said.get(names.POLICY_VERSION, "")), operation)
        if (known := found.get(whose)) is None:
            known = found[whose] = _Sum()
        known.add(said)
    return {whose: one.counts() for whose, one in found.items()}


def calls_through(
    environment: str, agent_ids: Collection[int], *, start: datetime, end: datetime
) -> Mapping[tuple[int, str], int]:
    """How many calls each breaker of these instances let through, by instance and breaker. One query; as `counted`."""
    found: dict[tuple[int, str], int] = {}
    for agent_id, operation, breaker, said in _told(environment, agent_ids, start, end):
        whose = (agent_id, breaker or operation)
        through = max(0, _whole(said.get(_A["calls"])) - _whole(said.get(_A["rejected"])))
        found[whose] = found.get(whose, 0) + through
    return found


def in_flight(environment: str, *, now: datetime, breaker: str | None = None) -> Mapping[str, int] | None:
    """Calls under way by breaker, or of one, as each instance counted them last; a breaker that nobody counted lately
    is not in it. None where too many counted to read them all. One query; index `fact_by_event` or `fact_by_breaker`.
    """
    facts = Fact.objects.filter(
        environment=environment, event=_EVENT, at_us__gt=to_us(now - COUNTED_WITHIN), at_us__lte=to_us(now)
    )
    if breaker is not None:
        facts = facts.filter(breaker=breaker)
    under_way = KeyTextTransform(names.attribute_of(CallsCounted, "in_flight"), "attributes")
    told = facts.annotate(under_way=under_way).order_by("-at_us")
    rows = told.values_list("agent_id", "operation", "source", "breaker", "under_way")[: COUNTS_READ + 1]
    newest: dict[tuple[int, str, str], tuple[str, int]] = {}
    read = 0
    for read, (agent_id, operation, source, name, said) in enumerate(rows, start=1):  # noqa: B007  # how many
        newest.setdefault((agent_id, operation, source), (name or operation, _whole(number_in(said))))
    if read > COUNTS_READ:
        return None
    found: dict[str, int] = {}
    for name, count in newest.values():
        found[name] = found.get(name, 0) + count
    return found


def _told(
    environment: str, agent_ids: Collection[int], start: datetime, end: datetime
) -> Iterator[tuple[int, str, str, dict[str, Any]]]:
    """What these instances counted in [start, end): whose it is, operation, breaker, attributes."""
    if not agent_ids:
        return
    facts = Fact.objects.filter(
        environment=environment, event=_EVENT, at_us__gte=to_us(start), at_us__lt=to_us(end), agent_id__in=agent_ids
    )
    text = "attributes::text" if connection.vendor == "postgresql" else "attributes"
    rows = facts.extra(select={"said": text}).values_list("agent_id", "operation", "breaker", "said")  # noqa: S610  # our own words
    for agent_id, operation, breaker, said in rows.iterator(chunk_size=_CHUNK):
        yield agent_id, operation, breaker, orjson.loads(said)


@dataclass(slots=True)
class _Sum:
    """Counts that are being added up; adding two `Counts` makes a third, and there are thousands."""

    calls: int = 0
    failures: int = 0
    rejected: int = 0
    exhausted: int = 0
    latencies: dict[float, int] = field(default_factory=dict)

    def add(self, said: Mapping[str, Any]) -> None:
        """Add what one fact counted."""
        self.calls += _whole(said.get(_A["calls"]))
        self.rejected += _whole(said.get(_A["rejected"]))
        self.exhausted += _whole(said.get(_A["exhausted"]))
        failures = said.get(_A["failures"])
        self.failures += sum(map(_whole, failures.values())) if isinstance(failures, dict) else _whole(failures)
        self._time(said.get(_A["latency_bounds_s"]), said.get(_A["latency_counts"]))

    def _time(self, bounds_s: object, counts: object) -> None:
        """Buckets by their upper bounds; the last count, without one, is of what took longer than all."""
        if not isinstance(bounds_s, list) or not isinstance(counts, list) or len(counts) != len(bounds_s) + 1:
            return
        for bound_s, count in zip((*bounds_s, math.inf), counts, strict=True):
            if whole := _whole(count):
                self.latencies[float(bound_s)] = self.latencies.get(float(bound_s), 0) + whole

    def counts(self) -> Counts:
        """The sums."""
        return Counts(self.calls, self.failures, self.rejected, self.exhausted, self.latencies)


def _whole(value: object) -> int:
    if type(value) is int:
        return max(0, value)
    return max(0, int(value)) if isinstance(value, float) else 0
