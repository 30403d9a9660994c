"""Tools: what a model may call, said once, with the most cautious answer wherever nothing is said.

search = build_tool(
    "search_web", search_web, description="Finds pages.", is_destructive=False, require_permission=False, max_retries=2
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

from recovery_ops.rules.facts import Escalated, WaitHeartbeat
from recovery_ops.rules.policy import BUILT_IN_DEFAULTS, Knobs
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.tools.caution import Caution
from recovery_ops.rules.tools.results import LONGEST_NAME, plain_name
from recovery_ops.rules.tools.showing import plain_json
from recovery_ops.runtime.concurrency.awaiting import is_async
from recovery_ops.runtime.errors import NotConfigured
from recovery_ops.runtime.guard import AnyFallback
from recovery_ops.runtime.misuse import check_numbers, check_result
from recovery_ops.runtime.operation import Fallback
from recovery_ops.runtime.tools.schemas import Faults, fitting, schema_of

KINDS = tuple(kind for kind in BUILT_IN_DEFAULTS if kind != "undeclared")


class MoreOfATool(TypedDict, total=False):
    """What else may be said of a tool: the words of a guard, and what only tools have."""

    breaker: str
    """The name of a shared backend; default: the tool's own name."""
    fallback_allowed: bool
    base_delay_s: float | None
    knobs: Knobs | None
    idempotency_key: Callable[..., str] | None
    """Makes the key from the arguments; with a key even a destructive tool may be retried."""
    refresh_credentials: Callable[[], Any] | None
    refresh_evidence: Callable[[], Any] | None
    on_heartbeat: Callable[[WaitHeartbeat], Any] | None
    ask_user: Callable[[Escalated], Any] | None
    provider: str | None
    region: str | None
    """Where what answers stands, as a guard has it."""
    state_probe: Callable[..., Any] | None
    """Asked with the arguments when a conversation is resumed: True (done), False (not done), None (cannot tell), or
    what the call returned."""
    file_arguments: Sequence[str]
    """The names of arguments that hold paths."""
    masks_output: bool
    """False lets through what looks like a secret, for tools whose output must arrive unchanged. True by default."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """What `build_tool` makes. Immutable; one tool may stand in several registries."""

    name: str
    handler: Callable[..., Any]
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    caution: Caution
    fallbacks: tuple[Fallback, ...]
    max_retries: int
    deadline_s: float | None
    kind: str
    source: str
    argument_faults: Faults = field(repr=False)
    output_faults: Faults | None = field(repr=False)
    more: MoreOfATool = field(repr=False)

    @property
    def is_async(self) -> bool:
        """Whether its handler has to be awaited."""
        return is_async(self.handler)

    @property
    def masks_output(self) -> bool:
        """Whether what looks like a secret is hidden from the model."""
        return self.more.get("masks_output", True) is not False

    @property
    def schema_text(self) -> str:
        """The input schema as JSON, for the model."""
        return json.dumps(plain_json(self.input_schema), ensure_ascii=False)

    def as_anthropic(self) -> dict[str, Any]:
        """The tool as Anthropic's API wants it described."""
        return {"name": self.name, "description": self.description, "input_schema": dict(self.input_schema)}

    def as_openai(self) -> dict[str, Any]:
        """The tool as OpenAI's chat API wants it described."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.input_schema)}
        return {"type": "function", "function": function}


def build_tool(
    name: str,
    handler: Callable[..., Any],
    *,
    description: str = "",
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    is_destructive: bool = True,
    optional: bool = False,
    require_permission: bool = True,
    fallback: AnyFallback | Sequence[AnyFallback] | None = None,
    max_retries: int | None = None,
    deadline_s: float | None = None,
    kind: str = "tool",
    source: str = "",
    **more: Unpack[MoreOfATool],
) -> Tool:
    """The one factory of tools; whatever is not said is the most restrictive. NotConfigured for what could never work.

    `handler` is called with the arguments by name; it may be async, and so may fallbacks, which get the same
    arguments. `input_schema` (JSON Schema) is told from the handler's signature where it is absent. An answer that
    fails `output_schema` is the tool's fault and counts for its breaker.
    `is_destructive`: doing it twice may do harm, so only what provably did nothing is retried. `optional`: rather left
    out of the run than failed. `require_permission`: the registry's checker must say yes.
    `max_retries` absent is 0: a tool retries only where this or the live policy for the operation says so.
    `deadline_s` is of one attempt; absent is that of the `kind` (`tool` 10 s, `document` 60 s, `sandbox` 120 s).
    """
    _check(name, handler, kind=kind, numbers={**more, "max_retries": max_retries, "deadline_s": deadline_s})
    schema = schema_of(handler) if input_schema is None else dict(input_schema)
    caution = Caution(
        is_destructive=is_destructive is not False,
        optional=optional is True,
        require_permission=require_permission is not False,
    )
    return Tool(
        name=name,
        handler=handler,
        description=description or (inspect.getdoc(handler) or "").partition("\n\n")[0],
        input_schema=schema,
        output_schema=output_schema,
        caution=caution,
        fallbacks=_fallbacks(name, fallback),
        max_retries=max_retries or 0,
        deadline_s=deadline_s,
        kind=kind,
        source=source,
        argument_faults=fitting(schema, f"input_schema of {name}"),
        output_faults=None if output_schema is None else fitting(output_schema, f"output_schema of {name}"),
        more=more,
    )


def _check(name: str, handler: Callable[..., Any], *, kind: str, numbers: Mapping[str, object]) -> None:
    if not name or plain_name(str(name)) != name:
        raise NotConfigured(f"a tool's name is 1 to {LONGEST_NAME} visible characters, not {name!r}")
    if not callable(handler):
        raise NotConfigured(f"the handler of {name} must be callable")
    check_result(f"tool {name}", handler)
    if kind not in KINDS:
        raise NotConfigured(f"the kind of {name} must be one of {', '.join(KINDS)}, not {kind!r}")
    check_numbers(f"tool {name}", numbers)
    if numbers["deadline_s"] == 0:  # none at all, at a guard; a tool must not hang
        raise NotConfigured(f"deadline_s of {name} must be a number of seconds above 0, not 0")


def _fallbacks(name: str, given: AnyFallback | Sequence[AnyFallback] | None) -> tuple[Fallback, ...]:
    if given is None:
        return ()
    several: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
    found = tuple(one if isinstance(one, Fallback) else Fallback(one) for one in several)
    for one in found:
        if not callable(one.function):
            raise NotConfigured(
                f"a fallback of {name} is a callable or a Fallback, not a {type(one.function).__name__}"
            )
        check_result(f"fallback of {name}", one.function)
    return found
