"""A proposal for some instances first: begun, prolonged, promoted to all, or taken back.

While one goes on, nothing else goes live in its environment but what waits for nobody: a rollback to an earlier release
and the shedding of load. Those end it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NotRequired, Required, Unpack

from events.queries import fleet
from recovery_ops.control.breakers.impact import impact_of
from recovery_ops.control.core.commands import (
    Change,
    Command,
    CommandContext,
    CommandResult,
    execute,
    require_permission,
)
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease
from recovery_ops.control.policies.models.rollouts import PolicyRollout
from recovery_ops.control.policies.services.cohorts import fault_of_length, faults_of
from recovery_ops.control.policies.services.cohorts import whole as whole_cohort
from recovery_ops.control.policies.services.proposals import check_step, found_proposal, refuse_other_base, step_on
from recovery_ops.control.policies.services.releases import (
    glass_to_break,
    recalled,
    refuse_while_rolling_out,
    released,
    stop_rollout,
)
from recovery_ops.control.replay.services.golden import accept_changes
from recovery_ops.rules.fleet.canary_cohort import Cohort, limit_for
from recovery_ops.rules.policy.scope import ANY, Scope

START, PROMOTE, TAKE_BACK, EXTEND = "rollout.start", "rollout.promote", "rollout.take_back", "rollout.extend"


class RollingOut(CommandContext):
    """What `start_rollout` is given: a proposal's number, and to whom it goes for how long.

    `share`: above 0, up to 1, of the instances of `service` and `group` (`*`: any). `least_calls`: of each side, before
    the gate concludes anything. `seen` is the proposal's step.
    """

    number: Required[int]
    share: NotRequired[float]
    for_s: NotRequired[float]
    service: NotRequired[str]
    group: NotRequired[str]
    least_calls: NotRequired[int]
    break_glass: NotRequired[bool]
    accepts_golden: NotRequired[bool]


def start_rollout(**asked: Unpack[RollingOut]) -> CommandResult[PolicyRollout]:
    """Let a part of the fleet obey a proposal, for a time; everybody else goes on with the live policy.

    Raises CommandRejected as `release_proposal`; 404 where no instance is of the service and the group; 409 while
    another rollout goes on.
    """
    environment = asked["environment"]
    proposal = found_proposal("release_policy", asked)
    scope = Scope(service=asked.get("service", ANY), group=asked.get("group", ANY))
    command = Command.of(START, scope, asked, faults_of(asked), about=proposal.about)

    def write(revision: int) -> Change[PolicyRollout]:
        held = PolicyProposal.objects.get(pk=proposal.pk)
        check_step(held, "roll-out", command)
        is_approved = held.state in (PolicyProposal.APPROVED, PolicyProposal.SCHEDULED) and bool(held.approved_by)
        is_broken = glass_to_break(command, is_approved=is_approved, break_glass=asked.get("break_glass", False))
        refuse_other_base(held)
        refuse_while_rolling_out(environment)
        accept_changes(held, is_accepted=asked.get("accepts_golden", False))
        made = _made(command, asked, held, revision, is_break_glass=is_broken)
        step_on(held, "roll-out", command)
        return Change(object=made, revision=revision, after=_told(made))

    with command.noted():
        command.check()
        impact = impact_of(environment, scope, now=command.now)
        return execute(command, write, recall=_recalled, impact=impact)


class Deciding(CommandContext):
    """What acts on a rollout are given: its number. `seen` is its step."""

    number: Required[int]


class Extending(Deciding):
    """`for_s`: how much longer."""

    for_s: Required[float]


def promote(**asked: Unpack[Deciding]) -> CommandResult[PolicyRelease]:
    """Make what the cohort obeys the live policy of all.

    Raises CommandRejected: 403, 404, 409 when it does not go on.
    """
    environment = asked["environment"]
    rollout = _found("release_policy", asked)
    command = Command.of(PROMOTE, Scope(), asked, about=rollout.about)

    def write(revision: int) -> Change[PolicyRelease]:
        held = _held(rollout, command)
        live, proposal = live_policy(environment), held.proposal
        made = released(
            command,
            held.document,
            live,
            proposal.title,
            revision,
            proposal=proposal,
            is_break_glass=held.is_break_glass,
            rollout=held,
        )
        step_on(proposal, "promote", command)
        after = {"version": str(made.version), "rollout": held.number, "is_break_glass": held.is_break_glass}
        return Change(object=made, revision=revision, before={"version": live.version}, after=after)

    with command.noted():
        command.check()
        return execute(command, write, recall=recalled)


def take_back(**asked: Unpack[Deciding]) -> CommandResult[PolicyRollout]:
    """Give the cohort the live policy back. Raises CommandRejected: 403, 404, 409 when it does not go on."""
    rollout = _found("roll_back_policy", asked)
    command = Command.of(TAKE_BACK, Scope(), asked, about=rollout.about)

    def write(revision: int) -> Change[PolicyRollout]:
        held = _held(rollout, command)
        before = _told(held)
        stop_rollout(held, command, revision)
        step_on(held.proposal, "take-back", command)
        return Change(object=held, revision=revision, before=before, after=_told(held))

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def extend_rollout(**asked: Unpack[Extending]) -> CommandResult[PolicyRollout]:
    """Let it go on for longer before it is decided; agents need not hear of that.

    Raises CommandRejected: 403, 404, 400, 409.
    """
    rollout, for_s = _found("release_policy", asked), asked["for_s"]
    faults = {"for_s": fault_of_length(for_s)}
    command = Command.of(EXTEND, Scope(), asked, faults, about=rollout.about)

    def write(revision: int) -> Change[PolicyRollout]:
        held = _held(rollout, command)
        before = _told(held)
        held.ends_at = max(held.ends_at, command.now) + timedelta(seconds=for_s)
        held.step += 1
        held.save(update_fields=["ends_at", "step"])
        return Change(object=held, revision=revision, before=before, after=_told(held))

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def _made(
    command: Command, asked: RollingOut, proposal: PolicyProposal, revision: int, *, is_break_glass: bool
) -> PolicyRollout:
    environment, cohort = command.environment, whole_cohort(asked)
    share = float(cohort["share"])
    salt = f"{environment}/{proposal.number}"
    whole = Cohort(salt=salt, service=command.scope.service, group=command.scope.group)
    agents = [one for one in fleet(environment, now=command.now) if one.is_follower]
    known = [one for one in agents if whole.reaches(service=one.service, group=one.group)]
    # Who is gone takes no part: else the only members might be those that never hear of it.
    reached = [(one.service, one.instance) for one in known if one.is_reachable]
    if agents and not known:
        fields = {name: "is unknown" for name in ("service", "group") if getattr(whole, name) != ANY}
        detail = f"No instance in {environment} matches that service and group; the canary would be empty."
        raise CommandRejected("unknown_scope", detail, status=NOT_FOUND, fields=fields)
    newest = PolicyRollout.objects.filter(environment=environment).order_by("-number").first()
    return PolicyRollout.objects.create(
        environment=environment,
        number=1 if newest is None else newest.number + 1,
        proposal=proposal,
        document=proposal.document,
        base_version=proposal.base_version,
        service=whole.service,
        group=whole.group,
        share=share,
        salt=salt,
        limit=limit_for(salt, share, reached),
        least_calls=cohort["least_calls"],
        is_break_glass=is_break_glass,
        reason=command.reason,
        by_user_id=command.by.user_id,
        by=command.by.name,
        revision=revision,
        started_at=command.now,
        ends_at=command.now + timedelta(seconds=float(cohort["for_s"])),
    )


def _found(permission: str, asked: Any) -> PolicyRollout:
    environment, number = asked["environment"], asked["number"]
    rollout = PolicyRollout.objects.filter(environment=environment, number=number).first()
    if rollout is not None:
        return rollout
    require_permission(asked["by"], permission, environment)
    detail = f"{environment} has no rollout {number}. The page of policies shows the running one."
    raise CommandRejected("unknown_rollout", detail, status=NOT_FOUND, fields={"number": "is unknown"})


def _held(rollout: PolicyRollout, command: Command) -> PolicyRollout:
    """The rollout as it is now.

    Raises CommandRejected (409) when it is over, or somebody did something to it since `seen`.
    """
    held = PolicyRollout.objects.select_related("proposal").get(pk=rollout.pk)
    if not held.is_running:
        word = held.state.replace("_", " ")
        detail = f"Rollout {held.number} was {word} by {held.ended_by}: “{held.end_reason}”."
        raise CommandRejected("wrong_state", detail, status=CONFLICT)
    if command.seen is not None and command.seen != held.step:
        detail = f"Rollout {held.number} is at step {held.step}, not {command.seen}: it was extended. Reload it."
        raise CommandRejected("stale", detail, status=CONFLICT)
    return held


def _recalled(entry: AuditEntry) -> PolicyRollout:
    return PolicyRollout.objects.get(environment=entry.environment, number=entry.after["rollout"])


def _told(rollout: PolicyRollout) -> Mapping[str, Any]:
    """A rollout as the audit log keeps it."""
    return {
        "rollout": rollout.number,
        "proposal": rollout.proposal.number,
        "state": rollout.state,
        "share": rollout.share,
        "service": rollout.service[:NAME_CHARS],
        "group": rollout.group[:NAME_CHARS],
        "ends_at": rollout.ends_at.isoformat(timespec="seconds"),
        "health": rollout.health,
        "said": rollout.said,
    }
