"""Tools: what a model may call, said once, with the most cautious answer wherever nothing is said.

search = build_tool(
    "search_web", search_web, description="Finds pages.", read_only=True, require_permission=False, max_retries=2
)
registry = ToolRegistry(recovery, permission=may_call)
registry.add(search)
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypedDict, Unpack

from recovery_ops.rules.events import Escalated, WaitHeartbeat
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.tools.policy_limits import Caution
from recovery_ops.rules.tools.result_text import plain_json
from recovery_ops.rules.tools.results import LONGEST_NAME, plain_name
from recovery_ops.runtime.aio.awaitables import is_async
from recovery_ops.runtime.calls.deadline import Duration
from recovery_ops.runtime.calls.operation import Fallback
from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.guards.argument_checks import (
    Permission,
    check_names,
    check_numbers,
    check_permission,
    check_result,
)
from recovery_ops.runtime.guards.options import AnyFallback, Kind, check_fallbacks, check_foundational, check_kind
from recovery_ops.runtime.tools.schemas import Faults, fitting, schema_of


class MoreOfATool(TypedDict, total=False):
    """What else may be said of a tool: the options of a guard, and what only tools have."""

    breaker: str
    """The name of a shared backend; default: the tool's own name."""
    fallback_allowed: bool
    permission: Permission
    """`tell_model`: a 401 or 403 is an error result like a 404, as of pages of the open web. `stop` ends the run."""
    base_delay: Duration | None
    timeout: Duration | None
    settings: Settings | None
    idempotency_key: Callable[..., str] | None
    """Makes the key from the arguments; with a key every tool may be retried."""
    refresh_credentials: Callable[[], Any] | None
    refresh_evidence: Callable[[], Any] | None
    on_heartbeat: Callable[[WaitHeartbeat], Any] | None
    ask_user: Callable[[Escalated], Any] | None
    provider: str | None
    region: str | None
    """Where what answers stands, as a guard has it."""
    polling: bool
    """True: called until its result changes, so its repeated calls are not counted. False by default."""
    state_probe: Callable[..., Any] | None
    """Asked with the arguments when a conversation is resumed: True (done), False (not done), None (cannot tell), or
    what the call returned."""
    bypass_allowed: bool
    """False: the model is not told of other ways when the tool fails, is rejected or denied. True by default."""
    file_arguments: Sequence[str]
    """The names of arguments that hold paths."""
    masks_output: bool
    """False lets through what looks like a secret, for tools whose output must arrive unchanged. True by default."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """A tool for a model: what `build_tool` makes. Immutable; one tool may be in several registries.

    `as_anthropic()` and `as_openai()` describe it to a model. Rules: docs/guide/tools.md#declaration

    >>> add = build_tool("add", lambda a, b: a + b, description="Adds.")
    >>> add.as_openai()["function"]["name"], sorted(add.input_schema["properties"])
    ('add', ['a', 'b'])
    """

    name: str
    handler: Callable[..., Any]
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    caution: Caution
    foundational: bool
    fallbacks: tuple[Fallback[Any], ...]
    max_retries: int
    attempt_timeout: Duration | None
    kind: Kind
    source: str
    argument_faults: Faults = field(repr=False)
    output_faults: Faults | None = field(repr=False)
    more: MoreOfATool = field(repr=False)
    whole_answer: Callable[[], object] | None = field(default=None, repr=False)
    """For a tool of another framework: the content of its latest answer, where that is more than text."""

    @property
    def is_async(self) -> bool:
        """Whether its handler has to be awaited."""
        return is_async(self.handler)

    @property
    def masks_output(self) -> bool:
        """Whether what looks like a secret is hidden from the model."""
        return self.more.get("masks_output", True) is not False

    @property
    def is_polling(self) -> bool:
        """Whether repeated calls of it are expected."""
        return self.more.get("polling") is True

    @property
    def schema_text(self) -> str:
        """The input schema as JSON, for the model."""
        return json.dumps(plain_json(self.input_schema), ensure_ascii=False)

    def as_anthropic(self) -> dict[str, Any]:
        """The tool in the form of Anthropic's API."""
        return {"name": self.name, "description": self.description, "input_schema": dict(self.input_schema)}

    def as_openai(self) -> dict[str, Any]:
        """The tool in the form of OpenAI's chat API."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.input_schema)}
        return {"type": "function", "function": function}


def build_tool(
    name: str,
    handler: Callable[..., Any],
    *,
    description: str = "",
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    idempotent: bool = False,
    read_only: bool = False,
    is_destructive: bool = True,
    optional: bool = False,
    foundational: bool = False,
    require_permission: bool = True,
    fallback: AnyFallback | Sequence[AnyFallback] | None = None,
    max_retries: int | None = None,
    attempt_timeout: Duration | None = None,
    kind: Kind = "tool",
    source: str = "",
    **more: Unpack[MoreOfATool],
) -> Tool:
    """Create a tool; the defaults are the strictest. ConfigurationError for invalid options.

    - `handler` is called with the arguments by name; it may be async, and so may fallbacks, which get the same
      arguments.
    - `input_schema`: JSON Schema, by default that of the handler's signature. `output_schema`: an answer that does not
      match it counts for the breaker.
    - `idempotent`: a repetition does no harm; without it only failures that prove that nothing was done are retried.
      `read_only`: it changes nothing, so it is idempotent and not destructive. `is_destructive`: hard to undo; for the
      permission check only.
    - `optional`: withdrawn from the run instead of failed. `foundational`: the run ends if it stays down.
    - `require_permission`: the check of the registry must return True.
    - `bypass_allowed=False`: a check or approval that the model must not bypass. The text for the model suggests no
      alternative, and the tool is never optional.
    - `max_retries`: 0 by default; the live policy can change it.
    - `attempt_timeout` limits one attempt, in seconds or as a timedelta (`tool` 10 s, `document` 60 s, `sandbox` 120
    s).
    - The other options are those of `Recovery.guard`; `state_probe`, `file_arguments` and `masks_output` are for tools
    only.

    Rules: docs/guide/tools.md#declaration

    >>> search = build_tool("search_web", lambda query: [query], read_only=True, max_retries=2)
    >>> search.caution.idempotent, search.caution.is_destructive
    (True, False)
    """
    check_names(f"build_tool({name})", more, MoreOfATool.__annotations__)
    _check(name, handler, kind=kind, numbers={**more, "max_retries": max_retries, "attempt_timeout": attempt_timeout})
    check_foundational(f"tool {name}", optional=optional, foundational=foundational)
    bypass_allowed = more.get("bypass_allowed", True) is True
    if optional is True and not bypass_allowed:
        raise ConfigurationError(f"tool {name}: optional=True contradicts bypass_allowed=False; declare one of them")
    schema = schema_of(handler) if input_schema is None else dict(input_schema)
    caution = Caution(
        idempotent=idempotent is True or read_only is True,
        is_destructive=is_destructive is not False and read_only is not True,
        optional=optional is True,
        require_permission=require_permission is not False,
        bypass_allowed=bypass_allowed,
    )
    return Tool(
        name=name,
        handler=handler,
        description=description or (inspect.getdoc(handler) or "").partition("\n\n")[0],
        input_schema=schema,
        output_schema=output_schema,
        caution=caution,
        foundational=foundational is True,
        fallbacks=_fallbacks(name, fallback),
        max_retries=max_retries or 0,
        attempt_timeout=attempt_timeout,
        kind=kind,
        source=source,
        argument_faults=fitting(schema, f"input_schema of {name}"),
        output_faults=None if output_schema is None else fitting(output_schema, f"output_schema of {name}"),
        more=more,
    )


def _check(name: str, handler: Callable[..., Any], *, kind: str, numbers: Mapping[str, object]) -> None:
    if not name or plain_name(str(name)) != name:
        raise ConfigurationError(f"a tool's name is 1 to {LONGEST_NAME} visible characters, not {name!r}")
    if not callable(handler):
        raise ConfigurationError(f"the handler of {name} must be callable")
    check_result(f"tool {name}", handler)
    check_permission(f"tool {name}", numbers.get("permission", "stop"))
    check_kind(f"tool {name}", kind)
    check_numbers(f"tool {name}", numbers)
    if not numbers["attempt_timeout"] and numbers["attempt_timeout"] is not None:  # at a guard none; no tool may hang
        raise ConfigurationError(f"attempt_timeout of {name} must be a number of seconds above 0, not 0")


def _fallbacks(name: str, given: AnyFallback | Sequence[AnyFallback] | None) -> tuple[Fallback[Any], ...]:
    check_fallbacks(f"tool {name}", given)
    if given is None:
        return ()
    several: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
    found = tuple(one if isinstance(one, Fallback) else Fallback(one) for one in several)
    for one in found:
        check_result(f"fallback of {name}", one.function)
    return found
