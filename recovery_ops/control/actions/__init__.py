"""Every change a person can make: one function each, which checks, writes, audits and bumps the revision."""

from recovery_ops.control.actions.attempt import Asked, Done, words_of
from recovery_ops.control.actions.checks import DEFAULT_EXPIRY_S, LEAST_EXPIRY_S, LONGEST_EXPIRY_S
from recovery_ops.control.actions.due import keep_rollouts, release_due
from recovery_ops.control.actions.feedback import lay_aside, propose_from, say
from recovery_ops.control.actions.golden import mark_golden, retire_golden
from recovery_ops.control.actions.intake import drop_quarantine, newest_of_quarantine, replay_quarantine
from recovery_ops.control.actions.overrides import disable, end_expired, extend, impose, observe, release, trip
from recovery_ops.control.actions.past import PAST
from recovery_ops.control.actions.policies import edited, knobs_of, set_operation_policy
from recovery_ops.control.actions.proposals import (
    approve,
    comment,
    propose,
    reject,
    release_proposal,
    revise,
    schedule,
    send_back,
    submit,
)
from recovery_ops.control.actions.ramps import cancel, go_on, keep_ramps
from recovery_ops.control.actions.releases import roll_back
from recovery_ops.control.actions.resets import reset
from recovery_ops.control.actions.review import awaiting_review, is_review_needed, review_release, set_rules
from recovery_ops.control.actions.rollouts import extend_rollout, promote, start_rollout, take_back
from recovery_ops.control.actions.unclassified import dismiss_cause, propose_rule, reopen_cause
from recovery_ops.control.actors import Actor, system
from recovery_ops.control.refusals import Refused

__all__ = [
    "DEFAULT_EXPIRY_S",
    "LEAST_EXPIRY_S",
    "LONGEST_EXPIRY_S",
    "PAST",
    "Actor",
    "Asked",
    "Done",
    "Refused",
    "approve",
    "awaiting_review",
    "cancel",
    "comment",
    "disable",
    "dismiss_cause",
    "drop_quarantine",
    "edited",
    "end_expired",
    "extend",
    "extend_rollout",
    "go_on",
    "impose",
    "is_review_needed",
    "keep_ramps",
    "keep_rollouts",
    "knobs_of",
    "lay_aside",
    "mark_golden",
    "newest_of_quarantine",
    "observe",
    "promote",
    "propose",
    "propose_from",
    "propose_rule",
    "reject",
    "release",
    "release_due",
    "release_proposal",
    "reopen_cause",
    "replay_quarantine",
    "reset",
    "retire_golden",
    "review_release",
    "revise",
    "roll_back",
    "say",
    "schedule",
    "send_back",
    "set_operation_policy",
    "set_rules",
    "start_rollout",
    "submit",
    "system",
    "take_back",
    "trip",
    "words_of",
]
