"""What an outage reached: read from the facts within its interval, while they are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Count, F, QuerySet, Sum

from events.capacity.arranging import arranged_by_one
from events.capacity.bounds import bounds_of
from events.capacity.hits import Subject, of_subject
from events.capacity.joining import arrange_between
from events.capacity.models import CapacityEvent
from events.capacity.moves import moves_in, moves_of, opened_in
from events.capacity.rows import OF_THE_WAY, owner_word
from events.models import Agent, Fact, MinuteSum
from events.moments import MINUTE_S, US_PER_S, from_us, to_us
from events.queries.readings import Attributes, number_or_none, text_of, whole_or_none
from events.queries.sums import FAILED
from events.runs.selectors import RunFilters, RunList
from events.runs.struck import Struck
from recovery_ops.rules.classification.local_network import failed_on_our_side
from recovery_ops.rules.events import FailureClassified, FallbackActivated
from recovery_ops.rules.incidents.detection import OUTAGE_COUNTS, OutageBounds
from recovery_ops.wire import names

READ_MOST = 5_000
"""Failures read one by one; of more, the counts come from the sums, and codes and waits are of the newest."""
READ_EVERY_S = 15
"""How far an outage grows before its numbers are read again, while it goes on."""
OPERATIONS_MOST = 20
ATTRIBUTIONS_MOST = 50
"""The newest changes of an event's attribution that are kept."""
FOLLOWED_S = 3600
"""How long after its last failure the runs that it reached are followed."""
_SAID_READ = 200
"""The newest failures that are asked for the wait that the server wanted, and on whose side they failed."""

_COUNTED = [category.value for category in OUTAGE_COUNTS]
_FELL_BACK = names.EVENTS[FallbackActivated].name
_SAID = Attributes(FailureClassified, "retry_after_s", "exception_type", "message", "status_code")
_MINUTE_US = MINUTE_S * US_PER_S


def read_reach(environment: str, now: datetime) -> int:
    """Read the numbers of the events that grew since; return of how many. At most fourteen queries each, and where
    it turns out to be somebody else's than was thought, what says anew which are one. Then count those of wholes."""
    count = 0
    bounds = bounds_of(environment)
    for event in CapacityEvent.objects.filter(environment=environment, merged_into=None, read_us__lt=F("last_us")):
        is_over = to_us(now) - event.last_us > bounds.quiet_s * US_PER_S
        if is_over or event.last_us - event.read_us >= READ_EVERY_S * US_PER_S:
            numbers = _numbers(event, bounds, now)
            # Only if it is still the event that was read: one that was merged meanwhile is read as a whole.
            same = CapacityEvent.objects.filter(pk=event.pk, started_us=event.started_us, merged_into=None)
            until_us = max(event.follow_until_us, event.last_us + FOLLOWED_S * US_PER_S)
            changes = {"read_us": event.last_us, "follow_until_us": until_us, **numbers}
            before = owner_word(event.categories, is_ours=event.is_ours)
            after = owner_word(numbers["categories"], is_ours=numbers["is_ours"])
            CapacityEvent.objects.filter(pk=event.part_of_id or event.pk).update(counted={})
            if before == after:
                count += same.update(**changes)
                continue
            if before and after:
                changed = {"at_us": event.last_us, "from": before, "to": after, "categories": numbers["categories"]}
                changes["attributions"] = [*event.attributions, changed][-ATTRIBUTIONS_MOST:]
            with arranged_by_one(environment):  # whose it is decides what it is one with: both or neither
                count += same.update(**changes)
                arrange_between(environment, event.started_us, event.last_us, bounds)
    _count_wholes(environment, now)
    return count


def _count_wholes(environment: str, now: datetime) -> None:
    """Count what the parts of one have in common once: runs, instances and services. A query, and a few for each."""
    parts = CapacityEvent.objects.filter(environment=environment, merged_into=None, part_of__counted={})
    by_head: dict[int, list[CapacityEvent]] = {}
    for part in parts.exclude(part_of=None).select_related("part_of"):
        if part.part_of is not None:
            by_head.setdefault(part.part_of.pk, [part.part_of]).append(part)
    for head, events in by_head.items():
        if any(event.read_us == 0 for event in events):
            continue
        until = {event.pk: min(event.last_us, event.read_us) for event in events}
        agents = {agent for event in events for agent in _agents(event, until[event.pk])}
        counted = {
            "runs": count_runs(environment, [struck_of(event, until[event.pk]) for event in events], now),
            "instances": len(agents),
            "services": _services(agents),
        }
        CapacityEvent.objects.filter(pk=head, counted={}).update(counted=counted)


def _agents(event: CapacityEvent, until_us: int) -> set[int]:
    """The instances that its failures until then came from."""
    told = failures_of(event).filter(at_us__lte=until_us).order_by()
    return set(told.values_list("agent_id", flat=True).distinct())


def _services(agents: Collection[int]) -> dict[str, int]:
    return _most(Agent.objects.filter(pk__in=agents).values_list("service", flat=True))


def struck_of(event: CapacityEvent, until_us: int) -> Struck:
    """What it is an outage of, until a moment."""
    return Struck(event.provider, event.model, event.operation, event.region, event.started_us, until_us)


def count_runs(environment: str, struck: Sequence[Struck], now: datetime) -> int:
    """How many runs an outage reached: as many as the list of its runs has. Three queries."""
    start, end = min(one.first_us for one in struck), max(one.last_us for one in struck)
    listed = RunList.of(environment, RunFilters(struck=struck), start=from_us(start), end=from_us(end + 1), now=now)
    return listed.count(None).value


def read_anew(environment: str, start_us: int, end_us: int, *, is_thorough: bool) -> int:
    """Have those events between two moments read again to which failures came late; return how many.

    A thorough look also sees fallbacks and moves of breakers that came alone. Two queries, and another for each event
    there, or seven. Numbers of facts that are gone by now stay as they were.
    """
    near = CapacityEvent.objects.filter(
        environment=environment,
        merged_into=None,
        read_us__gte=F("last_us"),
        last_us__gte=start_us,
        started_us__lte=end_us,
    )
    bounds = bounds_of(environment)
    late = [
        event.pk for event in near if _failures_of(event) > event.failures or (is_thorough and _has_more(event, bounds))
    ]
    return CapacityEvent.objects.filter(pk__in=late).update(read_us=0) if late else 0


def _has_more(event: CapacityEvent, bounds: OutageBounds) -> bool:
    """Whether more stood in, or moved, within it than was known when its numbers were read."""
    within = _within(event)
    if _fallbacks(within, event.operations) > event.fallbacks:
        return True
    opened = opened_in(event, _breakers_of(event), within_s=bounds.within_s)
    if opened.total() > int(sum(event.breakers.values())):
        return True
    return moves_in(_moves(event, opened)) > moves_in(event.moves)


def _moves(event: CapacityEvent, names: Iterable[str]) -> dict[str, Any]:
    return moves_of(event, names, followed_s=FOLLOWED_S)


def _breakers_of(event: CapacityEvent) -> list[str]:
    """The breakers of what failed: what opened late may be none of those that had opened when the event was read."""
    named = failures_of(event).exclude(breaker="").order_by()
    return sorted(named.values_list("breaker", flat=True).distinct())


def _fallbacks(within: QuerySet[Fact], operations: Collection[str]) -> int:
    return within.filter(event=_FELL_BACK, operation__in=sorted(operations)).count()


def _failures_of(event: CapacityEvent) -> int:
    """How many there are now, counted as they were when they were read."""
    if not event.is_partial:
        return failures_of(event).count()
    return event.failures if event.is_counted_by_fact else _Counts.of_sums(event).failures


def failures_of(event: CapacityEvent) -> QuerySet[Fact]:
    """The failures that it is made of, as far as they are kept; index `fact_by_event`."""
    within = _within(event).filter(event=FAILED, category__in=_COUNTED)
    return of_subject(within, Subject.of_event(event))


def _within(event: CapacityEvent) -> QuerySet[Fact]:
    return Fact.objects.filter(environment=event.environment, at_us__gte=event.started_us, at_us__lte=event.last_us)


def _numbers(event: CapacityEvent, bounds: OutageBounds, now: datetime) -> dict[str, Any]:
    within = _within(event)
    failed = failures_of(event)
    newest = failed.order_by("-at_us")
    rows = list(
        newest.values_list(*("operation", "breaker", "agent_id", "category", "is_foreground", "at_us", "attributes"))[
            :READ_MOST
        ]
    )
    is_partial = len(rows) == READ_MOST
    agents = _agents(event, event.last_us) if is_partial else {row[2] for row in rows}
    is_of_facts = not is_partial or _is_of_facts(event)
    if is_partial:
        counts = _Counts.of_facts(event) if is_of_facts else _Counts.of_sums(event)
    else:
        counts = _Counts()
        for operation, _, _, category, is_foreground, at_us, _ in rows:
            counts.add(operation, category, is_foreground=is_foreground, minute=at_us // _MINUTE_US)
    opened = opened_in(event, {row[1] for row in rows} - {""}, within_s=bounds.within_s)
    return counts.numbers() | {
        "is_partial": is_partial,
        "is_counted_by_fact": is_of_facts,
        "runs": count_runs(event.environment, [struck_of(event, event.last_us)], now),
        "instances": len(agents),
        "services": _services(agents),
        **_said([(row[3], _SAID.of(row[6])) for row in rows]),
        "breakers": opened,
        "moves": _moves(event, opened),
        "fallbacks": _fallbacks(within, counts.operations),
    }


def _most(names: Iterable[str]) -> dict[str, int]:
    """How often each comes, those that come most often; what is sent may have any number of them."""
    return dict(Counter(names).most_common(OPERATIONS_MOST))


def _is_of_facts(event: CapacityEvent) -> bool:
    """Whether sums cannot tell its failures from others of the same backend: they know no region.

    What was counted so in a flood goes on so: the other event may be a part of a third by now.
    """
    if event.region or (event.is_partial and event.is_counted_by_fact):
        return True
    at_once = CapacityEvent.objects.filter(
        environment=event.environment, merged_into=None, last_us__gte=event.started_us, started_us__lte=event.last_us
    )
    same = at_once.filter(provider=event.provider, model=event.model, operation=event.operation)
    return same.exclude(region="").exists()


class _Counts:
    """Failures, counted four ways."""

    def __init__(self) -> None:
        self.operations: Counter[str] = Counter()
        self._categories: Counter[str] = Counter()
        self._minutes: Counter[int] = Counter()
        self._foreground = 0

    @staticmethod
    def of_sums(event: CapacityEvent) -> _Counts:
        """Exact to the minute in which it began and the one in which it ended. One query."""
        counts = _Counts()
        sums = MinuteSum.objects.filter(
            environment=event.environment,
            minute__gte=event.started_us // _MINUTE_US,
            minute__lte=event.last_us // _MINUTE_US,
            category__in=_COUNTED,
            provider=event.provider,
            model=event.model,
            failures__gt=0,
        )
        if not (event.provider or event.model):
            sums = sums.filter(operation=event.operation)
        grouped = sums.values_list("operation", "category", "is_foreground", "minute").annotate(Sum("failures"))
        for operation, category, is_foreground, minute, count in grouped.order_by():
            counts.add(operation, category, is_foreground=is_foreground, minute=minute, count=count)
        return counts

    @staticmethod
    def of_facts(event: CapacityEvent) -> _Counts:
        """What was read before, and the failures since: each is counted once, however long it goes on. Two queries.

        What was read of the sums is counted anew: failures of a region may stand in them, too.
        """
        counts = _Counts()
        failed = failures_of(event).order_by()
        read_us = event.read_us if event.is_counted_by_fact else 0
        if read_us:
            counts.operations.update(event.operations)
            counts._categories.update(event.categories)
            counts._foreground = event.foreground
            counts._minutes[event.peak_us // _MINUTE_US] = event.peak_per_min
        by_minute = failed.filter(at_us__gte=read_us // _MINUTE_US * _MINUTE_US)
        minutes = by_minute.values(minute=F("at_us") / _MINUTE_US).annotate(count=Count("pk"))
        for minute, count in minutes.values_list("minute", "count"):
            counts._minutes[minute] = max(counts._minutes[minute], count)
        since = failed.filter(at_us__gt=read_us).values_list("operation", "category", "is_foreground")
        for operation, category, is_foreground, count in since.annotate(Count("pk")):
            counts.operations[operation] += count
            counts._categories[category] += count
            counts._foreground += count if is_foreground else 0
        return counts

    def add(self, operation: str, category: str, *, is_foreground: bool, minute: int, count: int = 1) -> None:
        self.operations[operation] += count
        self._categories[category] += count
        self._minutes[minute] += count
        self._foreground += count if is_foreground else 0

    @property
    def failures(self) -> int:
        return self._categories.total()

    def numbers(self) -> dict[str, Any]:
        """The columns that they fill."""
        # The earliest of the worst minutes, so that reading again moves it only for a worse one.
        peak = min(self._minutes, key=lambda minute: (-self._minutes[minute], minute), default=0)
        return {
            "failures": self.failures,
            "categories": dict(self._categories),
            "operations": dict(self.operations.most_common(OPERATIONS_MOST)),
            "foreground": self._foreground,
            "peak_per_min": self._minutes[peak],
            "peak_us": peak * _MINUTE_US,
        }


def _said(told: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """The columns that the failures' own words fill; they are the newest first."""
    codes = _most(str(whole_or_none(one["status_code"]) or "") for _, one in told)
    said = told[:_SAID_READ]
    waits = [wait for _, one in said if (wait := number_or_none(one["retry_after_s"])) is not None]
    ours = [
        failed_on_our_side(text_of(one["exception_type"]), text_of(one["message"]))
        for category, one in said
        if category in OF_THE_WAY
    ]
    return {"codes": codes, "longest_wait_s": max(waits, default=None), "is_ours": 2 * sum(ours) > len(ours)}
