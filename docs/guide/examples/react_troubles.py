"""Every kind of trouble, played against the loop of `react_loop.py`: how it ends, and that the transcript is whole.

Run it: `python docs/guide/examples/react_troubles.py`. Nothing here sleeps: the clock is a laboratory's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from react_loop import Agent, Message

from recovery_ops.runtime import RecoveryError, Response, StopRun, Tool, ToolRegistry, build_tool
from recovery_ops.runtime.testing import Lab, transcript_faults

ANSWER = "Here is what I found."
OVERFLOW = "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length"
TOO_LONG = "prompt is too long: 215000 tokens > 200000 maximum"


def calls(*uses: tuple[str, object]) -> Message:
    """What a model writes that asks for tools: names, and arguments as it wrote them."""
    blocks = [
        {"type": "tool_use", "id": f"use-{number}", "name": name, "input": arguments}
        for number, (name, arguments) in enumerate(uses, start=1)
    ]
    return {"role": "assistant", "content": blocks}


def says(text: str) -> Message:
    """What a model writes that is done."""
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def bad_request(message: str) -> Response:
    """What the model's provider answers to a request that it does not take."""
    return Response(400, body={"type": "error", "error": {"type": "invalid_request_error", "message": message}})


SEARCH = ("search_web", {"query": "breakers"})


@dataclass
class Stage:
    """A laboratory, a scripted model, tools, and the conversation that comes of them."""

    model: list[Any]
    search: list[Any] = field(default_factory=lambda: [["a page"]])
    lab: Lab = field(default_factory=Lab)
    messages: list[Message] = field(default_factory=list)
    is_hanging: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.model_calls = self.lab.script(*self.model, says(ANSWER))
        self.search_calls = self.lab.script(*self.search)
        registry = ToolRegistry(self.lab.recovery, permission=self.may_call, tools=self.tools())
        self.agent = Agent(registry, self.client)

    async def client(self, **request: Any) -> Message:
        """The provider of the model."""
        reply: Message = self.model_calls(**request)
        return reply

    def tools(self) -> list[Tool]:
        """Two that only read, one that must be allowed, one that the answer can do without, one that never returns."""

        async def search_web(query: str) -> object:
            return self.search_calls(query)

        async def related(query: str) -> object:
            return self.search_calls(query)

        async def delete_page(page: str) -> str:
            return f"{page} is gone"

        async def hang() -> None:
            self.is_hanging.set()
            await asyncio.Event().wait()

        return [
            build_tool(
                "search_web", search_web, read_only=True, require_permission=False, max_retries=2, foundational=True
            ),
            build_tool("related", related, read_only=True, require_permission=False, optional=True),
            build_tool("delete_page", delete_page),
            build_tool("hang", hang, require_permission=False),
        ]

    @staticmethod
    def may_call(tool: Tool, arguments: dict[str, Any]) -> bool | str:
        """Our own check: True, or why not."""
        return f"nobody may call {tool.name} on a Sunday"

    async def play(self) -> str:
        """Let the agent answer; how it ended, in a few words."""
        task = asyncio.create_task(self.agent.answer("What is known about breakers?", self.messages))
        user = asyncio.create_task(self.cancel_once_hanging(task))
        try:
            return f"answered: {await task}"
        except StopRun as stop:
            return f"stopped ({stop.reason}): {stop.user_message}"
        except RecoveryError as error:
            return f"failed: {error}"
        except asyncio.CancelledError:
            return "cancelled"
        finally:
            user.cancel()

    async def cancel_once_hanging(self, task: asyncio.Task[str]) -> None:
        """A user who presses the button when nothing happens."""
        await self.is_hanging.wait()
        task.cancel()

    def results(self) -> list[str]:
        """What the model was told of its calls."""
        blocks = [block for message in self.messages for block in message["content"] if isinstance(block, dict)]
        return [block["content"] for block in blocks if block["type"] == "tool_result"]


def tripped() -> Stage:
    """An operator has tripped the breaker of the search."""
    stage = Stage([calls(SEARCH)])
    stage.lab.trip("search_web", seconds=900.0, reason="the vendor asked us to stop")
    return stage


def overgrown() -> Stage:
    """The conversation has become too long for the model, after a search with a long answer."""
    return Stage([calls(SEARCH), calls(SEARCH), bad_request(TOO_LONG)], search=[["a page " * 100], ["a page"]])


TROUBLES: dict[str, Callable[[], Stage]] = {
    "an unknown tool": lambda: Stage([calls(("serch_web", {"query": "breakers"})), calls(SEARCH)]),
    "malformed arguments": lambda: Stage([calls(("search_web", '{"query": ')), calls(SEARCH)]),
    "arguments that do not fit": lambda: Stage([calls(("search_web", {"qurey": "breakers"})), calls(SEARCH)]),
    "a tool that crashes": lambda: Stage([calls(SEARCH)], search=[ZeroDivisionError("division by zero")]),
    "our own check says no": lambda: Stage([calls(("delete_page", {"page": "/"}))]),
    "the upstream says 403": lambda: Stage([calls(SEARCH, ("related", {"query": "x"}))], search=[403]),
    "a foundational tool is down": lambda: Stage([calls(SEARCH)], search=[503]),
    "an optional tool is down": lambda: Stage([calls(("related", {"query": "x"}))], search=[503]),
    "a breaker is open": tripped,
    "ten errors": lambda: Stage([calls(("serch_web", {}), ("find", {}))] * 20),
    "no end": lambda: Stage([calls(("search_web", {"query": f"breakers {number}"})) for number in range(30)]),
    "a loop": lambda: Stage([calls(SEARCH)] * 30),
    "a context that overflows": lambda: Stage([bad_request(OVERFLOW)]),
    "a context that is too long": overgrown,
    "an overloaded model": lambda: Stage([529, 529, 529]),
    "no model answers": lambda: Stage([529] * 20),
    "a user who cancels": lambda: Stage([calls(SEARCH, ("hang", {}), SEARCH)]),
}


async def main() -> None:
    """Play them all."""
    whole = 0
    for name, make in TROUBLES.items():
        stage = make()
        print(f"{name}: {await stage.play()}")
        for told in stage.results()[:1]:
            print("    first result:", told.partition("\n")[0])
        whole += not transcript_faults(stage.messages)
    print(f"whole transcripts: {whole} of {len(TROUBLES)}")


if __name__ == "__main__":
    asyncio.run(main())
