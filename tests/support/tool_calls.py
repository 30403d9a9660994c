"""Each way in which a tool call can end, in threads and in tasks: every row of the rules of tools."""

from __future__ import annotations

from typing import Any

from recovery_ops.rules.tools.transcript import ToolUse
from recovery_ops.runtime import ToolResult
from recovery_ops.runtime.testing import Lab
from tests.runtime.tools.toolboxes import Play, registry_of, use


def one(play: Play, lab: Lab, tool: Any, given: ToolUse | None = None, **said: Any) -> ToolResult:
    """The result of one call of one tool, in a foreground run."""
    registry = registry_of(lab, tool, **said)
    with lab.recovery.run(source="main_agent"):
        (result,) = play(registry, [given or use(tool.name)])
    return result
