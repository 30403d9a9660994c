"""What holds for each kind of question: what it asks, and the terms under which the live policy has it opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from events.models import Fact
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import CheckpointSaved
from recovery_ops.rules.policy.escalation_terms import (
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
from recovery_ops.rules.run_limits import DENIALS, ERRORS, REPEATED_CALLS, TURNS
from recovery_ops.rules.spending import SPEND_CAP
from recovery_ops.wire import names

ACTIVE_FOR = timedelta(minutes=5)
"""A question that was asked again within this still has its cause."""

_THEN = {
    REJECT: "reject",
    ABORT: "keep the run stopped",
    STAY_CLOSED: "keep failing closed",
    ALLOW: "allow",
}
_SAVED = names.EVENTS[CheckpointSaved].name


def then_of(one: Escalation, *, otherwise: str = "none") -> str:
    """What silence means, in words; that the state of a run is saved only where a checkpoint of it is known."""
    then, runs = _THEN.get(one.default_action, otherwise), len(one.runs)
    if one.default_action != ABORT or one.saved_runs is None or not runs:
        return then
    if runs == 1:
        return f"{then}; its state is saved" if one.saved_runs else f"{then}; no checkpoint exists"
    if one.saved_runs < runs:
        saved = f"{one.saved_runs} of {runs} have" if one.saved_runs else f"0 of {runs} have"
        return f"keep the runs stopped; {saved} a checkpoint"
    return "keep the runs stopped; their states are saved"


def saved_runs_of(environment: str, default_action: str, runs: Sequence[str]) -> int | None:
    """How many of these runs have told of a checkpoint, where silence leaves them stopped. At most one query."""
    if default_action != ABORT or not runs:
        return None
    saved = Fact.objects.filter(environment=environment, run__in=runs, event=_SAVED)
    return saved.values("run").distinct().count()


_ASKS = {
    Category.POLICY_DENIED.value: "Allow the operation that the policy denied?",
    Category.PERMISSION.value: "Grant the agent the missing permission?",
    DENIALS: "Allow the operation that was denied repeatedly?",
    Category.QUOTA_EXHAUSTED.value: "Raise the quota, or let the work wait?",
    Category.UNKNOWN.value: "Which category does this failure belong to?",
    REVERSAL_REFUSED: "The reversal was rejected. How is the effect undone manually?",
    ERRORS: "The run spent its error budget. Continue it?",
    TURNS: "The run reached its turn limit. Continue it?",
    REPEATED_CALLS: "The run repeats the same call with the same result. Continue it?",
    SPEND_CAP: "A spend cap is reached. Raise it by one more cap?",
    OTHER: "Every recovery step failed. Retry or stop the work?",
}

_MATTERS = {
    DENIALS: "denied repeatedly",
    ERRORS: "error budget spent",
    TURNS: "turn limit reached",
    REPEATED_CALLS: "same call repeated",
    SPEND_CAP: "spend cap reached",
    REVERSAL_REFUSED: "reversal rejected",
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
