"""What went wrong, row by row: degradations as intervals, and the newest failures."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import QuerySet

from events.models import Degradation, Fact
from events.moments import from_us, to_us
from events.queries.readings import Attributes, category_or_none, number_or_none, text_of, whole_or_none
from events.queries.sums import FAILED
from events.rows import DegradationRow, Derivation, FailureRow
from recovery_ops.rules.enums import FAMILY_OF, Category
from recovery_ops.rules.events import FailureClassified

DEGRADATIONS_MOST = 2_000

_SAID = Attributes(
    FailureClassified,
    *("status_code", "error_type", "message", "attempt", "retry_after_s", "fingerprint", "credential"),
)


def degradations(environment: str, *, start: datetime, end: datetime) -> list[DegradationRow]:
    """The intervals that touch [start, end), oldest first; of more than 2,000 those that ended last. One query.

    Indexes: `degradation_by_end` for those that are over, `degradation_open` for those that go on.
    """
    ours = Degradation.objects.filter(environment=environment)
    over = ours.filter(started_us__lt=to_us(end), ended_us__gt=to_us(start)).order_by("-ended_us")[:DEGRADATIONS_MOST]
    # Not asked when these began: SQLite would read all that began before, instead of the few that are open.
    still = ours.filter(ended_us__isnull=True)
    # Two halves, each by its own index, in one round trip. No part of SQLite's unions may be limited, so there it is
    # limited inside; asked like that, PostgreSQL would read the whole table for the ids.
    may_limit = connection.features.supports_slicing_ordering_in_compound
    chosen = over if may_limit else Degradation.objects.filter(pk__in=over.values("pk"))
    found = map(_Interval._make, _columns(still).union(_columns(chosen), all=True))
    began = [one for one in found if one.started_us < to_us(end)]
    return [_degradation(one) for one in sorted(began, key=lambda one: (one.started_us, one.id))]


def open_degradations(environment: str, *, or_ended_since: datetime) -> list[DegradationRow]:
    """What has not ended, and what ended since a moment, oldest first. One query.

    Indexes: `degradation_open`, `degradation_by_end`.
    """
    ours = Degradation.objects.filter(environment=environment)
    late = ours.filter(ended_us__gte=to_us(or_ended_since))
    still = ours.filter(ended_us__isnull=True)
    # Two halves, each by its own index, in one round trip.
    found = [_Interval._make(row) for row in _columns(still).union(_columns(late), all=True)[:DEGRADATIONS_MOST]]
    return [_degradation(one) for one in sorted(found, key=lambda one: (one.started_us, one.id))]


class _Interval(NamedTuple):
    """What is shown of a degradation, without the price of two model instances for each."""

    id: int
    operation: str
    kind: str
    from_name: str
    to_name: str
    reason: str
    category: str
    service: str
    instance: str
    last_seen_us: int
    started_us: int
    ended_us: int | None
    calls: int


def _columns(found: QuerySet[Degradation]) -> Any:
    columns = (
        name if name not in ("service", "instance", "last_seen_us") else f"agent__{name}" for name in _Interval._fields
    )
    return found.values_list(*columns)


def _degradation(one: _Interval) -> DegradationRow:
    return DegradationRow(
        operation=one.operation,
        kind=one.kind,
        from_name=one.from_name,
        to_name=one.to_name,
        reason=one.reason,
        category=category_or_none(one.category),
        service=one.service,
        instance=one.instance,
        heard=from_us(one.last_seen_us),
        started=from_us(one.started_us),
        ended=None if one.ended_us is None else from_us(one.ended_us),
        calls=one.calls,
    )


def recent_failures(
    environment: str,
    *,
    start: datetime,
    end: datetime,
    operation: str | None = None,
    breaker: str | None = None,
    category: str | None = None,
    runs: Collection[str] | None = None,
    limit: int = 50,
) -> list[FailureRow]:
    """The failures in [start, end), newest first. One query.

    Indexes: `fact_by_breaker` for a breaker, `fact_by_run` for runs, else `fact_by_event`.

    An operation alone has no index of its own: the newest failures are walked until `limit` of its are found.
    """
    failed = Fact.objects.filter(environment=environment, event=FAILED, at_us__gte=to_us(start), at_us__lt=to_us(end))
    if breaker is not None:
        failed = failed.filter(breaker=breaker)
    if operation is not None:
        failed = failed.filter(operation=operation)
    if category is not None:
        failed = failed.filter(category=category)
    if runs is not None:
        failed = failed.filter(run__in=sorted(runs))
    newest = failed.select_related("agent").order_by("-at_us", "-sequence_number", "-id")[:limit]
    return [failure_row(fact) for fact in newest]


def failure_row(fact: Fact) -> FailureRow:
    said = _SAID.of(fact.attributes)
    category = category_or_none(fact.category) or Category.UNKNOWN
    return FailureRow(
        fact_id=fact.pk,
        fingerprint=text_of(said["fingerprint"]),
        at=from_us(fact.at_us),
        service=fact.agent.service,
        instance=fact.agent.instance,
        operation=fact.operation,
        breaker=fact.breaker,
        category=category,
        family=FAMILY_OF[category],
        status_code=whole_or_none(said["status_code"]),
        error_type=text_of(said["error_type"]),
        message=text_of(said["message"]),
        attempt=whole_or_none(said["attempt"]),
        source=fact.source,
        is_foreground=fact.is_foreground,
        run=fact.run,
        provider=fact.provider,
        model=fact.model,
        retry_after_s=number_or_none(said["retry_after_s"]),
        derived=Derivation.of(fact.attributes, fact.trace_id, fact.span_id),
        credential=text_of(said["credential"]),
    )
