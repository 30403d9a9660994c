"""Tells a framework's control flow from a failure: interrupts and requests pass guards, tools and hooks untouched."""

from __future__ import annotations

from recovery_ops.rules.classification.exception_types import CONTROL_FLOW
from recovery_ops.rules.spending import SPEND_CAP
from recovery_ops.runtime.aio.cancellation import hides_a_cancel
from recovery_ops.runtime.errors import ConfigurationError, StopRun
from recovery_ops.runtime.failures.safe_inspection import names_of

_MOST_IN_A_GROUP = 64


def check_control_flow(whose: str, own: object) -> None:
    """Refuse what is no type of an exception: asking about it would fail in the middle of a call."""
    for one in own if isinstance(own, tuple) else (own,):
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise ConfigurationError(f"{whose}: control_flow must be exception types, not {one!r}")


def is_control_flow(error: BaseException, own: tuple[type[BaseException], ...] = ()) -> bool:
    """Whether this is no failure: an exception of `CONTROL_FLOW` or of `own`, or a group of nothing but those.

    Frameworks are recognised by the names of their classes and are not imported.
    """
    if isinstance(error, own) or not CONTROL_FLOW.isdisjoint(names_of(type(error))):
        return True
    if not isinstance(error, BaseExceptionGroup):
        return False
    return all(is_control_flow(one, own) for one in error.exceptions[:_MOST_IN_A_GROUP])


def passes_unchanged(error: BaseException, own: tuple[type[BaseException], ...] = ()) -> bool:
    """Whether an error passes as it is: a cancel, also one that a clean-up hides, a framework's control flow, and the
    end of a run at a spend cap, which no guard around it can help.
    """
    is_parked = isinstance(error, StopRun) and error.reason == SPEND_CAP
    return is_parked or not isinstance(error, Exception) or is_control_flow(error, own) or hides_a_cancel(error)
