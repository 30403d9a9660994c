"""What people do about causes of failures: give one to somebody, put it away, call it done, and say which are one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from django.utils import timezone

from events.failures.asking import busiest_hours, is_known, last_number, versions_known
from events.failures.clean import operations_by_cause
from events.failures.grouping import SPLIT_FIELDS, split_name
from events.models import FINGERPRINT_CHARS
from recovery_ops.control.access.account_names import find_account
from recovery_ops.control.core import checks
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.core.wording import with_reason
from recovery_ops.control.issues.models import FailureCase, FailureGrouping
from recovery_ops.control.issues.selectors import grouping_of
from recovery_ops.rules.policy.scope import Scope

MERGE_MOST = 20
LEAST_ARCHIVE_S = 60.0
LONGEST_ARCHIVE_S = 90 * 24 * 3600.0
MOST_MORE = 100_000
MOST_CLEAN_RUNS = 10_000
_LATELY = timedelta(days=31)
"""What was not seen for longer is on no page any more."""


class Triaging(CommandContext):
    """What every act on one cause is given. `version` is the one the asker looked at.

    `to` is a person's name (assign). `for_s` how long, `more` how many further failures, or `escalating` until there
    are many more than is usual (archive); `busiest` is what is usual, by cause, where it was read already.
    `next_version` whether failures of newer versions only count, `clean_runs` after how many clean runs in a row it is
    done with (resolve); `operations` is where each cause failed, where it was read already.
    """

    fingerprint: Required[str]
    version: NotRequired[int | None]
    to: NotRequired[str]
    for_s: NotRequired[float | None]
    more: NotRequired[int | None]
    escalating: NotRequired[bool]
    busiest: NotRequired[Mapping[str, int]]
    next_version: NotRequired[bool]
    clean_runs: NotRequired[int | None]
    operations: NotRequired[Mapping[str, Sequence[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One kind of act: what it is called afterwards, and what it does."""

    past: str
    apply: Callable[[FailureCase, Command, Triaging], bool]


def _assign(case: FailureCase, command: Command, asked: Triaging) -> bool:
    name = asked.get("to", "").strip()
    person = find_account(name)
    if person is None or not person.is_active:
        raise CommandRejected(
            "unknown_person",
            f"User {name!r} does not exist or is inactive.",
            fields={"to": "is not the name of a user"},
        )
    if case.assignee_id == person.pk:
        return False
    case.assignee_id, case.assigned_to = person.pk, person.get_username()
    return True


def _unassign(case: FailureCase, command: Command, asked: Triaging) -> bool:
    is_somebody_s = bool(case.assigned_to)
    case.assignee_id, case.assigned_to = None, ""
    return is_somebody_s


def _archive(case: FailureCase, command: Command, asked: Triaging) -> bool:
    for_s, more, is_until_many = asked.get("for_s"), asked.get("more"), bool(asked.get("escalating"))
    if [for_s is not None, more is not None, is_until_many].count(True) != 1:
        fault = "excludes more and escalating; set exactly one"
        detail = (
            "The end of the archive period is missing; set a time, a number of failures, or a doubled failure rate."
        )
        raise CommandRejected("invalid", detail, fields={"for_s": fault})
    if for_s is not None and not LEAST_ARCHIVE_S <= for_s <= LONGEST_ARCHIVE_S:
        fault = f"is from {LEAST_ARCHIVE_S:.0f} to {LONGEST_ARCHIVE_S:.0f} seconds"
        raise CommandRejected(
            "invalid", "The archive period is out of range; use 1 minute to 90 days.", fields={"for_s": fault}
        )
    if more is not None and not 1 <= more <= MOST_MORE:
        raise CommandRejected(
            "invalid",
            f"The number of failures is out of range; use 1 to {MOST_MORE:,}.",
            fields={"more": f"is from 1 to {MOST_MORE}"},
        )
    case.archived_until = None if for_s is None else command.now + timedelta(seconds=for_s)
    case.archived_more = more
    case.archived_usual, case.hour_began, case.hour_seen = None, None, 0
    if is_until_many:
        case.archived_usual = asked.get("busiest", {}).get(case.fingerprint, 0)
        case.hour_began = command.now
    return _decided(case, FailureCase.ARCHIVED, command)


def _busiest(environment: str, now: datetime) -> Mapping[str, int]:
    return busiest_hours(environment, now=now, grouping=grouping_of(environment))


def _resolve(case: FailureCase, command: Command, asked: Triaging) -> bool:
    is_next, clean_runs = bool(asked.get("next_version")), asked.get("clean_runs")
    if clean_runs is not None:
        return _pend(case, command, clean_runs, asked)
    if case.state == FailureCase.RESOLVED and is_next == (case.versions is not None):
        return False
    known = versions_known(case.environment) if is_next else None
    if known == {}:
        fault = "needs a reported version"
        raise CommandRejected("no_version", "No agent reports its version.", fields={"next_version": fault})
    _decided(case, FailureCase.RESOLVED, command)
    case.versions = known
    return True


def _pend(case: FailureCase, command: Command, clean_runs: int, asked: Triaging) -> bool:
    """It waits for so many clean runs in a row, of instances that call what it failed in."""
    if asked.get("next_version"):
        fault = "excludes next_version; set exactly one"
        detail = "The next version and clean runs exclude each other; select one."
        raise CommandRejected("invalid", detail, fields={"clean_runs": fault})
    if not 1 <= clean_runs <= MOST_CLEAN_RUNS:
        fault = f"is from 1 to {MOST_CLEAN_RUNS}"
        raise CommandRejected(
            "invalid",
            f"The number of clean runs is out of range; use 1 to {MOST_CLEAN_RUNS:,}.",
            fields={"clean_runs": fault},
        )
    operations = asked.get("operations", {}).get(case.fingerprint)
    if not operations:
        fault = "needs a recent failure of an operation"
        detail = "The issue has no recent failures; clean runs cannot be counted."
        raise CommandRejected("no_operation", detail, fields={"clean_runs": fault})
    if case.state == FailureCase.PENDING and case.clean_needed == clean_runs:
        return False
    _decided(case, FailureCase.PENDING, command)
    case.clean_needed, case.clean_operations, case.clean_agents = clean_runs, list(operations), []
    return True


def _operations(environment: str, now: datetime) -> Mapping[str, list[str]]:
    return operations_by_cause(environment, start=now - _LATELY, end=now, grouping=grouping_of(environment))


def _reopen(case: FailureCase, command: Command, asked: Triaging) -> bool:
    return case.state != FailureCase.OPEN and _decided(case, FailureCase.OPEN, command)


def _decided(case: FailureCase, state: str, command: Command) -> bool:
    case.state, case.decided_at, case.decided_by, case.reason = state, command.now, command.by.name, command.reason
    case.seen_more, case.counted_to, case.versions = 0, last_number(), None
    case.clean_needed, case.clean_seen, case.clean_operations, case.clean_agents = None, 0, None, None
    if state != FailureCase.ARCHIVED:
        case.archived_until, case.archived_more, case.archived_usual = None, None, None
    return True


ACTS: dict[str, Act] = {
    "assign": Act(past="assigned", apply=_assign),
    "unassign": Act(past="unassigned", apply=_unassign),
    "archive": Act(past="archived", apply=_archive),
    "resolve": Act(past="resolved", apply=_resolve),
    "reopen": Act(past="reopened", apply=_reopen),
}
"""Every act on one cause, by its verb."""


def triage(verb: str, **asked: Unpack[Triaging]) -> CommandResult[FailureCase]:
    """Do one act on one cause; of one that was merged, on the whole. What is so already is left as it is.

    Raises CommandRejected: 403, 404, 400 by field, 409 when somebody else acted since `version`.
    """
    act, environment = ACTS[verb], asked["environment"]
    name = grouping_of(environment).head(asked["fingerprint"])
    command = attempt_of(f"failure.{verb}", "respond", asked, name)

    def write(revision: int) -> Change[FailureCase]:
        case = _case(environment, name, command)
        version = asked.get("version")
        if version is not None and version != case.version:
            what = f"{case.decided_at:%H:%M:%S} UTC by {with_reason(case.decided_by, case.reason)}."
            raise CommandRejected("stale", f"The issue has changed. {what} Reload, then decide.", status=CONFLICT)
        before = told(case) if case.pk else None
        if not act.apply(case, command, asked):
            return Change(object=case, revision=revision, was_already=True)
        case.version += 1
        case.save()
        return Change(object=case, revision=revision, before=before, after=told(case))

    with command.noted():
        command.check()
        require_known(environment, name, command.now)
        if asked.get("escalating") and "busiest" not in asked:
            # Before anything is written: on SQLite nobody else could write while all of a day is counted.
            asked["busiest"] = _busiest(environment, command.now)
        if asked.get("clean_runs") is not None and "operations" not in asked:
            asked["operations"] = _operations(environment, command.now)
        return execute(command, write, recall=lambda entry: FailureCase.objects.get(pk=(entry.after or {})["id"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one cause of many."""

    fingerprint: str
    text: str
    done: CommandResult[FailureCase] | None = None
    rejection: CommandRejected | None = None


def triage_each(
    verb: str, fingerprints: Iterable[str], *, by: Actor, environment: str, key: str | None = None, **asked: Any
) -> list[Result]:
    """Do one act on many, each by itself: one that is refused holds no other back."""
    results: list[Result] = []
    names = list(dict.fromkeys(fingerprints))
    if asked.get("escalating"):
        asked["busiest"] = _busiest(environment, asked.get("now") or timezone.now())
    if asked.get("clean_runs") is not None:
        asked["operations"] = _operations(environment, asked.get("now") or timezone.now())
    for name in names:
        own = key if len(names) == 1 else checks.derive_part_key(key, verb, name)
        try:
            done = triage(verb, fingerprint=name, by=by, environment=environment, key=own, **asked)
            text = "no change" if done.was_already else ACTS[verb].past
            results.append(Result(fingerprint=name, text=text, done=done))
        except CommandRejected as rejection:
            results.append(Result(fingerprint=name, text=rejection.detail, rejection=rejection))
    return results


class Merging(CommandContext):
    """What `merge_failures` is given: two or more causes. The first one names the whole."""

    fingerprints: Required[Sequence[str]]


class Splitting(CommandContext):
    """What `split_failure` is given: a fingerprint, and which of its failures are a cause of their own."""

    fingerprint: Required[str]
    field: Required[str]
    value: Required[str]


class TakingBack(CommandContext):
    """What `undo_grouping` is given: the number of a merge or a split."""

    grouping: Required[int]


def merge_failures(**asked: Unpack[Merging]) -> CommandResult[str]:
    """Make one cause of several, for the failures to come too; answers with the name of the whole.

    Raises CommandRejected: 403, 400, 404.
    """
    environment, names = asked["environment"], list(dict.fromkeys(asked["fingerprints"]))
    faults = {} if 2 <= len(names) <= MERGE_MOST else {"fingerprints": f"are 2 to {MERGE_MOST} different issues"}
    command = attempt_of("failure.merge", "arrange", asked, ", ".join(names), faults=faults)

    def write(revision: int) -> Change[str]:
        grouping = grouping_of(environment)
        head = grouping.head(names[0])
        joined = [one for one in dict.fromkeys(map(grouping.head, names[1:])) if one != head]
        for one in joined:
            FailureGrouping.objects.create(
                environment=environment,
                kind=FailureGrouping.MERGE,
                fingerprint=one,
                into=head,
                made_at=command.now,
                made_by=command.by.name,
                reason=command.reason,
            )
        after = {"into": head, "merged": joined}
        return Change(object=head, revision=revision, after=after, was_already=not joined)

    with command.noted():
        command.check()
        for one in names:
            require_known(environment, one, command.now)
        return execute(command, write, recall=lambda entry: str((entry.after or {})["into"]))


def split_failure(**asked: Unpack[Splitting]) -> CommandResult[str]:
    """Make a cause of those failures of a fingerprint that have one value; answers with its name.

    Raises CommandRejected: 403, 400, 404.
    """
    environment, fingerprint, value = asked["environment"], asked["fingerprint"], asked["value"]
    name = split_name(fingerprint, value)
    faults = {}
    if asked["field"] not in SPLIT_FIELDS:
        faults["field"] = f"is one of {', '.join(SPLIT_FIELDS)}"
    if not value or not value.isprintable() or len(name) > FINGERPRINT_CHARS:
        faults["value"] = "is the value to split by"
    command = attempt_of("failure.split", "arrange", asked, name, faults=faults)

    def write(revision: int) -> Change[str]:
        rule = {"environment": environment, "fingerprint": fingerprint, "field": asked["field"], "value": value}
        held = FailureGrouping.objects.filter(**rule, kind=FailureGrouping.SPLIT, ended_at=None)
        if held.exists():
            return Change(object=name, revision=revision, was_already=True)
        FailureGrouping.objects.create(
            **rule,
            kind=FailureGrouping.SPLIT,
            into=name,
            made_at=command.now,
            made_by=command.by.name,
            reason=command.reason,
        )
        return Change(object=name, revision=revision, after={"into": name, **rule})

    with command.noted():
        command.check()
        if not is_known(environment, fingerprint, since=command.now - _LATELY):
            raise _unknown(environment, fingerprint)
        return execute(command, write, recall=lambda entry: str((entry.after or {})["into"]))


def undo_grouping(**asked: Unpack[TakingBack]) -> CommandResult[str]:
    """End a merge or a split; answers with the cause that is by itself, or whole, again.

    Raises CommandRejected: 403, 404.
    """
    environment = asked["environment"]
    made = FailureGrouping.objects.filter(environment=environment, pk=asked["grouping"]).first()
    about = made.fingerprint if made else f"grouping {asked['grouping']}"
    command = attempt_of("failure.undo", "arrange", asked, about)

    def write(revision: int) -> Change[str]:
        if made is None:
            detail = f"Grouping {asked['grouping']} does not exist in {environment}."
            raise CommandRejected("unknown_grouping", detail, status=NOT_FOUND, fields={"grouping": "is unknown"})
        held = FailureGrouping.objects.filter(pk=made.pk, ended_at=None)
        is_ended = held.update(ended_at=command.now, ended_by=command.by.name)
        after = {"into": made.into, "fingerprint": made.fingerprint, "kind": made.kind}
        return Change(object=made.fingerprint, revision=revision, after=after, was_already=not is_ended)

    with command.noted():
        command.check()
        return execute(command, write, recall=lambda entry: str((entry.after or {})["fingerprint"]))


def told(case: FailureCase) -> Mapping[str, Any]:
    """What the audit log keeps of a case."""
    return {
        "id": case.pk,
        "state": case.state,
        "assigned_to": case.assigned_to,
        "archived_until": _iso(case.archived_until),
        "archived_more": case.archived_more,
        "archived_usual": case.archived_usual,
        "next_version_after": case.versions,
        "clean_runs": case.clean_needed,
    }


def attempt_of(verb: str, permission: str, asked: Any, about: str, *, faults: dict[str, str] | None = None) -> Command:
    """The attempt at an act on causes, which have versions of their own, not the revision of what is desired."""
    given = CommandContext(
        by=asked["by"],
        environment=asked["environment"],
        reason=asked["reason"],
        seen=None,  # causes have versions of their own
        key=asked.get("key"),
        dry_run=asked.get("dry_run", False),
        now=asked.get("now"),
    )
    return Command.of(verb, Scope(), given, faults, about=about[:NAME_CHARS])


def _case(environment: str, name: str, command: Command) -> FailureCase:
    held = FailureCase.objects.filter(environment=environment, fingerprint=name).first()
    return held or FailureCase(
        environment=environment,
        fingerprint=name,
        decided_at=command.now,
        decided_by=command.by.name,
        reason=command.reason,
    )


def require_known(environment: str, name: str, now: datetime) -> None:
    """Raise Refused (404) for a cause of which nothing was taken in."""
    rules = FailureGrouping.objects.filter(environment=environment, into=name)
    cases = FailureCase.objects.filter(environment=environment, fingerprint=name)
    if not (rules.exists() or cases.exists() or is_known(environment, name, since=now - _LATELY)):
        raise _unknown(environment, name)


def _unknown(environment: str, name: str) -> CommandRejected:
    detail = f"Issue {name[:80]} does not exist in {environment}."
    return CommandRejected("unknown_failure", detail, status=NOT_FOUND, fields={"fingerprint": "is unknown"})


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
