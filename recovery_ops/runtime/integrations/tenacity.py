"""Makes an existing tenacity retry report: what failed, what was tried again and when, what was given up.

from recovery_ops.runtime.integrations.tenacity import report

report(fetch_prices, recovery)  # `fetch_prices` is decorated with tenacity.retry
report(retrying, recovery, operation="prices")  # or a Retrying or AsyncRetrying of your own
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import StopReason
from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.integrations.observed_calls import Watched, quietly
from recovery_ops.runtime.integrations.packages import missing

try:
    import tenacity
except ModuleNotFoundError as error:
    raise missing(__name__, "tenacity", error) from None

T = TypeVar("T")
_SEEN = "_recovery_ops_seen"


class ResultRejected(Exception):
    """The call returned, and the retry's own predicate would not have what it returned."""

    kind = "semantic"


def report(retried: T, recovery: Recovery, *, operation: str | None = None, source: str = "") -> T:
    """Have a retry report; returns what it was given. Doing it twice changes nothing.

    `retried` is a function decorated with `tenacity.retry`, a `Retrying` or an `AsyncRetrying`. tenacity still decides.
    What `retry_with` replaces (`stop`, `retry`, `before_sleep`) is not seen.
    """
    retrying: Any = getattr(retried, "retry", retried)
    if not isinstance(retrying, tenacity.BaseRetrying):
        retrying = retried  # it was one already, and its `retry` is the predicate
    if getattr(retrying.retry, _SEEN, False):
        return retried
    watched = Watched(recovery, operation or str(getattr(retried, "__name__", "tenacity")), source)
    teller = _Teller(watched)
    retrying.retry = _after(retrying.retry, teller.attempted)
    retrying.stop = _after(retrying.stop, teller.stopped)
    retrying.before_sleep = _after(retrying.before_sleep or _nothing, teller.sleeping)
    return retried


class _Teller:
    """What tenacity's hooks say, as events; the state of a call says which attempt it is at."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    @quietly
    def attempted(self, state: Any, is_again: Any) -> None:
        number = state.attempt_number
        error = _trouble_of(state, is_again=bool(is_again))
        if error is None:
            self._watched.succeeded(number, round(state.seconds_since_start or 0.0, 4))
            return
        failure = self._watched.failed(error, number, is_retryable=bool(is_again))
        if not is_again:
            self._watched.gave_up(failure, number, StopReason.NOT_RETRYABLE)

    @quietly
    def stopped(self, state: Any, is_over: Any) -> None:
        if is_over:
            self._watched.gave_up(self._failure_of(state), state.attempt_number, StopReason.ATTEMPTS)

    @quietly
    def sleeping(self, state: Any, _: Any) -> None:
        self._watched.scheduled(self._failure_of(state), state.attempt_number + 1, float(state.upcoming_sleep))

    def _failure_of(self, state: Any) -> Failure:
        return self._watched.failure_of(_trouble_of(state, is_again=True))


def _trouble_of(state: Any, *, is_again: bool) -> BaseException | None:
    error: BaseException | None = state.outcome.exception()
    return ResultRejected("the result was not accepted") if error is None and is_again else error


def _nothing(state: Any) -> None:
    """Where nobody waits to be told before a sleep."""


def _after(hook: Callable[..., Any], tell: Callable[[Any, Any], None]) -> Callable[..., Any]:
    """The hook, and what to tell of its answer."""
    is_async = inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(getattr(hook, "__call__", None))  # noqa: B004  # asks whether calling it must be awaited

    def heard(state: Any) -> Any:
        answer = hook(state)
        tell(state, answer)
        return answer

    async def heard_async(state: Any) -> Any:
        answer = await hook(state)
        tell(state, answer)
        return answer

    made: Any = heard_async if is_async else heard
    setattr(made, _SEEN, True)
    return made  # type: ignore[no-any-return]
