"""The tools of an agent: which there are, what the model may be offered now, and the guard of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from recovery_ops.rules.scope import Place
from recovery_ops.rules.tools.caution import Caution, tightened
from recovery_ops.runtime.errors import NotConfigured
from recovery_ops.runtime.recovery import Recovery, in_force
from recovery_ops.runtime.run import CURRENT
from recovery_ops.runtime.tools.building import Tool
from recovery_ops.runtime.tools.invoking import fallback_invoker, invoker
from recovery_ops.runtime.tools.permission import AskPerson, Checker


class ToolRegistry:
    """The tools that one agent has. Fill it at start; then it may be used from any thread and task.

    registry = ToolRegistry(recovery, permission=lambda tool, arguments: tool.name in allowed)
    registry.add(build_tool("search_web", search_web, is_destructive=False))
    model(messages, tools=[tool.as_anthropic() for tool in registry.offered()])

    `recovery` absent is that of the run, else the process's own. `permission(tool, arguments)` says True or why not;
    without it every tool that requires permission is denied. `ask_person(tool, arguments, reason)` is asked once a run
    has been refused too often, if the run is in foreground; without it, or in background, a person is asked by an
    escalation.
    """

    def __init__(
        self,
        recovery: Recovery | None = None,
        permission: Checker | None = None,
        *,
        ask_person: AskPerson | None = None,
        tools: Iterable[Tool] = (),
    ) -> None:
        self.recovery = recovery or in_force()
        self.permission = permission
        self.ask_person = ask_person
        self._tools: dict[str, Tool] = {}
        self._guarded: dict[tuple[str, bool, Caution], Callable[..., Any]] = {}
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> Tool:
        """Take in a tool; its name becomes an operation at once, so that overrides reach it before its first call."""
        if tool.name in self._tools:
            raise NotConfigured(f"there is already a tool named {tool.name}; give each its own name")
        self._tools[tool.name] = tool
        self.guarded(tool, tool.caution, for_tasks=tool.is_async)
        return tool

    def get(self, name: str) -> Tool | None:
        """The tool of this name."""
        return self._tools.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools, in the order in which they were added."""
        return tuple(self._tools)

    def offered(self) -> tuple[Tool, ...]:
        """What the model may be offered now: without what this run has withdrawn or stopped calling."""
        scope = CURRENT.get()
        if scope is None:
            return tuple(self._tools.values())
        left_out = scope.withdrawn | scope.guards.stopped_tools | scope.guards.waits_for_a_person
        return tuple(tool for name, tool in self._tools.items() if name not in left_out)

    def caution_of(self, tool: Tool) -> Caution:
        """How careful to be with a tool now: what its code says, or more where the live policy says more."""
        rules = self.recovery.desired.policy.tools
        if not rules:
            return tool.caution
        operation = self.recovery.operations.get(tool.name)
        place = operation.place if operation else Place(service="*", instance="*", operation=tool.name)
        return tightened(tool.caution, rules, place)

    def guarded(self, tool: Tool, caution: Caution, *, for_tasks: bool) -> Callable[..., Any]:
        """The tool behind its ladder, for threads or for tasks."""
        key = (tool.name, for_tasks, caution)
        found = self._guarded.get(key)
        if found is None:
            # Two threads may both make one; they are alike, and the operation behind them is the same.
            found = self._guarded[key] = _guard(self.recovery, tool, caution, for_tasks=for_tasks)
        return found


def _guard(recovery: Recovery, tool: Tool, caution: Caution, *, for_tasks: bool) -> Callable[..., Any]:
    more = tool.more
    is_keyed = more.get("idempotency_key") is not None
    decorate: Callable[..., Callable[..., Any]] = recovery.guard(
        tool.name,
        kind=tool.kind,
        tool=tool.name,
        source=tool.source,
        max_retries=tool.max_retries,
        deadline_s=tool.deadline_s,
        is_destructive=caution.is_destructive,
        optional=caution.optional,
        fallback=[fallback_invoker(recovery, tool, one, for_tasks=for_tasks) for one in tool.fallbacks],
        idempotency_key=(lambda call: call.key) if is_keyed else None,
        fallback_allowed=more.get("fallback_allowed", True),
        breaker=more.get("breaker", ""),
        base_delay_s=more.get("base_delay_s"),
        knobs=more.get("knobs"),
        refresh_credentials=more.get("refresh_credentials"),
        refresh_evidence=more.get("refresh_evidence"),
        on_heartbeat=more.get("on_heartbeat"),
        ask_user=more.get("ask_user"),
        provider=more.get("provider"),
        region=more.get("region"),
    )
    return decorate(invoker(recovery, tool, for_tasks=for_tasks))
