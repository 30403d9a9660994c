"""Makes an existing pybreaker breaker report: its calls, failures and moves appear in the console beside ours.

from recovery_ops.runtime.integrations.pybreaker import ReportingListener

breaker = pybreaker.CircuitBreaker(name="prices", listeners=[ReportingListener(recovery)])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import State, Trigger
from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.integrations.observed_calls import Watched, quietly
from recovery_ops.runtime.integrations.packages import missing

try:
    import pybreaker
except ModuleNotFoundError as error:
    raise missing(__name__, "pybreaker", error) from None

_STATES = {"closed": State.CLOSED, "open": State.OPEN, "half-open": State.HALF_OPEN}
_TRIGGERS = {
    (State.CLOSED, State.OPEN): Trigger.CONSECUTIVE_FAILURES,
    (State.OPEN, State.HALF_OPEN): Trigger.WAIT_ELAPSED,
    (State.HALF_OPEN, State.CLOSED): Trigger.PROBE_SUCCEEDED,
    (State.HALF_OPEN, State.OPEN): Trigger.PROBE_FAILED,
}


class ReportingListener(pybreaker.CircuitBreakerListener):
    """A listener for any number of breakers; each is an operation by its `name` (or by the `operation` given here).

    pybreaker still decides. It tells nobody of the calls that it refuses, so they are not counted, and an override from
    the console does not reach it.
    """

    def __init__(self, recovery: Recovery, *, operation: str | None = None, source: str = "") -> None:
        self._recovery = recovery
        self._operation = operation
        self._source = source
        self._watched: dict[str, Watched] = {}
        self._last: dict[str, Failure] = {}

    @quietly
    def success(self, cb: Any) -> None:
        """A call succeeded, or failed in a way that the breaker excludes."""
        self._of(cb).succeeded(1)

    @quietly
    def failure(self, cb: Any, exc: BaseException) -> None:
        """A call failed."""
        watched = self._of(cb)
        self._last[watched.name] = watched.failed(exc, 1)

    @quietly
    def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
        """The breaker moved, by itself or by somebody's hand."""
        state = _STATES[new_state.name]
        previous = _STATES[old_state.name] if old_state is not None else State.CLOSED
        if state is previous:
            return
        failures, limit = cb.fail_counter, cb.fail_max
        trigger = _TRIGGERS.get((previous, state), Trigger.OPERATOR_RESET)
        if (previous, state) == (State.CLOSED, State.OPEN) and failures < limit:
            trigger = Trigger.OPERATOR_TRIP  # `breaker.open()`, called by the program
        watched = self._of(cb)
        last = self._last.get(watched.name)
        watched.moved(
            state,
            previous,
            trigger,
            failures=failures,
            threshold=float(limit),
            last_category=last.category if last else None,
            wait_s=float(cb.reset_timeout) if state is State.OPEN else None,
        )

    def before_call(self, cb: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Nothing to tell yet."""

    def _of(self, cb: Any) -> Watched:
        name = self._operation or cb.name or "pybreaker"
        found = self._watched.get(name)
        if found is None:
            found = self._watched[name] = Watched(self._recovery, name, self._source)
        return found
