"""A real HTTP server in a thread that answers by a script, misbehaviour included."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs

PROTOBUF = "application/x-protobuf"
PATIENCE_S = 20.0


@dataclass(frozen=True)
class Request:
    """What came in."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    connection: int
    at: float = field(default_factory=time.monotonic)

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def exported(self) -> list[tuple[ResourceLogs, LogRecord]]:
        """The log records of an export, with what holds them."""
        content = gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body
        request = ExportLogsServiceRequest.FromString(content)
        return [
            (resource, record)
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    @property
    def uids(self) -> list[str]:
        return [attributes(record)["log.record.uid"] for _, record in self.exported]


def attributes(record: LogRecord) -> dict[str, Any]:
    """The attributes of a record as plain values."""
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value") for pair in record.attributes
    }


def resource_of(resource: ResourceLogs) -> dict[str, Any]:
    return {pair.key: pair.value.string_value for pair in resource.resource.attributes}


Reply = Callable[[socket.socket, Request], bool]
"""Answers on the connection; whether the connection goes on."""


def answer(status: int, body: bytes = b"", *, media_type: str = PROTOBUF, **headers: str) -> Reply:
    """A whole answer; `retry_after="1"` is the header Retry-After."""

    def reply(connection: socket.socket, request: Request) -> bool:
        lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}"]
        if media_type:
            lines.append(f"Content-Type: {media_type}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        return True

    return reply


def stored(rejected: int = 0, why: str = "") -> Reply:
    """The only yes there is."""
    response = ExportLogsServiceResponse()
    if rejected or why:
        response.partial_success.rejected_log_records = rejected
        response.partial_success.error_message = why
    return answer(200, response.SerializeToString())


def document(content: object, **headers: str) -> Reply:
    return answer(200, json.dumps(content).encode(), media_type="application/json", **headers)


def raw(content: bytes) -> Reply:
    """Exactly these bytes, then the end of the connection."""

    def reply(connection: socket.socket, request: Request) -> bool:
        connection.sendall(content)
        return False

    return reply


def reset(connection: socket.socket, request: Request) -> bool:
    """A reset instead of an answer."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def silent_until(gate: threading.Event, after: Reply) -> Reply:
    """Nothing at all until the gate opens."""

    def reply(connection: socket.socket, request: Request) -> bool:
        gate.wait(PATIENCE_S)
        with contextlib.suppress(OSError):
            return after(connection, request)
        return False

    return reply


class Stream:
    """A stream of server-sent events that a test speaks on; every connection hears what is said from then on."""

    def __init__(self, *first: bytes, media_type: str = "text/event-stream", date: str = "") -> None:
        self._first = first
        self._head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nTransfer-Encoding: chunked\r\n"
        self._head += f"Date: {date}\r\n\r\n" if date else "\r\n"
        self._open: list[socket.socket] = []
        self._ended = threading.Event()
        self.count = 0

    def __call__(self, connection: socket.socket, request: Request) -> bool:
        connection.sendall(self._head.encode())
        for content in self._first:
            _chunk(connection, content)
        self._open.append(connection)
        self.count += 1
        self._ended.wait(PATIENCE_S)
        return False

    def say(self, content: bytes) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                _chunk(connection, content)

    def cut(self) -> None:
        """End every connection in the middle of whatever it was saying."""
        ended, self._ended = self._ended, threading.Event()
        self._open.clear()
        ended.set()


def _chunk(connection: socket.socket, content: bytes) -> None:
    connection.sendall(b"%x\r\n%b\r\n" % (len(content), content))


def event(content: object, *, revision: object = "", name: str = "") -> bytes:
    """One server-sent event."""
    text = content if isinstance(content, str) else json.dumps(content)
    lines = [f"id: {revision}"] if revision != "" else []
    lines += [f"event: {name}"] if name else []
    return "\n".join([*lines, *(f"data: {line}" for line in text.split("\n")), "", ""]).encode()


class Server:
    """Answers each request by the next reply of the script; at its end by `otherwise`, for paths by `routes`."""

    def __init__(
        self, *script: Reply, otherwise: Reply | None = None, routes: Mapping[str, Reply] | None = None
    ) -> None:
        self.requests: list[Request] = []
        self.script = list(script)
        self.otherwise = otherwise or stored()
        self.routes = dict(routes or {})
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._connections: list[socket.socket] = []
        self._used: list[Reply] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def of(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path == path]

    @property
    def uids(self) -> list[str]:
        """Of all exports, in the order in which they came."""
        return [uid for request in self.of("/v1/logs") for uid in request.uids]

    def close(self) -> None:
        for end in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for reply in self._used:
            if isinstance(reply, Stream):
                reply.cut()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, len(self._connections)), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as reader:
            while (request := _read(reader, number)) is not None:
                self.requests.append(request)
                reply = self.routes.get(request.path) or (self.script.pop(0) if self.script else self.otherwise)
                self._used.append(reply)
                if not reply(connection, request):
                    return


def _read(reader: Any, number: int) -> Request | None:
    line = reader.readline().decode().split()
    if len(line) != 3:
        return None
    headers = {}
    while (text := reader.readline().decode().strip()) != "":
        name, _, value = text.partition(":")
        headers[name.lower()] = value.strip()
    return Request(line[0], line[1], headers, reader.read(int(headers.get("content-length", 0))), number)


@contextlib.contextmanager
def serving(*script: Reply, **options: Any) -> Iterator[Server]:
    """A server for the length of a test."""
    server = Server(*script, **options)
    try:
        yield server
    finally:
        server.close()
