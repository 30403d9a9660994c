"""Every change a person can make: one function each, which checks, writes, audits and bumps the revision."""

from recovery_ops.control.actions.attempt import PAST, Asked, Done, words_of
from recovery_ops.control.actions.checks import DEFAULT_EXPIRY_S, LEAST_EXPIRY_S, LONGEST_EXPIRY_S
from recovery_ops.control.actions.overrides import disable, end_expired, extend, impose, observe, release, trip
from recovery_ops.control.actions.policies import knobs_of, set_operation_policy
from recovery_ops.control.actions.resets import reset
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
    "disable",
    "end_expired",
    "extend",
    "impose",
    "knobs_of",
    "observe",
    "release",
    "reset",
    "set_operation_policy",
    "system",
    "trip",
    "words_of",
]
