"""What comes back by itself: causes that were put away for a time or a number, and those that were called done.

And what is done with by itself: causes that wait for clean runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from events.failures.asking import Came, counts_between, senders_between, settled_number
from events.failures.clean import RunEnd, callers_between, causes_met, ends_between
from events.failures.grouping import Grouping
from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.commands import Change, Command, CommandContext, execute
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.issues.models import FailureCase
from recovery_ops.control.issues.reopening import Hour, clean_in_a_row, escalates_at, is_newer
from recovery_ops.control.issues.selectors import grouping_of
from recovery_ops.control.issues.services.issues import told
from recovery_ops.rules.policy.scope import Scope

_BY = system_actor("failure cases")
_Senders = Mapping[tuple[str, str], Came]
"""What came by service and version."""


def keep_failures(environment: str, *, now: datetime) -> int:
    """Count what came in since the last look, and bring back, or call done, what is due; return how many that was.

    Asked twice, or by two at once, the second finds nothing left to do. What comes late counts when it comes; only
    called done is a cause until it fails at a later moment than that.
    """
    waiting = FailureCase.objects.filter(
        environment=environment, state__in=(FailureCase.ARCHIVED, FailureCase.RESOLVED, FailureCase.PENDING)
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
        pending = [case for case in members if case.state == FailureCase.PENDING]
        went = _Went.between(after, upto, environment, grouping) if pending and upto > after else _NOTHING_WENT
        for case in pending:
            came_back += _await(case, counted.get(case.fingerprint), went, max(after, upto), now)
        for case in members:
            if case.state == FailureCase.PENDING:
                continue
            came = counted.get(case.fingerprint)
            if case.versions is not None:
                came = _of_newer(told.get(case.fingerprint, {}), case.versions)
            came_back += _look_at(case, came, max(after, upto), now)
    return came_back


@dataclass(frozen=True, slots=True, kw_only=True)
class _Went:
    """What went well between two looks: who called which operation, and the runs that ended, with causes they met."""

    callers: Mapping[str, set[int]]
    ends: Sequence[RunEnd]
    met: Mapping[str, set[str]]

    @staticmethod
    def between(after: int, upto: int, environment: str, grouping: Grouping) -> _Went:
        """By the facts with these numbers. Three queries, more where many runs ended."""
        ends = ends_between(after, upto, environment=environment)
        met = causes_met(environment, ends, grouping=grouping)
        return _Went(callers=callers_between(after, upto, environment=environment), ends=ends, met=met)

    def clean_ends(self, cause: str, agents: Collection[int]) -> list[datetime]:
        """When runs of these instances ended that did not meet this cause."""
        return [one.at for one in self.ends if one.agent_id in agents and cause not in self.met.get(one.run, ())]


_NOTHING_WENT = _Went(callers={}, ends=(), met={})


def _await(case: FailureCase, came: Came | None, went: _Went, upto: int, now: datetime) -> bool:
    """Count the clean runs of a cause that waits for them, and call it done where they are enough."""
    called = (went.callers.get(name, set()) for name in case.clean_operations or ())
    agents = set(case.clean_agents or ()).union(*called)
    ends = [at for at in went.clean_ends(case.fingerprint, agents) if at > case.decided_at]
    failed_at = came.last if came is not None and came.last > case.decided_at else None
    seen = clean_in_a_row(case.clean_seen, ends, failed_at=failed_at)
    mine = FailureCase.objects.filter(pk=case.pk, version=case.version, counted_to=case.counted_to)
    more = case.seen_more + (came.number if came is not None else 0)
    if not mine.update(clean_seen=seen, clean_agents=sorted(agents), seen_more=more, counted_to=upto):
        return False
    why = f"{seen:,} consecutive clean runs."
    return (
        case.clean_needed is not None and seen >= case.clean_needed and _settled(case, FailureCase.RESOLVED, why, now)
    )


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
        why = f"New failure{where} at {came.last:%Y-%m-%d %H:%M:%S} UTC."
        return _settled(case, FailureCase.REGRESSED, why, now)
    if case.archived_usual is not None:
        is_due = hour.seen >= escalates_at(case.archived_usual)
        why = f"Failure rate doubled: {hour.seen:,} per hour, busiest hour before: {case.archived_usual:,}."
        return is_due and _settled(case, FailureCase.OPEN, why, now)
    if case.archived_until is not None:
        return now >= case.archived_until and _settled(case, FailureCase.OPEN, "Archive period ended.", now)
    is_due = case.archived_more is not None and more >= case.archived_more
    return is_due and _settled(case, FailureCase.OPEN, f"{more:,} more failures.", now)


_VERBS = {FailureCase.REGRESSED: "failure.regress", FailureCase.RESOLVED: "failure.resolve"}


def _settled(case: FailureCase, state: str, why: str, now: datetime) -> bool:
    verb = _VERBS.get(state, "failure.return")
    asked = CommandContext(by=_BY, environment=case.environment, reason=why, now=now)
    command = Command.of(verb, Scope(), asked, about=case.fingerprint[:NAME_CHARS])

    def write(revision: int) -> Change[FailureCase]:
        held = FailureCase.objects.get(pk=case.pk)
        if held.version != case.version:
            return Change(object=held, revision=revision, was_already=True)
        before = told(held)
        held.state, held.version, held.reason = state, held.version + 1, why
        held.decided_at, held.decided_by = now, _BY.name
        held.archived_until, held.archived_more, held.archived_usual, held.versions = None, None, None, None
        held.clean_needed, held.clean_seen, held.clean_operations, held.clean_agents = None, 0, None, None
        held.save()
        return Change(object=held, revision=revision, before=before, after=told(held))

    with command.noted():
        command.check()
        return not execute(command, write, recall=lambda entry: FailureCase.objects.get(pk=case.pk)).was_already
