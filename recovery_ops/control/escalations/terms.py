"""What holds for each kind of question: what it asks, and the terms under which the live policy has it opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from events.models import Fact
from recovery_ops.control.desired import live_policy
from recovery_ops.control.models import Escalation
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
from recovery_ops.rules.facts import CheckpointSaved
from recovery_ops.rules.words import Category
from recovery_ops.wire import names

ACTIVE_FOR = timedelta(minutes=5)
"""A question that was asked again within this still has its cause."""

_THEN = {
    REJECT: "it is rejected",
    ABORT: "the run stays stopped",
    STAY_CLOSED: "it goes on failing closed",
    ALLOW: "it is allowed",
}
_SAVED = names.EVENTS[CheckpointSaved].name


def then_of(one: Escalation, *, otherwise: str = "nothing changes") -> str:
    """What silence means, in words; that the state of a run is saved only where a checkpoint of it is known."""
    then, runs = _THEN.get(one.default_action, otherwise), len(one.runs)
    if one.default_action != ABORT or one.saved_runs is None or not runs:
        return then
    if runs == 1:
        return f"{then}, with its state saved" if one.saved_runs else f"{then}; no checkpoint of it is known"
    if one.saved_runs < runs:
        saved = f"{one.saved_runs} of {runs} have" if one.saved_runs else "none of them has"
        return f"the runs stay stopped; {saved} a checkpoint"
    return "the runs stay stopped, with their states saved"


def saved_runs_of(environment: str, default_action: str, runs: Sequence[str]) -> int | None:
    """How many of these runs have told of a checkpoint, where silence leaves them stopped. At most one query."""
    if default_action != ABORT or not runs:
        return None
    saved = Fact.objects.filter(environment=environment, run__in=runs, event=_SAVED)
    return saved.values("run").distinct().count()


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
    """What a question is about, in a few words: `policy denied`, `error budget spent`."""
    return (category or _MATTERS.get(reason, reason)).replace("_", " ")


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
