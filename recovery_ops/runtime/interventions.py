"""The agent's loop around a model: what can still be done about a request when its guard has given up.

from recovery_ops.runtime import intervene

answer = intervene(ask_model, messages, modify=modify, transform=compact, ask_user=ask, save=save)

`ask_model` is a guarded callable: it retries the same request by itself. The rules are `rules/interventions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import field
from typing import Any, TypedDict, Unpack

from recovery_ops.rules.facts import HookFailed
from recovery_ops.rules.failures import Failure
from recovery_ops.rules.interventions import MODIFICATIONS, Intervention, next_intervention
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.words import Category
from recovery_ops.runtime.budgets import count_compaction, limits_of
from recovery_ops.runtime.concurrency.awaiting import is_async
from recovery_ops.runtime.errors import (
    DeadlineExceeded,
    NotConfigured,
    RecoveryError,
    RecoveryExhausted,
    RunCancelled,
    RunStopped,
)
from recovery_ops.runtime.recovery import Recovery, in_force
from recovery_ops.runtime.run import CURRENT
from recovery_ops.runtime.signals import classify
from recovery_ops.runtime.tools.calls import drive, drive_async
from recovery_ops.runtime.tools.permission import Work

Hook = Callable[..., Any]


class Hooks(TypedDict, total=False):
    """What the caller can do; what is not said is not done. Each may be async for `intervene_async`."""

    modify: Callable[[Any, Intervention, Failure], Any] | None
    """`modify(request, how, failure)`: the modified request, or None where it cannot be modified in that way. For
    `cut_input`, leave `input_share()` of the input."""
    transform: Callable[[Any, Failure], Any] | None
    """`transform(request, failure)`: the request with its context compacted, or None. Off for the run after three
    failures in a row."""
    ask_user: Callable[[Failure], Any] | None
    """`ask_user(failure)`: True makes the request once more as it is."""
    save: Callable[[Any], Any] | None
    """`save(request)`: keeps the state and returns the id to resume with, which the error then carries."""
    recovery: Recovery | None
    """Default: that of the run, else the process's own."""


def intervene(call: Callable[[Any], Any], request: Any, **hooks: Unpack[Hooks]) -> Any:
    """What `call(request)` answers, if need be after the request was modified, in this thread.

    Raises what the last call raised (`resume_id` set, where state was saved and it is a RecoveryError); at once for
    RunStopped, RunCancelled, a deadline that has passed, and whatever is no failure.
    """
    for hook in (call, *(one for one in hooks.values() if not isinstance(one, Recovery))):
        if is_async(hook):
            raise NotConfigured(f"{getattr(hook, '__name__', hook)} is async: use intervene_async")
    return drive(_intervening(call, request, hooks))


async def intervene_async(call: Callable[[Any], Any], request: Any, **hooks: Unpack[Hooks]) -> Any:
    """`intervene` for tasks; the callables may be async."""
    return await drive_async(_intervening(call, request, hooks))


def input_share(recovery: Recovery | None = None) -> float:
    """The share of its input that a request keeps when it is cut, as the live policy says (`guards.input_share`)."""
    return limits_of(recovery or in_force()).input_share


@dataclass(slots=True)
class _Effort:
    """How far the interventions have come."""

    recovery: Recovery
    hooks: Hooks
    request: Any
    tried: set[Intervention] = field(default_factory=set)
    is_compacted: bool = False

    def offered(self) -> set[Intervention]:
        """What the caller can do now."""
        found: set[Intervention] = set(MODIFICATIONS) if self.hooks.get("modify") else set()
        scope = CURRENT.get()
        if self.hooks.get("transform") and (scope is None or scope.guards.may_compact):
            found.add(Intervention.TRANSFORM_CONTEXT)
        if self.hooks.get("ask_user"):
            found.add(Intervention.ASK_A_PERSON)
        return found

    def compacted(self, *, has_worked: bool) -> None:
        """How compacting went counts for the run."""
        scope = CURRENT.get()
        if scope is not None:
            count_compaction(self.recovery, scope, has_worked=has_worked)


def _intervening(call: Callable[[Any], Any], request: Any, hooks: Hooks) -> Generator[Work, Any, Any]:
    effort = _Effort(hooks.get("recovery") or in_force(), hooks, request)
    while True:
        try:
            answer = yield lambda: call(effort.request)
        except (RunStopped, RunCancelled, DeadlineExceeded):
            raise
        except Exception as error:
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
    scope, now = CURRENT.get(), effort.recovery.clock.now
    is_person = name == "ask_user" and scope is not None
    if is_person and scope is not None:
        scope.hold(now())
    try:
        return (yield lambda: hook(*what))
    except Exception as error:
        failure = classify(error, now=effort.recovery.clock.wall())
        effort.recovery.emit(
            HookFailed(hook=name, error_type=failure.error_type, message=failure.message), CURRENT.get()
        )
        return None
    finally:
        if is_person and scope is not None:
            scope.let_go(now())


def _failure_of(error: Exception, recovery: Recovery) -> Failure:
    if isinstance(error, RecoveryExhausted) and error.failure is not None:
        return error.failure
    return recovery.failure_of(error)
