"""Failures that nobody could name: put together by cause, and what a rule would match of the failures there were.

So many of the newest failures are read and no more, and every answer says how far back that reaches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from events.failures.asking import named_mark
from events.models import Fact
from events.moments import from_us, to_us
from events.partitions import facts_at
from events.queries.readings import Attributes, category_or_none, text_of, whole_or_none
from events.queries.sums import FAILED
from recovery_ops.rules.classification import Case, Match
from recovery_ops.rules.facts import FailureClassified
from recovery_ops.rules.words import Category

READ = 10_000
"""Failures that are looked at for unknown ones …"""
READ_WHOLE = 3_000
"""… and, with all that they tell, for what a rule would match."""
SAMPLES = 20
_SAID = Attributes(
    FailureClassified,
    *("fingerprint", "message", "exception_type", "error_code", "status_code", "rule", "instead_of", "error_type"),
)


@dataclass(slots=True, kw_only=True)
class Unknown:
    """One cause that nobody could name. `cases` are its newest failures as a rule sees them, at most `SAMPLES`."""

    fingerprint: str
    count: int = 0
    runs: set[str] = field(default_factory=set)
    instances: set[int] = field(default_factory=set)
    operations: Counter[str] = field(default_factory=Counter)
    providers: Counter[str] = field(default_factory=Counter)
    first: datetime
    last: datetime
    error_type: str = ""
    cases: list[Case] = field(default_factory=list)

    @property
    def where(self) -> list[tuple[str, int]]:
        """Operations and how often each, the most frequent first."""
        return self.operations.most_common()

    @property
    def whose(self) -> list[tuple[str, int]]:
        """Providers, likewise."""
        return self.providers.most_common()

    @property
    def message(self) -> str:
        """What the newest said, masked."""
        return self.cases[0].message if self.cases else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """All of them in a range, the most frequent first. `since`: how far back was read."""

    rows: Sequence[Unknown]
    since: datetime
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """What a match fits of the failures of a range.

    `known` counts those that are classified already, by category and cause; `examples` holds what one of each said.
    """

    read: int
    unknown: int
    causes: int
    known: Sequence[tuple[Category, str, str, int]]
    since: datetime
    is_cut: bool

    @property
    def known_count(self) -> int:
        """How many are classified otherwise."""
        return sum(count for *_, count in self.known)


def unknown_causes(environment: str, *, start: datetime, end: datetime) -> Causes:
    """The unknown causes among the newest failures in [start, end). Two queries; index `fact_by_event`."""
    newest = _failures(environment, start, end).values_list("pk", "at_us", "category")[: READ + 1]
    rows = list(newest)
    is_cut = len(rows) > READ
    rows = rows[:READ]
    unknown = [(pk, at) for pk, at, category in rows if (category or Category.UNKNOWN.value) == Category.UNKNOWN.value]
    found = _added_up(unknown[:READ_WHOLE])
    ordered = sorted(found.values(), key=lambda one: (-one.count, -to_us(one.last)))
    since = from_us(rows[-1][1]) if is_cut else start
    return Causes(rows=ordered, since=since, is_cut=is_cut or len(unknown) > READ_WHOLE)


def unknown_cause(environment: str, fingerprint: str, *, start: datetime, end: datetime) -> Unknown | None:
    """One of them; None where it is not among those read."""
    found = unknown_causes(environment, start=start, end=end).rows
    return next((one for one in found if one.fingerprint == fingerprint), None)


def _added_up(places: Sequence[_Place]) -> dict[str, Unknown]:
    found: dict[str, Unknown] = {}
    for fact in _in_full(places):
        said = _SAID.of(fact.attributes)
        mark = text_of(said["fingerprint"]) or None
        name, at = named_mark(mark, Category.UNKNOWN.value, fact.operation), from_us(fact.at_us)
        one = found.get(name)
        if one is None:
            error_type = text_of(said["error_type"])
            one = found[name] = Unknown(fingerprint=name, first=at, last=at, error_type=error_type)
        one.count += 1
        one.first = min(one.first, at)
        one.operations[fact.operation] += 1
        one.instances.add(fact.agent_id)
        if fact.provider:
            one.providers[fact.provider] += 1
        if fact.run:
            one.runs.add(fact.run)
        if len(one.cases) < SAMPLES:
            one.cases.append(_case(fact, said))
    return found


def matched(environment: str, match: Match, *, start: datetime, end: datetime) -> Matched:
    """What a match fits of the newest failures in [start, end), as they were before any rule named them."""
    places = list(_failures(environment, start, end).values_list("pk", "at_us")[: READ_WHOLE + 1])
    is_cut = len(places) > READ_WHOLE
    unknown, known = Counter[str](), Counter[tuple[Category, str]]()
    messages: dict[str, str] = {}
    oldest_us, read = to_us(end), 0
    for fact in _in_full(places[:READ_WHOLE]):
        said = _SAID.of(fact.attributes)
        case = _case(fact, said)
        oldest_us, read = min(oldest_us, fact.at_us), read + 1
        if not match.fits(case):
            continue
        name = named_mark(text_of(said["fingerprint"]) or None, case.category.value, fact.operation)
        messages.setdefault(name, case.message)
        if case.category is Category.UNKNOWN:
            unknown[name] += 1
        else:
            known[case.category, name] += 1
    return Matched(
        read=read,
        unknown=unknown.total(),
        causes=len(unknown),
        known=[(category, name, messages[name], count) for (category, name), count in known.most_common()],
        since=from_us(oldest_us) if is_cut else start,
        is_cut=is_cut,
    )


def _failures(environment: str, start: datetime, end: datetime) -> Any:
    facts = Fact.objects.filter(environment=environment, event=FAILED, at_us__gte=to_us(start), at_us__lt=to_us(end))
    return facts.order_by("-at_us", "-id")


_Place = tuple[int, int]
"""The number of a fact and its moment."""


def _in_full(places: Sequence[_Place]) -> Iterable[Fact]:
    """These facts, newest first."""
    columns = ("at_us", "operation", "provider", "run", "agent_id", "category", "attributes")
    for start in range(0, len(places), 500):
        yield from facts_at(dict(places[start : start + 500])).only(*columns).order_by("-at_us", "-id")


def _case(fact: Fact, said: dict[str, Any]) -> Case:
    category = category_or_none(said["instead_of"]) or category_or_none(fact.category) or Category.UNKNOWN
    return Case(
        category=category,
        exception_type=text_of(said["exception_type"]),
        code=text_of(said["error_code"]),
        message=text_of(said["message"]),
        status_code=whole_or_none(said["status_code"]),
        operation=fact.operation,
        provider=fact.provider,
    )
