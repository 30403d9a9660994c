"""Streams of guarded calls: read until their first token or to their end, and watched while the caller reads on.

An attempt whose result is a stream ends with the stream. What breaks before the first token is a failed attempt. What
breaks later is decided by the rules: the stream ends with the error, or goes on with another attempt. A sync source
that must not be waited for too long is read in a thread of its own, because a thread cannot be interrupted.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from recovery_ops.rules.resilience.steps import Call
from recovery_ops.runtime.aio.libraries import current_library, is_in_task
from recovery_ops.runtime.calls.model_events import StreamedAnswer, failure_of, has_content, text_in
from recovery_ops.runtime.failures.empty_answers import failed_by, unreadable

RESPONSE_TIMEOUT = "response_timeout"
END: Any = object()
"""What a stream reads after its last event."""
MOST_HELD = 64
"""Events that are held back at most; a vendor that sends more before its first token is read as it sends."""


class ModelTimeout(TimeoutError):
    """A model was silent for longer than the policy allows while something else is ready; `code` names the limit."""

    def __init__(self, code: str, limit_s: float) -> None:
        self.code = code
        super().__init__(f"no sign of the model for {limit_s:g} s ({code})")


class StreamCut(ConnectionError):
    """A stream ended in order before its answer did."""

    def __init__(self) -> None:
        super().__init__(
            "The stream ended before the answer did. If its server never sends a finish_reason, declare "
            "finish_reason_required=False."
        )


class Opened:
    """A stream that an attempt returned. `source` is its iterator; streams of vendors' clients have a `response`."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.source: Any = value
        self._answer = StreamedAnswer()
        self._response = _http_response(value)
        self._threaded: ThreadedSource | None = None

    def note(self, event: Any) -> Exception | None:
        """Read an event; returns the failure that it stands for."""
        self._answer.note(event)
        return failure_of(event)

    def is_token(self, event: Any) -> bool:
        """Whether an event has something of the answer."""
        found = has_content(event)
        if found is not None:
            return found
        return event is not None and not (isinstance(event, str | bytes) and not event)

    def text_of(self, event: Any) -> str:
        """The text of the answer in an event."""
        return event if isinstance(event, str) else text_in(event)

    def begin(self) -> Exception | None:
        """The failure that the answer is instead of a stream."""
        return _instead_of_events(self._response.read()) if self._is_page() else None

    async def begin_async(self) -> Exception | None:
        """As `begin`."""
        return _instead_of_events(await self._response.aread()) if self._is_page() else None

    def _is_page(self) -> bool:
        """Whether the answer to a request for a stream is JSON or HTML instead."""
        if self._response is None:
            return False
        kind = str(self._response.headers.get("content-type", "")).lower()
        return kind.startswith(("application/json", "text/html"))

    def is_empty(self) -> Exception | None:
        """The failure that a stream without events is; any other iterator may be empty."""
        return None if self._response is None else unreadable("")

    def is_cut(self) -> Exception | None:
        """The failure that the end of a stream is, where its answer has no end."""
        # A proxy that lost its provider often ends the body in order: only the events say whether the answer is whole.
        return self.cut() if self._answer.is_open else None

    def cut(self) -> Exception:
        """The error for a stream without the end of its answer."""
        return StreamCut()

    def end(self) -> None:
        """The stream is over, or is left: count what it used."""

    def failure(self, error: BaseException) -> BaseException:
        """What an error of the source means."""
        is_vendors = self._response is not None
        return unreadable(error.doc) if is_vendors and isinstance(error, json.JSONDecodeError) else error

    def wake(self) -> None:
        """Have a thread that waits for this stream return; the stream is closed by that thread."""
        import socket  # here and not above: whoever only imports the runtime does not need it

        with contextlib.suppress(Exception):
            # An idle connection is the pool's, and one of HTTP/2 is that of other streams, too.
            if not self._response.is_closed and self._response.http_version != "HTTP/2":
                held = self._response.extensions["network_stream"].get_extra_info("socket")
                socket.socket.shutdown(held, socket.SHUT_RDWR)  # a TLS socket's own would change it under its reader

    def restarted(self, count: int) -> None:
        """The caller's stream began anew, for the `count`th time."""

    def read(self, limit: Limit) -> Any:
        """The next event, or END; ModelTimeout where it does not come in time."""
        if self._threaded is None:
            # The transport keeps the deadline of the attempt; a limit of the policy needs a thread.
            if limit.left_s is None or limit.is_deadline or is_in_task():
                return next(self.source, END)
            self._threaded = ThreadedSource(self.source, self.close_source)
        return self._threaded.next(limit)

    async def read_async(self, limit: Limit) -> Any:
        """As `read`."""
        coming = anext(self.source, END)
        if limit.left_s is None:
            return await coming
        return await await_within(coming, limit.name, limit.left_s, limit.whole_s)

    def close(self) -> None:
        """Give the connection back, or have the thread do it that reads it."""
        if self._threaded is None:
            self.close_source()
        else:
            self._threaded.end()
            self.wake()

    def close_source(self) -> None:
        """Give the connection back."""
        with contextlib.suppress(Exception):
            self.value.close()

    async def close_async(self) -> None:
        """As `close`."""
        with contextlib.suppress(Exception):
            await getattr(self.value, "aclose", self.value.close)()

    def hand_on(self, stream: Any) -> Any:
        """What the caller gets: `stream` in the form in which the function returned it."""
        return stream


def opened(value: Any) -> Opened | None:
    """The stream that a result is; None where it is none."""
    if isinstance(value, Opened):
        return value
    kind = type(value)
    return Opened(value) if hasattr(kind, "__next__") or hasattr(kind, "__anext__") else None


def _http_response(stream: Any) -> Any:
    """The HTTP response that a vendor's stream reads; None for any other iterator."""
    response = getattr(stream, "response", None)
    return response if isinstance(getattr(response, "headers", None), Mapping) else None


def _instead_of_events(page: bytes) -> Exception:
    try:
        found = json.loads(page)
    except (ValueError, RecursionError):
        found = None
    failed = failed_by(found.get("error")) if isinstance(found, dict) else None
    return failed or unreadable(page[:400].decode("utf-8", "replace"))


class Held:
    """Events of a stream that was read whole, for the caller to iterate over."""

    def __init__(self, events: Iterable[Any]) -> None:
        self._events = deque(events)

    def __iter__(self) -> Held:
        return self

    def __next__(self) -> Any:
        if not self._events:
            raise StopIteration
        return self._events.popleft()

    def __aiter__(self) -> Held:
        return self

    async def __anext__(self) -> Any:
        if not self._events:
            raise StopAsyncIteration
        return self._events.popleft()

    def close(self) -> None:
        """Nothing is open."""

    async def aclose(self) -> None:
        """Nothing is open."""


class Limit(NamedTuple):
    """What limits the next event: its name in the policy, what is left of it and the whole of it, in seconds."""

    name: str
    left_s: float | None
    whole_s: float = 0.0
    is_deadline: bool = False


class Reading:
    """Where the reading of one attempt's stream is: which limit holds for the next event."""

    def __init__(self, step: Call, began: float, now: Callable[[], float]) -> None:
        self.has_token = False
        self.is_handed_on = False
        self._silence, self._deadline_s = step.silence, step.deadline_s
        self._began, self._now = began, now

    def limit(self) -> Limit:
        """The limit of the next event."""
        elapsed_s, deadline_s, found = self._now() - self._began, self._deadline_s, Limit("", None)
        silence = self._silence
        if self.has_token and silence.stall_s is not None:
            found = Limit("stall_timeout", silence.stall_s, silence.stall_s)
        elif not self.has_token and silence.first_token_s is not None:
            found = Limit("first_token_timeout", max(0.0, silence.first_token_s - elapsed_s), silence.first_token_s)
        if deadline_s is None or (self.is_handed_on and found.left_s is not None):
            return found
        # A stream that the caller reads takes as long as it takes: then each pause has the whole deadline.
        left_s = deadline_s if self.is_handed_on else max(0.0, deadline_s - elapsed_s)
        is_first = found.left_s is None or left_s < found.left_s
        return Limit("attempt_timeout", left_s, deadline_s, is_deadline=True) if is_first else found


class ThreadedSource:
    """A sync iterator that a thread reads, one item for each that is asked for."""

    def __init__(self, source: Any, close: Callable[[], None]) -> None:
        self._wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        _in_thread(_read, source, close, self._wanted, self._found)

    def next(self, limit: Limit) -> Any:
        """The next item, or END; ModelTimeout where it does not come in time."""
        self._wanted.put(True)
        return _taken(self._found, limit)

    def end(self) -> None:
        """Have the thread close the source, once it has what it waits for: a socket in use must not be closed."""
        self._wanted.put(False)


def call_within(function: Callable[..., Any], args: Any, kwargs: Any, name: str, limit_s: float) -> Any:
    """Call a function in a thread of its own; ModelTimeout where it does not return in time, and is left behind."""
    found: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    is_left = threading.Event()
    _in_thread(_call, function, args, kwargs, found, is_left)
    try:
        return _taken(found, Limit(name, limit_s, limit_s))
    except BaseException:
        is_left.set()
        raise


def _in_thread(target: Callable[..., None], *args: Any) -> None:
    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(target, *args), name="recovery-ops-attempt", daemon=True).start()


async def await_within(awaitable: Awaitable[Any], name: str, left_s: float, whole_s: float) -> Any:
    """Await something; ModelTimeout where it does not come in time."""
    is_late = False
    try:
        async with current_library().timeout(left_s):
            try:
                return await awaitable
            except Exception:
                raise
            except BaseException:
                is_late = True
                raise
    except Exception as error:  # asyncio's or trio's, of the timeout
        if is_late:
            raise ModelTimeout(name, whole_s) from error
        raise


def _taken(found: queue.SimpleQueue[tuple[bool, Any]], limit: Limit) -> Any:
    try:
        is_error, what = found.get(timeout=limit.left_s)
    except queue.Empty:
        raise ModelTimeout(limit.name, limit.whole_s) from None
    if not is_error:
        return what
    try:
        raise what
    finally:
        del what


def _call(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    found: queue.SimpleQueue[tuple[bool, Any]],
    is_left: threading.Event,
) -> None:
    try:
        value = function(*args, **kwargs)
    except BaseException as error:
        found.put((True, error))
        return
    if is_left.is_set() and (late := opened(value)) is not None:
        late.close()
    found.put((False, value))


def _read(
    source: Any,
    close: Callable[[], None],
    wanted: queue.SimpleQueue[bool],
    found: queue.SimpleQueue[tuple[bool, Any]],
) -> None:
    while wanted.get():
        try:
            event = next(source, END)
        except BaseException as error:
            found.put((True, error))
            break
        found.put((False, event))
        if event is END:
            break
    close()
