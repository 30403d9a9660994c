"""Spend caps on the way of a model call: a reservation before each attempt, and the next model at a cap."""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum, auto

from recovery_ops.rules import events
from recovery_ops.rules.enums import Refusal, StopReason
from recovery_ops.rules.policy.spend_settings import CHEAPER_MODEL, PARK
from recovery_ops.rules.resilience.admission import Tried, deadline_at
from recovery_ops.rules.resilience.call_context import CallContext, OperationState
from recovery_ops.rules.resilience.steps import Emit, OutOfTime, OverCap, Reply, Reserve, Reserved, Step
from recovery_ops.rules.resilience.untried_fallbacks import untried_models
from recovery_ops.rules.spending import SPEND_CAP, SpendRuling
from recovery_ops.rules.tools.results import RUN_TELLINGS


class MaySpend(Enum):
    """Whether an attempt may be made under the spend caps."""

    YES = auto()
    NEXT_MODEL = auto()
    """Not with this model: a cheaper one is asked."""
    NO = auto()


def may_spend(call: CallContext, standing: OperationState, tried: Tried) -> Generator[Step, Reply, MaySpend]:
    """Reserve the attempt in its accounts; why not is in `tried`."""
    caps = standing.policy.spend_caps
    if not (standing.is_model and caps.is_on):
        return MaySpend.YES
    is_first = standing.chain is not None and tried.model == standing.chain.primary
    cheaper = untried_models(call, standing, tried) if is_first and caps.action == CHEAPER_MODEL else []
    left_s = deadline_at(call, standing, tried) - tried.now
    reply = yield Reserve(standing.name, tried.model, has_cheaper=bool(cheaper), deadline_s=left_s)
    tried.now = reply.now if reply else tried.now
    if isinstance(reply, Reserved):
        tried.suspended_s += reply.held_s
        return MaySpend.YES
    if isinstance(reply, OutOfTime):
        tried.refusal_kind, tried.reason = Refusal.DEADLINE, StopReason.DEADLINE
        return MaySpend.NO
    if not isinstance(reply, OverCap):
        tried.is_cancelled = True
        return MaySpend.NO
    tried.suspended_s += reply.held_s
    return (yield from _over(standing, tried, reply, cheaper[0] if cheaper else None))


def _over(
    standing: OperationState, tried: Tried, reply: OverCap, cheaper: str | None
) -> Generator[Step, Reply, MaySpend]:
    if cheaper is None or tried.model is None:
        tried.over_cap = reply.ruling
        tried.refusal_kind, tried.reason = Refusal.SPEND_CAP, StopReason.SPEND_CAP
        return MaySpend.NO
    if reply.is_news:
        yield Emit(reached(standing.name, reply.ruling, CHEAPER_MODEL, cheaper))
    tried.used_up |= {tried.model}
    tried.is_stepped_down = True
    tried.attempts_before_switch, tried.waited_s = tried.attempts, 0.0
    return MaySpend.NEXT_MODEL


def parked(operation: str, ruling: SpendRuling) -> Generator[Step, Reply, None]:
    """The run ends at a cap, because nothing cheaper answers."""
    yield Emit(reached(operation, ruling, PARK))
    message = RUN_TELLINGS[SPEND_CAP].message
    yield Emit(events.RunStopped(operation=operation, reason=SPEND_CAP, message=message))


def reached(operation: str, ruling: SpendRuling, action: str, to_model: str | None = None) -> events.SpendCapReached:
    """An account is at its cap, and this follows."""
    return events.SpendCapReached(
        operation=operation,
        account=ruling.account,
        measure=ruling.measure,
        spent=round(ruling.spent, 6),
        limit=round(ruling.limit, 6),
        action=action,
        to_model=to_model,
    )
