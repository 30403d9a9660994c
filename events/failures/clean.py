"""Which runs ended without a failure of a cause, of instances that call what it failed in.

A run that meets no trouble does not tell which operations it called; the counts of calls tell which instances do. Facts
are read by their numbers, as those that come late count like the rest. Index: the primary key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from django.db import connection
from django.db.models import Count, Max, Q, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from events.failures.asking import KINDS, cause_of, read_failures
from events.failures.grouping import AS_SENT, Grouping
from events.failures.rows import Field
from events.models import Fact
from events.moments import from_us
from events.queries.sums import FAILED
from events.runs.stored import IS_INDEXED
from recovery_ops.rules.facts import CallsCounted, FailureClassified, RunFinished
from recovery_ops.rules.words import RunStatus
from recovery_ops.wire import names

_COUNTED = names.EVENTS[CallsCounted].name
_ENDED = names.EVENTS[RunFinished].name
_STATUS = names.attribute_of(RunFinished, "status")
_FINGERPRINT = names.attribute_of(FailureClassified, "fingerprint")
_WELL = (RunStatus.SUCCEEDED.value, RunStatus.DEGRADED.value)
_RUNS_AT_ONCE = 500


class RunEnd(NamedTuple):
    """A run that ended well: which instance told it, and when it ended."""

    agent_id: int
    run: str
    at: datetime


def operations_by_cause(
    environment: str, *, start: datetime, end: datetime, grouping: Grouping = AS_SENT
) -> Mapping[str, list[str]]:
    """In which operations each cause failed, by the newest failures in [start, end). Two queries."""
    found: dict[str, set[str]] = {}
    for one in grouping.of(read_failures(environment, start=start, end=end)).seen:
        if operation := one.values[Field.OPERATION]:
            found.setdefault(one.fingerprint, set()).add(operation)
    return {cause: sorted(operations) for cause, operations in found.items()}


def callers_between(after: int, upto: int, *, environment: str) -> Mapping[str, set[int]]:
    """Which instances (numbers of agents) called each operation, by the facts numbered in (after, upto]. One query."""
    ours = Q(environment=environment, event=_COUNTED)
    facts = Fact.objects.filter(pk__gt=after, pk__lte=upto).order_by().values_list("operation", "agent_id")
    found: dict[str, set[int]] = {}
    for operation, agent_id, number in facts.annotate(number=Count("id", filter=ours)):
        if number:
            found.setdefault(operation, set()).add(agent_id)
    return found


def ends_between(after: int, upto: int, *, environment: str) -> list[RunEnd]:
    """The runs that ended well by the facts numbered in (after, upto], the first to end first. One query."""
    ours = Q(environment=environment, event=_ENDED, status__in=_WELL, run__gt="")
    facts = Fact.objects.filter(pk__gt=after, pk__lte=upto).order_by()
    told = facts.annotate(status=Cast(KeyTextTransform(_STATUS, "attributes"), TextField()))
    ends = told.values_list("agent_id", "run").annotate(ended=Max("at_us", filter=ours))
    found = (RunEnd(agent_id, run, from_us(ended_us)) for agent_id, run, ended_us in ends if ended_us is not None)
    return sorted(found, key=lambda one: (one.at, one.run))


def causes_met(environment: str, runs: Iterable[str], *, grouping: Grouping = AS_SENT) -> Mapping[str, set[str]]:
    """Which causes each of these runs met at any time; those that met none are left out.

    A query for each 500 runs; index `fact_by_run`.
    """
    found: dict[str, set[str]] = {}
    named = list(dict.fromkeys(runs))
    for begin in range(0, len(named), _RUNS_AT_ONCE):
        some = Fact.objects.filter(environment=environment, run__in=named[begin : begin + _RUNS_AT_ONCE], event=FAILED)
        some = some.extra(where=[IS_INDEXED[connection.vendor]])  # noqa: S610  (a constant)
        marked = some.annotate(mark=KeyTextTransform(_FINGERPRINT, "attributes")).order_by()
        for run, *kind in marked.values_list("run", *KINDS).distinct():
            found.setdefault(run, set()).add(cause_of(grouping, *kind))
    return found
