"""The retry rule by itself, for callers who make their own loop."""

from __future__ import annotations

import random
from typing import Protocol

from recovery_ops.rules.failures import Failure
from recovery_ops.rules.policy import BUILT_IN_DEFAULTS, FAIL_CLOSED, OperationPolicy, Policy
from recovery_ops.rules.retry import RetryDecision, decide_retry
from recovery_ops.rules.scope import Place


class Random(Protocol):
    """What is needed of `random.Random`."""

    def random(self) -> float:
        """A number from 0 up to, not including, 1."""


_BUILT_IN = OperationPolicy(knobs=BUILT_IN_DEFAULTS["operation"].over(FAIL_CLOSED))


def retry_decision(
    failure: Failure,
    *,
    attempt: int,
    max_retries: int | None,
    foreground: bool,
    policy: OperationPolicy | Policy | None = None,
    rng: Random | None = None,
    idempotent: bool = True,
) -> RetryDecision:
    """May the call be made again after attempt number `attempt` (1 is the first), and how?

    `max_retries` None is persistent mode. `policy` None is the built-in default policy. `idempotent` False speaks for
    an operation that may do harm when done twice. A fix (new credentials, fresh evidence, a smaller answer) is
    offered after the first attempt only.
    """
    if isinstance(policy, Policy):
        policy = policy.for_operation(Place(service="*", instance="*"))
    return decide_retry(
        failure,
        attempt=attempt,
        max_retries=max_retries,
        is_foreground=foreground,
        policy=policy or _BUILT_IN,
        chance=(rng or random).random,
        is_repeatable=idempotent,
    )
