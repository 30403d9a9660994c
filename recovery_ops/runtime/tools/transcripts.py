"""Takes up a conversation that broke off: every tool call gets its result, and what changed meanwhile is named.

`ToolRegistry.resume` and `ToolRegistry.resume_async` lead here.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from recovery_ops.rules.events import ToolErrorReturned
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.tools import resume as resuming
from recovery_ops.rules.tools.result_text import shown
from recovery_ops.rules.tools.results import Detail, ToolResult, plain_name
from recovery_ops.rules.tools.resume import PlanStep, restored_plan
from recovery_ops.rules.tools.transcript import (
    Message,
    ToolUse,
    begun_by_user,
    endings,
    made_whole,
    tool_uses_in,
    unanswered,
)
from recovery_ops.runtime.calls.drivers import Work, drive, drive_async
from recovery_ops.runtime.calls.operation import ATTEMPT, Attempt
from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.runs.context import current_scope
from recovery_ops.runtime.tools.permission import hooks_of
from recovery_ops.runtime.tools.schemas import read_arguments
from recovery_ops.runtime.tools.tool import Tool
from recovery_ops.runtime.tools.toolbox import Toolbox

Files = Mapping[str, str] | Iterable[str]
"""Marks by path, or bare paths."""
GONE = "gone"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Resumed:
    """A conversation made whole. `messages` is a new list in the form of the old one.

    `filled` are the results that were missing; `dropped` the ids of results that answered no call; `files_gone` and
    `files_changed` the paths that are not what they were; `briefing` tells the model of all this, and is empty where
    there is nothing to tell.
    """

    messages: list[Any]
    filled: tuple[ToolResult, ...] = ()
    dropped: tuple[str, ...] = ()
    files_gone: tuple[str, ...] = ()
    files_changed: tuple[str, ...] = ()
    plan: tuple[PlanStep, ...] = ()
    briefing: str = ""


def file_marks(paths: Iterable[str | os.PathLike[str]]) -> dict[str, str]:
    """A mark of each file's content; `gone` where there is none."""
    return {os.fspath(path): _mark(os.fspath(path)) for path in paths}


def resume(
    registry: Toolbox,
    messages: Sequence[Message],
    files: Files,
    plan: Iterable[object],
) -> Resumed:
    """Give every tool call without a result its result."""
    missing = unanswered(messages)
    filled = [drive(_filling(registry, use)) for use in missing]
    return _resumed(messages, filled, registry, files, plan)


async def resume_async(
    registry: Toolbox,
    messages: Sequence[Message],
    files: Files,
    plan: Iterable[object],
) -> Resumed:
    """`resume` where probes are async."""
    missing = unanswered(messages)
    filled = [await drive_async(_filling(registry, use)) for use in missing]
    return _resumed(messages, filled, registry, files, plan)


def _resumed(
    messages: Sequence[Message],
    filled: list[ToolResult],
    registry: Toolbox,
    files: Files,
    plan: Iterable[object],
) -> Resumed:
    repair = made_whole(messages, filled)
    gone, changed = _files(messages, registry, files)
    steps = restored_plan(plan, endings(messages), filled)
    return Resumed(
        messages=begun_by_user(repair.messages),
        filled=tuple(filled),
        dropped=repair.dropped,
        files_gone=gone,
        files_changed=changed,
        plan=steps,
        briefing=resuming.briefing(filled=filled, gone=gone, changed=changed, plan=steps),
    )


def _filling(registry: Toolbox, use: ToolUse) -> Generator[Work, Any, ToolResult]:
    """The result for one call: what its tool's own probe says, or that nobody knows."""
    tool = registry.get(use.name)
    result = resuming.interrupted(use.id, use.name)
    if tool is None:
        return result
    probe = tool.more.get("state_probe")
    if probe is not None:
        answer = yield from _probed(registry, tool, use, probe)
        if answer is not None:
            return _found(tool, use, answer)
    event = ToolErrorReturned(
        operation=tool.name,
        tool=tool.name,
        call_id=plain_name(use.id) if use.id else None,
        message=Detail.INTERRUPTED.value,
    )
    registry.recovery.emit(event, current_scope(), source=tool.source)
    return result


def _found(tool: Tool, use: ToolUse, answer: object) -> ToolResult:
    if answer is False:
        return resuming.not_done(use.id, tool.name)
    told = "" if answer is True else f"Result: {shown(answer, is_masked=tool.masks_output)}"
    return resuming.found_done(use.id, tool.name, told)


def _probed(registry: Toolbox, tool: Tool, use: ToolUse, probe: Callable[..., Any]) -> Generator[Work, Any, object]:
    """What the probe says; None where it cannot tell, or fails. It sees the idempotency key that the call had."""
    make_key = tool.more.get("idempotency_key")
    try:
        arguments = read_arguments(use.arguments)
        key = make_key(**arguments) if make_key is not None else None
        token = ATTEMPT.set(Attempt(tool.name, idempotency_key=key).keyed())
        try:
            answer: object = yield lambda: probe(**arguments)
        finally:
            ATTEMPT.reset(token)
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise ConfigurationError(f"the state_probe of {tool.name} is async: await resume_async")
    except Exception as error:
        hooks_of(registry.recovery, current_scope(), tool).failed("state_probe", error)
        return None
    return answer


def _files(messages: Sequence[Message], registry: Toolbox, files: Files) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files that are gone, and those that changed."""
    known = dict(files) if isinstance(files, Mapping) else dict.fromkeys(files, "")
    for path in _paths_in(messages, registry):
        known.setdefault(path, "")
    gone = [path for path, before in known.items() if before != GONE and not os.path.exists(path)]
    changed = [path for path, before in known.items() if before and path not in gone and _mark(path) != before]
    return tuple(gone), tuple(changed)


def _paths_in(messages: Sequence[Message], registry: Toolbox) -> list[str]:
    """The paths in the arguments that tools have declared to be paths."""
    found: dict[str, None] = {}
    for use in (use for message in messages for use in tool_uses_in(message)):
        tool = registry.get(use.name)
        names = tool.more.get("file_arguments", ()) if tool is not None else ()
        if names:
            arguments = _arguments_of(use)
            paths = (arguments.get(name) for name in names)
            found.update(dict.fromkeys(path for path in paths if isinstance(path, str) and path))
    return list(found)


def _arguments_of(use: ToolUse) -> dict[str, Any]:
    try:
        return read_arguments(use.arguments)
    except Exception:  # the model wrote it; the call's own result says so already
        return {}


def _mark(path: str) -> str:
    if not os.path.exists(path):
        return GONE
    if not os.path.isfile(path):
        return "no file"
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError:
        return "unreadable"
    return f"sha256:{digest.hexdigest()}"
