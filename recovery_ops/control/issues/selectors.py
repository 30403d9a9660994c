"""What is asked about people's decisions on failures: the grouping in force, and how each cause stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from events.failures.grouping import Grouping, Split
from events.failures.rows import Field
from recovery_ops.control.issues.models import FailureCase, FailureGrouping, FailureNote
from recovery_ops.control.issues.reopening import escalates_at

NOTES_MOST = 100
RETURNED = "returned"
"""A cause that was archived until something that has come true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a cause stands. `words` say it to people; `is_open` whether somebody has to look at it."""

    state: str
    words: str
    is_open: bool
    assigned_to: str
    version: int
    case: FailureCase | None


def grouping_of(environment: str) -> Grouping:
    """What people said of which failures are one. One query; index `failure_grouping_in_force`."""
    return grouping_by(groupings_in_force(environment))


def grouping_by(rules: Iterable[FailureGrouping]) -> Grouping:
    """What these rules say of which failures are one; where two say something of the same, the later one does."""
    merged: dict[str, str] = {}
    splits: dict[str, list[Split]] = {}
    for one in rules:
        if one.kind == FailureGrouping.MERGE:
            merged[one.fingerprint] = one.into
        else:
            splits.setdefault(one.fingerprint, []).append(Split(Field(one.field), one.value, one.into))
    return Grouping(merged, splits)


def groupings_in_force(environment: str, about: Collection[str] = ()) -> list[FailureGrouping]:
    """The rules in force, oldest first; with `about`, those that have to do with these causes."""
    held = FailureGrouping.objects.filter(environment=environment, ended_at=None).order_by("pk")
    if about:
        held = held.filter(Q(fingerprint__in=about) | Q(into__in=about))
    return list(held)


def cases_of(environment: str) -> Mapping[str, FailureCase]:
    """Every cause that somebody decided something about, by its name. One query."""
    return {one.fingerprint: one for one in FailureCase.objects.filter(environment=environment)}


def notes_on(environment: str, parts: Collection[str]) -> list[FailureNote]:
    """What people noted on a cause and its parts, the newest first, at most `NOTES_MOST`. One query; of an index."""
    noted = FailureNote.objects.filter(environment=environment, fingerprint__in=list(parts))
    return list(noted.order_by("-at", "-pk")[:NOTES_MOST])


def noted_by_cause(environment: str, grouping: Grouping) -> Counter[str]:
    """How many notes there are on each cause, those on its parts included. One query."""
    found: Counter[str] = Counter()
    noted = FailureNote.objects.filter(environment=environment).order_by().values_list("fingerprint")
    for name, count in noted.annotate(Count("pk")):
        found[grouping.head(name)] += count
    return found


def standing_of(case: FailureCase | None, *, last: datetime | None, now: datetime) -> Standing:
    """How a cause stands whose newest failure was at `last`: decisions end by what happens, before anybody notes it."""
    if case is None:
        return Standing(state=FailureCase.OPEN, words="open", is_open=True, assigned_to="", version=0, case=None)
    state, words = _state_of(case, last, now)
    is_open = state in (FailureCase.OPEN, FailureCase.REGRESSED, FailureCase.PENDING, RETURNED)
    return Standing(
        state=state, words=words, is_open=is_open, assigned_to=case.assigned_to, version=case.version, case=case
    )


def _state_of(case: FailureCase, last: datetime | None, now: datetime) -> tuple[str, str]:
    if case.state == FailureCase.RESOLVED and case.versions is not None:
        return case.state, "resolved in the next version"  # whose failures they are is looked at by `keep_failures`
    if case.state == FailureCase.RESOLVED and last is not None and last > case.decided_at:
        return FailureCase.REGRESSED, "regressed"
    if case.state == FailureCase.PENDING:
        left = max(0, (case.clean_needed or 0) - case.clean_seen)
        return case.state, f"resolves after {left:,} clean {'run' if left == 1 else 'runs'}"
    if case.state != FailureCase.ARCHIVED:
        return case.state, case.state
    if case.archived_until is not None:
        is_over = now >= case.archived_until
        return (
            (RETURNED, "returned") if is_over else (case.state, f"archived until {case.archived_until:%d %b %H:%M} UTC")
        )
    if case.archived_usual is not None:
        return case.state, f"archived until {escalates_at(case.archived_usual):,} failures/h"
    more = case.archived_more or 0
    if case.seen_more >= more:
        return RETURNED, "returned"
    return case.state, f"archived until {more - case.seen_more:,} more failures"
