"""Questions that people made one: what goes along into the other, what comes back, and where they are asked now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.terms import saved_runs_of

NAMED_MOST = 20
"""Runs and instances that a question names: the first that asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A question that was merged, and the number of the open one in which it is asked now."""

    key: str
    operation: str
    category: str
    into: int


def named(known: list[str], *more: str) -> list[str]:
    """The same names with others behind them, each once and at most twenty."""
    return list(dict.fromkeys([*known, *filter(None, more)]))[: max(len(known), NAMED_MOST)]


def carry(one: Escalation, into: Escalation) -> None:
    """Have the other be asked as often as both, by the runs of both. Writes the other."""
    into.occurrences += one.occurrences
    into.seen_at = max(into.seen_at, one.seen_at)
    into.runs, into.instances = named(into.runs, *one.runs), named(into.instances, *one.instances)
    into.saved_runs = saved_runs_of(into.environment, into.default_action, into.runs)
    into.version += 1
    into.save(update_fields=["occurrences", "seen_at", "runs", "instances", "saved_runs", "version"])


def whole_of(one: Escalation) -> Escalation:
    """The question that all of this became in the end; itself where it was not merged. A query for each merging."""
    seen = {one.pk}
    while (into := one.merged_into) is not None and into.pk not in seen:
        seen.add(into.pk)
        one = into
    return one


def give_back(one: Escalation) -> Iterator[Escalation]:
    """Take what one brought out of all that it was merged into, and write those; nothing where it was merged into none.

    Their runs stay named there, and what was asked meanwhile stays counted there: it was asked of them.
    """
    into = one.merged_into
    while into is not None:
        into.occurrences = max(0, into.occurrences - one.occurrences)
        into.version += 1
        into.save(update_fields=["occurrences", "version"])
        yield into
        into = into.merged_into


def open_with_keys(environment: str, keys: Collection[str]) -> Escalation | None:
    """An open question with one of these keys, or the open one in which it is asked now. At most four queries."""
    here = Escalation.objects.filter(environment=environment)
    held = here.filter(key__in=keys, resolved_at=None).order_by("pk").first()
    if held is None and here.filter(key__in=keys, merged_into__isnull=False).exists():
        into = max((one.into for one in merged_into_open(environment) if one.key in keys), default=None)
        held = None if into is None else here.filter(pk=into).first()
    return held


def merged_into_open(environment: str) -> list[Merged]:
    """The questions that are asked in another one that is open. Two queries where there are some, else one."""
    here = Escalation.objects.filter(environment=environment)
    found: list[Merged] = []
    heads: dict[int, int] = {}
    level: Iterable[Escalation] = here.filter(merged_into__in=here.filter(resolved_at=None).values("pk"))
    while rows := list(level):
        for one in rows:
            into = one.merged_into_id or one.pk
            heads[one.pk] = heads.get(into, into)
            found.append(Merged(key=one.key, operation=one.operation, category=one.category, into=heads[one.pk]))
        level = here.filter(merged_into__in=[one.pk for one in rows])
    return found
