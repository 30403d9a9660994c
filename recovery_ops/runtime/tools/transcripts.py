"""Takes up a conversation that broke off: every tool call gets its result, and what changed meanwhile is named.

taken_up = resume(messages, registry=registry, files=saved_marks, plan=saved_plan)
messages = taken_up.messages + ([{"role": "user", "content": taken_up.briefing}] if taken_up.briefing else [])
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from recovery_ops.rules.facts import ToolErrorReturned
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.tools import resuming
from recovery_ops.rules.tools.results import Detail, ToolResult, plain_name
from recovery_ops.rules.tools.resuming import PlanStep, restored_plan
from recovery_ops.rules.tools.showing import shown
from recovery_ops.rules.tools.transcript import Message, ToolUse, endings, made_whole, tool_uses_in, unanswered
from recovery_ops.runtime.errors import NotConfigured
from recovery_ops.runtime.operation import ATTEMPT, Attempt
from recovery_ops.runtime.run import CURRENT
from recovery_ops.runtime.tools.building import Tool
from recovery_ops.runtime.tools.calls import drive, drive_async
from recovery_ops.runtime.tools.permission import Work, hook_failed
from recovery_ops.runtime.tools.registry import ToolRegistry
from recovery_ops.runtime.tools.schemas import read_arguments

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
    """A mark of each file's content, to be saved with a conversation and given to `resume`; `gone` where none is."""
    return {os.fspath(path): _mark(os.fspath(path)) for path in paths}


def resume(
    messages: Sequence[Message],
    *,
    registry: ToolRegistry | None = None,
    files: Mapping[str, str] | Iterable[str] = (),
    plan: Iterable[object] = (),
) -> Resumed:
    """Find every tool call without a result and give it one: Anthropic's messages, OpenAI's, and OpenAI's flat items.

    A tool of the `registry` with a `state_probe` is asked whether the call was carried out; of all others the outcome
    is unknown, and the model is told to check. `files` are marks from `file_marks`, or bare paths (then only those
    that are gone are noticed); paths in the `file_arguments` of the calls are looked at too. `plan` holds steps as
    the agent keeps them (see `rules.resuming.plan_step_of`). Never raises for what the messages hold.
    """
    missing = unanswered(messages)
    filled = [drive(_filling(registry, use)) for use in missing]
    return _resumed(messages, filled, registry, files, plan)


async def resume_async(
    messages: Sequence[Message],
    *,
    registry: ToolRegistry | None = None,
    files: Mapping[str, str] | Iterable[str] = (),
    plan: Iterable[object] = (),
) -> Resumed:
    """`resume` where probes are async."""
    missing = unanswered(messages)
    filled = [await drive_async(_filling(registry, use)) for use in missing]
    return _resumed(messages, filled, registry, files, plan)


def _resumed(
    messages: Sequence[Message],
    filled: list[ToolResult],
    registry: ToolRegistry | None,
    files: Mapping[str, str] | Iterable[str],
    plan: Iterable[object],
) -> Resumed:
    repair = made_whole(messages, filled)
    gone, changed = _files(messages, registry, files)
    steps = restored_plan(plan, endings(messages), filled)
    return Resumed(
        messages=repair.messages,
        filled=tuple(filled),
        dropped=repair.dropped,
        files_gone=gone,
        files_changed=changed,
        plan=steps,
        briefing=resuming.briefing(filled=filled, gone=gone, changed=changed, plan=steps),
    )


def _filling(registry: ToolRegistry | None, use: ToolUse) -> Generator[Work, Any, ToolResult]:
    """The result for one call: what its tool's own probe says, or that nobody knows."""
    tool = registry.get(use.name) if registry is not None else None
    result = resuming.interrupted(use.id, use.name)
    if registry is None or tool is None:
        return result
    probe = tool.more.get("state_probe")
    if probe is not None:
        answer = yield from _probed(registry, tool, use, probe)
        if answer is not None:
            return _found(tool, use, answer)
    fact = ToolErrorReturned(
        operation=tool.name,
        tool=tool.name,
        call_id=plain_name(use.id) if use.id else None,
        message=Detail.INTERRUPTED.value,
    )
    registry.recovery.emit(fact, CURRENT.get(), source=tool.source)
    return result


def _found(tool: Tool, use: ToolUse, answer: object) -> ToolResult:
    if answer is False:
        return resuming.not_done(use.id, tool.name)
    told = "" if answer is True else f"Result: {shown(answer, is_masked=tool.masks_output)}"
    return resuming.found_done(use.id, tool.name, told)


def _probed(
    registry: ToolRegistry, tool: Tool, use: ToolUse, probe: Callable[..., Any]
) -> Generator[Work, Any, object]:
    """What the probe says; None where it cannot tell, or fails. It sees the idempotency key that the call had."""
    make_key = tool.more.get("idempotency_key")
    try:
        arguments = read_arguments(use.arguments)
        key = make_key(**arguments) if make_key is not None else None
        token = ATTEMPT.set(Attempt(tool.name, idempotency_key=key))
        try:
            answer: object = yield lambda: probe(**arguments)
        finally:
            ATTEMPT.reset(token)
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise NotConfigured(f"the state_probe of {tool.name} is async: await resume_async")
    except Exception as error:
        hook_failed(registry.recovery, CURRENT.get(), tool, "state_probe", error)
        return None
    return answer


def _files(
    messages: Sequence[Message], registry: ToolRegistry | None, files: Mapping[str, str] | Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files that are gone, and those that changed."""
    known = dict(files) if isinstance(files, Mapping) else dict.fromkeys(files, "")
    for path in _paths_in(messages, registry):
        known.setdefault(path, "")
    gone = [path for path, before in known.items() if before != GONE and not os.path.exists(path)]
    changed = [path for path, before in known.items() if before and path not in gone and _mark(path) != before]
    return tuple(gone), tuple(changed)


def _paths_in(messages: Sequence[Message], registry: ToolRegistry | None) -> list[str]:
    """The paths in the arguments that tools have declared to be paths."""
    found: dict[str, None] = {}
    for use in (use for message in messages for use in tool_uses_in(message)):
        tool = registry.get(use.name) if registry is not None else None
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
