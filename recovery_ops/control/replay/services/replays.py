"""Asks for a replay, and calls one off: the work itself is done in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from django.utils import timezone

from recovery_ops.control.core.checks import require_known_service
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.jobs import cancel_job
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.policies.document_checks import faults_of_document, plain
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.replay.models.replays import Replay
from recovery_ops.rules.policy.scope import Scope

LONGEST = timedelta(days=31)
_CLOCKS_DIFFER = timedelta(minutes=1)
MOST_UNFINISHED = 5
"""Of one environment: they run one after the other."""


class Replaying(CommandContext):
    """What `start_replay` is given: a proposal's number, or a document. An empty filter leaves nothing out."""

    start: Required[datetime]
    end: Required[datetime]
    number: NotRequired[int]
    document: NotRequired[Mapping[str, Any]]
    service: NotRequired[str]
    operation: NotRequired[str]


def start_replay(**asked: Unpack[Replaying]) -> CommandResult[Replay]:
    """Have what was recorded between two moments decided again, under the live policy and under the proposed one.

    Raises CommandRejected: 403, 404, 400, and 409 when too many wait already.
    """
    environment = asked["environment"]
    proposal = _proposal(asked)
    faults = _faults(asked, proposal, asked.get("now") or timezone.now())
    command = Command.of("replay.start", Scope(), asked, faults, about="replay")

    def write(revision: int) -> Change[Replay]:
        if proposal is None and asked.get("number") is not None:
            detail = f"{environment} has no proposal {asked['number']}."
            raise CommandRejected("unknown_proposal", detail, status=NOT_FOUND, fields={"number": "is unknown"})
        mine = Replay.objects.filter(environment=environment)
        if mine.filter(state__in=Replay.UNFINISHED).count() >= MOST_UNFINISHED:
            detail = f"{environment} has {MOST_UNFINISHED} unfinished replays, the maximum. Wait or cancel one."
            raise CommandRejected("too_many", detail, status=CONFLICT)
        made = _made(command, asked, proposal)
        return Change(object=made, revision=revision, after={"number": made.number})

    with command.noted():
        command.check()
        if asked.get("service"):
            require_known_service(environment, asked["service"])
        return execute(command, write, recall=_recalled)


class Cancelling(CommandContext):
    """What `cancel_replay` is given."""

    number: Required[int]


def cancel_replay(**asked: Unpack[Cancelling]) -> CommandResult[Replay]:
    """Call a replay off: one that waits never starts, one that runs ends within a second or two.

    Raises CommandRejected.
    """
    environment, number = asked["environment"], asked["number"]
    command = Command.of("replay.cancel", Scope(), asked, about=f"replay {number}")

    def write(revision: int) -> Change[Replay]:
        found = Replay.objects.filter(environment=environment, number=number).first()
        if found is None:
            detail = f"{environment} has no replay {number}."
            raise CommandRejected("unknown_replay", detail, status=NOT_FOUND, fields={"number": "is unknown"})
        if not found.is_unfinished or found.is_cancel_asked:
            return Change(object=found, revision=revision, was_already=True)
        cancel_job(found, now=command.now)
        return Change(object=found, revision=revision, after={"number": number})

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def _made(command: Command, asked: Replaying, proposal: PolicyProposal | None) -> Replay:
    newest = Replay.objects.filter(environment=command.environment).order_by("-number").first()
    live = live_policy(command.environment)
    return Replay.objects.create(
        environment=command.environment,
        number=1 if newest is None else newest.number + 1,
        proposal=proposal,
        edition=0 if proposal is None else proposal.edition,
        old_version=live.version,
        old_document=live.document,
        new_document=plain(asked["document"]) if proposal is None else proposal.document,
        start_at=asked["start"],
        end_at=asked["end"],
        service=asked.get("service", ""),
        operation=asked.get("operation", ""),
        by_user_id=command.by.user_id,
        by=command.by.name,
        asked_at=command.now,
    )


def _proposal(asked: Replaying) -> PolicyProposal | None:
    number = asked.get("number")
    if number is None:
        return None
    return PolicyProposal.objects.filter(environment=asked["environment"], number=number).first()


def _faults(asked: Replaying, proposal: PolicyProposal | None, now: datetime) -> dict[str, str]:
    faults: dict[str, str] = {}
    if proposal is None and asked.get("number") is None:
        faults = faults_of_document(asked.get("document")) if "document" in asked else {"document": "is missing"}
    start, end = asked["start"], asked["end"]
    if start >= end:
        faults["end"] = "must be later than the start"
    elif end > now + _CLOCKS_DIFFER:
        faults["end"] = "is in the future; use a past time"
    elif end - start > LONGEST:
        faults["start"] = f"must be at most {LONGEST.days} days before the end"
    for name in ("service", "operation"):
        said = asked.get(name, "")
        if not isinstance(said, str) or len(said) > NAME_CHARS or not said.isprintable():
            faults[name] = "must be a name"
    return faults


def _recalled(entry: AuditEntry) -> Replay:
    return Replay.objects.get(environment=entry.environment, number=entry.after["number"])
