"""Sessions of one MCP server that their own tasks keep open, so that one that dies ends no task of the caller's."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Self

import anyio

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.classification.sentences import says_session_gone
from recovery_ops.rules.enums import Category
from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.failures.signals import classify

Connect = Callable[[], AbstractAsyncContextManager[Any]]
"""Makes a session that is not open yet, such as `lambda: Client("http://tools.example/mcp")`."""

_log = logging.getLogger("recovery_ops")


class _Connection:
    """One session and the task that opened it. `session` is None before it is open, and after it ended."""

    def __init__(self) -> None:
        self.session: Any = None
        self.error: Exception | None = None
        self.is_decided = anyio.Event()
        self._calls = 0
        self._is_dropped = False
        self._end = anyio.Event()
        self._scope = anyio.CancelScope()

    async def run(self, connect: Connect) -> None:
        """Keep the session open until `end`; whatever breaks it is in `error`."""
        try:
            with self._scope:
                async with connect() as session:
                    self.session = session
                    self.is_decided.set()
                    await self._end.wait()
        except Exception as error:
            self.error = _innermost(error)
        finally:
            self.session = None
            self.is_decided.set()

    @contextmanager
    def in_use(self) -> Iterator[Any]:
        """The session for one call; a dropped one stays open until its last call ended."""
        self._calls += 1
        try:
            yield self.session
        finally:
            self._calls -= 1
            if self._is_dropped:
                self.drop()

    def drop(self) -> None:
        """Close the session when no call uses it."""
        self._is_dropped = True
        if not self._calls:
            self.end()

    def end(self) -> None:
        """Close the session, or give up opening it."""
        if self.session is None:
            self._scope.cancel()
        self._end.set()


class SessionKeeper:
    """The live session of one server: opened at the first call, replaced when it died. Used by `async with`."""

    def __init__(self, connect: Connect, server: str) -> None:
        self._connect = connect
        self._server = server
        self._tasks: Any = None
        self._connection: _Connection | None = None
        self._dropped: list[_Connection] = []

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        self._lock = anyio.Lock()
        # A session outlives the run and the attempt in which it is opened.
        self._context = contextvars.copy_context()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks, self._tasks = self._tasks, None
        for connection in (*self._dropped, *([self._connection] if self._connection else [])):
            connection.end()
        # Without the caller's error, which the group would wrap.
        await tasks.__aexit__(None, None, None)

    @property
    def live(self) -> Any:
        """The session that is open now; None without one."""
        return None if self._connection is None else self._connection.session

    async def call(self, function: Callable[[Any], Awaitable[Any]], *, is_repeatable: bool) -> Any:
        """What `function` does with the live session. Where the session died, a new one is opened once.

        The function is then called again if it is repeatable or the server did nothing; otherwise the error is raised,
        and the next call has the new session. Raises also what opening a session raises.
        """
        connection = await self._opened()
        try:
            with connection.in_use() as session:
                return await function(session)
        except Exception as error:
            failure = classify(error)
            if failure.category is not Category.NETWORK:
                raise
            self._drop(connection)
            _log.warning("session of MCP server %s died (%s)", self._server, failure.error_type)
            if not (is_repeatable or _nothing_was_done(failure)):
                raise
        with (await self._opened()).in_use() as session:
            return await function(session)

    async def _opened(self) -> _Connection:
        if self._tasks is None:
            raise ConfigurationError(f"sessions of {self._server} are closed: use `async with RecoveringSession(…)`")
        async with self._lock:
            if self._connection is not None and self.live is not None:
                return self._connection
            fresh = self._connection = _Connection()
            self._context.run(self._tasks.start_soon, fresh.run, self._connect)
            try:
                await fresh.is_decided.wait()
            except BaseException:
                fresh.end()
                raise
            if fresh.session is None:
                raise fresh.error or ConnectionError(f"the session of {self._server} ended while it was opened")
            return fresh

    def _drop(self, connection: _Connection) -> None:
        """Several calls may find that a session died; only the first drops it."""
        if self._connection is connection:
            self._connection = None
            self._dropped = [one for one in self._dropped if one.session is not None] + [connection]
            connection.drop()


def _nothing_was_done(failure: Failure) -> bool:
    return failure.nothing_was_done or says_session_gone(failure.message)


def _innermost(error: Exception) -> Exception:
    """The one error of a task group, where it is the only one."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
