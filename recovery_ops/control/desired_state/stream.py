"""Tells agents what to obey as soon as it changes: server-sent events from a plain ASGI door beside Django's.

Each message is the whole document, so that reconnecting, missing a message and starting cold are one code path. One
poller per process reads the revisions and, where one has risen, the state behind it; the streams only pick from memory
what concerns them, and all whom the same overrides reach share the same bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs

from django.conf import settings
from django.dispatch import receiver

from events import keys
from events.keys import KeyRefused, KeyStoreAway
from events.live.pulse import Pulse, let_go
from events.live.wakes import ear_of
from events.models import AgentKey
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.models.revisions import Revision
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.core.resettable_timer import ResettableTimer
from recovery_ops.control.core.revisions import committed
from recovery_ops.control.desired_state.document import Reach, Snapshot, Who, read
from recovery_ops.server.asgi_apps import Begun, Receive, Scope, Send, answer

logger = logging.getLogger(__name__)

SCOPE = "desired"
RECHECK_S = 60.0
"""A stream asks this often whether its key still lets it in."""
SEND_TIMEOUT_S = 10.0
"""An agent that takes nothing for this long is let go; it comes back and is up to date with the first message."""
MOST_STREAMS = 5000
"""Streams of one process; the next one is answered 503."""
PARTS = ("service", "instance", "group")


class Refused(Exception):
    """A stream that is not opened, or not continued: an HTTP `status`, and a sentence for the agent's developer."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail


class Board:
    """The newest state of every environment that has one, read by the pulse's thread, picked from by the streams.

    A snapshot is replaced, never changed, and it is on the board before anybody is told of its revision.
    """

    def __init__(self) -> None:
        self._news: dict[str, _News] = {}

    def read(self) -> Mapping[str, int]:
        """The revision of each environment. One query, and a few more for one that has changed."""
        revisions = dict(Revision.objects.values_list("environment", "number"))
        for environment, number in revisions.items():
            known = self._news.get(environment)
            if known is None or known.revision != number:
                self._news[environment] = _News(read(environment))
        for environment in self._news.keys() - revisions.keys():
            del self._news[environment]  # a database that was emptied counts from the beginning again
        return {environment: news.revision for environment, news in self._news.items()}

    def message(self, environment: str, who: Who) -> tuple[int, bytes]:
        """The revision to reach, and the event that says so to this instance."""
        news = self._news.get(environment) or _News(Snapshot.of_nothing(environment))
        return news.revision, news.message(who)


class _News:
    """One state as it is sent: each different document is written down once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._common = snapshot.common_reach()
        self._messages: dict[Reach, bytes] = {}

    @property
    def revision(self) -> int:
        return self._snapshot.revision

    def message(self, who: Who) -> bytes:
        reach = self._common or self._snapshot.reach(who)
        message = self._messages.get(reach)
        if message is None:
            document = self._snapshot.document(reach, issued_at=time.time())
            data = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
            message = self._messages[reach] = f"id: {self.revision}\nevent: desired\ndata: {data}\n\n".encode()
        return message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Agent:
    """Who follows, and what they had before."""

    authorization: str | None
    environment: str
    who: Who
    last_id: str

    @property
    def last_revision(self) -> int | None:
        return parse_number(self.last_id)


class DesiredDoor:
    """Server-sent events for agents with a key of scope `desired`. Plain ASGI: an idle stream costs some 15 KiB."""

    def __init__(self, board: Board, pulse: Pulse, *, most_streams: int = MOST_STREAMS) -> None:
        self._board = board
        self._pulse = pulse
        self._most_streams = most_streams
        self._open_streams = 0
        self._open_by_key: Counter[int] = Counter()

    @property
    def open_streams(self) -> int:
        """How many are open in this process."""
        return self._open_streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] != "GET":
                raise Refused(405, "Method not allowed; use GET.")
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            authorization = headers.get("authorization")
            key = await _key_of(authorization, keys.address_of(scope))
            agent = _Agent(
                authorization=authorization,
                environment=key.environment,
                who=who_of(parse_qs(scope["query_string"].decode("latin-1")), key.environment),
                last_id=headers.get("last-event-id", ""),
            )
            with self._place(key):
                await self._stream(agent, receive, send)
        except Refused as refusal:
            problem = {"title": "No stream", "status": refusal.status, "detail": refusal.detail}
            await answer(send, refusal.status, problem, is_problem=True)
        except TimeoutError:
            logger.info("stream closed: the agent does not read it")

    def wake(self) -> None:
        """Look for a new revision now. From any thread."""
        self._pulse.wake()

    def close(self) -> None:
        """End every stream within milliseconds. Called when the server begins to end, on its event loop."""
        self._pulse.close()

    @contextlib.contextmanager
    def _place(self, key: AgentKey) -> Iterator[None]:
        if self._pulse.is_closed:
            raise Refused(503, "The server is shutting down. Reconnect in a few seconds.")
        if self._open_streams >= self._most_streams:
            raise Refused(503, f"This process serves {self._most_streams} streams, the maximum. Reconnect later.")
        if self._open_by_key[key.pk] >= settings.STREAMS_PER_KEY:
            most = settings.STREAMS_PER_KEY
            raise Refused(429, f"The key {key.prefix} has {most} open streams, the maximum. Reconnect later.")
        self._open_streams += 1
        self._open_by_key[key.pk] += 1
        try:
            yield
        finally:
            self._open_streams -= 1
            self._open_by_key[key.pk] -= 1
            self._open_by_key += Counter()  # keys without a stream are let go

    async def _stream(self, agent: _Agent, receive: Receive, send: Send) -> None:
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        stream = _Stream(agent, self._board, self._pulse, send)
        gone = asyncio.ensure_future(_disconnected(receive))
        gone.add_done_callback(lambda _: stream.end())
        try:
            await stream.run()
        except Refused:
            logger.info("stream closed: its key is no longer valid")
        finally:
            gone.cancel()
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Stream:
    """What one agent is sent, until it or the server goes. Everything happens on its event loop.

    News goes out in the very step that brings it, for everybody who follows, as long as the connection takes it: to
    wake a task for each of a thousand agents took most of the time of a click. Only who does not read gets a task, and
    then the newest message alone.
    """

    __slots__ = ("_agent", "_board", "_loop", "_over", "_pulse", "_recheck_at", "_send", "_sent", "_silence", "_work")

    def __init__(self, agent: _Agent, board: Board, pulse: Pulse, send: Send) -> None:
        self._agent, self._board, self._pulse, self._send = agent, board, pulse, send
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._sent = agent.last_revision
        self._silence = ResettableTimer(self._loop, self._beat)
        self._recheck_at = self._loop.time() + RECHECK_S
        self._work: asyncio.Task[None] | None = None
        """What could not be done at once: a message that the connection did not take, or a look at the key."""

    async def run(self) -> None:
        """Send until `end`.

        Raises CommandRejected when the key lets in no more, TimeoutError when the agent does not read.
        """
        # Something at once, also for an agent that is up to date: a proxy in between must not look like silence.
        self._put(b": desired state\n\n")
        self._pulse.join(self)
        try:
            self.stir()
            await self._over
        finally:
            self._pulse.leave(self)
            self._silence.close()
            if self._work is not None:
                self._work.cancel()

    def stir(self) -> None:
        """Send what is new for this agent, if anything is."""
        if self._work is not None or self._over.done():
            return  # it looks again when that is done
        if self._pulse.newest is None:
            return  # what is on the board may be hours old
        try:
            revision, message = self._board.message(self._agent.environment, self._agent.who)
        except Exception as error:  # of this stream alone: the others are told in the same step
            self._fail(error)
            return
        if revision != self._sent:  # also a lower one: after a restore from a backup, agents have to hear of it
            self._sent = revision
            self._put(message)

    def end(self) -> None:
        """Send nothing more."""
        if not self._over.done():
            self._over.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self._over.done():
            self._over.set_exception(error)

    def _beat(self) -> None:
        """Nothing was sent for a while."""
        if self._work is not None:
            self._silence.set(self._loop.time() + settings.HEARTBEAT_S)
        elif not self._over.done():
            self._put(b": heartbeat\n\n")

    def _put(self, chunk: bytes) -> None:
        self._silence.set(self._loop.time() + settings.HEARTBEAT_S)
        try:
            begun = Begun(self._send({"type": "http.response.body", "body": chunk, "more_body": True}))
        except Exception as error:
            self._fail(error)
            return
        if not begun.is_done or self._loop.time() >= self._recheck_at:
            self._work = self._loop.create_task(self._go_on(begun))

    async def _go_on(self, begun: Begun) -> None:
        """Wait until the connection has taken it; ask whether the key is still good, where that is due."""
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await begun
            if self._loop.time() >= self._recheck_at:
                self._recheck_at = self._loop.time() + RECHECK_S
                await _recheck(self._agent.authorization)
        except Exception as error:
            self._fail(error)
        finally:
            self._work = None
        self.stir()


_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy that buffered would hold the documents back
    (b"x-content-type-options", b"nosniff"),
]


async def _key_of(authorization: str | None, address: str) -> AgentKey:
    """The key that asks. Raises CommandRejected: 401, 403, 429, or 503 while the keys cannot be read."""
    try:
        remembered = keys.recall(authorization, SCOPE, address)
        if remembered is not None:
            return remembered
        return await asyncio.to_thread(_authenticate, authorization, address)
    except KeyRefused as refusal:
        raise Refused(refusal.status, refusal.message) from None
    except KeyStoreAway as away:
        raise Refused(503, "The keys cannot be read. Retry in a second.") from away


async def _recheck(authorization: str | None) -> None:
    """Raise Refused when the key was revoked or has expired; a store that is away takes nothing from anybody."""
    try:
        is_good = await asyncio.to_thread(_is_still_good, authorization)
    except KeyStoreAway:
        return
    if not is_good:
        raise Refused(401, "The key is revoked or expired.")


def _is_still_good(authorization: str | None) -> bool:
    try:
        return keys.is_still_good(authorization, SCOPE)
    finally:
        let_go()


def _authenticate(authorization: str | None, address: str) -> AgentKey:
    try:
        return keys.authenticate(authorization, SCOPE, address)
    finally:
        let_go()


def who_of(parameters: Mapping[str, Sequence[str]], environment: str) -> Who:
    """Whom the parameters of a request name; an instance that names no group has none.

    Raises CommandRejected (400) for a name that no instance can have, and for another environment than the key's.
    """
    if set(parameters.get("environment", ())) - {environment, ""}:
        raise Refused(400, f"The key belongs to {environment}; omit `environment`.")
    said = {name: values[-1] for name, values in parameters.items()}
    for name in PARTS:
        part = said.get(name, "")
        if len(part) > NAME_CHARS or not part.isprintable():
            raise Refused(400, f"{name} must have at most {NAME_CHARS} printable characters.")
    group = said.get("group", "" if said.get("instance") else None)
    return Who(service=said.get("service"), instance=said.get("instance"), group=group)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


_board = Board()
app = DesiredDoor(_board, Pulse(_board.read, ear=ear_of))
close = app.close


@receiver(committed, dispatch_uid="desired_state.stream")
def _wake(**_: object) -> None:
    app.wake()
