"""The tools of an agent by name: what the model may be offered now, and the guard of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.tools.policy_limits import Caution, tightened
from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.guards.guard import Guards
from recovery_ops.runtime.runs.context import current_scope
from recovery_ops.runtime.tools.handlers import fallback_invoker, invoker
from recovery_ops.runtime.tools.permission import AskPerson, Checker
from recovery_ops.runtime.tools.tool import Tool


class Toolbox:
    """Tools with the guards of one client."""

    def __init__(
        self, recovery: Guards, permission: Checker | None, ask_person: AskPerson | None, tools: Iterable[Tool]
    ) -> None:
        self.recovery = recovery
        self.permission = permission
        self.ask_person = ask_person
        self._tools: dict[str, Tool] = {}
        self._guarded: dict[tuple[str, bool, Caution], Callable[..., Any]] = {}
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> Tool:
        """Add a tool. Its operation exists at once, so overrides apply before its first call."""
        if tool.name in self._tools:
            raise ConfigurationError(f"there is already a tool named {tool.name}; give each its own name")
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
        """The tools for the next turn, without withdrawn and blocked ones."""
        scope = current_scope()
        if scope is None:
            return tuple(self._tools.values())
        left_out = scope.withdrawn | scope.guards.stopped_tools | scope.guards.waits_for_a_person
        return tuple(tool for name, tool in self._tools.items() if name not in left_out)

    def caution_of(self, tool: Tool) -> Caution:
        """The caution for a tool now: that of its code, or more where the live policy asks for more."""
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


def _guard(recovery: Guards, tool: Tool, caution: Caution, *, for_tasks: bool) -> Callable[..., Any]:
    more = tool.more
    is_keyed = more.get("idempotency_key") is not None
    decorate: Callable[..., Callable[..., Any]] = recovery.guard(
        tool.name,
        kind=tool.kind,
        tool=tool.name,
        source=tool.source,
        max_retries=tool.max_retries,
        attempt_timeout=tool.attempt_timeout,
        timeout=more.get("timeout"),
        idempotent=caution.idempotent,
        reraise=False,
        optional=caution.optional,
        foundational=tool.foundational,
        fallback=[fallback_invoker(recovery, tool, one, for_tasks=for_tasks) for one in tool.fallbacks],
        idempotency_key=(lambda call: call.key) if is_keyed else None,
        fallback_allowed=more.get("fallback_allowed", True),
        permission=more.get("permission", "stop"),
        breaker=more.get("breaker", ""),
        base_delay=more.get("base_delay"),
        settings=more.get("settings"),
        refresh_credentials=more.get("refresh_credentials"),
        refresh_evidence=more.get("refresh_evidence"),
        on_heartbeat=more.get("on_heartbeat"),
        ask_user=more.get("ask_user"),
        provider=more.get("provider"),
        region=more.get("region"),
    )
    return decorate(invoker(recovery, tool, for_tasks=for_tasks))
