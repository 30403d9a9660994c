"""What the ladder would do with a failure that comes again at every attempt: retries, their waits, and what then.

Only what a failure and a policy tell. What code declares (fallbacks, whether a call may be left out), what a person
answers and how breakers stand is not known here, and is not guessed.
"""

from __future__ import annotations

from recovery_ops.rules.escalations import ASKED_FIRST
from recovery_ops.rules.failures import Failure
from recovery_ops.rules.ladder import NO_FALLBACK
from recovery_ops.rules.policy import OperationPolicy, Policy
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.retry import decide_retry
from recovery_ops.rules.scope import Place
from recovery_ops.rules.words import Adjustment, Category, DelaySource, Rung

WAITS_MOST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A retry, and how long is waited before it: between these, as jitter falls."""

    attempt: int
    least_s: float
    most_s: float
    source: DelaySource
    adjustment: Adjustment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What comes, while the failure stays the same.

    `reason` is the word of `RetryDecision` for why no retry follows the last; empty where `waits` are only the first of
    more (`is_cut`). `rungs` are those after the retries, in their order: a fallback only where the policy allows one.
    `queue` is asked; `is_asked_first`: before any fallback.
    """

    waits: tuple[Wait, ...]
    reason: str
    is_cut: bool
    rungs: tuple[Rung, ...]
    queue: str
    is_asked_first: bool


def foresee(
    failure: Failure,
    whole: Policy,
    place: Place,
    *,
    kind: str = "operation",
    is_foreground: bool,
    is_repeatable: bool = True,
) -> Foreseen:
    """The retries and rungs of a call of which every attempt fails so, at once. At most `WAITS_MOST` retries are told.

    What the attempts themselves take is not known: a deadline may come sooner.
    """
    policy = whole.for_operation(place, kind=kind)
    persists = policy.knobs.persistent
    within_s = (
        policy.knobs.persistent_cap_s if persists else whole.guards.step_deadline_s(policy.knobs.call_deadline_s or 0.0)
    )
    waits, reason = _retries(failure, policy, within_s or 0.0, is_foreground=is_foreground, is_repeatable=is_repeatable)
    asking = policy.escalations.get(failure.category)
    is_first = asking is not None and failure.category in ASKED_FIRST
    ask = [Rung.ASK] if asking is not None else []
    # As `ladder._after`: what an upstream forbids stops there, and what was refused is gone around by nobody.
    may_fall_back = bool(policy.knobs.fallback_allowed) and failure.category not in NO_FALLBACK
    fall_back = [Rung.FALLBACK, Rung.DEGRADE] if may_fall_back else []
    between = [*ask, *fall_back] if is_first else [*fall_back, *ask]
    if failure.category is Category.PERMISSION:
        between = ask
    return Foreseen(
        waits=tuple(waits),
        reason=reason,
        is_cut=not reason,
        rungs=(*between, Rung.FAIL),
        queue=asking.queue if asking is not None else "",
        is_asked_first=is_first,
    )


def _retries(
    failure: Failure, policy: OperationPolicy, within_s: float, *, is_foreground: bool, is_repeatable: bool
) -> tuple[list[Wait], str]:
    limit = None if policy.knobs.persistent else policy.max_retries(is_foreground=is_foreground)
    waits: list[Wait] = []
    fixed: set[Category] = set()
    waited_s = 0.0
    for attempt in range(1, WAITS_MOST + 1):
        least, most = (
            decide_retry(
                failure,
                attempt=attempt,
                max_retries=limit,
                is_foreground=is_foreground,
                policy=policy,
                chance=lambda share=share: share,  # type: ignore[misc]
                is_repeatable=is_repeatable,
                already=fixed,
            )
            for share in (0.0, 1.0)
        )
        if not least.retry:
            return waits, least.reason
        waited_s += least.delay_s
        if waited_s > within_s:
            return waits, "deadline"
        if least.adjustment is not None:
            fixed.add(failure.category)
        waits.append(
            Wait(
                attempt=attempt + 1,
                least_s=least.delay_s,
                most_s=most.delay_s,
                source=least.delay_source,
                adjustment=least.adjustment,
            )
        )
    return waits, ""
