"""Actions of policies: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("policy.edit", "edited the policy of", permission="edit_policy", is_for_agents=True, needs_reason=True)
declare("masking.set", "changed", permission="edit_policy", is_for_agents=True, needs_reason=True)
declare("policy.release", "released", permission="release_policy", is_for_agents=True, needs_reason=True)
declare(
    "policy.roll_back",
    "rolled the policy back to",
    permission="roll_back_policy",
    is_for_agents=True,
    needs_reason=True,
)
declare("rollout.start", "started the canary of", permission="release_policy", is_for_agents=True, needs_reason=True)
declare("rollout.promote", "promoted", permission="release_policy", is_for_agents=True, needs_reason=True)
declare("rollout.take_back", "rolled back", permission="roll_back_policy", is_for_agents=True, needs_reason=True)
declare("rollout.extend", "extended", permission="release_policy")
declare("feedback.say", "reported poor handling of", permission="propose_policy", needs_reason=True)
declare("feedback.close", "dismissed", permission="propose_policy")
declare("unknown.dismiss", "dismissed", permission="propose_policy")
declare("unknown.reopen", "reopened", permission="propose_policy")
declare("proposal.draft", "drafted", permission="propose_policy")
declare("proposal.revise", "edited", permission="propose_policy")
declare("proposal.submit", "submitted for review", permission="propose_policy")
declare("proposal.comment", "commented on", permission="propose_policy", needs_reason=True)
declare("proposal.approve", "approved", permission="approve_policy")
declare("proposal.return", "returned", permission="propose_policy", needs_reason=True)
declare("proposal.reject", "rejected", permission="propose_policy", needs_reason=True)
declare("proposal.schedule", "scheduled", permission="release_policy", needs_reason=True)
declare("release.review", "reviewed", permission="approve_policy", needs_reason=True)
declare("environment.rules", "changed the rules of", permission="set_rules", needs_reason=True)
