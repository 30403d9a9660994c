"""Sessions of an MCP server: opened once, replaced when they died, closed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.integrations.mcp_sessions import SessionKeeper

GONE = ConnectionResetError("reset by peer")


class Server:
    """A server whose sessions answer by a script; an exception of `opens` is raised by the opening."""

    def __init__(self, *answers: Any, opens: tuple[Any, ...] = ()) -> None:
        self.answers, self.opens = list(answers), list(opens)
        self.opened: list[int] = []
        self.closed: list[int] = []
        self.calls: list[int] = []

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[int]:
        number = len(self.opened) + 1
        error = self.opens.pop(0) if self.opens else None
        if error == "hangs":
            await asyncio.sleep(60)
        if error is not None:
            raise error
        self.opened.append(number)
        try:
            yield number
        finally:
            self.closed.append(number)

    async def answer(self, session: int) -> str:
        self.calls.append(session)
        found = self.answers.pop(0) if self.answers else f"from {session}"
        await asyncio.sleep(0)
        if isinstance(found, Exception):
            raise found
        return str(found)


def played(server: Server, work: Callable[[SessionKeeper], Awaitable[Any]]) -> Any:
    async def go() -> Any:
        async with SessionKeeper(server.connect, "shelves") as keeper:
            return await work(keeper)

    return asyncio.run(go())


def call(server: Server, *, is_repeatable: bool = True) -> Callable[[SessionKeeper], Awaitable[Any]]:
    return lambda keeper: keeper.call(server.answer, is_repeatable=is_repeatable)


def test_session_opens_at_first_call() -> None:
    server = Server()

    async def work(keeper: SessionKeeper) -> list[str]:
        assert (server.opened, keeper.live) == ([], None)
        return [await call(server)(keeper) for _ in range(2)]

    assert played(server, work) == ["from 1", "from 1"]
    assert (server.opened, server.closed) == ([1], [1])


def test_dead_session_is_replaced_once() -> None:
    server = Server(GONE)
    assert played(server, call(server)) == "from 2"
    assert (server.calls, server.closed) == ([1, 2], [1, 2])


def test_dead_session_is_replaced_under_trio() -> None:
    opened: list[int] = []

    @asynccontextmanager
    async def connect() -> AsyncIterator[int]:
        opened.append(len(opened) + 1)
        yield opened[-1]

    async def answer(session: int) -> int:
        await anyio.lowlevel.checkpoint()
        if session == 1:
            raise GONE
        return session

    async def go() -> int:
        async with SessionKeeper(connect, "shelves") as keeper:
            found: int = await keeper.call(answer, is_repeatable=True)
            return found

    assert anyio.run(go, backend="trio") == 2


def test_second_death_is_raised() -> None:
    server = Server(GONE, GONE)
    with pytest.raises(ConnectionResetError):
        played(server, call(server))
    assert server.calls == [1, 2]


def test_call_in_doubt_is_not_repeated() -> None:
    server = Server(GONE)

    async def work(keeper: SessionKeeper) -> Any:
        with pytest.raises(ConnectionResetError):
            await call(server, is_repeatable=False)(keeper)
        return await call(server, is_repeatable=False)(keeper)

    assert played(server, work) == "from 2"
    assert server.calls == [1, 2]


def test_unknown_session_did_nothing_and_is_replaced() -> None:
    class McpError(Exception):
        error = type("Data", (), {"code": -32600, "message": "Session not found", "data": None})

    server = Server(McpError("Session not found"))
    assert played(server, call(server, is_repeatable=False)) == "from 2"


@pytest.mark.parametrize("error", [TimeoutError("too late"), LookupError("no such shelf")])
def test_other_errors_keep_the_session(error: Exception) -> None:
    server = Server(error)

    async def work(keeper: SessionKeeper) -> Any:
        with pytest.raises(type(error)):
            await call(server)(keeper)
        return await call(server)(keeper)

    assert played(server, work) == "from 1"


def test_parallel_calls_share_one_new_session() -> None:
    server = Server()
    at_once = asyncio.Barrier(3)

    async def answer(session: int) -> int:
        if session == 1:
            await at_once.wait()
            raise GONE
        return session

    async def work(keeper: SessionKeeper) -> Any:
        return await asyncio.gather(*(keeper.call(answer, is_repeatable=True) for _ in range(3)))

    assert played(server, work) == [2] * 3
    assert server.opened == [1, 2]


def test_dropped_session_closes_after_its_last_call() -> None:
    server = Server()
    slow = asyncio.Event()
    closed_meanwhile: list[int] = []

    async def answer(session: int) -> int:
        await slow.wait()
        closed_meanwhile.extend(server.closed)
        return session

    async def fail(session: int) -> int:
        if session == 1:
            raise GONE
        return session

    async def work(keeper: SessionKeeper) -> Any:
        long = asyncio.create_task(keeper.call(answer, is_repeatable=False))
        await asyncio.sleep(0.01)
        short = await keeper.call(fail, is_repeatable=True)
        await asyncio.sleep(0.01)
        slow.set()
        found = (await long, short)
        await asyncio.sleep(0.01)
        return found, list(server.closed)

    assert played(server, work) == ((1, 2), [1])
    assert closed_meanwhile == []


def test_failed_opening_is_raised_and_tried_again() -> None:
    server = Server(opens=(ExceptionGroup("tasks", [ConnectionRefusedError("no")]),))

    async def work(keeper: SessionKeeper) -> Any:
        with pytest.raises(ConnectionRefusedError):
            await call(server)(keeper)
        return await call(server)(keeper)

    assert played(server, work) == "from 1"


def test_opening_that_hangs_is_given_up() -> None:
    server = Server(opens=("hangs",))

    async def work(keeper: SessionKeeper) -> Any:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await call(server)(keeper)
        return await call(server)(keeper)

    assert played(server, work) == "from 1"


def test_error_of_block_passes_unwrapped() -> None:
    server = Server()

    async def work(keeper: SessionKeeper) -> Any:
        await call(server)(keeper)
        raise LookupError("the caller's")

    with pytest.raises(LookupError):
        played(server, work)
    assert server.closed == [1]


def test_keeper_without_block_is_refused() -> None:
    server = Server()
    with pytest.raises(ConfigurationError, match="async with"):
        asyncio.run(call(server)(SessionKeeper(server.connect, "shelves")))  # type: ignore[arg-type]  # a coroutine
