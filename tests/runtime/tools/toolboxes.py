"""Tools for the tests of tools, and two ways to play a turn of them: in a thread and in a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.policy.model import Policy
from recovery_ops.rules.run_limits import GuardLimits
from recovery_ops.rules.tools.transcript import ToolUse
from recovery_ops.runtime import Tool, ToolRegistry, ToolResult, build_tool
from recovery_ops.runtime.testing import Lab

Play = Callable[..., list[ToolResult]]


def in_threads(registry: ToolRegistry, uses: Iterable[object], **rest: Any) -> list[ToolResult]:
    return registry.run_tools(uses, **rest)


def in_tasks(registry: ToolRegistry, uses: Iterable[object], **rest: Any) -> list[ToolResult]:
    return asyncio.run(registry.run_tools_async(uses, **rest))


PLAYS: dict[str, Play] = {"threads": in_threads, "tasks": in_tasks}


def use(tool: str, tool_use_id: str = "", **arguments: Any) -> ToolUse:
    return ToolUse(tool_use_id or f"use-{tool}", tool, arguments)


def open_tool(name: str, handler: Callable[..., Any], **said: Any) -> Tool:
    """A tool that needs no permission and takes any arguments."""
    usual: dict[str, Any] = {"require_permission": False, "input_schema": {"type": "object"}}
    return build_tool(name, handler, **usual | said)


def scripted(lab: Lab, name: str, *outcomes: Any, **said: Any) -> Tool:
    """A tool that plays a script."""
    return open_tool(name, lab.script(*outcomes), **said)


def registry_of(lab: Lab, *tools: Tool, **said: Any) -> ToolRegistry:
    return ToolRegistry(lab.recovery, tools=tools, **said)


def live(lab: Lab, **sections: Any) -> None:
    """Obey a policy with these sections from now on."""
    known = {part.name for part in fields(Policy)}
    policy = replace(Policy(), **sections) if known.issuperset(sections) else type("Live", (Policy,), sections)()
    lab.recovery.apply(Desired(revision=1, policy=policy))


def live_limits(lab: Lab, **limits: Any) -> None:
    """Obey these limits of a run from now on."""
    live(lab, guards=GuardLimits(**limits))
