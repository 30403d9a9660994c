"""Makes a policy live: a new release of a whole document, or of one that was live before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Required, Unpack

from events.capacity.bounds import keep_bounds
from events.ingest.classification import keep_rules
from events.ingest.masking import keep_masking
from recovery_ops.control.breakers.impact import impact_of
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import REASON_CHARS
from recovery_ops.control.core.rejections import CONFLICT, FORBIDDEN, NOT_FOUND, CommandRejected
from recovery_ops.control.desired_state.document import LivePolicy, live_policy
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease, ProposalNote
from recovery_ops.control.policies.models.rollouts import PolicyRollout
from recovery_ops.control.policies.services.review import is_review_needed
from recovery_ops.rules.policy.model import BUILT_IN, document_of, parse_policy
from recovery_ops.rules.policy.scope import Scope

ROLL_BACK = "policy.roll_back"


class RollingBack(CommandContext):
    """What `roll_back` is given: the number of the release to return to; 0 is the built-in policy."""

    version: Required[int]


def roll_back(**asked: Unpack[RollingBack]) -> CommandResult[PolicyRelease]:
    """Release the document of an earlier version again. It was live once, so it waits for nobody's approval.

    Where the live document is that one already, the live release is the answer.
    Raises CommandRejected: 403, 400, 404, and 409 when the policy was changed since `seen`.
    """
    environment, version = asked["environment"], asked["version"]
    command = Command.of(ROLL_BACK, Scope(), asked, about=f"policy {version}")

    def write(revision: int) -> Change[PolicyRelease]:
        wanted, live = _document_of(environment, version), live_policy(environment)
        if live.release is not None and live.document == wanted:
            refuse_while_rolling_out(environment)  # else the cohort would go on, and the answer say otherwise
            return Change(object=live.release, revision=live.release.revision, was_already=True)
        command.check_fresh(revision - 1)
        name = f"policy {version}" if version else "the default policy"
        made = released(command, wanted, live, f"back to {name}", revision, returns_to=version)
        after = {"version": str(made.version), "returns_to": version}
        return Change(object=made, revision=revision, before={"version": live.version}, after=after)

    with command.noted():
        command.check()
        impact = impact_of(environment, Scope(), now=command.now)
        return execute(command, write, recall=recalled, impact=impact)


def released(
    command: Command,
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
    for going_on in PolicyRollout.objects.running(command.environment).select_related("proposal"):
        if rollout is not None and going_on.pk == rollout.pk:
            stop_rollout(going_on, command, revision, state=PolicyRollout.PROMOTED)
        else:
            _overtake(going_on, command, revision)
    was_live = PolicyProposal.objects.filter(environment=command.environment, state=PolicyProposal.LIVE)
    was_live.update(state=PolicyProposal.SUPERSEDED if returns_to is None else PolicyProposal.ROLLED_BACK)
    policy = parse_policy(document)
    keep_bounds(command.environment, policy.capacity_events)
    keep_rules(command.environment, policy.classification)
    keep_masking(command.environment, policy.masking)
    return PolicyRelease.objects.create(
        environment=command.environment,
        version=1 if live.release is None else live.release.version + 1,
        document=document,
        summary=summary[:REASON_CHARS],
        reason=command.reason,
        by_user_id=command.by.user_id,
        by=command.by.name,
        created_at=command.now,
        revision=revision,
        proposal=proposal,
        returns_to=returns_to,
        is_break_glass=is_break_glass,
    )


def stop_rollout(
    rollout: PolicyRollout, command: Command, revision: int, *, state: str = PolicyRollout.ROLLED_BACK
) -> None:
    """End a rollout, in the transaction of a change."""
    rollout.state = state
    rollout.step += 1
    rollout.ended_at, rollout.ended_by = command.now, command.by.name
    rollout.end_reason, rollout.end_revision = command.reason, revision
    rollout.save(update_fields=["state", "step", "ended_at", "ended_by", "end_reason", "end_revision"])


def _overtake(rollout: PolicyRollout, command: Command, revision: int) -> None:
    """End a rollout because something else goes live, and say so to those who read its proposal."""
    stop_rollout(rollout, command, revision)
    proposal = rollout.proposal
    proposal.state, proposal.changed_at = PolicyProposal.ROLLED_BACK, command.now
    proposal.step += 1
    proposal.save(update_fields=["state", "changed_at", "step"])
    ProposalNote.objects.create(
        proposal=proposal,
        step=proposal.step,
        edition=proposal.edition,
        verb="take-back",
        state=proposal.state,
        by=command.by.name,
        at=command.now,
        text=f"Another release went live: {command.reason}"[:REASON_CHARS],
    )


def refuse_while_rolling_out(environment: str) -> None:
    """Raise Refused (409) while another policy is tried by a part of the fleet."""
    found = PolicyRollout.objects.running(environment).select_related("proposal").first()
    if found is not None:
        detail = (
            f"Rollout {found.number} of proposal {found.proposal.number} runs until {found.ends_at:%H:%M} UTC. "
            "Promote it or roll it back first."
        )
        raise CommandRejected("rolling_out", detail, status=CONFLICT)


def glass_to_break(command: Command, *, is_approved: bool, break_glass: bool) -> bool:
    """Whether this release breaks the glass.

    Raises CommandRejected (403) when it would, and may not or does not say so.
    """
    if is_approved or not is_review_needed(command.environment):
        return False
    if not break_glass:
        raise CommandRejected(
            "review_needed",
            f"{command.environment} requires approval before a policy goes live. Submit the proposal for review. An "
            "editor can use break-glass; another user reviews the release later.",
            status=FORBIDDEN,
        )
    if not command.by.may("break_glass", command.environment):
        detail = (
            f"{command.by.name} lacks the permission for break-glass in {command.environment}. The role editor has it."
        )
        raise CommandRejected("forbidden", detail, status=FORBIDDEN)
    return True


def recalled(entry: AuditEntry) -> PolicyRelease:
    """The release that an entry of the audit log tells of."""
    return PolicyRelease.objects.get(environment=entry.environment, revision=entry.revision or 0)


def _document_of(environment: str, version: int) -> Mapping[str, Any]:
    if version == 0:
        return document_of(BUILT_IN)
    release = PolicyRelease.objects.filter(environment=environment, version=version).first()
    if release is None:
        detail = f"{environment} has no policy {version}; see the list of releases."
        raise CommandRejected("unknown_release", detail, status=NOT_FOUND, fields={"version": "is unknown"})
    document: Mapping[str, Any] = release.document
    return document
