"""A ReAct loop that survives: each tool call gets exactly one result, and every way out of the loop is in order.

This is the part to copy. `react_troubles.py` beside it plays every kind of trouble against it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from recovery_ops.runtime import Failure, Model, ModelChain, Needs, Tool, ToolRegistry, ToolResult, attempt

Message = dict[str, Any]
Client = Callable[..., Awaitable[Message]]

PRIMARY = "large"
MAX_TOKENS = 8000
KEPT_WHOLE = 2
"""How many messages at the end stay as they are when the conversation has to become shorter."""


class Agent:
    """A model and its tools. `client(model, max_tokens, messages, tools)` sends one request to the model."""

    def __init__(self, registry: ToolRegistry, client: Client) -> None:
        self.registry = registry

        async def request(messages: list[Message], tools: Sequence[Tool]) -> Message:
            now = attempt()  # what the rules want of this attempt: another model, or a smaller answer
            return await client(
                model=now.model or PRIMARY,
                max_tokens=now.max_tokens or MAX_TOKENS,
                messages=messages,
                tools=[tool.as_anthropic() for tool in tools],
            )

        self._ask = registry.recovery.guard(
            "ask_model",
            kind="model",
            idempotent=True,
            adjusts_max_tokens=True,
            chain=ModelChain(PRIMARY, Model(name="small", context_tokens=32_000)),
            needs=lambda messages, tools: Needs(tools=bool(tools)),
        )(request)

    async def answer(self, question: str, messages: list[Message]) -> str:
        """The model's answer. `messages` is the caller's list, and whole whenever this returns or raises.

        Raises StopRun (the run must end: tell the user its `user_message`), RecoveryExhausted or CircuitOpen (no
        model answers), and lets a cancel pass.
        """
        messages.append({"role": "user", "content": question})
        async with self.registry.recovery.run("answer a question", source="user_request") as run:
            while True:
                run.turn()  # the turn after the last allowed one is StopRun
                reply = await self._reply(messages)
                messages.append(reply)
                calls = ToolRegistry.tool_uses_in(reply)
                if not calls:
                    return text_of(reply)
                results: list[ToolResult] = []
                try:
                    await self.registry.run_tools_async(calls, into=results)
                finally:  # stopped or cancelled: `results` holds one for each call all the same
                    messages.append({"role": "user", "content": [result.as_anthropic() for result in results]})

    async def _reply(self, messages: list[Message]) -> Message:
        async def ask(messages: list[Message]) -> Message:
            return await self._ask(messages, self.registry.offered())

        reply: Message = await self.registry.recovery.intervene_async(ask, messages, transform=shorten)
        return reply


def shorten(messages: list[Message], failure: Failure) -> list[Message] | None:
    """Empty old results, but leave them in their place; None where nothing becomes shorter."""
    has_worked = False
    for message in messages[1:-KEPT_WHOLE]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        for block in blocks:
            if block["type"] == "tool_result" and len(block["content"]) > 100:
                block["content"] = "(left out: the conversation became too long)"
                has_worked = True
    return messages if has_worked else None


def text_of(message: Message) -> str:
    """The words of a message."""
    content = message["content"]
    return content if isinstance(content, str) else " ".join(block.get("text", "") for block in content).strip()
