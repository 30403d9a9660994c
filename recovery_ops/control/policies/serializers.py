"""Policies, proposals, rollouts and feedback as JSON."""

from __future__ import annotations

from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.core.serializers import Document, register_result, utc_text
from recovery_ops.control.desired_state.document import LivePolicy
from recovery_ops.control.policies.models.feedback import Feedback
from recovery_ops.control.policies.models.policies import BreakGlassReview, PolicyProposal, PolicyRelease, ProposalNote
from recovery_ops.control.policies.models.rollouts import PolicyRollout
from recovery_ops.control.policies.models.unclassified import UnknownCause
from recovery_ops.control.policies.services.review import is_review_needed, rules_in_force
from recovery_ops.rules.policy.lint import Finding


def release_document(one: PolicyRelease) -> Document:
    """A version of the policy, without its document."""
    return {
        "version": one.version,
        "summary": one.summary,
        "by": one.by,
        "reason": one.reason,
        "created_at": utc_text(one.created_at),
        "revision": one.revision,
        "proposal": None if one.proposal is None else one.proposal.number,
        "returns_to": one.returns_to,
        "is_break_glass": one.is_break_glass,
    }


def proposal_document(one: PolicyProposal) -> Document:
    """A proposal, without its document. `step` is what If-Match names."""
    return {
        "number": one.number,
        "title": one.title,
        "state": one.state,
        "base_version": one.base_version,
        "edition": one.edition,
        "step": one.step,
        "by": one.by,
        "created_at": utc_text(one.created_at),
        "changed_at": utc_text(one.changed_at),
        "approved_by": one.approved_by,
        "approved_at": utc_text(one.approved_at),
        "go_live_at": utc_text(one.go_live_at),
        "cohort": one.cohort,
    }


def feedback_document(one: Feedback) -> Document:
    """A user's report of a wrong reaction."""
    return {
        "number": one.number,
        "operation": one.operation,
        "service": one.service,
        "run": one.run,
        "fingerprint": one.fingerprint,
        "want": one.want,
        "reason": one.reason,
        "by": one.by,
        "at": utc_text(one.at),
        "state": one.state,
        "proposal": None if one.proposal is None else one.proposal.number,
    }


def unknown_issue_document(one: UnknownCause) -> Document:
    """A user's decision about an unknown failure."""
    return {
        "fingerprint": one.fingerprint,
        "state": one.state,
        "reason": one.reason,
        "by": one.by,
        "at": utc_text(one.at),
        "proposal": None if one.proposal is None else one.proposal.number,
    }


def rollout_document(one: PolicyRollout) -> Document:
    """A canary rollout; `said` and `figures` are the last result of the health gate."""
    return {
        "number": one.number,
        "proposal": one.proposal.number,
        "state": one.state,
        "step": one.step,
        "version": one.version,
        "base_version": one.base_version,
        "share": one.share,
        "service": one.service,
        "group": one.group,
        "least_calls": one.least_calls,
        "by": one.by,
        "reason": one.reason,
        "revision": one.revision,
        "started_at": utc_text(one.started_at),
        "ends_at": utc_text(one.ends_at),
        "health": one.health,
        "said": one.said,
        "figures": one.figures,
        "judged_at": utc_text(one.judged_at),
        "ended_at": utc_text(one.ended_at),
        "ended_by": one.ended_by,
        "end_reason": one.end_reason,
        "end_revision": one.end_revision,
        "is_break_glass": one.is_break_glass,
    }


def proposal_note_document(one: ProposalNote) -> Document:
    """One change of a proposal, or a comment."""
    return {
        "step": one.step,
        "edition": one.edition,
        "verb": one.verb,
        "state": one.state,
        "by": one.by,
        "at": utc_text(one.at),
        "text": one.text,
    }


def finding_document(one: Finding) -> Document:
    """What a careful colleague would ask about a policy."""
    return {"level": one.level.value, "path": one.path, "code": one.code, "message": one.message}


def policy_document(live: LivePolicy) -> Document:
    """The live policy and its release; `release` is null for the default policy."""
    return {"version": live.version, "release": None if live.release is None else release_document(live.release)}


def rules_document(one: EnvironmentRules) -> Document:
    """Whether an environment is production, its policies are reviewed, and wide changes need a second approver."""
    return {**rules_in_force(one.environment, one), "is_review_needed": is_review_needed(one.environment)}


def break_glass_review_document(one: BreakGlassReview) -> Document:
    """The review of a policy that was released without approval."""
    return {"version": one.release.version, "by": one.by, "at": utc_text(one.at), "reason": one.reason}


register_result(PolicyProposal, "proposal", proposal_document)
register_result(UnknownCause, "cause", unknown_issue_document)
register_result(EnvironmentRules, "rules", rules_document)
register_result(BreakGlassReview, "review", break_glass_review_document)
register_result(Feedback, "feedback", feedback_document)
register_result(PolicyRollout, "rollout", rollout_document)
register_result(PolicyRelease, "policy", release_document)
