"""Streams and silence: how long an attempt may be silent, and what follows when a stream breaks.

While another model or a fallback is ready, an attempt is limited by the three timeouts of the policy. A stream that
breaks before its first token is a failed attempt like any other. One of which the caller has a part ends the call,
is begun anew, or is continued, as the caller allows.
"""

from __future__ import annotations

from functools import lru_cache

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category, OnBrokenStream, StopReason
from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.resilience.admission import Tried
from recovery_ops.rules.resilience.call_context import CallContext, OperationState
from recovery_ops.rules.resilience.steps import NO_LIMITS, SilenceLimits

HANDED_ON = "handed_on"
"""Why a call ends after a broken stream: the caller has a part of the answer, and allows no other."""


def silence_limits(settings: Settings, *, is_other_ready: bool) -> SilenceLimits:
    """The limits of an attempt. Without another way it may be silent until its deadline."""
    if not is_other_ready:
        return NO_LIMITS
    return _limits(settings.response_timeout_s, settings.first_token_timeout_s, settings.stall_timeout_s)


@lru_cache(maxsize=64)  # every attempt asks
def _limits(response_s: float | None, first_token_s: float | None, stall_s: float | None) -> SilenceLimits:
    return SilenceLimits(response_s or None, first_token_s or None, stall_s or None)


def continues(call: CallContext, standing: OperationState, tried: Tried) -> bool:
    """Whether the model that is asked now goes on with the part that the caller has."""
    if not tried.has_part or tried.is_prefill_refused or call.on_broken_stream is not OnBrokenStream.CONTINUE:
        return False
    return standing.chain is not None and standing.chain.can_continue(tried.model)


def is_over(call: CallContext, tried: Tried) -> bool:
    """Whether the call ends with the failure of a stream of which the caller has a part; notes why."""
    if not tried.is_partial or call.on_broken_stream is not OnBrokenStream.ERROR:
        return False
    tried.reason, tried.no_retry = StopReason.NOT_RETRYABLE, HANDED_ON
    return True


def begins_anew(tried: Tried, failure: Failure) -> bool:
    """Whether the model refused to continue, and is asked again at once, from the beginning."""
    if not tried.is_continued or failure.category is not Category.INVALID_REQUEST or tried.is_partial:
        return False
    tried.is_prefill_refused = True
    return True
