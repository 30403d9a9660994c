"""A TCP proxy that lets requests through and loses answers, so that a sender never hears what was stored."""

from __future__ import annotations

import socket
import threading
from typing import Self


class LossyProxy:
    """Stands before a server; drops the answer of every connection whose number is not a multiple of `keeps`."""

    def __init__(self, port: int, *, keeps: int) -> None:
        self._port, self._keeps = port, keeps
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._count = 0
        self.dropped = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._count += 1
            is_kept = self._count % self._keeps == 0
            threading.Thread(target=self._pass, args=(client, is_kept), daemon=True).start()

    def _pass(self, client: socket.socket, is_kept: bool) -> None:
        with client, socket.create_connection(("127.0.0.1", self._port)) as server:
            threading.Thread(target=_pump, args=(client, server), daemon=True).start()
            while answer := _received(server):
                if not is_kept:
                    self.dropped += 1
                    client.shutdown(socket.SHUT_RDWR)  # or the thread that still reads would keep it open
                    return
                client.sendall(answer)


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(65_536):
            target.sendall(piece)
    except OSError:
        return


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(65_536)
    except OSError:
        return b""
