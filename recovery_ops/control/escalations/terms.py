"""What holds for each kind of question: what it asks, and the terms under which the live policy has it opened."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from recovery_ops.control.desired import live_policy
from recovery_ops.rules.budget import DENIALS, ERRORS, TURNS
from recovery_ops.rules.escalation_terms import (
    ABORT,
    ALLOW,
    OTHER,
    REJECT,
    REVERSAL_REFUSED,
    STAY_CLOSED,
    Terms,
    kind_of,
    parse_terms,
)
from recovery_ops.rules.words import Category

ACTIVE_FOR = timedelta(minutes=5)
"""A question that was asked again within this still has its cause."""

THEN = {
    REJECT: "it is rejected",
    ABORT: "the run stays stopped, with its state saved",
    STAY_CLOSED: "it goes on failing closed",
    ALLOW: "it is allowed",
}
"""What silence means, in words."""

_ASKS = {
    Category.POLICY_DENIED.value: "May it be done although a policy refused it?",
    Category.PERMISSION.value: "Should the agent be given the right to do it?",
    DENIALS: "Should the agent be allowed what it keeps asking for?",
    Category.QUOTA_EXHAUSTED.value: "Should the quota be raised, or the work wait?",
    Category.UNKNOWN.value: "What kind of failure is this?",
    REVERSAL_REFUSED: "It could not be undone: what is to be done by hand?",
    ERRORS: "The error budget of a run is spent: should it go on?",
    TURNS: "A run has used up its turns: should it go on?",
    OTHER: "It failed on every rung: what is to be done?",
}

_MATTERS = {
    DENIALS: "refused too often",
    ERRORS: "error budget spent",
    TURNS: "turns used up",
    REVERSAL_REFUSED: "reversal refused",
}
"""What happened, where it is no category of failures."""


def matter_of(reason: str, category: str = "") -> str:
    """What a question is about, in a few words: `policy_denied`, `error budget spent`."""
    return category or _MATTERS.get(reason, reason)


def whose_of(operation: str, service: str) -> str:
    """What a question is about the work of: the operation, else a run of the service."""
    return operation or (f"a run of {service}" if service else "a run")


def asks_of(reason: str, category: str = "") -> str:
    """The question that is asked for this reason, or about a failure of this category."""
    return _ASKS.get(reason) or _ASKS.get(kind_of(reason, category), _ASKS[OTHER])


def terms_now(environment: str) -> Mapping[str, Terms]:
    """The terms of the live policy, by kind. One query.

    A row that this version would refuse, of a policy that another one let live, is the built-in row: a question is
    opened all the same.
    """
    return parse_terms(live_policy(environment).document.get("escalation_terms"), "escalation_terms", [])
