"""May this tool be called now? The caller's checker decides; after too many refusals a person does."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Generator
from typing import Any

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import PermissionDenied
from recovery_ops.rules.run_limits import Effect, asked
from recovery_ops.rules.tools.results import outside_message
from recovery_ops.runtime.calls.drivers import Work
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.guards.hooks import UserHooks
from recovery_ops.runtime.runs.context import RunContext
from recovery_ops.runtime.runs.limits import limits_of, record
from recovery_ops.runtime.tools.tool import Tool

Checker = Callable[[Tool, dict[str, Any]], Any]
"""`permission(tool, arguments)`: True allows; anything else denies, a string says why. May be async."""

AskPerson = Callable[[Tool, dict[str, Any], str], Any]
"""`ask_person(tool, arguments, reason)`: True allows what our check refused for that reason. May be async."""


NO_CHECKER = (
    "no permission checker is configured: give ToolRegistry(permission=...), or build the tool with "
    "require_permission=False"
)


def permitted(
    recovery: Engine,
    scope: RunContext | None,
    tool: Tool,
    arguments: dict[str, Any],
    *,
    checker: Checker | None,
    ask_person: AskPerson | None,
) -> Generator[Work, Any, str]:
    """Why the call is refused; empty where it is allowed. Yields what is to be called (and awaited) meanwhile.

    Anything but a clear yes is a no: also a checker that raises, or is missing. Once the run asks a person, and one is
    there to answer (`ask_person`), their yes counts for more than the checker's no.
    """
    reason = yield from _checked(recovery, scope, tool, arguments, checker)
    if reason and ask_person is not None and scope is not None and scope.guards.asks_a_person:
        reason = yield from answered(recovery, scope, tool, arguments, ask_person, reason)
    if scope is None:
        if reason:
            recovery.emit(PermissionDenied(operation=tool.name, reason=reason), source=tool.source)
        return reason
    if not reason:
        with recovery.lock:
            scope.guards.permitted()
        return ""
    with recovery.lock:
        ruling = scope.guards.denied(tool.name, reason, limits_of(recovery))
    record(recovery, scope, ruling)
    if ruling.effect is Effect.ASK_A_PERSON and ask_person is None:
        recovery.emit(asked(tool.name, reason, recovery.desired.policy.escalations[Category.PERMISSION]), scope)
    return reason


def _checked(
    recovery: Engine, scope: RunContext | None, tool: Tool, arguments: dict[str, Any], checker: Checker | None
) -> Generator[Work, Any, str]:
    if checker is None:
        return NO_CHECKER
    try:
        answer = yield lambda: checker(tool, copy.deepcopy(arguments))
    except Exception as error:
        hooks_of(recovery, scope, tool).failed("permission", error)
        return "the permission check failed"
    return _reason(answer, "the permission check said no")


def answered(
    recovery: Engine,
    scope: RunContext | None,
    tool: Tool,
    arguments: dict[str, Any],
    ask_person: AskPerson,
    reason: str,
) -> Generator[Work, Any, str]:
    """Why the person says no; empty where they say yes. The run's deadline stands still meanwhile."""
    now = recovery.clock.now
    if scope is not None:
        scope.hold(now())  # waiting for a person suspends the run
    try:
        answer = yield lambda: ask_person(tool, copy.deepcopy(arguments), reason)
    except Exception as error:
        hooks_of(recovery, scope, tool).failed("ask_person", error)
        return reason
    finally:
        if scope is not None:
            scope.let_go(now())
    return _reason(answer, "a person said no")


def _reason(answer: object, otherwise: str) -> str:
    """Only True is a yes. An answer that nobody awaited is none: the caller should have used the async form."""
    if answer is True:
        return ""
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        return "the permission check is async: use run_tool_async"
    return (outside_message(answer) if isinstance(answer, str) else "") or otherwise


def hooks_of(recovery: Engine, scope: RunContext | None, tool: Tool) -> UserHooks:
    """The user's hooks for a tool."""
    return UserHooks(recovery, tool.name, tool.source, scope)
