"""Every exception a caller may see.

    RecoveryError
    ├── Refused                 the call was not made; `retry_at` says when it may be
    │   ├── CircuitOpen         a breaker is open, or an operator tripped it
    │   ├── GateClosed          the server said when to come back
    │   └── DeadlineExceeded    no time is left (also a TimeoutError)
    ├── RecoveryExhausted       every rung was climbed and none held; `last_error` is what happened last
    ├── RunStopped              the run must end now; the model gets no turn
    ├── RunCancelled            the run was called off while a call waited
    ├── ModelFallback           a signal, not an error: make the request again with another model
    └── NotConfigured           the runtime was asked for something it was not told how to do

Fields carry the meaning; the text is made from the fields.
"""

from __future__ import annotations

from datetime import UTC, datetime

from recovery_ops.rules.words import Category, State, StopReason


class RecoveryError(Exception):
    """The root of everything this package raises into its callers."""


class Refused(RecoveryError):
    """The call was not made. `retry_at` is when it may be (UTC), None where nobody knows."""

    def __init__(self, operation: str, *, reason: str, retry_at: datetime | None = None) -> None:
        self.operation = operation
        self.reason = reason
        self.retry_at = retry_at
        super().__init__(f"{operation} was not called: {reason}{_again(retry_at)}")


class CircuitOpen(Refused):
    """The breaker of the operation is open, or a person tripped it (`state` is forced_open, `note` their reason)."""

    def __init__(
        self, operation: str, *, breaker: str, state: State, retry_at: datetime | None = None, note: str = ""
    ) -> None:
        self.breaker = breaker
        self.state = state
        self.note = note
        said = f" ({note})" if note else ""
        super().__init__(operation, reason=f"breaker {breaker} is {state.value}{said}", retry_at=retry_at)


class GateClosed(Refused):
    """The server named a time, and it has not come."""

    def __init__(self, operation: str, *, retry_at: datetime | None = None) -> None:
        super().__init__(operation, reason="its server asked for a pause", retry_at=retry_at)


class DeadlineExceeded(Refused, TimeoutError):
    """No time is left for the call."""

    def __init__(self, operation: str) -> None:
        super().__init__(operation, reason="its deadline has passed")


class RecoveryExhausted(RecoveryError):
    """Every rung was climbed and none held.

    `attempts` counts calls made, `rungs` names the rungs that were tried, `retry_at` is when trying again may help.
    """

    def __init__(
        self,
        operation: str,
        *,
        last_error: BaseException | None,
        attempts: int,
        rungs: tuple[str, ...] = (),
        reason: StopReason = StopReason.NOT_RETRYABLE,
        category: Category | None = None,
        retry_at: datetime | None = None,
        user_message: str = "",
        suggestion: str = "",
    ) -> None:
        self.operation = operation
        self.last_error = last_error
        self.attempts = attempts
        self.rungs = rungs
        self.reason = reason
        self.category = category
        self.retry_at = retry_at
        self.user_message = user_message
        self.suggestion = suggestion
        what = category.value if category else reason.value
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(f"{operation} failed after {tries}: {what}{_again(retry_at)}")


class RunStopped(RecoveryError):
    """The run must end now, in code."""

    def __init__(self, category: Category, user_message: str, *, operation: str = "") -> None:
        self.category = category
        self.user_message = user_message
        self.operation = operation
        super().__init__(user_message)


class RunCancelled(RecoveryError):
    """The run was called off while a call of it waited."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        super().__init__(f"{operation} was called off")


class ModelFallback(RecoveryError):
    """A signal to a caller's own loop: make the request again, with `to_model`. Guards switch by themselves."""

    def __init__(self, from_model: str, to_model: str) -> None:
        self.from_model = from_model
        self.to_model = to_model
        super().__init__(f"{from_model} is overloaded; ask {to_model}")


class NotConfigured(RecoveryError):
    """The runtime was asked for something it was not told how to do; the text says what to give it."""


def _again(retry_at: datetime | None) -> str:
    return f"; try again at {retry_at.astimezone(UTC):%H:%M:%S} UTC" if retry_at else ""
