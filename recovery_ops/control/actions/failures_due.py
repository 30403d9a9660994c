"""What comes back by itself: causes that were put away for a time or a number, and those that were called done."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby

from events.failures.asking import Came, counts_between, settled_number
from recovery_ops.control.actions.attempt import Asked, Attempt, Step, carry_out
from recovery_ops.control.actions.failures import told
from recovery_ops.control.actors import system
from recovery_ops.control.failures import grouping_of
from recovery_ops.control.models import NAME_CHARS, FailureCase
from recovery_ops.rules.scope import Scope

_BY = system("failure cases")


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
        for case in group:
            came_back += _look_at(case, counted.get(case.fingerprint), max(after, upto), now)
    return came_back


def _look_at(case: FailureCase, came: Came | None, upto: int, now: datetime) -> bool:
    more = case.seen_more + (came.number if came is not None else 0)
    # Not saved as a whole: somebody may decide anew at this moment, and that stands.
    mine = FailureCase.objects.filter(pk=case.pk, version=case.version, counted_to=case.counted_to)
    if not mine.update(seen_more=more, counted_to=upto):
        return False
    if case.state == FailureCase.RESOLVED:
        if came is None or came.last <= case.decided_at:
            return False
        return _came_back(case, FailureCase.REGRESSED, f"It failed again at {came.last:%Y-%m-%d %H:%M:%S} UTC.", now)
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
        held.archived_until, held.archived_more = None, None
        held.save()
        return Step(object=held, revision=revision, before=before, after=told(held))

    with attempt.noted():
        attempt.check()
        return not carry_out(attempt, write, recall=lambda entry: FailureCase.objects.get(pk=case.pk)).was_already
