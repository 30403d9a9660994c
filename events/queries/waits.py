"""Which runs wait for capacity now: those that said that they try again later, and for which it is not later yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import IntegerField, QuerySet, Value
from django.db.models.fields.json import KeyTextTransform

from events.models import Fact
from events.moments import US_PER_S, from_us, to_us
from events.overview_rows import Waiting
from events.queries.readings import number_in
from recovery_ops.rules.facts import RetryScheduled
from recovery_ops.rules.words import CAPACITY
from recovery_ops.wire import names

LOOKED_BACK = timedelta(hours=6)
"""As long as anybody waits."""
READ = 1_000
_USUAL = timedelta(minutes=10)
"""Most waits are shorter: where the newest that were read do not reach back so far, there may be more."""
_RETRY = names.EVENTS[RetryScheduled].name
_DELAY = names.attribute_of(RetryScheduled, "delay_s")
_OF_CAPACITY = frozenset(category.value for category in CAPACITY)


def waits_said(environment: str, *, now: datetime) -> QuerySet[Any, Any]:
    """The newest words on trying again, in the columns of sums, so that they are read together with these: as `view`
    the run, as `span` the moment, as `subject` the seconds, as `failures` the instance. Index `fact_by_event`.
    """
    lately = Fact.objects.filter(
        environment=environment, event=_RETRY, at_us__gt=to_us(now - LOOKED_BACK), at_us__lte=to_us(now)
    )
    newest = lately.order_by("-at_us").values("pk")[:READ]
    told = lately.filter(pk__in=newest).order_by().annotate(wait=KeyTextTransform(_DELAY, "attributes"))
    nothing = {f"nothing_{at}": Value(0, IntegerField()) for at in range(4)}
    backend = ("provider", "model", "operation")
    words: QuerySet[Any, Any] = told.annotate(**nothing)
    return words.values("run", "at_us", "category", *backend, "wait", "agent_id", *nothing)


def waiting_in(rows: Iterable[Mapping[str, Any]], agents: Collection[int], *, now: datetime) -> Waiting:
    """Whose newest word is a wait for capacity that is not over, of the runs of these instances: what became of the
    others is not known.
    """
    newest: dict[str, Mapping[str, Any]] = {}
    oldest_us, count = to_us(now), 0
    for row in rows:
        count, oldest_us = count + 1, min(oldest_us, row["span"])
        if row["view"] and (row["view"] not in newest or row["span"] > newest[row["view"]]["span"]):
            newest[row["view"]] = row
    waiting = {run: row["span"] for run, row in newest.items() if row["failures"] in agents and _waits(row, to_us(now))}
    is_cut = count == READ and oldest_us > to_us(now - _USUAL)
    if not waiting:
        return Waiting(is_cut=is_cut)
    longest = min(waiting, key=lambda run: (waiting[run], run))
    return Waiting(runs=len(waiting), longest=longest, since=from_us(waiting[longest]), is_cut=is_cut)


def _waits(row: Mapping[str, Any], now_us: int) -> bool:
    wait_s = number_in(row["subject"]) if row["category"] in _OF_CAPACITY else None
    return wait_s is not None and row["span"] + min(wait_s, LOOKED_BACK.total_seconds()) * US_PER_S > now_us
