"""Conditions of a guard that widen the rules: `retry_on`, `retry_if` and `retry_result`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.runtime.aio.awaitables import is_async
from recovery_ops.runtime.errors import CallRejected, ConfigurationError, RunCancelled, StopRun

RetryOn = type[Exception] | tuple[type[Exception], ...]
_OURS = (CallRejected, RunCancelled, StopRun)
"""Decisions of the runtime, which no guard turns into something transient."""


class RejectedResult(Exception):
    """Stands for an attempt whose result `retry_result` rejects. Callers get RecoveryExhausted in its place."""

    kind = Category.SEMANTIC.value

    def __init__(self, result: Any) -> None:
        self.result = result
        super().__init__("retry_result rejects the result")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryConditions:
    """Errors and results that a guard declares transient."""

    retry_on: tuple[type[Exception], ...] = ()
    retry_if: Callable[[Any], Any] | None = None

    def holds(self, error: BaseException, ask: Callable[[str, Callable[[Any], Any], object], bool]) -> bool:
        """Whether the guard declares this error transient; `ask` asks a predicate."""
        if isinstance(error, _OURS):
            return False
        if isinstance(error, (RejectedResult, self.retry_on)):
            return True
        return self.retry_if is not None and ask("retry_if", self.retry_if, error)


def conditions(retry_on: RetryOn | None, retry_if: object, retry_result: object) -> RetryConditions | None:
    """The conditions of a guard, None where it declares none."""
    if retry_on is None and retry_if is None and retry_result is None:
        return None
    types = retry_on if isinstance(retry_on, tuple) else () if retry_on is None else (retry_on,)
    return RetryConditions(retry_on=types, retry_if=retry_if)  # type: ignore[arg-type]  # check_conditions has seen it


def check_conditions(whose: str, retry_on: object, **predicates: object) -> None:
    """Refuse what is no type of an error, and what cannot be asked: a coroutine would always be true."""
    for one in retry_on if isinstance(retry_on, tuple) else () if retry_on is None else (retry_on,):
        if not (isinstance(one, type) and issubclass(one, Exception)):
            raise ConfigurationError(f"{whose}: retry_on must be an Exception type or a tuple of them, not {one!r}")
    for name, predicate in predicates.items():
        if predicate is not None and (not callable(predicate) or is_async(predicate)):
            raise ConfigurationError(f"{whose}: {name} must be a function that is not async, not {predicate!r}")
