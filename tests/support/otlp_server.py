"""Serves the receiver over real sockets: in a thread of this process, or as a process that can be killed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn

from events.otlp import receiver
from tests.support.processes import ROOT, Running, eventually


@contextmanager
def served(app: Any = receiver.app, *, port: int = 0) -> Iterator[str]:
    """The receiver, or what stands before it, behind uvicorn in a thread; yields its address."""
    config = uvicorn.Config(app, port=port, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    eventually(lambda: server.started, what="the server")
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


class Process(Running):
    """The whole server as a process, with nothing else: no worker, no demonstration."""

    def __init__(self, env: Mapping[str, str]) -> None:
        words = ["-m", "uvicorn", "recovery_ops.asgi:application", "--port", "0", "--no-access-log"]
        super().__init__([sys.executable, *words], env=env, folder=ROOT)

    @property
    def url(self) -> str:
        """Its address, once it answers."""
        return self.said(r"running on (http://\S+)")[1]


def manage(*words: str, env: Mapping[str, str]) -> str:
    """Run a command to its end; return all that it said. Fails with it when it fails."""
    with Running([sys.executable, str(ROOT / "manage.py"), *words], env=env) as command:
        code = command.wait(timeout_s=180)
        assert code == 0, command.text
        return command.text
