"""What comes back by itself: causes that were put away for a time or a number, and those that were called done."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from itertools import groupby

from events.failures.asking import Came, counts_between, senders_between, settled_number
from recovery_ops.control.actions.attempt import Asked, Attempt, Step, carry_out
from recovery_ops.control.actions.failures import told
from recovery_ops.control.actors import system
from recovery_ops.control.failures import grouping_of
from recovery_ops.control.models import NAME_CHARS, FailureCase
from recovery_ops.control.returning import Hour, escalates_at, is_newer
from recovery_ops.rules.scope import Scope

_BY = system("failure cases")
_Senders = Mapping[tuple[str, str], Came]
"""What came by service and version."""


def keep_failures(environment: str, *, now: datetime) -> int:
    """Count what came in since the last look, and bring back what is due; return how many that was.

    Asked twice, or by two at once, the second finds nothing left to do. What comes late counts when it comes; only
    called done is a cause until it fails at a later moment than that.
    """
    waiting = FailureCase.objects.filter(
        environment=environment, state__in=(FailureCase.ARCHIVED, FailureCase.RESOLVED)
    )
    cases = sorted(waiting, key=lambda one: one.counted_to)
    if not cases:
        return 0
    grouping, upto = grouping_of(environment), settled_number(now)
    came_back = 0
    for after, group in groupby(cases, key=lambda one: one.counted_to):
        counted = counts_between(after, upto, environment=environment, grouping=grouping) if upto > after else {}
        members = list(group)
        told: Mapping[str, _Senders] = {}
        if upto > after and any(case.versions is not None for case in members):
            told = senders_between(after, upto, environment=environment, grouping=grouping)
        for case in members:
            came = counted.get(case.fingerprint)
            if case.versions is not None:
                came = _of_newer(told.get(case.fingerprint, {}), case.versions)
            came_back += _look_at(case, came, max(after, upto), now)
    return came_back


def _of_newer(told: _Senders, known: Mapping[str, Collection[str]]) -> Came | None:
    """What came of versions that are newer than those known; None where nothing did."""
    found = None
    for (service, version), came in told.items():
        if is_newer(version, known.get(service, ())):
            found = came if found is None else came.with_other(found)
    return found


def _look_at(case: FailureCase, came: Came | None, upto: int, now: datetime) -> bool:
    more = case.seen_more + (came.number if came is not None else 0)
    # Not saved as a whole: somebody may decide anew at this moment, and that stands.
    mine = FailureCase.objects.filter(pk=case.pk, version=case.version, counted_to=case.counted_to)
    hour = Hour(case.hour_began or now, case.hour_seen).with_more(came.number if came is not None else 0, now)
    counted = {"hour_began": hour.began, "hour_seen": hour.seen} if case.archived_usual is not None else {}
    if not mine.update(seen_more=more, counted_to=upto, **counted):
        return False
    if case.state == FailureCase.RESOLVED:
        if came is None or came.last <= case.decided_at:
            return False
        where = " in a newer version" if case.versions is not None else ""
        why = f"It failed again{where} at {came.last:%Y-%m-%d %H:%M:%S} UTC."
        return _came_back(case, FailureCase.REGRESSED, why, now)
    if case.archived_usual is not None:
        is_due = hour.seen >= escalates_at(case.archived_usual)
        why = f"It escalated: {hour.seen:,} times in an hour, {case.archived_usual:,} were usual at most."
        return is_due and _came_back(case, FailureCase.OPEN, why, now)
    if case.archived_until is not None:
        return now >= case.archived_until and _came_back(case, FailureCase.OPEN, "Its time was over.", now)
    is_due = case.archived_more is not None and more >= case.archived_more
    return is_due and _came_back(case, FailureCase.OPEN, f"It failed {more:,} more times.", now)


def _came_back(case: FailureCase, state: str, why: str, now: datetime) -> bool:
    verb = "failure.regress" if state == FailureCase.REGRESSED else "failure.return"
    asked = Asked(by=_BY, environment=case.environment, reason=why, now=now)
    attempt = Attempt.of(verb, "respond", Scope(), asked, about=case.fingerprint[:NAME_CHARS], is_for_agents=False)

    def write(revision: int) -> Step[FailureCase]:
        held = FailureCase.objects.get(pk=case.pk)
        if held.version != case.version:
            return Step(object=held, revision=revision, was_already=True)
        before = told(held)
        held.state, held.version, held.reason = state, held.version + 1, why
        held.decided_at, held.decided_by = now, _BY.name
        held.archived_until, held.archived_more, held.archived_usual, held.versions = None, None, None, None
        held.save()
        return Step(object=held, revision=revision, before=before, after=told(held))

    with attempt.noted():
        attempt.check()
        return not carry_out(attempt, write, recall=lambda entry: FailureCase.objects.get(pk=case.pk)).was_already
