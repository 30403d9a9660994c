"""Calls of the user's hooks and predicates: a hook that fails is recorded, and the guarded call goes on without it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any

from recovery_ops.rules.events import HookFailed
from recovery_ops.runtime.aio.awaitables import PLAIN, is_async, is_pending
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.failures.control_flow import is_control_flow
from recovery_ops.runtime.guards.retry_conditions import RejectedResult
from recovery_ops.runtime.runs.context import RunContext, current_scope


class UserHooks:
    """The user's hooks in calls of one operation from one source; `scope` is the run, None outside of runs."""

    __slots__ = ("_engine", "_operation", "_scope", "_source")

    def __init__(self, engine: Engine, operation: str, source: str, scope: RunContext | None) -> None:
        self._engine, self._operation, self._source, self._scope = engine, operation, source, scope

    def ask(self, name: str, predicate: Callable[[Any], Any], about: object) -> bool:
        """Answer of a predicate; False where it raises, which is recorded. Control flow passes."""
        try:
            return bool(predicate(about))
        except Exception as error:
            self.failed(name, error)
            return False

    def failed(self, name: str, error: Exception) -> None:
        """Record that a hook raised. Control flow is raised again."""
        engine = self._engine
        if is_control_flow(error, engine.control_flow):
            raise error
        failure = engine.failure_of(error)
        event = HookFailed(operation=self._operation, hook=name, error_type=failure.error_type, message=failure.message)
        with engine.lock:
            engine.record(event, source=self._source, scope=self._scope)


def checked(
    recovery: Engine, operation: str, own_source: str, function: Callable[..., Any], predicate: Callable[[Any], Any]
) -> Callable[..., Any]:
    """The function, raising RejectedResult for each result that the predicate rejects. Other guards pay nothing."""

    def accepted(result: Any) -> Any:
        scope = current_scope()
        source = own_source or (scope.source if scope else "") or recovery.default_source
        if UserHooks(recovery, operation, source, scope).ask("retry_result", predicate, result):
            raise RejectedResult(result)
        return result

    @functools.wraps(function)
    def checking(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        is_later = type(result) not in PLAIN and is_pending(result)
        return _Pending(result, accepted) if is_later else accepted(result)

    @functools.wraps(function)
    async def checking_async(*args: Any, **kwargs: Any) -> Any:
        return accepted(await function(*args, **kwargs))

    return checking_async if is_async(function) else checking


class _Pending:
    """An awaitable result that is checked when it is there; `close` and `cancel` are those of the result."""

    def __init__(self, result: Any, accepted: Callable[[Any], Any]) -> None:
        self._result, self._accepted = result, accepted

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._checked().__await__()

    async def _checked(self) -> Any:
        return self._accepted(await self._result)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._result, name)
