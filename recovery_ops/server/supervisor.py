"""Runs web, worker and scheduler in this one process, from a bound port until a signal."""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Protocol

import uvicorn

logger = logging.getLogger(__name__)

COMPANION_STOP_S = 5.0
"""How long a running task or a child process may go on after the first signal."""
DRAIN_S = 3
"""How long open responses may go on after that; streams are told to end at the first signal."""
FORCED_EXIT_CODE = 130


class CannotListen(Exception):
    """The address is taken or not ours. The text says what to do."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        self.host, self.port, self.errno = host, port, error.errno
        super().__init__(self._say(error))

    def _say(self, error: OSError) -> str:
        if self.errno == errno.EADDRINUSE:
            return (
                f"Port {self.port} on {self.host} is in use by another program. "
                f"Choose another with --port, for example --port {self.port + 1 if self.port < 65535 else 8001}."
            )
        if self.errno == errno.EACCES:
            return f"Port {self.port} needs more rights than this account has. Choose one above 1023 with --port."
        return f"Cannot listen on {self.host}: {error.strerror or error}. Give an address of this machine with --host."


class Companion(Protocol):
    """Something that runs beside the web server: started once the port answers, stopped while it still does."""

    def start(self) -> None:
        """Begin, on the event loop's thread; return soon."""

    def stop(self, timeout_s: float) -> bool:
        """End within `timeout_s`; say whether it did."""


def listen(host: str, port: int) -> socket.socket:
    """Take the port now, before anything is changed for the sake of a server that could not run.

    Port 0 takes a free one. Listening at once matters: two sockets can be *bound* to one port.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        taken = socket.socket(family, kind, protocol)
        try:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(address)
            taken.listen(2048)
        except OSError:
            taken.close()
            raise
    except OSError as error:
        raise CannotListen(host, port, error) from None
    return taken


def serve(
    *listeners: socket.socket,
    on_started: Callable[[], None],
    on_ending: Callable[[], None] = lambda: None,
    companions: Sequence[Companion] = (),
) -> int:
    """Serve on these listeners in this (main) thread until SIGINT, SIGTERM or SIGHUP; return the exit code.

    `on_started` runs on the event loop's thread as soon as requests are answered, `on_ending` in one of its own at
    the first signal. That ends the companions, then the server: agents among them can still hand in their last facts.
    A second one ends the process at once, with FORCED_EXIT_CODE.
    """
    config = uvicorn.Config(
        "recovery_ops.asgi:application",
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # uvicorn would believe every program of this machine who it comes for; nobody stands in front unless said so.
        proxy_headers=bool(os.environ.get("FORWARDED_ALLOW_IPS")),
        timeout_graceful_shutdown=DRAIN_S,
    )
    server = _Server(config, on_started=on_started, on_ending=on_ending, companions=companions)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    hangup = getattr(signal, "SIGHUP", None)  # not on Windows
    if hangup is not None and signal.getsignal(hangup) is signal.SIG_DFL:  # under nohup it stays ignored
        before[hangup] = signal.SIG_DFL
        signal.signal(hangup, server.handle_exit)
    try:
        server.run(sockets=list(listeners))
        for number in before:
            signal.signal(number, _force_exit)
        # What a signal overtook while the companions were being started.
        late = [companion for companion in server.running if companion not in server.told_to_end]
        is_clean = _stop(late) and server.is_clean
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if not is_clean:
        logger.warning("something was still running and is cut off; deadlines are kept in tables and come again")
    return 0 if server.started else 1


def _stop(companions: Sequence[Companion]) -> bool:
    """Stop them side by side, so that one slow companion does not eat another's time; say whether all ended."""
    ended: list[bool] = []
    threads = [
        threading.Thread(target=lambda one: ended.append(one.stop(COMPANION_STOP_S)), args=(one,), daemon=True)
        for one in companions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(ended) == len(threads) and all(ended)


def _force_exit(number: int, frame: FrameType | None) -> None:
    os._exit(FORCED_EXIT_CODE)


class _Server(uvicorn.Server):
    """uvicorn's server, with companions, that keeps a signal to itself.

    uvicorn raises the signal again after `run`, which would skip everything we still have to stop.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        on_started: Callable[[], None],
        on_ending: Callable[[], None],
        companions: Sequence[Companion],
    ) -> None:
        super().__init__(config)
        self._on_started = on_started
        self._on_ending = on_ending
        self._companions = companions
        self._is_ending = False
        self.running: list[Companion] = []
        self.told_to_end: list[Companion] = []
        self.is_clean = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.started:
            return
        self._on_started()
        for companion in self._companions:
            if not self._is_ending:
                companion.start()
                self.running.append(companion)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._is_ending:
            _force_exit(sig, frame)
        self._is_ending = True
        threading.Thread(target=self._end, name="end", daemon=True).start()

    def _end(self) -> None:
        self._on_ending()
        self.told_to_end = list(self.running)
        self.is_clean = _stop(self.told_to_end)
        self.should_exit = True


class EmbeddedCelery:
    """A Celery worker and its scheduler as threads of this process, on the `memory://` broker.

    The scheduler has to be a *thread*: as a process, which is Celery's own way, its ticks would go to another memory.
    Every thread is a daemon: a task that never returns cannot keep the process.
    """

    def __init__(self) -> None:
        self._worker: Any = None
        self._beat: Any = None
        self._is_stopping = threading.Event()
        self._is_settled = threading.Event()  # the worker runs, or never will
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Begin. Setting a worker up takes half a second, so that happens in its thread too."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Let running tasks finish for `timeout_s`; say whether they did."""
        deadline = time.monotonic() + timeout_s
        self._is_stopping.set()
        if not self._is_settled.wait(timeout_s):
            return False
        threads = [self._thread]
        if self._beat is not None:
            # Not beat's own `stop`: that waits for ever for a scheduler that failed to start.
            self._beat.service.stop(wait=False)
            threads.append(self._beat)
        if self._worker is not None:
            # The worker's `stop` waits for its tasks, so it waits beside us.
            threads.append(threading.Thread(target=self._worker.stop, name="worker-stop", daemon=True))
            threads[-1].start()
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _run(self) -> None:
        try:
            self._set_up()
            if not self._is_stopping.is_set():
                self._beat.start()
                self._worker.start()
        except Exception:
            logger.exception("the worker did not start: nothing that needs it will happen")
        finally:
            self._is_settled.set()

    def _set_up(self) -> None:
        # Imported here: no other part of the server needs these halves of Celery.
        from celery.beat import EmbeddedService
        from celery.worker import WorkController

        from recovery_ops.celery import app

        # Not `app.Worker`, which takes the process's stdout for its log.
        self._worker = WorkController(
            app=app,
            hostname=f"embedded@{socket.gethostname()}",
            pool="threads",
            concurrency=2,
            without_mingle=True,
            without_gossip=True,
            without_heartbeat=True,
            ready_callback=lambda consumer: self._is_settled.set(),
        )
        # In memory: what is due stands in tables, and a file could be torn by a kill.
        self._beat = EmbeddedService(app, thread=True, scheduler_cls="recovery_ops.server.scheduler:Scheduler")
