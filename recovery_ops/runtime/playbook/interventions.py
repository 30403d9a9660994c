"""The agent's loop around a model: what can still be done about a request when its guard has given up.

`Recovery.intervene` and `Recovery.intervene_async` lead here. The rules: `rules/playbook/interventions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import field
from typing import Any, TypedDict

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.playbook.interventions import MODIFICATIONS, Intervention, next_intervention
from recovery_ops.runtime.aio.awaitables import is_async
from recovery_ops.runtime.calls.drivers import Work, drive, drive_async
from recovery_ops.runtime.calls.exhaustion import report_of
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import (
    ConfigurationError,
    DeadlineExceeded,
    RecoveryError,
    RunCancelled,
    StopRun,
)
from recovery_ops.runtime.failures.control_flow import is_control_flow
from recovery_ops.runtime.guards.argument_checks import check_names
from recovery_ops.runtime.guards.hooks import UserHooks
from recovery_ops.runtime.runs.context import current_scope
from recovery_ops.runtime.runs.limits import count_compaction

Hook = Callable[..., Any]


class Hooks(TypedDict, total=False):
    """What the caller can do, as `Recovery.intervene` documents it; each may be async for `intervene_async`."""

    modify: Callable[[Any, Intervention, Failure], Any] | None
    transform: Callable[[Any, Failure], Any] | None
    ask_user: Callable[[Failure], Any] | None
    save: Callable[[Any], Any] | None


def intervene(recovery: Engine, call: Callable[[Any], Any], request: Any, hooks: Hooks) -> Any:
    """Return what `call(request)` returns, if need be after the request was modified, in this thread."""
    for hook in (call, *hooks.values()):
        if is_async(hook):
            raise ConfigurationError(f"{getattr(hook, '__name__', hook)} is async: use intervene_async")
    return drive(_intervening(recovery, call, request, hooks))


async def intervene_async(recovery: Engine, call: Callable[[Any], Any], request: Any, hooks: Hooks) -> Any:
    """`intervene` for tasks; the callables may be async."""
    return await drive_async(_intervening(recovery, call, request, hooks))


@dataclass(slots=True)
class _Effort:
    """How far the interventions have come."""

    recovery: Engine
    hooks: Hooks
    request: Any
    tried: set[Intervention] = field(default_factory=set)
    is_compacted: bool = False

    def offered(self) -> set[Intervention]:
        """What the caller can do now."""
        found: set[Intervention] = set(MODIFICATIONS) if self.hooks.get("modify") else set()
        scope = current_scope()
        if self.hooks.get("transform") and (scope is None or scope.guards.may_compact):
            found.add(Intervention.TRANSFORM_CONTEXT)
        if self.hooks.get("ask_user"):
            found.add(Intervention.ASK_A_PERSON)
        return found

    def compacted(self, *, has_worked: bool) -> None:
        """How compacting went counts for the run."""
        scope = current_scope()
        if scope is not None:
            count_compaction(self.recovery, scope, has_worked=has_worked)


def _intervening(recovery: Engine, call: Callable[[Any], Any], request: Any, hooks: Hooks) -> Generator[Work, Any, Any]:
    check_names("intervene", hooks, Hooks.__annotations__)
    effort = _Effort(recovery, hooks, request)
    while True:
        try:
            answer = yield lambda: call(effort.request)
        except (StopRun, RunCancelled, DeadlineExceeded):
            raise
        except Exception as error:
            if is_control_flow(error, effort.recovery.control_flow):
                raise
            failure = _failure_of(error, effort.recovery)
            if effort.is_compacted:
                effort.is_compacted = False
                effort.compacted(has_worked=failure.category is not Category.CONTEXT_OVERFLOW)
            if not (yield from _mended(effort, failure)):
                resume_id = yield from _asked(effort, "save", hooks.get("save"), effort.request)
                if isinstance(error, RecoveryError) and isinstance(resume_id, str):
                    error.resume_id = error.resume_id or resume_id
                raise
        else:
            if effort.is_compacted:
                effort.compacted(has_worked=True)
            return answer


def _mended(effort: _Effort, failure: Failure) -> Generator[Work, Any, bool]:
    """Do the next thing that may help; False where nothing is left."""
    while True:
        how = next_intervention(failure.category, tried=effort.tried, offered=effort.offered())
        if how is Intervention.FAIL:
            return False
        effort.tried.add(how)
        if how is Intervention.ASK_A_PERSON:
            if (yield from _asked(effort, "ask_user", effort.hooks.get("ask_user"), failure)) is True:
                return True
            continue
        is_transform = how is Intervention.TRANSFORM_CONTEXT
        if is_transform:
            changed = yield from _asked(effort, how.value, effort.hooks.get("transform"), effort.request, failure)
            effort.is_compacted = changed is not None
        else:
            changed = yield from _asked(effort, how.value, effort.hooks.get("modify"), effort.request, how, failure)
        if changed is not None:
            effort.request = changed
            return True
        if is_transform:
            effort.compacted(has_worked=False)


def _asked(effort: _Effort, name: str, hook: Hook | None, *what: object) -> Generator[Work, Any, Any]:
    """What a hook of the caller says; nothing where there is none, or it raises."""
    if hook is None:
        return None
    scope, now = current_scope(), effort.recovery.clock.now
    is_person = name == "ask_user" and scope is not None
    if is_person and scope is not None:
        scope.hold(now())
    try:
        return (yield lambda: hook(*what))
    except Exception as error:
        UserHooks(effort.recovery, "", "", scope).failed(name, error)
        return None
    finally:
        if is_person and scope is not None:
            scope.let_go(now())


def _failure_of(error: Exception, recovery: Engine) -> Failure:
    report = report_of(error)
    return report.failure if report is not None and report.failure is not None else recovery.failure_of(error)
