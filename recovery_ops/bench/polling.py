"""OpAMP agents over plain HTTP: each speaks when its interval is over, applies what it is offered, and says so."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Self, cast
from urllib.parse import urlsplit
from uuid import UUID

import uvloop

from recovery_ops.bench.served import Server
from recovery_ops.control.desired_state.opamp.messages import ACCEPTS_REMOTE_CONFIG, APPLIED, REPORT_FULL_STATE, empty

REPORTS_STATUS, REPORTS_CONFIG, REPORTS_REMOTE_CONFIG = 0x1, 0x4, 0x1000
"""Of an agent's capabilities: those that the stock client claims beside the one to take configuration."""
AGAIN_S = 1.0
"""How long the stock client waits before it says again what was answered 503."""
PATIENCE_S = 120.0
"""So much longer than an interval may pass until all agents have spoken."""


@dataclass(slots=True)
class Polled:
    """What became of one change, in seconds: for each message its answer, for each agent the way to `APPLIED`."""

    answered: list[float] = field(default_factory=list)
    since_message: list[float] = field(default_factory=list)
    """From an agent's first message after the change until its word that it applies it was answered."""
    since_click: list[float] = field(default_factory=list)
    """The same from the change itself: with the time until the agent spoke."""
    put_off: int = 0
    """Messages that were answered 503 and sent again, as the stock client does."""


class NotAnswered(Exception):
    """A message was answered with neither 200 nor 503, or agents never heard of a change."""


class _PutOff(Exception):
    """A message was answered 503."""


class Pollers:
    """So many agents in a process of their own, each speaking at its own moment of the interval."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    @classmethod
    @contextmanager
    def of(cls, server: Server, agents: int, interval_s: float) -> Iterator[Self]:
        """Agents that have all applied what was desired when they came."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_speak, args=(theirs, server, agents, interval_s), daemon=True)
        process.start()
        theirs.close()
        try:
            _said(ours)
            yield cls(ours)
        finally:
            ours.close()
            process.join(PATIENCE_S)

    def expect(self) -> float:
        """From now on the next revision counts; returns what time it is."""
        self._pipe.send("expect")
        return cast("float", _said(self._pipe))

    def polled(self) -> Polled:
        """What became of it, once all have applied it. Raises NotAnswered."""
        self._pipe.send("polled")
        return cast("Polled", _said(self._pipe))


def _said(pipe: Connection) -> object:
    answer = pipe.recv()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _speak(pipe: Connection, server: Server, agents: int, interval_s: float) -> None:
    """What the process of the agents does until its pipe is closed."""
    try:
        uvloop.run(_Site(server, agents, interval_s).run(pipe))
    except EOFError:
        return
    except Exception as error:  # told to whoever asked
        pipe.send(error)


class _Site:
    """All agents of one process on one event loop."""

    def __init__(self, server: Server, agents: int, interval_s: float) -> None:
        address = urlsplit(server.url)
        self.host, self.port, self.key = address.hostname or "", address.port or 80, server.key
        self.interval_s = interval_s
        self.polled = Polled()
        self.began = 0.0
        self._agents = [_Agent(self, number) for number in range(agents)]
        self._left: set[int] = set()
        self._all_applied = asyncio.Event()
        self._trouble: BaseException | None = None

    async def run(self, pipe: Connection) -> None:
        """Let them speak for as long as somebody asks."""
        loop, asked = asyncio.get_running_loop(), asyncio.Event()
        self._expect()
        pace_s = self.interval_s / max(1, len(self._agents))
        tasks = [loop.create_task(agent.run(loop.time() + at * pace_s)) for at, agent in enumerate(self._agents)]
        for task in tasks:
            task.add_done_callback(self._note_end)
        await self._wait()
        pipe.send("all have come")
        loop.add_reader(pipe.fileno(), asked.set)
        while True:
            await asked.wait()
            asked.clear()
            if not pipe.poll():
                continue
            if pipe.recv() == "expect":
                pipe.send(self._expect())
            else:
                await self._wait()
                pipe.send(self.polled)

    def applied(self, number: int, message_at: float) -> None:
        """An agent's word that it applies the new revision has been answered."""
        now = time.perf_counter()
        if number in self._left:
            self._left.discard(number)
            self.polled.since_message.append(now - message_at)
            self.polled.since_click.append(now - self.began)
            if not self._left:
                self._all_applied.set()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._trouble = task.exception()
            self._all_applied.set()

    def _expect(self) -> float:
        self.polled, self.began = Polled(), time.perf_counter()
        self._left = set(range(len(self._agents)))
        self._all_applied.clear()
        return self.began

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self.interval_s + PATIENCE_S):
                await self._all_applied.wait()
        except TimeoutError:
            raise NotAnswered(f"{len(self._left)} of {len(self._agents)} agents applied nothing") from None
        if self._trouble is not None:
            raise NotAnswered(f"an agent ended: {self._trouble!r}")


class _Agent:
    """One agent: all of it at first, then a heartbeat each interval, and what the server asks for."""

    def __init__(self, site: _Site, number: int) -> None:
        self._site, self._number = site, number
        self._uid = UUID(int=(7 << 76) | (2 << 62) | number).bytes
        self._said = 0
        self._document = b""

    async def run(self, at: float) -> None:
        """Speak at `at`, and an interval later, until cancelled."""
        loop, is_first = asyncio.get_running_loop(), True
        while True:
            await asyncio.sleep(max(0.0, at - loop.time()))
            await self._exchange(self._full_state() if is_first else self._message())
            at, is_first = max(at + self._site.interval_s, loop.time()), False

    async def _exchange(self, message: Any) -> None:
        """One message and what follows of its answer."""
        message_at, takes_on = time.perf_counter(), False
        while message is not None:
            answer = await self._answered(message)
            if takes_on:
                self._site.applied(self._number, message_at)
            message, takes_on = self._next(answer)

    async def _answered(self, message: Any) -> Any:
        while True:
            reader, writer = await asyncio.open_connection(self._site.host, self._site.port)
            try:
                return await self._ask(reader, writer, message)
            except _PutOff:
                self._site.polled.put_off += 1
                await asyncio.sleep(AGAIN_S)
            finally:
                writer.close()

    def _next(self, answer: Any) -> tuple[Any, bool]:
        """What is to be said now, and whether that is the word that something is applied."""
        if answer.HasField("remote_config"):
            [entry] = answer.remote_config.config.config_map
            self._document = entry.value.body
            message = self._message()
            message.remote_config_status.last_remote_config_hash = answer.remote_config.config_hash
            message.remote_config_status.status = APPLIED
            return message, True
        return (self._full_state() if answer.flags & REPORT_FULL_STATE else None), False

    def _message(self) -> Any:
        message = empty("AgentToServer")
        message.instance_uid, message.sequence_num = self._uid, self._said
        message.capabilities = REPORTS_STATUS | ACCEPTS_REMOTE_CONFIG | REPORTS_CONFIG | REPORTS_REMOTE_CONFIG
        self._said += 1
        return message

    def _full_state(self) -> Any:
        message = self._message()
        who = {"service.name": "bench-opamp", "service.instance.id": f"opamp-{self._number}"}
        for name, value in who.items():
            message.agent_description.identifying_attributes.add(key=name).value.string_value = value
        if self._document:
            told = message.effective_config.config_map.config_map.add(key="desired.json")
            told.value.body, told.value.content_type = self._document, "application/json"
        return message

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: Any) -> Any:
        body = message.SerializeToString()
        head = f"POST /v1/opamp HTTP/1.1\r\nhost: {self._site.host}\r\nauthorization: Bearer {self._site.key}\r\n"
        head += f"content-type: application/x-protobuf\r\ncontent-length: {len(body)}\r\n\r\n"
        began = time.perf_counter()
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        sizes = [int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")]
        content = await reader.readexactly(sizes[0] if sizes else 0)
        if lines[0].split()[1] == b"503":
            raise _PutOff
        if lines[0].split()[1] != b"200":
            raise NotAnswered(f"an OpAMP message was answered {lines[0].decode()}: {content[:300]!r}")
        self._site.polled.answered.append(time.perf_counter() - began)
        answer = empty("ServerToAgent")
        answer.ParseFromString(content)
        return answer
