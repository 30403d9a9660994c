"""The question asked of degradations: intervals of all instances as one, with the answers and runs that lie in them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, NamedTuple

from events.degradations.rows import Cost, Degradations, Reduction, Standing, Unaccounted
from events.models import Fact
from events.moments import US_PER_S, to_us
from events.queries import degradations, fleet
from events.queries.readings import number_in
from events.queries.sums import FAILED
from events.rows import DegradationRow
from events.store.stored_json import text_at, value_at
from recovery_ops.rules.events import (
    AttemptSucceeded,
    DegradationStarted,
    FallbackActivated,
    ModelFallback,
    RunFinished,
)
from recovery_ops.wire import names

READ_MOST = 1_000
"""Weaker answers, and finished runs, read for one window: the newest."""
NEAR_US = 5 * US_PER_S
"""An answer is told in the same moment as the interval that it opens, but not before it to the microsecond."""

_ANSWERED, _SWITCHED = names.EVENTS[FallbackActivated].name, names.EVENTS[ModelFallback].name
_BEGAN, _SUCCEEDED = names.EVENTS[DegradationStarted].name, names.EVENTS[AttemptSucceeded].name
_WITHDRAWN = "withdrawn"
_FINISHED = names.EVENTS[RunFinished].name
_SAID = {name: text_at(names.attribute_of(FallbackActivated, name)) for name in ("fallback", "warning")} | {
    "data_age_s": value_at(names.attribute_of(FallbackActivated, "data_age_s"))
}
_COST = value_at(names.attribute_of(RunFinished, "cost_usd"))


class _Answer(NamedTuple):
    """A weaker answer, or the switch to another model."""

    operation: str
    to_name: str
    instance: str
    run: str
    at_us: int
    warning: str
    data_age_s: float | None


def degradations_in(environment: str, *, start: datetime, end: datetime, now: datetime) -> Degradations:
    """What was reduced in [start, end). Six queries, and three more where something was withdrawn.

    Indexes: `degradation_by_end`, `degradation_open`, `fact_by_event`.
    """
    rows = degradations(environment, start=start, end=end)
    answers = list(_answers(environment, start, end))
    is_partial = len(answers) == READ_MOST
    reachable = {f"{agent.service}/{agent.instance}" for agent in fleet(environment, now=now) if agent.is_reachable}
    groups: dict[tuple[str, str, str], list[DegradationRow]] = defaultdict(list)
    for row in rows:
        groups[row.operation or row.from_name, row.kind, row.to_name].append(row)
    told: dict[str, list[_Answer]] = defaultdict(list)
    for one in answers:
        told[one.operation].append(one)
    withdrawn = {operation for operation, kind, _ in groups if kind == _WITHDRAWN}
    without, is_cut_short = _without(environment, start, end, withdrawn)
    found = [
        _reduction(some, without[operation], reachable, is_partial=is_cut_short)
        if kind == _WITHDRAWN
        else _reduction(some, told[operation], reachable, is_partial=is_partial)
        for (operation, kind, _), group in groups.items()
        for some in _joined(group, reachable, now)
    ]
    weaker = {run for row in found for run in row.runs}
    with_weaker, without_weaker, is_cut = _costs(environment, start, end, weaker)
    return Degradations(
        rows=tuple(sorted(found, key=lambda row: (row.ended is not None, -(row.ended or row.started).timestamp()))),
        unaccounted=tuple(_unaccounted(answers, rows, start)),
        with_weaker=with_weaker,
        without_weaker=without_weaker,
        is_partial=is_partial or is_cut,
    )


def _answers(environment: str, start: datetime, end: datetime) -> Iterator[_Answer]:
    within = Fact.objects.filter(environment=environment, at_us__gte=to_us(start), at_us__lt=to_us(end))
    columns = ("event", "operation", "agent__service", "agent__instance", "run", "at_us", "model", *_SAID)
    rows: list[Any] = []
    # One event at a time: the newest of two at once would be found only by sorting all there are.
    for event in (_ANSWERED, _SWITCHED):
        rows += within.filter(event=event).annotate(**_SAID).order_by("-at_us").values_list(*columns)[:READ_MOST]
    newest = sorted(rows, key=lambda row: -row[5])[:READ_MOST]
    for event, operation, service, instance, run, at_us, model, fallback, warning, data_age_s in newest:
        yield _Answer(
            operation=operation,
            to_name=(model if event == _SWITCHED else fallback) or "",
            instance=f"{service}/{instance}",
            run=run,
            at_us=at_us,
            warning=warning or "",
            data_age_s=number_in(data_age_s),
        )


def _without(
    environment: str, start: datetime, end: datetime, operations: Collection[str]
) -> tuple[Mapping[str, list[_Answer]], bool]:
    """The runs that went without an operation, each once, by operation; and whether there were more than are read.

    Nobody says of every call that it got nothing. They are the runs that began an interval, and those whose attempts
    failed and that have no attempt that succeeded after one. Whom a breaker refused has no word here.
    """
    found: dict[str, list[_Answer]] = defaultdict(list)
    if not operations:
        return found, False
    within = Fact.objects.filter(environment=environment, at_us__gte=to_us(start), at_us__lt=to_us(end))
    columns = ("operation", "run", "at_us", "agent__service", "agent__instance")
    read = {
        event: list(within.filter(event=event).order_by("-at_us").values_list(*columns)[:READ_MOST])
        for event in (_BEGAN, FAILED, _SUCCEEDED)
    }
    whole = {(operation, run) for operation, run, *_ in read[_SUCCEEDED]}
    seen: set[tuple[str, str]] = set()
    for operation, run, at_us, service, instance in (*read[_BEGAN], *read[FAILED]):
        who = (operation, run)
        if run and operation in operations and who not in whole and who not in seen:
            seen.add(who)
            found[operation].append(_Answer(operation, "", f"{service}/{instance}", run, at_us, "", None))
    return found, any(len(rows) == READ_MOST for rows in read.values())


def _is_heard_in(row: DegradationRow, reachable: AbstractSet[str]) -> bool:
    return f"{row.service}/{row.instance}" in reachable


def _joined(
    rows: Sequence[DegradationRow], reachable: AbstractSet[str], now: datetime
) -> Iterator[list[DegradationRow]]:
    """Intervals of one reduction, those that meet together: whole again is whole everywhere.

    Of an instance that died in the middle of one it goes on as far as it was heard of.
    """
    run: list[DegradationRow] = []
    until = now
    for row in sorted(rows, key=lambda row: row.started):
        if run and row.started > until:
            yield run
            run = []
        mine = row.ended or (now if _is_heard_in(row, reachable) else row.heard)
        until = max(until, mine) if run else mine
        run.append(row)
    if run:
        yield run


def _reduction(
    rows: Sequence[DegradationRow], answers: Iterable[_Answer], reachable: AbstractSet[str], *, is_partial: bool
) -> Reduction:
    first, newest = rows[0], max(rows, key=lambda row: row.started)
    ends = [row.ended for row in rows if row.ended is not None]
    still = [row for row in rows if row.ended is None]
    standing, ended, heard_until = Standing.WHOLE, max(ends, default=None), None
    if any(_is_heard_in(row, reachable) for row in still):
        standing, ended = Standing.REDUCED, None
    elif still and (ended is None or ended < max(row.heard for row in still)):
        standing, ended, heard_until = Standing.NOT_KNOWN, None, max(first.started, *(row.heard for row in still))
    instances = tuple(sorted({f"{row.service}/{row.instance}" for row in rows}))
    operation = first.operation or first.from_name
    held = _held_us(first.started, ended or heard_until)
    mine = [
        one
        for one in answers
        if held[0] <= one.at_us <= held[1]
        and one.instance in instances
        and (one.to_name == first.to_name or first.kind == "feature")
    ]
    calls = sum(row.calls for row in rows)
    said = next((one for one in mine if one.warning or one.data_age_s is not None), None)  # the newest first
    return Reduction(
        operation=operation,
        has_operation=any(row.operation for row in rows),
        kind=first.kind,
        from_name=first.from_name or operation,
        to_name=first.to_name,
        reason=newest.reason,
        category=newest.category,
        started=first.started,
        ended=ended,
        heard_until=heard_until,
        standing=standing,
        instances=instances,
        services=tuple(sorted({row.service for row in rows})),
        answers=max(len(mine), calls),
        runs=tuple(sorted({one.run for one in mine} - {""})),
        # Of what is withdrawn, refused calls are known by their number alone, and that only at the end.
        is_partial=is_partial or (first.kind == _WITHDRAWN and (bool(still) or calls > len(mine))),
        warning=said.warning if said else "",
        data_age_s=said.data_age_s if said else None,
    )


def _unaccounted(answers: Iterable[_Answer], rows: Iterable[DegradationRow], start: datetime) -> Iterator[Unaccounted]:
    """Answers of an instance during no interval of that operation there, most first."""
    held: Mapping[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        whose = row.operation or row.from_name, f"{row.service}/{row.instance}"
        held[whose].append(_held_us(row.started, row.ended))
    found: dict[tuple[str, str], list[_Answer]] = defaultdict(list)
    for one in answers:
        intervals = held.get((one.operation, one.instance), [])
        if not any(first_us <= one.at_us <= last_us for first_us, last_us in intervals):
            found[one.operation, one.to_name].append(one)
    for (operation, to_name), some in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        # What happened in the window's first moments may belong to an interval that ended just before it.
        late = [one for one in some if one.at_us >= to_us(start) + NEAR_US]
        if late:
            instances = tuple(sorted({one.instance for one in late}))
            yield Unaccounted(operation=operation, to_name=to_name, answers=len(late), instances=instances)


def _held_us(started: datetime, ended: datetime | None) -> tuple[float, float]:
    """Between which moments an interval accounts for an answer, in microseconds since the epoch."""
    return to_us(started) - NEAR_US, math.inf if ended is None else to_us(ended) + NEAR_US


def _costs(environment: str, start: datetime, end: datetime, weaker: set[str]) -> tuple[Cost, Cost, bool]:
    """What runs cost that got a weaker answer, what the others cost, and whether there were more than are read."""
    finished = Fact.objects.filter(
        environment=environment, event=_FINISHED, at_us__gte=to_us(start), at_us__lt=to_us(end)
    )
    newest = finished.annotate(cost=_COST).order_by("-at_us").values_list("run", "cost")[:READ_MOST]
    said = list(newest) if weaker else []
    costs: tuple[list[float], list[float]] = ([], [])
    for run, stated in said:
        if (cost := number_in(stated)) is not None:
            costs[run not in weaker].append(cost)
    with_weaker, without = (Cost(mean_usd=sum(some) / len(some) if some else None, runs=len(some)) for some in costs)
    return with_weaker, without, len(said) == READ_MOST
