"""An agent's day without a server: what waits, what is let go, and what the server has once it is back."""

from __future__ import annotations

import gzip
import socket
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from events import keys
from events.ingest.commits import writer
from events.models import Fact
from events.otlp import receiver
from events.otlp.bodies import Receive
from events.otlp.receiver import Scope, Send
from recovery_ops.rules import events as facts
from recovery_ops.rules.enums import Category, DelaySource, Evidence, RunStatus, State, Trigger
from recovery_ops.rules.events import Instance, Record
from recovery_ops.runtime.telemetry.exporter import Exporter
from recovery_ops.runtime.telemetry.outbox import LIMIT_BYTES, Outbox, Rank
from recovery_ops.runtime.telemetry.outbox_file import dropped_name
from recovery_ops.runtime.telemetry.pipeline import Telemetry, rank_of
from recovery_ops.runtime.testing import PushedClock
from recovery_ops.wire import names
from tests.support.otlp_server import served

DAY_S = 86_400
AGENT = Instance(service="research", instance="agent-1", environment="dev")
OPERATIONS = ("search", "model:opus", "write")
FILE_OVERHEAD = 1.5
"""How much larger than its content the file is at most."""
JOURNAL_BYTES = 8 * 1024 * 1024
"""What its journal takes beside it: SQLite writes it back after a thousand pages."""


class Server:
    """The receiver; the answer to its second request is lost after it has stored. `uids` are as they came."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""

        async def noted() -> Scope:
            nonlocal body
            message = await receive()
            body += message.get("body", b"")
            return message

        async def lost(message: Scope) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "status": 502, "headers": [(b"content-length", b"0")]}
            await send(message if message["type"] == "http.response.start" else {**message, "body": b""})

        await receiver.app(scope, noted, lost if len(self.requests) == 1 else send)
        request = ExportLogsServiceRequest.FromString(gzip.decompress(body))
        records = (record for part in request.resource_logs for one in part.scope_logs for record in one.log_records)
        self.requests.append(
            [given.value.string_value for record in records for given in record.attributes if given.key == names.UID]
        )


@pytest.fixture
def token(transactional_db: None) -> Iterator[str]:
    """A key of an empty store."""
    keys.forget_keys()
    yield keys.create_key("a day offline", ["ingest"], "dev")[1]
    writer.close(timeout_s=10)
    keys.forget_keys()


@contextmanager
def nobody_listening() -> Iterator[int]:
    """A port that is taken and where every connection is refused."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def live_through(clock: PushedClock, telemetry: Telemetry, hours: int) -> None:
    """What a busy agent tells: three operations counted each 10 s, a heartbeat each 15 s, a failure each minute.

    Of each failure: that it was classified, that it is tried again, that this went well; and a run around it. Each
    hour a breaker opens and closes. That is a fact in two and a half seconds.
    """
    for at_s in range(0, hours * 3600, 5):
        if at_s % 10 == 0:
            for operation in OPERATIONS:
                telemetry.emit(counted(operation), "agent", run="")
        if at_s % 15 == 0:
            telemetry.emit(heartbeat(telemetry))
        if at_s % 60 == 0:
            run = f"run-{at_s // 60}"
            for fact in trouble():
                telemetry.emit(fact, "agent", True, run, "builtin")
        if at_s % 3600 == 1800:
            telemetry.emit(moved(State.OPEN, State.CLOSED))
            telemetry.emit(moved(State.CLOSED, State.HALF_OPEN))
        clock.push(5)
        if at_s % 3600 == 3595:
            assert telemetry.flush(60)


def counted(operation: str) -> facts.CallsCounted:
    bounds = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
    return facts.CallsCounted(
        operation=operation,
        interval_s=10.0,
        calls=12,
        attempts=13,
        successes=12,
        failures={"overloaded": 1},
        breaker=operation,
        latency_bounds_s=bounds,
        latency_counts=(0, 1, 4, 3, 2, 1, 1, 0, 0),
    )


def heartbeat(telemetry: Telemetry) -> facts.InstanceHeartbeat:
    return facts.InstanceHeartbeat(
        interval_s=15.0,
        uptime_s=100.0,
        revision=3,
        config_hash="5d41402abc4b2a76b9719d911017c592",
        schema_version=1,
        outbox_pending=telemetry.pending,
        outbox_dropped=telemetry.dropped,
    )


def trouble() -> list[facts.Event]:
    return [
        facts.RunStarted(name="research"),
        facts.FailureClassified(
            operation="model:opus",
            category=Category.OVERLOADED,
            evidence=Evidence.HTTP_STATUS,
            retryable=True,
            attempt=1,
            message="529 overloaded_error: the service is overloaded, please try again in a moment",
        ),
        facts.RetryScheduled(
            operation="model:opus",
            attempt=1,
            delay_s=1.5,
            delay_source=DelaySource.BACKOFF,
            category=Category.OVERLOADED,
        ),
        facts.AttemptSucceeded(operation="model:opus", attempt=2),
        facts.RunFinished(status=RunStatus.SUCCEEDED, duration_s=20.0, turns=3),
    ]


def moved(state: State, before: State) -> facts.BreakerStateChanged:
    return facts.BreakerStateChanged(
        operation="model:opus",
        breaker="model:opus",
        state=state,
        previous_state=before,
        trigger=Trigger.CONSECUTIVE_FAILURES,
    )


@pytest.mark.parametrize(
    ("hours", "limit_bytes"),
    [
        pytest.param(24, LIMIT_BYTES, id="the bound as it is"),
        pytest.param(4, 2_000_000, id="a bound that is too small"),
    ],
)
def test_after_a_day_without_a_server_it_has_everything_that_was_kept_in_order_and_once(
    hours: int, limit_bytes: int, token: str, tmp_path: Path
) -> None:
    clock = PushedClock(wall=time.time() - hours * 3600)
    outbox = Outbox(tmp_path / "agent-1.outbox", limit_bytes=limit_bytes, clock=clock)
    told: list[Record] = []
    with nobody_listening() as port:
        sender = Exporter(f"http://127.0.0.1:{port}", token, clock=clock)
        telemetry = Telemetry(AGENT, outbox=outbox, clock=clock, send=sender)
        telemetry.add_reader(told.append)
        live_through(clock, telemetry, hours)
        assert len(told) > hours * 1000
        sizes = {file.suffix: file.stat().st_size for file in tmp_path.iterdir()}
        assert sizes[".outbox"] <= limit_bytes * FILE_OVERHEAD
        assert sum(sizes.values()) <= limit_bytes * FILE_OVERHEAD + JOURNAL_BYTES
    dropped = Counter(outbox.tallies)
    kept = kept_of(told, dropped)
    assert bool(dropped) is (limit_bytes < LIMIT_BYTES)
    assert outbox.pending == len(kept) == len(told) - outbox.dropped
    server = Server()
    with served(server, port=port):
        for _ in range(2):  # the request whose answer was lost ends the first try
            assert telemetry.flush(120)
        assert outbox.pending == 0
        telemetry.close(30)
    came = [uid for request in server.requests for uid in request]
    assert server.requests[1] == server.requests[2]  # the same facts by the same uids, sent twice
    assert list(dict.fromkeys(came)) == kept
    stored = Fact.objects.order_by("sequence_number").values_list("uid", flat=True)
    assert [str(uuid.UUID(bytes=bytes(uid))) for uid in stored] == kept


def kept_of(told: list[Record], dropped: Counter[str]) -> list[str]:
    """The uids that have to be there, in order: of each rank the oldest went, of the lowest rank first."""
    if dropped[dropped_name(Rank.EVENT)]:
        assert dropped[dropped_name(Rank.FAILURE)] >= 1
    assert not dropped[dropped_name(Rank.ALWAYS)]
    going = Counter({rank: dropped[dropped_name(rank)] for rank in Rank})
    kept = []
    for record in told:
        rank = rank_of(type(record.event))
        if going[rank]:
            going[rank] -= 1
        else:
            kept.append(record.uid)
    return kept
