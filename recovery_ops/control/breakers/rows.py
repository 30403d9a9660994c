"""Rows of breakers with what takes a question more, for those alone who ask for it; and what a policy says of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from events.models import BreakerState
from events.queries.breakers import providers_of
from events.queries.counted import in_flight
from events.rows import BreakerRow
from recovery_ops.rules.policy.model import OperationPolicy, Policy
from recovery_ops.rules.policy.scope import Place


def with_in_flight(environment: str, rows: Sequence[BreakerRow], *, now: datetime) -> list[BreakerRow]:
    """The rows with what is under way. One query."""
    found = in_flight(environment, now=now)
    return list(rows) if found is None else [replace(row, in_flight=found.get(row.name)) for row in rows]


def with_providers(environment: str, rows: Sequence[BreakerRow], *, now: datetime) -> list[BreakerRow]:
    """The rows with the providers behind them. One query."""
    found = providers_of(environment, now=now)
    return [replace(row, providers=found.get(row.name, ())) for row in rows]


def rules_behind(policy: Policy, name: str, standing: Iterable[BreakerState]) -> OperationPolicy:
    """What the policy says of a breaker: of the first of the operations behind it that its instances named."""
    operation = min((one.operation for one in standing if one.operation), default=name)
    return policy.for_operation(Place(service="", instance="", operation=operation, breaker=operation))
