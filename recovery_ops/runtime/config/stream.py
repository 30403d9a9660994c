"""How the desired state arrives: one connection that the server speaks on, polling where that is not to be had."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.events import Event
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.runtime.config.receiver import LIMIT_BYTES, ConfigReceiver
from recovery_ops.runtime.config.server_clock import ServerClock
from recovery_ops.runtime.config.server_sent_events import Messages, TooLong
from recovery_ops.runtime.http.addresses import checked_key, checked_url
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.process.log_messages import TroubleLog
from recovery_ops.runtime.process.poll_intervals import Pace

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

    from recovery_ops.runtime.http.transport import Transport

PATH = "/api/v1/desired"
STREAM_PATH = PATH + "/stream"
_EVENTS = ("message", "desired", "desired_state")
_NOT_FOR_US = (401, 403, 404)
_never_closed: list[object] = []
"""What a forked child has from its parent and must not touch."""
_PASSING = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The link's times, in seconds."""

    first_byte_s: float = 20.0
    """A stream that says nothing for so long is held back by something on the way: poll instead."""
    silence_s: float = 45.0
    """Three heartbeats of the server."""
    answer_s: float = 10.0
    poll_s: float = 5.0
    poll_for_s: float = 300.0
    """How long to poll before a stream is tried again."""
    floor_s: float = 0.1
    first_s: float = 1.0
    cap_s: float = 15.0
    not_for_us_first_s: float = 10.0
    not_for_us_cap_s: float = 60.0


class ConfigStream(forks.InChild):
    """Follows the desired state of one process, in a daemon thread. The server is never on the path of a call.

    The server sends the whole document whenever it changes; `ConfigReceiver` says what becomes of it. A server that is
    slow, gone or lying changes nothing but the freshness of what is obeyed. Fork-safe: a child follows for itself.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        service: str,
        instance: str,
        group: str = "",
        store: Path | None,
        on_desired: Callable[[Desired], Sequence[str]],
        emit: Callable[[Event], None],
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
        timing: Timing | None = None,
    ) -> None:
        self._url = checked_url(url)
        self._key = checked_key(key)
        self._place = {"service": service, "instance": instance} | ({"group": group} if group else {})
        self._instance = instance
        self._clock = clock or Clock()
        self._chance = chance
        self._timing = timing or Timing()
        self._notices = TroubleLog(logging.getLogger(__name__))
        self._server_clock = ServerClock(self._clock)
        self._acceptance = ConfigReceiver(
            on_desired=on_desired, emit=emit, store=store, server_clock=self._server_clock
        )
        self._was_started = False
        self._first_wait_s = 0.0
        self._begin()

    def _begin(self) -> None:
        times = self._timing
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._transport: Transport | None = None
        self._response: BaseHTTPResponse | None = None
        self._pace = Pace(floor_s=times.floor_s, first_s=times.first_s, cap_s=times.cap_s, chance=self._chance)
        self._pace_not_for_us = Pace(
            floor_s=times.not_for_us_first_s / 2,
            first_s=times.not_for_us_first_s,
            cap_s=times.not_for_us_cap_s,
            chance=self._chance,
        )
        self._poll_until: float | None = None
        self._etag = ""
        self.is_connected = False
        """Whether the server's last word is still good: a stream that speaks, or a poll that was answered."""

    def start(self) -> None:
        """Obey the last known document, from disk, before this returns; then follow the server."""
        self._was_started = True
        self._acceptance.restore()
        forks.follow(self)
        self._start_thread()

    def close(self, timeout_s: float = 2.0) -> None:
        """Stop following; what is obeyed stays obeyed."""
        self._closing.set()
        response = self._response
        if response is not None:
            from recovery_ops.runtime.http.transport import interrupt

            interrupt(response)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        self.is_connected = False

    def force_check(self) -> bool:
        """Ask once, now, in the calling thread; True if the server answered, with news or without. For tests."""
        from recovery_ops.runtime.http.transport import NoAnswer, Transport

        transport = Transport(self._url, self._key, self._clock)
        try:
            return self._ask(transport, etag="") is None
        except NoAnswer:
            return False
        finally:
            transport.close()

    @property
    def revision(self) -> int:
        """The revision obeyed; 0 before there was any."""
        return self._acceptance.revision

    @property
    def config_hash(self) -> str:
        """The hash of the document obeyed; empty before there was any."""
        return self._acceptance.config_hash

    @property
    def was_heard(self) -> bool:
        """Whether the server has told this process what to obey; until then it goes by what lay on disk."""
        return self._acceptance.was_heard

    @property
    def server_offset_s(self) -> float:
        """The server's clock minus this machine's, in seconds; 0 while nothing is known."""
        return self._server_clock.offset_s

    def after_fork_in_child(self) -> None:
        """Another instance, which follows on a connection of its own."""
        transport, response, was_closed = self._transport, self._response, self._closing.is_set()
        self._begin()
        self._place["instance"] = self._instance + forks.process_mark()
        self._acceptance.after_fork_in_child()
        if response is not None:
            from recovery_ops.runtime.http.transport import abandon

            abandon(response)
        _never_closed.append(transport)
        if self._was_started and not was_closed:
            # Not at once: the application has hooks of its own to run, and siblings may be born in the same moment.
            self._first_wait_s = self._pace.next_s()
            self._pace.succeeded()
            self._start_thread()

    # The thread.

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._run, name="recovery-ops-link", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        closing = self._closing
        try:
            with forks.not_while_importing():
                from recovery_ops.runtime.http.transport import Transport
                from recovery_ops.runtime.telemetry.pipeline import without_tracing
                from recovery_ops.wire import parse_desired  # noqa: F401  # `ConfigReceiver` will need it

                without_tracing()
            self._transport = transport = Transport(self._url, self._key, self._clock)
            closing.wait(self._first_wait_s)
            while not closing.is_set():
                closing.wait(self._round(transport))
        except Exception:
            logging.getLogger(__name__).exception("recovery-ops: the desired state is not followed any more")
        finally:
            self.is_connected = False
            if self._transport is not None:
                self._transport.close()

    def _round(self, transport: Transport) -> float:
        """One connection; the seconds to wait before the next."""
        from recovery_ops.runtime.http.transport import NoAnswer

        try:
            if self._poll_until is not None and self._clock.now() < self._poll_until:
                return self._poll(transport)
            self._poll_until = None
            return self._follow(transport)
        except NoAnswer as error:
            return 0.0 if self._closing.is_set() else self._away(str(error))
        except Exception:
            # A defect of ours must neither end the thread nor make it spin.
            logging.getLogger(__name__).exception(
                "recovery-ops: a desired state could not be handled; the old one stays"
            )
            return self._away("defect")
        finally:
            self._response = None

    def _follow(self, transport: Transport) -> float:
        """Read the stream until it ends."""
        from recovery_ops.runtime.http.transport import Silence, media_type

        headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
        if self.revision and self.was_heard:  # else what is obeyed may be what another instance was told
            headers["Last-Event-ID"] = str(self.revision)
        asked_at = self._clock.now()
        try:
            with transport.open(
                "GET", self._target(STREAM_PATH), headers=headers, read_s=self._timing.first_byte_s
            ) as response:
                self._response = response
                answered = {name.lower(): value for name, value in response.headers.items()}
                self._note_date(answered.get("date", ""), asked_at)
                if response.status == 200 and media_type(answered) == "text/event-stream":
                    return self._read(response)
                return self._no_stream(response.status, answered)
        except Silence:
            return self._poll_instead("nothing comes through")

    def _read(self, response: BaseHTTPResponse) -> float:
        from recovery_ops.runtime.http.transport import Silence, allow_silence, read_some

        messages = Messages(limit_bytes=LIMIT_BYTES)
        began = self._clock.now()
        try:
            while not self._closing.is_set() and (chunk := read_some(response)):
                if not self.is_connected:
                    allow_silence(response, self._timing.silence_s)
                    self.is_connected = True
                    self._notices.over("recovery-ops: the server is followed again", "away", "not for us", "poll")
                self._acceptance.keep_time()
                for message in messages.feed(chunk):
                    if message.event in _EVENTS and not self._consider(message.data, message.id):
                        return self._again()
        except TooLong as error:
            self._acceptance.reject(str(error))
        except Silence:
            if not self.is_connected:
                raise
        finally:
            self.is_connected = False
        if self._clock.now() - began >= self._timing.first_byte_s:
            # It went well for a while, also if there was no news.
            self._pace.succeeded()
        return self._again()

    def _consider(self, text: str | bytes, hint: str) -> bool:
        is_believed = self._acceptance.consider(text, hint=hint)
        if is_believed:
            self._pace.succeeded()
            self._pace_not_for_us.succeeded()
        return is_believed

    def _no_stream(self, status: int, headers: dict[str, str]) -> float:
        from recovery_ops.runtime.http.transport import asked_s

        if status in _NOT_FOR_US:
            return self._not_for_us(status)
        if status in _PASSING or 300 <= status < 400:
            return self._away(f"HTTP {status}", asked_s(headers.get("retry-after", ""), self._clock.wall()))
        return self._poll_instead(f"HTTP {status}, {headers.get('content-type', 'no content type')}")

    def _poll_instead(self, why: str) -> float:
        self._poll_until = self._clock.now() + self._timing.poll_for_s
        self._notices.once("poll", "recovery-ops: no stream from %s (%s): polling", self._url, why)
        return self._timing.floor_s

    def _poll(self, transport: Transport) -> float:
        wait_s = self._ask(transport, etag=self._etag)
        self.is_connected = wait_s is None
        if wait_s is not None:
            return wait_s
        self._notices.over("recovery-ops: the server answers again", "away", "not for us")
        return self._timing.poll_s * (0.8 + 0.4 * self._chance())

    def _ask(self, transport: Transport, *, etag: str) -> float | None:
        """Ask for the document; None when the answer was one, else the seconds to wait."""
        headers = {"Accept": "application/json"} | ({"If-None-Match": etag} if etag else {})
        asked_at = self._clock.now()
        answer = transport.ask(
            "GET", self._target(PATH), headers=headers, timeout_s=self._timing.answer_s, limit_bytes=LIMIT_BYTES
        )
        self._note_date(answer.headers.get("date", ""), asked_at)
        if answer.status == 304 and etag:
            self._pace.succeeded()
            self._acceptance.keep_time()
            return None
        if answer.status in _NOT_FOR_US:
            return self._not_for_us(answer.status)
        if answer.status != 200 or answer.media_type != "application/json":
            return self._away(f"HTTP {answer.status} {answer.media_type}", answer.asked_s(self._clock.wall()))
        self._etag = ""
        if not self._consider(answer.body, ""):
            return self._again()
        self._etag = answer.headers.get("etag", "")
        return None

    def _again(self) -> float:
        return self._pace.next_s()

    def _away(self, why: str, asked_s: float | None = None) -> float:
        self.is_connected = False
        self._notices.once("away", "recovery-ops: no desired state from %s: %s; the last known stays", self._url, why)
        return self._pace.next_s(asked_s=asked_s)

    def _not_for_us(self, status: int) -> float:
        self.is_connected = False
        self._notices.once(
            "not for us",
            "recovery-ops: no desired state from %s: HTTP %d: is the address right, and may the key read it?",
            self._url,
            status,
        )
        return self._pace_not_for_us.next_s()

    def _note_date(self, text: str, asked_at: float) -> None:
        from recovery_ops.runtime.http.transport import epoch_of

        self._server_clock.note_date(epoch_of(text), took_s=self._clock.now() - asked_at)

    def _target(self, path: str) -> str:
        return f"{path}?{urlencode(self._place)}"
