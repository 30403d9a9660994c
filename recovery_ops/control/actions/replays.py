"""Asks for a replay, and calls one off: the work itself is done in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from django.utils import timezone

from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.checks import require_known_service
from recovery_ops.control.actions.documents import faults_of_document, plain
from recovery_ops.control.desired import live_policy
from recovery_ops.control.jobs import call_off
from recovery_ops.control.models import NAME_CHARS, AuditEntry, PolicyProposal, Replay
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

LONGEST = timedelta(days=31)
_CLOCKS_DIFFER = timedelta(minutes=1)
MOST_UNFINISHED = 5
"""Of one environment: they run one after the other."""


class Replaying(Asked):
    """What `start_replay` is given: a proposal's number, or a document. An empty filter leaves nothing out."""

    start: Required[datetime]
    end: Required[datetime]
    number: NotRequired[int]
    document: NotRequired[Mapping[str, Any]]
    service: NotRequired[str]
    operation: NotRequired[str]


def start_replay(**asked: Unpack[Replaying]) -> Done[Replay]:
    """Have what was recorded between two moments decided again, under the live policy and under the proposed one.

    Raises Refused: 403, 404, 400, and 409 when too many wait already.
    """
    environment = asked["environment"]
    proposal = _proposal(asked)
    faults = _faults(asked, proposal, asked.get("now") or timezone.now())
    attempt = Attempt.of("replay.start", "propose_policy", Scope(), asked, faults, about="replay", is_for_agents=False)

    def write(revision: int) -> Step[Replay]:
        if proposal is None and asked.get("number") is not None:
            detail = f"There is no proposal {asked['number']} in {environment}."
            raise Refused("unknown_proposal", detail, status=UNKNOWN, fields={"number": "is not known"})
        mine = Replay.objects.filter(environment=environment)
        if mine.filter(state__in=Replay.UNFINISHED).count() >= MOST_UNFINISHED:
            detail = f"{MOST_UNFINISHED} replays of {environment} are not finished. Wait for one, or cancel one."
            raise Refused("too_many", detail, status=STALE)
        made = _made(attempt, asked, proposal)
        return Step(object=made, revision=revision, after={"number": made.number})

    with attempt.noted():
        attempt.check()
        if asked.get("service"):
            require_known_service(environment, asked["service"])
        return carry_out(attempt, write, recall=_recalled)


class Cancelling(Asked):
    """What `cancel_replay` is given."""

    number: Required[int]


def cancel_replay(**asked: Unpack[Cancelling]) -> Done[Replay]:
    """Call a replay off: one that waits never starts, one that runs ends within a second or two. Raises Refused."""
    environment, number = asked["environment"], asked["number"]
    attempt = Attempt.of(
        "replay.cancel", "propose_policy", Scope(), asked, about=f"replay {number}", is_for_agents=False
    )

    def write(revision: int) -> Step[Replay]:
        found = Replay.objects.filter(environment=environment, number=number).first()
        if found is None:
            detail = f"There is no replay {number} in {environment}."
            raise Refused("unknown_replay", detail, status=UNKNOWN, fields={"number": "is not known"})
        if not found.is_unfinished or found.is_cancel_asked:
            return Step(object=found, revision=revision, was_already=True)
        call_off(found, now=attempt.now)
        return Step(object=found, revision=revision, after={"number": number})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


def _made(attempt: Attempt, asked: Replaying, proposal: PolicyProposal | None) -> Replay:
    newest = Replay.objects.filter(environment=attempt.environment).order_by("-number").first()
    live = live_policy(attempt.environment)
    return Replay.objects.create(
        environment=attempt.environment,
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
        by_user_id=attempt.by.user_id,
        by=attempt.by.name,
        asked_at=attempt.now,
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
        faults["end"] = "is later than the start"
    elif end > now + _CLOCKS_DIFFER:
        faults["end"] = "is to come: what is recorded ends now"
    elif end - start > LONGEST:
        faults["start"] = f"is at most {LONGEST.days} days before the end"
    for name in ("service", "operation"):
        said = asked.get(name, "")
        if not isinstance(said, str) or len(said) > NAME_CHARS or not said.isprintable():
            faults[name] = "is a name"
    return faults


def _recalled(entry: AuditEntry) -> Replay:
    return Replay.objects.get(environment=entry.environment, number=entry.after["number"])
