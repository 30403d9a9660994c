"""`python -m recovery_ops.bench.raw DATABASE`: taking facts in without us, in the same layout of process and threads.

The stock web server, two threads that decode with the stock classes, one thread that inserts what waits in one
transaction: many rows to a statement on SQLite, COPY on PostgreSQL, under as many columns and indexes as ours. Nothing
is cleaned, folded or summed, and nobody is asked for a key. What we do beyond this is what we cost.
"""

# ruff: noqa: S608  (only names of our own are put together)

from __future__ import annotations

import asyncio
import gzip
import queue
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any

import orjson
import psycopg
import uvicorn
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_Row = tuple[Any, ...]
_Rows = list[_Row]
_EACH = 500
_COLUMNS = (
    *("environment", "uid", "agent", "event", "at_us", "received_us", "stated_us", "sequence_number", "severity"),
    *("operation", "breaker", "source", "is_foreground", "run", "category", "state", "provider", "model", "region"),
    *("trace_id", "span_id", "attributes", "body"),
)
_TAKEN = {
    "recovery.operation.name": "operation",
    "recovery.breaker.name": "breaker",
    "recovery.query_source": "source",
    "session.id": "run",
    "recovery.failure.category": "category",
    "gen_ai.provider.name": "provider",
    "gen_ai.request.model": "model",
    "cloud.region": "region",
}
_INDEXES = ("(environment, event, at_us)", "(environment, run, at_us) WHERE run > ''")
_BY_BREAKER = {
    "sqlite": ("(environment, breaker, event, at_us)",),
    "postgres": tuple(
        f"(breaker, environment, at_us) WHERE event = '{event}'"
        for event in ("failure_classified", "breaker_state_changed", "breaker_rejected", "calls_counted")
    ),
}
"""As each engine has them."""


def decoded(body: bytes) -> _Rows:
    """A request's records as rows."""
    request = ExportLogsServiceRequest.FromString(gzip.decompress(body))
    rows = []
    for part in request.resource_logs:
        agent = part.resource.attributes[1].value.string_value
        for scope in part.scope_logs:
            for record in scope.log_records:
                given = {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in record.attributes}
                uid = bytes.fromhex(given.pop("log.record.uid").replace("-", ""))
                taken = {column: given.pop(name, "") for name, column in _TAKEN.items()}
                at_us = record.time_unix_nano // 1000
                rows.append(
                    (
                        *("dev", uid, agent, record.event_name, at_us, at_us, None),
                        *(given.pop("recovery.sequence_number", 0), record.severity_number),
                        *(taken["operation"], taken["breaker"], taken["source"], False, taken["run"]),
                        *(taken["category"], "", taken["provider"], taken["model"], taken["region"], "", ""),
                        *(orjson.dumps(given).decode(), record.body.string_value),
                    )
                )
    return rows


def decoded_spans(body: bytes) -> _Rows:
    """A request's spans as rows."""
    request = ExportTraceServiceRequest.FromString(gzip.decompress(body))
    rows = []
    for part in request.resource_spans:
        agent = part.resource.attributes[1].value.string_value
        for scope in part.scope_spans:
            for span in scope.spans:
                given = {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}
                provider, model = given.pop("gen_ai.provider.name", ""), given.pop("gen_ai.request.model", "")
                at_us = span.end_time_unix_nano // 1000
                rows.append(
                    (
                        *("dev", span.trace_id, agent, "span", at_us, at_us, None, 0, span.status.code),
                        *(span.name, "", "", False, "", "", "", provider, model, ""),
                        *(span.trace_id.hex(), span.span_id.hex(), orjson.dumps(given).decode(), span.status.message),
                    )
                )
    return rows


class Store:
    """Either database behind one method."""

    def __init__(self, url: str) -> None:
        types = {"uid": "bytea" if url.startswith("postgres") else "blob", "is_foreground": "boolean"}
        whole = ("at_us", "received_us", "stated_us", "sequence_number", "severity")
        columns = ", ".join(f"{name} {types.get(name, 'bigint' if name in whole else 'text')}" for name in _COLUMNS)
        self._postgres = psycopg.connect(url) if url.startswith("postgres") else None
        self._sqlite = None if self._postgres else sqlite3.connect(url, isolation_level=None, check_same_thread=False)
        number = "bigserial" if self._postgres else "integer"
        indexes = (*_INDEXES, *_BY_BREAKER["postgres" if self._postgres else "sqlite"])
        setup = [
            f"CREATE TABLE IF NOT EXISTS fact (id {number} PRIMARY KEY, {columns})",
            "CREATE UNIQUE INDEX IF NOT EXISTS fact_once ON fact (environment, uid)",
            *(f"CREATE INDEX IF NOT EXISTS fact_{number} ON fact {index}" for number, index in enumerate(indexes)),
        ]
        if self._sqlite is not None:
            setup = ["PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA cache_size=-16384", *setup]
        for statement in setup:
            if self._sqlite:
                self._sqlite.execute(statement)
            elif self._postgres:
                self._postgres.execute(statement)
        if self._postgres:
            self._postgres.commit()

    def insert(self, rows: Sequence[_Row]) -> None:
        """Commit these."""
        if self._postgres:
            with (
                self._postgres.cursor() as cursor,
                cursor.copy(f"COPY fact ({', '.join(_COLUMNS)}) FROM STDIN") as copy,
            ):
                for row in rows:
                    copy.write_row(row)
            self._postgres.commit()
        elif self._sqlite:
            self._sqlite.execute("BEGIN IMMEDIATE")
            for start in range(0, len(rows), _EACH):
                part = rows[start : start + _EACH]
                values = ", ".join([f"({', '.join('?' * len(_COLUMNS))})"] * len(part))
                statement = f"INSERT INTO fact ({', '.join(_COLUMNS)}) VALUES {values}"
                self._sqlite.execute(statement, list(chain.from_iterable(part)))
            self._sqlite.execute("COMMIT")


class App:
    """The ASGI application."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: queue.SimpleQueue[tuple[_Rows, Future[None]]] = queue.SimpleQueue()
        self._decoders = ThreadPoolExecutor(2)
        threading.Thread(target=self._write, daemon=True).start()

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Take one request."""
        body, goes_on = bytearray(), True
        while goes_on:
            message = await receive()
            body += message.get("body", b"")
            goes_on = message.get("more_body", False)
        decode = decoded_spans if scope["path"] == "/v1/traces" else decoded
        rows = await asyncio.get_running_loop().run_in_executor(self._decoders, decode, bytes(body))
        done: Future[None] = Future()
        self._waiting.put((rows, done))
        await asyncio.wrap_future(done)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    def _write(self) -> None:
        while True:
            group = [self._waiting.get()]
            while not self._waiting.empty():
                group.append(self._waiting.get())
            self._store.insert([row for rows, _ in group for row in rows])
            for _, done in group:
                done.set_result(None)


def main(database: str) -> None:
    """Serve on a free port, and print it."""
    config = uvicorn.Config(App(Store(database)), port=0, http="httptools", lifespan="off", log_config=None)
    config.load()
    socket = config.bind_socket()
    print(socket.getsockname()[1], flush=True)
    uvicorn.Server(config).run(sockets=[socket])


if __name__ == "__main__":
    main(sys.argv[1])
