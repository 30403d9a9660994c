"""What becomes live, or is taken back, by its time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease
from recovery_ops.control.policies.models.rollouts import SAID_CHARS, PolicyRollout
from recovery_ops.control.policies.rollout_evidence import evidence_of, figures_of
from recovery_ops.control.policies.services.proposals import release_proposal, send_back
from recovery_ops.control.policies.services.rollouts import promote, start_rollout, take_back
from recovery_ops.rules.fleet.health_gate import Health, Opinion

_REASON = "scheduled time reached"
_REASON_CHARS = 450
"""Room is left for what stands before it."""


def release_due(*, now: datetime) -> list[PolicyRelease | PolicyRollout]:
    """Release every proposal whose hour has come, or begin its rollout where it was scheduled for some first.

    One that cannot go live any more is a draft again, and says why. Asked twice, the second finds nothing.
    """
    made: list[PolicyRelease | PolicyRollout] = []
    for proposal in PolicyProposal.objects.due(now):
        asked: dict[str, Any] = {
            "by": system_actor("schedule"),
            "environment": proposal.environment,
            "number": proposal.number,
            "reason": _REASON,
            "seen": proposal.step,
            "now": now,
        }
        try:
            if proposal.cohort is None:
                made.append(release_proposal(**asked).object)
            else:
                made.append(start_rollout(**asked, **proposal.cohort).object)
        except CommandRejected as rejection:
            _give_back(proposal, rejection, now)
    return made


def _give_back(proposal: PolicyProposal, rejection: CommandRejected, now: datetime) -> None:
    by, where = system_actor("schedule"), proposal.environment
    why = f"The scheduled release failed: {rejection.detail}"
    try:
        send_back(by=by, environment=where, number=proposal.number, reason=why, seen=proposal.step, now=now)
    except CommandRejected:
        return  # somebody was quicker: it is in their hands


def keep_rollouts(*, now: datetime) -> list[PolicyRollout]:
    """Note what the gate says of every rollout that goes on, and end those that are due; return them.

    What is well is promoted when its time is over; what is not is taken back at once, and what nobody could judge when
    twice its time is over. Asked twice, or by two at once, the second finds nothing left to do.
    """
    ended = []
    for rollout in PolicyRollout.objects.running().select_related("proposal").order_by("pk"):
        opinion = _judged(rollout, now)
        act, reason = _due(rollout, opinion, now)
        if act is None:
            continue
        by, where = system_actor("health gate"), rollout.environment
        try:
            act(by=by, environment=where, number=rollout.number, reason=reason, seen=rollout.step, now=now)
        except CommandRejected:
            continue  # somebody was quicker, or prolonged it: the next look sees what is so then
        ended.append(rollout)
    return ended


def _judged(rollout: PolicyRollout, now: datetime) -> Opinion:
    """What the gate says now, noted in the row of one that still goes on."""
    evidence = evidence_of(rollout, now=now)
    opinion = evidence.opinion(rollout)
    rollout.health, rollout.said = opinion.health.value, opinion.sentence[:SAID_CHARS]
    PolicyRollout.objects.running().filter(pk=rollout.pk).update(
        health=rollout.health, said=rollout.said, figures=figures_of(evidence), judged_at=now
    )
    return opinion


def _due(rollout: PolicyRollout, opinion: Opinion, now: datetime) -> tuple[Any, str]:
    """What is to be done now, and why; None for nothing."""
    # It names operations as agents do, and a reason is for people.
    said = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in opinion.sentence)[
        :_REASON_CHARS
    ]
    if opinion.health is Health.ROLL_BACK:
        return take_back, said
    if now < rollout.ends_at:
        return None, ""
    if opinion.health is Health.GO:
        return promote, said
    if now >= rollout.ends_at + (rollout.ends_at - rollout.started_at):
        return take_back, f"No result after twice the planned duration. {said}"
    return None, ""
