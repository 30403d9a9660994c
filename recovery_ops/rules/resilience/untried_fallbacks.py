"""The fallbacks and models that a call has not tried yet: which are ready, and how much time they are left."""

from __future__ import annotations

from collections.abc import Sequence

from recovery_ops.rules.resilience.admission import Tried, allowed_alternatives
from recovery_ops.rules.resilience.call_context import CallContext, OperationState

FALLBACK_S = 30.0
"""What is left for a fallback where neither it nor the operation has a call deadline."""


def untried_models(call: CallContext, standing: OperationState, tried: Tried) -> list[str]:
    """The models of the chain that this call did not use up, and that would be let through now, in their order."""
    if standing.chain is None:
        return []
    needs, but = tried.needs or call.needs, tried.used_up | {tried.model or ""}
    free = standing.chain.free(tried.now, needs, standing.policy.models, but=but)
    return [name for name in free if call.is_model_ready(standing.of_model(name), tried.now)]


def untried(call: CallContext, standing: OperationState, tried: Tried) -> list[OperationState]:
    """Those models, and the later fallbacks that would be let through now."""
    found = [standing.of_model(name) for name in untried_models(call, standing, tried)]
    if call.alternatives and not tried.turned_aside:
        others = (other.standing for other in allowed_alternatives(call)[tried.level :])
        found += [one for one in others if one.is_ready(call.source, tried.now)]
    return found


def reserve_s(standing: OperationState, others: Sequence[OperationState], left_s: float) -> float:
    """What is kept of the time for the untried: to each its call deadline, at most an equal share of the whole."""
    share = left_s / (len(others) + 1)
    own_s = standing.policy.settings.call_deadline_s or FALLBACK_S
    return sum(min(other.policy.settings.call_deadline_s or own_s, share) for other in others)
