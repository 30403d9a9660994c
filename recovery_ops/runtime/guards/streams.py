"""Streams that a guarded call hands on: the call ends with its stream, and goes on where the stream breaks."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Self

from recovery_ops.rules.enums import OnBrokenStream
from recovery_ops.rules.resilience.steps import Action, Call, Cancelled, Raised, Reply
from recovery_ops.runtime.calls.drivers import Either, Pending, Steps, drive_async, drive_until_pending
from recovery_ops.runtime.calls.execution import CallExecution, discard
from recovery_ops.runtime.calls.operation import Outcome
from recovery_ops.runtime.calls.streams import END, MOST_HELD, Held, Opened, Reading, opened


class OpenStream(NamedTuple):
    """An attempt whose stream has begun, with the events that were read so far."""

    step: Call
    stream: Opened
    held: list[Any]
    reading: Reading
    began: float


Took = Reply | OpenStream
Replying = Callable[[CallExecution, Action], Steps[Took]]


def read_ahead(call: CallExecution, step: Call, stream: Opened, began: float) -> Steps[Took]:
    """Read a stream to its first token, or to its end where the guard holds whole streams. Raises what breaks it."""
    reading, held = Reading(step, began, call.recovery.clock.now), list[Any]()
    try:
        _check((yield Either(stream.begin, stream.begin_async)))
        while call.plan.whole_streams or (not reading.has_token and len(held) < MOST_HELD):
            event = yield _read(stream, reading)
            if event is END:
                stream.end()
                _check(_trouble_at_end(call, stream, reading) if held else stream.is_empty())
                return call.returned(step, stream.hand_on(Held(held)), began)
            held.append(event)
            _note(stream, event, reading)
    except BaseException as error:
        stream.end()
        if isinstance(error, Exception):
            yield Either(stream.close, stream.close_async)
        failure = stream.failure(error)
        if failure is error:
            raise
        raise failure from error
    return OpenStream(step, stream, held, reading, began)


def _read(stream: Opened, reading: Reading) -> Either:
    limit = reading.limit()
    return Either(lambda: stream.read(limit), lambda: stream.read_async(limit))


def _note(stream: Opened, event: Any, reading: Reading) -> None:
    _check(stream.note(event))
    reading.has_token = reading.has_token or stream.is_token(event)


def _trouble_at_end(call: CallExecution, stream: Opened, reading: Reading) -> Exception | None:
    is_accepted = reading.has_token and not call.plan.finish_reason_required
    return None if is_accepted else stream.is_cut()


def _check(trouble: Exception | None) -> None:
    if trouble is not None:
        raise trouble


_LEFT: deque[_Streaming] = deque()
"""Streams that were dropped unread; each is ended by whoever opens the next, because a collector must take no lock."""


def settle_left() -> None:
    """End the streams that were dropped unread."""
    while _LEFT:
        try:
            left = _LEFT.popleft()
        except IndexError:  # another thread was first
            return
        left.settle()


class _Streaming:
    """A stream that is on its way to the caller; the part that threads and tasks share."""

    def __init__(self, call: CallExecution, begun: OpenStream, reply_to: Replying) -> None:
        settle_left()
        self.restarts = 0
        """How often the stream began anew: what came before belongs to another answer."""
        self._call, self._opened, self._first, self._reply_to = call, begun, begun.stream, reply_to
        self._held, self._is_over = deque(begun.held), False
        self._part: list[str] = []
        self._tail: Any = None

    def outcome(self) -> Outcome[Any]:
        """What the guarded call returns."""
        step = self._opened.step
        value = self._opened.stream.hand_on(self)
        return Outcome(value, step.attempt, step.operation if step.level else None)

    def settle(self) -> None:
        """The caller reads no further: the model has answered."""
        if not self._is_over:
            one = self._opened
            one.stream.end()
            self._end(self._call.returned(one.step, None, one.began))

    def _next(self) -> Steps[Any]:
        """The next event, or END."""
        while not self._held:
            if self._is_over:
                return END
            one = self._opened
            try:
                event = yield _read(one.stream, one.reading)
                if event is END:
                    _check(_trouble_at_end(self._call, one.stream, one.reading))
                else:
                    _note(one.stream, event, one.reading)
                    self._held.append(event)
            except BaseException as error:
                yield from self._mend(error)
                if self._tail is not None:
                    return None
            else:
                if event is END:
                    self.settle()
        return self._given()

    def _given(self) -> Any:
        event = self._held.popleft()
        self._opened.reading.is_handed_on = True
        if self._call.plan.on_broken_stream is OnBrokenStream.CONTINUE:
            self._part.append(self._opened.stream.text_of(event))
        return event

    def _mend(self, error: BaseException) -> Steps[None]:
        """After a break: the stream of another attempt, a whole value as the rest, or the error of the call."""
        one, call = self._opened, self._call
        one.stream.end()
        if isinstance(error, Exception):
            yield Either(one.stream.close, one.stream.close_async)
        error = one.stream.failure(error)
        reply = call.raised(one.step, error, one.began)
        if not isinstance(reply, Raised):
            self._end(reply)
            raise error
        call.part = "".join(self._part)
        step = call.advance(replace(reply, is_partial=one.reading.is_handed_on))
        try:
            while step is not None:
                took = yield from self._reply_to(call, step)
                if isinstance(took, OpenStream):
                    self._go_on(took)
                    return
                step = call.advance(took)
        except GeneratorExit:
            self._end(Cancelled(call.recovery.clock.now()))
            raise
        self._is_over = True
        call.let_go()
        self._take_rest(call.outcome().value)

    def _go_on(self, begun: OpenStream) -> None:
        was_read = self._opened.reading.is_handed_on
        self._opened, self._held = begun, deque(begun.held)
        if was_read and not begun.step.continues:
            self._restart()

    def _take_rest(self, value: Any) -> None:
        if self._opened.reading.is_handed_on:
            self._restart()
        rest = getattr(value, "_iterator", value)
        if isinstance(rest, Held):
            self._held.extend(rest)
        elif opened(rest) is not None:  # of a fallback with a guard of its own
            self._tail = rest
        else:
            self._held.append(value)

    def _restart(self) -> None:
        self.restarts += 1
        self._part.clear()
        self._first.restarted(self.restarts)

    def _end(self, reply: Reply) -> None:
        self._is_over = True
        self._call.advance(reply)
        self._call.let_go()

    def __del__(self) -> None:
        if not getattr(self, "_is_over", True):
            with contextlib.suppress(Exception):
                _LEFT.append(self)


class GuardedStream(_Streaming):
    """A stream for threads."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._tail is None:
            event = drive_until_pending(self._next())
            if isinstance(event, Pending):
                discard(event.work.function())
                raise TypeError("an attempt has to be awaited, in the middle of a stream that has not")
            if event is END:
                raise StopIteration
            if self._tail is None:
                return event
        return next(self._tail)

    def close(self) -> None:
        """Give the connection back; the model has answered."""
        self._opened.stream.close()
        self.settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncGuardedStream(_Streaming):
    """A stream for tasks."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._tail is None:
            event = await drive_async(self._next())
            if event is END:
                raise StopAsyncIteration
            if self._tail is None:
                return event
        return await anext(self._tail)

    async def aclose(self) -> None:
        """Give the connection back; the model has answered."""
        await self._opened.stream.close_async()
        self.settle()

    async def close(self) -> None:
        """As `aclose`."""
        await self.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
