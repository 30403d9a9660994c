"""Failures that nobody could name: counted by cause, and what a rule would match of the newest failures there were.

What a rule would match is in what failures say, so of very many the newest are read, and the answer says how far back
that reaches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from events.failures.met import runs_met
from events.failures.sums import (
    Alike,
    Stored,
    counts_in,
    instances_in,
    kinds_of,
    newest_failures,
    stored,
    stored_failures,
)
from events.issues.fold import Failed, kind_of, named_mark
from events.issues.models import FailureKind
from events.models import Fact
from events.moments import from_us, to_us
from events.queries.readings import Attributes, category_or_none, text_of, whole_or_none
from events.queries.sums import FAILED
from events.store.partitions import facts_at
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import FailureClassified
from recovery_ops.rules.policy.classification_rules import Case, Match

READ_WHOLE = 3_000
"""Failures that are looked at for what a rule would match."""
READ_FOR_CASES = 1_000
SAMPLES = 20
_SAID = Attributes(
    FailureClassified,
    *("fingerprint", "message", "exception_type", "error_code", "status_code", "rule", "instead_of", "error_type"),
)


@dataclass(slots=True, kw_only=True)
class Unknown:
    """One cause that nobody could name. `cases` are newest failures of it as a rule sees them, 1 to `SAMPLES`."""

    fingerprint: str
    count: int
    runs: int
    instances: int
    operations: Counter[str]
    providers: Counter[str]
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


def unknown_causes(environment: str, *, start: datetime, end: datetime) -> Sequence[Unknown]:
    """The unknown causes in [start, end), the most frequent first. Some ten queries."""
    unknown = FailureKind.objects.filter(environment=environment, category=Category.UNKNOWN.value)
    kinds = {bytes(digest) for digest in unknown.values_list("digest", flat=True)}
    span = (to_us(start), to_us(end))
    sums = _by_cause(counts_in(environment, *span, kinds=kinds))
    of_cause = {name: {alike.kind for alike in counted} for name, counted in sums.items()}
    failed = {kind for some in of_cause.values() for kind in some}
    runs = runs_met(environment, of_cause, start_us=span[0], end_us=span[1])
    agents = instances_in(environment, *span, failed)
    found = {
        name: _counted(name, counted, runs[name], {agent for alike in counted for agent in agents.get(alike[:2], ())})
        for name, counted in sums.items()
    }
    newest = [(to_us(one.last), to_us(one.last) + 1) for one in found.values()]
    _add_cases(found, stored_failures(environment, newest, kinds_of(failed).values()))
    _add_cases(found, map(stored, newest_failures(environment, *span, kinds_of(failed), READ_FOR_CASES)))
    return sorted(found.values(), key=lambda one: (-one.count, -to_us(one.last)))


def unknown_cause(environment: str, fingerprint: str, *, start: datetime, end: datetime) -> Unknown | None:
    """One of them; None where none failed in the range."""
    found = unknown_causes(environment, start=start, end=end)
    return next((one for one in found if one.fingerprint == fingerprint), None)


def _by_cause(counted: Mapping[Alike, Failed]) -> dict[str, dict[Alike, Failed]]:
    kinds = kinds_of({alike.kind for alike in counted})
    found: dict[str, dict[Alike, Failed]] = {}
    for alike, failed in counted.items():
        found.setdefault(kinds[alike.kind].fingerprint, {})[alike] = failed
    return found


def _counted(name: str, counted: Mapping[Alike, Failed], runs: int, agents: Collection[int]) -> Unknown:
    kinds = kinds_of({alike.kind for alike in counted})
    operations, providers = Counter[str](), Counter[str]()
    for alike, failed in counted.items():
        operations[kinds[alike.kind].operation] += failed.failures
        if provider := kinds[alike.kind].provider:
            providers[provider] += failed.failures
    return Unknown(
        fingerprint=name,
        count=operations.total(),
        runs=runs,
        instances=len(agents),
        operations=operations,
        providers=providers,
        first=from_us(min(one.first_us for one in counted.values())),
        last=from_us(max(one.last_us for one in counted.values())),
    )


def _add_cases(found: Mapping[str, Unknown], failures: Iterable[Stored]) -> None:
    """What these failures say, newest first. The newest of each cause may come twice, and is known by its place."""
    for fact in failures:
        one, said = found.get(kind_of(fact).fingerprint), _SAID.of(fact.attributes)
        if one is None or (one.cases and fact.at_us == to_us(one.last)):
            continue
        if not one.cases:
            one.error_type = text_of(said["error_type"])
        if len(one.cases) < SAMPLES:
            one.cases.append(_case(fact, said))


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


def _case(fact: Fact | Stored, said: dict[str, Any]) -> Case:
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
