"""What the loop around a model does when its call has failed for good: five interventions, the cheapest first.

Retry the same request is the ladder's own rung. After it: modify the request, transform the context, ask a person,
fail with saved state. Each modification is tried once, so the loop ends.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from enum import StrEnum

from recovery_ops.rules.enums import Category


class Intervention(StrEnum):
    """One way to go on."""

    SMALLER_ANSWER = "smaller_answer"
    """Modify: ask for a shorter answer (`max_tokens`)."""
    OTHER_MODEL = "other_model"
    """Modify: ask another model."""
    TELL_ERROR = "tell_error"
    """Modify: the same request, with the error as context."""
    CUT_INPUT = "cut_input"
    """Modify: leave `input_share` of the input, as the policy's guards say."""
    SPLIT = "split"
    """Modify: ask in parts."""
    TRANSFORM_CONTEXT = "transform_context"
    """Compact what the conversation holds."""
    ASK_A_PERSON = "ask_a_person"
    FAIL = "fail"
    """With saved state and a resume id."""


MODIFICATIONS: tuple[Intervention, ...] = (
    *(Intervention.SMALLER_ANSWER, Intervention.OTHER_MODEL, Intervention.TELL_ERROR, Intervention.CUT_INPUT),
    Intervention.SPLIT,
)
"""In the order in which they are tried."""

_I, _C = Intervention, Category
_OVERLOAD = (_I.OTHER_MODEL,)

HELPS: dict[Category, tuple[Intervention, ...]] = {
    _C.CONTEXT_OVERFLOW: (_I.SMALLER_ANSWER, _I.CUT_INPUT, _I.SPLIT, _I.TRANSFORM_CONTEXT),
    _C.TIMEOUT: (_I.SMALLER_ANSWER, _I.OTHER_MODEL, _I.CUT_INPUT, _I.SPLIT),
    _C.OVERLOADED: _OVERLOAD,
    _C.RATE_LIMITED: _OVERLOAD,
    _C.RATE_LIMIT_WINDOW: _OVERLOAD,
    _C.QUOTA_EXHAUSTED: _OVERLOAD,
    _C.NETWORK: _OVERLOAD,
    _C.SERVER_ERROR: _OVERLOAD,
    _C.NOT_FOUND: _OVERLOAD,
    _C.MODEL_OUTPUT: (_I.TELL_ERROR, _I.OTHER_MODEL),
    _C.SCHEMA_MISMATCH: (_I.TELL_ERROR, _I.OTHER_MODEL),
}
"""What may help against each kind of failure. Against a refusal nothing does but a person: no way around a policy."""

NO_ONE_CAN_ALLOW = frozenset({_C.PERMISSION, _C.CANCELLED})


def next_intervention(
    category: Category, *, tried: AbstractSet[Intervention], offered: AbstractSet[Intervention]
) -> Intervention:
    """The next thing to do about a failure of this kind: what helps, is offered, and has not been tried."""
    for one in (*HELPS.get(category, ()), Intervention.ASK_A_PERSON):
        if one is Intervention.ASK_A_PERSON and category in NO_ONE_CAN_ALLOW:
            continue
        if one in offered and one not in tried:
            return one
    return Intervention.FAIL
