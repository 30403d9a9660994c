"""Reads which keys are spent, rejected or throttled, by their labels, and on how many instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Q

from events.models import Fact
from events.moments import US_PER_S, from_us, to_us
from events.queries.readings import Attributes, length_s_or_none, text_of
from events.rows import BreakerRow, FailureRow
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import GateClosed, GateOpened
from recovery_ops.wire import names

EVENTS_READ = 1_000
KEYS_MOST = 50
_DAY = timedelta(days=1)
LONGEST_US = 86_400 * US_PER_S
"""Of a longer window the end is read: what rests now began to lately."""
_EVERYWHERE = (Category.QUOTA_EXHAUSTED.value, Category.AUTH.value)
"""What rests a key for all operations; anything else rests it where it was throttled."""
_CLOSED, _OPENED = names.EVENTS[GateClosed].name, names.EVENTS[GateOpened].name
_SAID = Attributes(GateClosed, "credential", "wait_s")


@dataclass(slots=True)
class KeyAtRest:
    """One key of a service that was at rest: on how many instances, and where it rests now."""

    service: str
    label: str
    category: str
    operation: str
    """Where its newest event was."""
    last_at: datetime
    first_at: datetime
    instances: set[str] = field(default_factory=set)
    resting: set[str] = field(default_factory=set)
    """The instances on which it rests at the end of the window."""
    until: datetime | None = None
    """When the last of these instances tests it again; None where it rests on none."""

    @property
    def reason(self) -> str:
        """`spent`, `rejected` or `throttled`."""
        return {Category.AUTH: "rejected", Category.QUOTA_EXHAUSTED: "spent"}.get(Category(self.category), "throttled")


def keys_at_rest(
    environment: str, *, start: datetime, end: datetime, operations: Sequence[str] = ()
) -> list[KeyAtRest]:
    """The keys that were spent or rejected in the last day of [start, end), the newest first, of the newest
    `EVENTS_READ` events of each kind; with `operations` also those that were throttled there. Two queries, one where
    there is no key; index `fact_by_event`.
    """
    start_us, end_us = max(to_us(start), to_us(end) - LONGEST_US), to_us(end)
    closed = _newest(environment, _CLOSED, start_us, end_us, operations)
    if not closed:
        return []
    facts = [*closed, *_newest(environment, _OPENED, start_us, end_us, operations)]
    return _rows(sorted(facts, key=lambda fact: (fact.at_us, fact.sequence_number), reverse=True), end_us=end_us)


def keys_resting_at(environment: str, breaker: BreakerRow, now: datetime) -> list[KeyAtRest]:
    """The keys that rest now for calls of a breaker: those throttled at its operations, and the spent or rejected ones
    of its services, which rest for all operations. Queries as of `keys_at_rest`.
    """
    found = keys_at_rest(environment, start=now - _DAY, end=now, operations=breaker.operations)
    return [one for one in found if one.resting and one.service in breaker.services]


def keys_in(failures: Iterable[FailureRow]) -> list[tuple[str, int]]:
    """The labels of keys in some failures, the most frequent first, each with the number of its instances."""
    used = [(one.credential, one.service, one.instance) for one in failures if one.credential]
    counts, instances = Counter(label for label, _, _ in used), Counter(label for label, _, _ in set(used))
    return [(label, instances[label]) for label, _ in counts.most_common()]


def _newest(environment: str, event: str, start_us: int, end_us: int, operations: Sequence[str]) -> list[Fact]:
    """The newest events of one kind about keys that are spent or rejected, or that these operations throttled."""
    found = Fact.objects.filter(environment=environment, event=event, at_us__gte=start_us, at_us__lt=end_us)
    found = found.filter(Q(category__in=_EVERYWHERE) | Q(operation__in=operations))
    newest = found.select_related("agent").order_by("-at_us", "-id")[:EVENTS_READ]
    return [fact for fact in newest if text_of(_SAID.of(fact.attributes)["credential"])]


def _rows(facts: Iterable[Fact], *, end_us: int) -> list[KeyAtRest]:
    rows: dict[tuple[str, str, bool], KeyAtRest] = {}
    heard: set[tuple[str, str, str, bool]] = set()
    for fact in facts:
        said, at = _SAID.of(fact.attributes), from_us(fact.at_us)
        service, instance, label = fact.agent.service, fact.agent.instance, text_of(said["credential"])
        is_everywhere = fact.category in _EVERYWHERE
        row = rows.get((service, label, is_everywhere))
        if row is None and len(rows) >= KEYS_MOST:
            continue
        if row is None:
            row = rows[service, label, is_everywhere] = KeyAtRest(
                service, label, fact.category, fact.operation, last_at=at, first_at=at
            )
        row.first_at = at
        row.instances.add(instance)
        if (service, instance, label, is_everywhere) in heard:
            continue
        heard.add((service, instance, label, is_everywhere))
        until_us = fact.at_us + int((length_s_or_none(said["wait_s"]) or 0.0) * US_PER_S)
        if fact.event == _CLOSED and until_us > end_us:
            row.resting.add(instance)
            row.until = max(from_us(until_us), row.until or from_us(until_us))
    return list(rows.values())
