"""Which runs ended without a failure of a cause, of instances that call what it failed in.

A run that meets no trouble does not tell which operations it called; the counts of calls tell which instances do. Facts
are read by their numbers, as those that come late count like the rest. Index: the primary key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Max, Q
from django.db.models.fields.json import KeyTransform

from events.failures.asking import KINDS, cause_of, read_failures
from events.failures.grouping import AS_SENT, Grouping
from events.failures.rows import Field
from events.models import Fact
from events.moments import from_us, to_us
from events.queries.sums import FAILED
from events.runs.stored import LASTS_US, facts_among
from events.store.stored_json import text_at
from recovery_ops.rules.enums import RunStatus
from recovery_ops.rules.events import CallsCounted, FailureClassified, RunFinished
from recovery_ops.wire import names

_COUNTED = names.EVENTS[CallsCounted].name
_ENDED = names.EVENTS[RunFinished].name
_STATUS = names.attribute_of(RunFinished, "status")
_ATTEMPTS, _SUCCESSES = (names.attribute_of(CallsCounted, name) for name in ("attempts", "successes"))
_FINGERPRINT = names.attribute_of(FailureClassified, "fingerprint")
_WELL = (RunStatus.SUCCEEDED.value, RunStatus.DEGRADED.value)
_RUNS_AT_ONCE = 500
_MORE_THAN_ANY = 10**15
"""What is stored and is no number is more than every number to one engine or the other."""


class RunEnd(NamedTuple):
    """A run that ended well: which instance told it, and when it ended."""

    agent_id: int
    run: str
    at: datetime


def operations_by_cause(
    environment: str, *, start: datetime, end: datetime, grouping: Grouping = AS_SENT
) -> Mapping[str, list[str]]:
    """In which operations each cause failed in [start, end). Four queries at most."""
    found: dict[str, set[str]] = {}
    for one in grouping.of(read_failures(environment, start=start, end=end, has_bins=False)).seen:
        if operation := one.values[Field.OPERATION]:
            found.setdefault(one.fingerprint, set()).add(operation)
    return {cause: sorted(operations) for cause, operations in found.items()}


def callers_between(after: int, upto: int, *, environment: str) -> Mapping[str, set[int]]:
    """Which instances (numbers of agents) called each operation, by the facts numbered in (after, upto]. One query.

    Whoever counted nothing but calls that an open breaker rejected called nothing.
    """
    ours = Q(environment=environment, event=_COUNTED)
    facts = Fact.objects.filter(pk__gt=after, pk__lte=upto).order_by()
    told = facts.annotate(
        attempts=KeyTransform(_ATTEMPTS, "attributes"), answers=KeyTransform(_SUCCESSES, "attributes")
    )
    made = Q(attempts__gt=0, attempts__lt=_MORE_THAN_ANY) | Q(answers__gt=0, answers__lt=_MORE_THAN_ANY)
    counts = told.values_list("operation", "agent_id").annotate(number=Count("id", filter=ours & made))
    found: dict[str, set[int]] = {}
    for operation, agent_id, _ in counts.filter(number__gt=0):
        found.setdefault(operation, set()).add(agent_id)
    return found


def ends_between(after: int, upto: int, *, environment: str) -> list[RunEnd]:
    """The runs that ended well by the facts numbered in (after, upto], the first to end first. One query."""
    ours = Q(environment=environment, event=_ENDED, status__in=_WELL, run__gt="")
    facts = Fact.objects.filter(pk__gt=after, pk__lte=upto).order_by()
    told = facts.annotate(status=text_at(_STATUS))
    ends = told.values_list("agent_id", "run").annotate(ended=Max("at_us", filter=ours))
    ended = ends.filter(ended__isnull=False)
    found = (RunEnd(agent_id, run, from_us(ended_us)) for agent_id, run, ended_us in ended)
    return sorted(found, key=lambda one: (one.at, one.run))


def causes_met(environment: str, ends: Iterable[RunEnd], *, grouping: Grouping = AS_SENT) -> Mapping[str, set[str]]:
    """Which causes each of these runs met; those that met none are left out.

    What failed longer before the first of these ends than runs last is not looked for. A query for each 500 runs;
    index `fact_by_run`, on PostgreSQL that of each day since then.
    """
    found: dict[str, set[str]] = {}
    ended = list(ends)
    named = list(dict.fromkeys(one.run for one in ended))
    since_us = min((to_us(one.at) for one in ended), default=0) - LASTS_US
    for begin in range(0, len(named), _RUNS_AT_ONCE):
        some = facts_among(environment, named[begin : begin + _RUNS_AT_ONCE])
        some = some.filter(event=FAILED, at_us__gte=since_us)
        marked = some.annotate(mark=text_at(_FINGERPRINT)).order_by()
        for run, *kind in marked.values_list("run", *KINDS).distinct():
            found.setdefault(run, set()).add(cause_of(grouping, *kind))
    return found
