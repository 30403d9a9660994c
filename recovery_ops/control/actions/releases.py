"""Makes a policy live: a new release of a whole document, or of one that was live before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Required, Unpack

from events.capacity.bounds import keep_bounds
from events.classification import keep_rules
from events.masking import keep_masking
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.review import is_review_needed
from recovery_ops.control.desired import LivePolicy, live_policy
from recovery_ops.control.impact import impact_of
from recovery_ops.control.models import (
    REASON_CHARS,
    AuditEntry,
    PolicyProposal,
    PolicyRelease,
    PolicyRollout,
    ProposalNote,
)
from recovery_ops.control.refusals import FORBIDDEN, STALE, UNKNOWN, Refused
from recovery_ops.rules.policy import BUILT_IN, document_of, parse_policy
from recovery_ops.rules.scope import Scope

ROLL_BACK = "policy.roll_back"


class RollingBack(Asked):
    """What `roll_back` is given: the number of the release to return to; 0 is the built-in policy."""

    version: Required[int]


def roll_back(**asked: Unpack[RollingBack]) -> Done[PolicyRelease]:
    """Release the document of an earlier version again. It was live once, so it waits for nobody's approval.

    Where the live document is that one already, the live release is the answer.
    Raises Refused: 403, 400, 404, and 409 when the policy was changed since `seen`.
    """
    environment, version = asked["environment"], asked["version"]
    attempt = Attempt.of(ROLL_BACK, "roll_back_policy", Scope(), asked, about=f"policy {version}")

    def write(revision: int) -> Step[PolicyRelease]:
        wanted, live = _document_of(environment, version), live_policy(environment)
        if live.release is not None and live.document == wanted:
            refuse_while_rolling_out(environment)  # else the cohort would go on, and the answer say otherwise
            return Step(object=live.release, revision=live.release.revision, was_already=True)
        attempt.check_fresh(revision - 1)
        name = f"policy {version}" if version else "the built-in policy"
        made = released(attempt, wanted, live, f"back to {name}", revision, returns_to=version)
        after = {"version": str(made.version), "returns_to": version}
        return Step(object=made, revision=revision, before={"version": live.version}, after=after)

    with attempt.noted():
        attempt.check()
        impact = impact_of(environment, Scope(), now=attempt.now)
        return carry_out(attempt, write, recall=recalled, impact=impact)


def released(
    attempt: Attempt,
    document: Mapping[str, Any],
    live: LivePolicy,
    summary: str,
    revision: int,
    *,
    proposal: PolicyProposal | None = None,
    returns_to: int | None = None,
    is_break_glass: bool = False,
    rollout: PolicyRollout | None = None,
) -> PolicyRelease:
    """Write the next release, in the transaction of a change; what was live is so no more.

    `rollout` is the one that is promoted by it; any other that goes on is taken back, because its cohort would not obey
    what is released.
    """
    for going_on in PolicyRollout.objects.running(attempt.environment).select_related("proposal"):
        if rollout is not None and going_on.pk == rollout.pk:
            stop_rollout(going_on, attempt, revision, state=PolicyRollout.PROMOTED)
        else:
            _overtake(going_on, attempt, revision)
    was_live = PolicyProposal.objects.filter(environment=attempt.environment, state=PolicyProposal.LIVE)
    was_live.update(state=PolicyProposal.SUPERSEDED if returns_to is None else PolicyProposal.ROLLED_BACK)
    policy = parse_policy(document)
    keep_bounds(attempt.environment, policy.capacity_events)
    keep_rules(attempt.environment, policy.classification)
    keep_masking(attempt.environment, policy.masking)
    return PolicyRelease.objects.create(
        environment=attempt.environment,
        version=1 if live.release is None else live.release.version + 1,
        document=document,
        summary=summary[:REASON_CHARS],
        reason=attempt.reason,
        by_user_id=attempt.by.user_id,
        by=attempt.by.name,
        created_at=attempt.now,
        revision=revision,
        proposal=proposal,
        returns_to=returns_to,
        is_break_glass=is_break_glass,
    )


def stop_rollout(
    rollout: PolicyRollout, attempt: Attempt, revision: int, *, state: str = PolicyRollout.ROLLED_BACK
) -> None:
    """End a rollout, in the transaction of a change."""
    rollout.state = state
    rollout.step += 1
    rollout.ended_at, rollout.ended_by = attempt.now, attempt.by.name
    rollout.end_reason, rollout.end_revision = attempt.reason, revision
    rollout.save(update_fields=["state", "step", "ended_at", "ended_by", "end_reason", "end_revision"])


def _overtake(rollout: PolicyRollout, attempt: Attempt, revision: int) -> None:
    """End a rollout because something else goes live, and say so to those who read its proposal."""
    stop_rollout(rollout, attempt, revision)
    proposal = rollout.proposal
    proposal.state, proposal.changed_at = PolicyProposal.ROLLED_BACK, attempt.now
    proposal.step += 1
    proposal.save(update_fields=["state", "changed_at", "step"])
    ProposalNote.objects.create(
        proposal=proposal,
        step=proposal.step,
        edition=proposal.edition,
        verb="take-back",
        state=proposal.state,
        by=attempt.by.name,
        at=attempt.now,
        text=f"Something else went live: {attempt.reason}"[:REASON_CHARS],
    )


def refuse_while_rolling_out(environment: str) -> None:
    """Raise Refused (409) while another policy is tried by a part of the fleet."""
    found = PolicyRollout.objects.running(environment).select_related("proposal").first()
    if found is not None:
        detail = (
            f"Rollout {found.number} of proposal {found.proposal.number} goes on until {found.ends_at:%H:%M} UTC. "
            "Promote it or take it back first."
        )
        raise Refused("rolling_out", detail, status=STALE)


def glass_to_break(attempt: Attempt, *, is_approved: bool, break_glass: bool) -> bool:
    """Whether this release breaks the glass. Raises Refused (403) when it would, and may not or does not say so."""
    if is_approved or not is_review_needed(attempt.environment):
        return False
    if not break_glass:
        raise Refused(
            "review_needed",
            f"In {attempt.environment} somebody else approves a policy before it goes live. Send it to review; an "
            "editor may release it without, and it is reviewed afterwards.",
            status=FORBIDDEN,
        )
    if not attempt.by.may("break_glass", attempt.environment):
        detail = f"{attempt.by.name} may not release without approval in {attempt.environment}. An editor may."
        raise Refused("forbidden", detail, status=FORBIDDEN)
    return True


def recalled(entry: AuditEntry) -> PolicyRelease:
    """The release that an entry of the audit log tells of."""
    return PolicyRelease.objects.get(environment=entry.environment, revision=entry.revision or 0)


def _document_of(environment: str, version: int) -> Mapping[str, Any]:
    if version == 0:
        return document_of(BUILT_IN)
    release = PolicyRelease.objects.filter(environment=environment, version=version).first()
    if release is None:
        detail = f"There is no policy {version} in {environment}. The list of releases names those that there are."
        raise Refused("unknown_release", detail, status=UNKNOWN, fields={"version": "is not known"})
    document: Mapping[str, Any] = release.document
    return document
