"""What instances counted of their calls in a window: by instance, the policy that decided, and operation."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.db import connection

from events.models import Fact
from events.moments import to_us
from recovery_ops.rules.facts import CallsCounted
from recovery_ops.rules.health import Counts
from recovery_ops.wire import names

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
    """The sums of what these instances counted. One query; index `fact_by_event`."""
    found: dict[Counter, Counts] = {}
    if not agent_ids:
        return found
    facts = Fact.objects.filter(
        environment=environment, event=_EVENT, at_us__gte=to_us(start), at_us__lt=to_us(end), agent_id__in=agent_ids
    )
    text = "attributes::text" if connection.vendor == "postgresql" else "attributes"
    rows = facts.extra(select={"said": text}).values_list("agent_id", "operation", "said")  # noqa: S610  # our own words
    for agent_id, operation, said in rows.iterator(chunk_size=_CHUNK):
        attributes = orjson.loads(said)
        whose = Counter(agent_id, str(attributes.get(names.POLICY_VERSION, "")), operation)
        found[whose] = found.get(whose, Counts()) + _counts(attributes)
    return found


def calls_through(
    environment: str, agent_ids: Collection[int], *, start: datetime, end: datetime
) -> Mapping[tuple[int, str], int]:
    """How many calls each breaker of these instances let through, by instance and breaker. One query."""
    found: dict[tuple[int, str], int] = {}
    if not agent_ids:
        return found
    facts = Fact.objects.filter(
        environment=environment, event=_EVENT, at_us__gte=to_us(start), at_us__lt=to_us(end), agent_id__in=agent_ids
    )
    text = "attributes::text" if connection.vendor == "postgresql" else "attributes"
    rows = facts.extra(select={"said": text}).values_list("agent_id", "breaker", "operation", "said")  # noqa: S610  # our own words
    for agent_id, breaker, operation, said in rows.iterator(chunk_size=_CHUNK):
        counts = _counts(orjson.loads(said))
        whose = (agent_id, breaker or operation)
        found[whose] = found.get(whose, 0) + max(0, counts.calls - counts.rejected)
    return found


def _counts(said: Mapping[str, Any]) -> Counts:
    failures = said.get(_A["failures"])
    return Counts(
        calls=_whole(said.get(_A["calls"])),
        failures=sum(map(_whole, failures.values())) if isinstance(failures, dict) else _whole(failures),
        rejected=_whole(said.get(_A["rejected"])),
        exhausted=_whole(said.get(_A["exhausted"])),
        latencies=_latencies(said.get(_A["latency_bounds_s"]), said.get(_A["latency_counts"])),
    )


def _latencies(bounds_s: object, counts: object) -> dict[float, int]:
    """Buckets by their upper bounds; the last count, without one, is of what took longer than all."""
    if not isinstance(bounds_s, list) or not isinstance(counts, list) or len(counts) != len(bounds_s) + 1:
        return {}
    pairs = zip((*bounds_s, math.inf), counts, strict=True)
    return {float(bound_s): _whole(count) for bound_s, count in pairs if _whole(count)}


def _whole(value: object) -> int:
    return max(0, int(value)) if isinstance(value, int | float) and not isinstance(value, bool) else 0
