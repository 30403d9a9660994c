"""The life of a proposal: drafted, edited, reviewed, approved by somebody else, scheduled, released or rejected.

Who acts says which step of the proposal they were looking at (`seen`). Everything that happens to it is a note, so the
conversation and the history are one list. Only a release is a revision that agents hear of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from recovery_ops.control.breakers.impact import impact_of
from recovery_ops.control.core import checks
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.commands import (
    Change,
    Command,
    CommandContext,
    CommandResult,
    execute,
    require_permission,
)
from recovery_ops.control.core.key_owners import is_own
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CONFLICT, FORBIDDEN, NOT_FOUND, CommandRejected
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.policies.document_checks import faults_of_document, plain
from recovery_ops.control.policies.models.policies import TITLE_CHARS, PolicyProposal, PolicyRelease, ProposalNote
from recovery_ops.control.policies.services import cohorts
from recovery_ops.control.policies.services.releases import glass_to_break, recalled, refuse_while_rolling_out, released
from recovery_ops.control.policies.services.review import is_review_needed
from recovery_ops.control.replay.services.golden import accept_changes
from recovery_ops.rules.policy.scope import Scope

DRAFT, IN_REVIEW, APPROVED, SCHEDULED = (
    PolicyProposal.DRAFT,
    PolicyProposal.IN_REVIEW,
    PolicyProposal.APPROVED,
    PolicyProposal.SCHEDULED,
)
_BEFORE = (DRAFT, IN_REVIEW, APPROVED, SCHEDULED)
_ROLLING = (PolicyProposal.ROLLING_OUT,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What may be done to a proposal: who may, in which states, and which state it leads to (None: it stays)."""

    permission: str
    states: tuple[str, ...]
    to: str | None = None


MOVES = {
    "revise": Move(permission="propose_policy", states=_BEFORE, to=DRAFT),
    "submit": Move(permission="propose_policy", states=(DRAFT,), to=IN_REVIEW),
    "comment": Move(permission="propose_policy", states=PolicyProposal.STATES),
    "approve": Move(permission="approve_policy", states=(IN_REVIEW,), to=APPROVED),
    "return": Move(permission="propose_policy", states=(IN_REVIEW, APPROVED, SCHEDULED), to=DRAFT),
    "reject": Move(permission="propose_policy", states=_BEFORE, to=PolicyProposal.REJECTED),
    "schedule": Move(permission="release_policy", states=_BEFORE, to=SCHEDULED),
    "release": Move(permission="release_policy", states=_BEFORE, to=PolicyProposal.LIVE),
    "roll-out": Move(permission="release_policy", states=_BEFORE, to=PolicyProposal.ROLLING_OUT),
    "promote": Move(permission="release_policy", states=_ROLLING, to=PolicyProposal.LIVE),
    "take-back": Move(permission="roll_back_policy", states=_ROLLING, to=PolicyProposal.ROLLED_BACK),
}


class Proposing(CommandContext):
    """What `propose` is given: a whole policy document. `reason` says what it is for."""

    document: Required[Mapping[str, Any]]
    title: Required[str]


class Moving(CommandContext):
    """What acts on a proposal are given: its number. `seen` is the step that was looked at, not a revision."""

    number: Required[int]
    accepts_golden: NotRequired[bool]
    """That golden runs change is meant; for approving, scheduling and releasing."""


class Revising(Moving):
    """`is_onto_live` says that the document was looked at beside the policy that is live now, and replaces that one."""

    document: Required[Mapping[str, Any]]
    title: NotRequired[str]
    is_onto_live: NotRequired[bool]


class Scheduling(Moving):
    """When it is to go live; a moment to come.

    `cohort`: it goes to some first, and the health gate decides the rest: `share`, `for_s`, `service`, `group` and
    `least_calls` as for `start_rollout`. Without it, it goes to all at once.
    """

    go_live_at: Required[datetime]
    cohort: NotRequired[Mapping[str, Any] | None]


class Releasing(Moving):
    """`break_glass` releases without the approval that the environment asks for."""

    break_glass: NotRequired[bool]


def propose(**asked: Unpack[Proposing]) -> CommandResult[PolicyProposal]:
    """Draft a policy, made from the one that is live now.

    Raises CommandRejected: 403, 400 by the path in the document.
    """
    environment, document, title = asked["environment"], asked["document"], _said(asked["title"])
    faults = faults_of_document(document) | _faults_of_title(title)

    def is_same_request(entry: AuditEntry) -> bool:
        drafted = _recalled(entry)
        return drafted.edition > 1 or drafted.document == plain(document)

    command = Command.of(
        "proposal.draft",
        Scope(),
        asked,
        faults,
        about=title or "a policy",
        is_same_request=is_same_request,
    )

    def write(revision: int) -> Change[PolicyProposal]:
        newest = PolicyProposal.objects.filter(environment=environment).order_by("-number").first()
        made = PolicyProposal.objects.create(
            environment=environment,
            number=1 if newest is None else newest.number + 1,
            title=title,
            document=plain(document),
            base_version=live_policy(environment).version,
            authors=[command.by.identity],
            by_user_id=command.by.user_id,
            by=command.by.name,
            created_at=command.now,
            changed_at=command.now,
        )
        _note(made, "draft", command)
        return Change(object=made, revision=revision, after=_told(made))

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def revise(**asked: Unpack[Revising]) -> CommandResult[PolicyProposal]:
    """Edit the document or the title. An approval given before is void, and so is a date.

    Where nothing would change, nothing is written. Raises CommandRejected: 403, 404, 400 by path, 409.
    """
    document, title = asked["document"], asked.get("title")
    faults = faults_of_document(document)
    if title is not None:
        faults |= _faults_of_title(_said(title))

    def change(proposal: PolicyProposal, command: Command) -> bool:
        wanted = (plain(document), proposal.title if title is None else _said(title))
        base = live_policy(proposal.environment).version if asked.get("is_onto_live") else proposal.base_version
        if (proposal.document, proposal.title, proposal.base_version) == (*wanted, base):
            return False
        proposal.document, proposal.title = wanted
        proposal.base_version = base
        proposal.edition += 1
        proposal.golden_accepted = []
        proposal.authors = sorted({*proposal.authors, command.by.identity})
        return True

    return _move("revise", asked, change, faults)


def submit(**asked: Unpack[Moving]) -> CommandResult[PolicyProposal]:
    """Ask somebody else to look at it. Raises CommandRejected: 403, 404, 409."""
    return _move("submit", asked)


def comment(**asked: Unpack[Moving]) -> CommandResult[PolicyProposal]:
    """Say something about it: the reason is the comment. Whoever saw an older step may still say it."""
    return _move("comment", {**asked, "seen": None})


def had_a_hand(by: Actor, proposal: PolicyProposal) -> bool:
    """Whether somebody wrote or edited it, in person or through keys of their making: then others approve it."""
    return any(is_own(by, author, proposal.environment) for author in proposal.authors)


def approve(**asked: Unpack[Moving]) -> CommandResult[PolicyProposal]:
    """Let it go live. Nobody approves what they had a hand in. Raises CommandRejected: 403, 404, 409."""

    def change(proposal: PolicyProposal, command: Command) -> bool:
        if had_a_hand(command.by, proposal):
            detail = f"You edited proposal {proposal.number}; another user has to approve it."
            raise CommandRejected("own_work", detail, status=FORBIDDEN)
        accept_changes(proposal, is_accepted=asked.get("accepts_golden", False))
        proposal.approved_by, proposal.approved_at = command.by.name, command.now
        return True

    return _move("approve", asked, change)


def send_back(**asked: Unpack[Moving]) -> CommandResult[PolicyProposal]:
    """Make it a draft again, and say what is to change. An approval and a date are void."""
    return _move("return", asked)


def reject(**asked: Unpack[Moving]) -> CommandResult[PolicyProposal]:
    """End it for good; its author may do so as well as anybody else who may propose."""
    return _move("reject", asked)


def schedule(**asked: Unpack[Scheduling]) -> CommandResult[PolicyProposal]:
    """Let it go live by itself at a moment to come.

    Raises CommandRejected as `release_proposal`, which is asked then.
    """
    at, cohort = asked["go_live_at"], asked.get("cohort")

    def change(proposal: PolicyProposal, command: Command) -> bool:
        if at <= command.now:
            checks.raise_for_errors({"go_live_at": "is in the past; use a later time"})
        if at > command.now + timedelta(seconds=checks.LATEST_START_S):
            checks.raise_for_errors({"go_live_at": "is more than 30 days from now; use an earlier time"})
        _refuse_unapproved(proposal, command)
        refuse_other_base(proposal)
        accept_changes(proposal, is_accepted=asked.get("accepts_golden", False))
        proposal.go_live_at = at
        proposal.cohort = None if cohort is None else cohorts.whole(cohort)
        return True

    return _move("schedule", asked, change, {} if cohort is None else cohorts.faults_of(cohort))


def release_proposal(**asked: Unpack[Releasing]) -> CommandResult[PolicyRelease]:
    """Make it the live policy, at once and everywhere.

    Raises CommandRejected: 403 also without the approval that the environment asks for, 404, 409 when something
    happened to it since `seen` or another policy went live since it was drafted.
    """
    environment = asked["environment"]
    proposal = found_proposal("release_policy", asked)
    command = Command.of("policy.release", Scope(), asked, about=proposal.about)

    def write(revision: int) -> Change[PolicyRelease]:
        held = PolicyProposal.objects.get(pk=proposal.pk)
        check_step(held, "release", command)
        is_approved = held.state in (APPROVED, SCHEDULED) and bool(held.approved_by)
        is_broken = glass_to_break(command, is_approved=is_approved, break_glass=asked.get("break_glass", False))
        refuse_other_base(held)
        refuse_while_rolling_out(environment)
        accept_changes(held, is_accepted=asked.get("accepts_golden", False))
        live = live_policy(environment)
        made = released(command, held.document, live, held.title, revision, proposal=held, is_break_glass=is_broken)
        step_on(held, "release", command)
        after = {"version": str(made.version), "proposal": held.number, "is_break_glass": is_broken}
        return Change(object=made, revision=revision, before={"version": live.version}, after=after)

    with command.noted():
        command.check()
        impact = impact_of(environment, Scope(), now=command.now)
        return execute(command, write, recall=recalled, impact=impact)


_Change = Callable[[PolicyProposal, Command], bool]


def _move(
    verb: str, asked: Any, change: _Change = lambda proposal, command: True, faults: Mapping[str, str] | None = None
) -> CommandResult[PolicyProposal]:
    """Carry out one move of the table; `change` does what is its own, and says whether anything is different."""
    move = MOVES[verb]
    proposal = found_proposal(move.permission, asked)
    command = Command.of(f"proposal.{verb}", Scope(), asked, faults, about=proposal.about)

    def write(revision: int) -> Change[PolicyProposal]:
        held = PolicyProposal.objects.get(pk=proposal.pk)
        check_step(held, verb, command)
        before = _told(held)
        if not change(held, command):
            return Change(object=held, revision=revision, was_already=True)
        step_on(held, verb, command)
        return Change(object=held, revision=revision, before=before, after=_told(held))

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def check_step(proposal: PolicyProposal, verb: str, command: Command) -> None:
    """Raise Refused (409) when something happened to it since it was looked at, or this cannot be done to it now."""
    if command.seen is not None and command.seen != proposal.step:
        newest = proposal.notes.order_by("-step").first()
        told = "" if newest is None else f" {newest.by} last: {newest.verb}, “{newest.text}”."
        detail = f"Proposal {proposal.number} is at step {proposal.step}, not {command.seen}.{told} Reload it."
        raise CommandRejected("stale", detail, status=CONFLICT)
    if proposal.state not in MOVES[verb].states:
        state = proposal.state.replace("_", " ")
        detail = f"Proposal {proposal.number} is {state}; {verb} is not possible in this state."
        raise CommandRejected("wrong_state", detail, status=CONFLICT)


def step_on(proposal: PolicyProposal, verb: str, command: Command) -> None:
    """Write the next step of a proposal and its note, in the transaction of a change."""
    to = MOVES[verb].to
    if to is not None:
        proposal.state = to
    if to in (DRAFT, IN_REVIEW):
        proposal.approved_by, proposal.approved_at = "", None
        proposal.go_live_at, proposal.cohort = None, None
    proposal.step += 1
    proposal.changed_at = command.now
    proposal.save()
    _note(proposal, verb, command)


def _note(proposal: PolicyProposal, verb: str, command: Command) -> None:
    ProposalNote.objects.create(
        proposal=proposal,
        step=proposal.step,
        edition=proposal.edition,
        verb=verb,
        state=proposal.state,
        by=command.by.name,
        at=command.now,
        text=command.reason,
    )


def _refuse_unapproved(proposal: PolicyProposal, command: Command) -> None:
    if not proposal.approved_by and is_review_needed(command.environment):
        detail = (
            f"{command.environment} requires approval before a policy is scheduled. Submit the proposal for review."
        )
        raise CommandRejected("review_needed", detail, status=FORBIDDEN)


def refuse_other_base(proposal: PolicyProposal) -> None:
    """Raise Refused (409) when another policy went live meanwhile: releasing this one would undo it unseen."""
    live = live_policy(proposal.environment)
    if live.version == proposal.base_version:
        return
    changes = AuditEntry.objects.filter(
        environment=proposal.environment, revision=None if live.release is None else live.release.revision
    )
    detail = (
        f"The base is policy {proposal.base_version}, but {live.version} is live. Compare both, then save the proposal "
        "onto the live policy."
    )
    raise CommandRejected("other_base", detail, status=CONFLICT, changes=list(changes[:1]))


def found_proposal(permission: str, asked: Any) -> PolicyProposal:
    """The proposal of that number. Raises CommandRejected (404), to whoever may ask."""
    environment, number = asked["environment"], asked["number"]
    proposal = PolicyProposal.objects.filter(environment=environment, number=number).first()
    if proposal is not None:
        return proposal
    require_permission(asked["by"], permission, environment)
    detail = f"{environment} has no proposal {number}. The page of policies lists open proposals."
    raise CommandRejected("unknown_proposal", detail, status=NOT_FOUND, fields={"number": "is unknown"})


def _recalled(entry: AuditEntry) -> PolicyProposal:
    return PolicyProposal.objects.get(environment=entry.environment, number=entry.after["number"])


def _told(proposal: PolicyProposal) -> Mapping[str, Any]:
    """A proposal as the audit log keeps it; its documents are in the releases."""
    return {
        "number": proposal.number,
        "title": proposal.title,
        "state": proposal.state,
        "edition": proposal.edition,
        "base_version": proposal.base_version,
        "approved_by": proposal.approved_by,
        "go_live_at": None if proposal.go_live_at is None else proposal.go_live_at.isoformat(timespec="seconds"),
        "cohort": proposal.cohort,
    }


def _said(title: str) -> str:
    return " ".join(title.split())


def _faults_of_title(title: str) -> dict[str, str]:
    if not title:
        return {"title": "is empty; describe the change in a few words"}
    if len(title) > TITLE_CHARS:
        return {"title": f"has {len(title)} characters; use at most {TITLE_CHARS}"}
    return {} if title.isprintable() else {"title": "has unprintable characters"}
