"""How fast this machine is: one core reading an OpenTelemetry request with the stock classes, by its processor time.

What a machine commits a second says which machine was rented. Aims for taking facts in were stated on a machine on
which this much reading had been measured, so they are told here as shares of it (docs/decisions/0023).
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

RECORDS = 500
REFERENCE_PER_S = 168_000.0
"""Records a second that one core of the reference machine inflated, parsed and read (median of seven runs)."""
ROUNDS = 40
_TEXTS = {
    "recovery.operation.name": "search",
    "recovery.query_source": "repl",
    "recovery.policy.version": "12",
    "recovery.failure.category": "overloaded",
    "error.type": "OverloadedError",
    "gen_ai.provider.name": "anthropic",
}
_WHOLES = {"recovery.attempt": 2, "http.response.status_code": 529}


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What one core of this machine reads, in records a second."""

    per_s: float

    @property
    def share(self) -> float:
        """This machine's speed, as a share of the one on which the aims were stated."""
        return self.per_s / REFERENCE_PER_S

    def time_ms(self, stated_ms: float) -> float:
        """How long one core may take here for what was stated there, in milliseconds."""
        return stated_ms / self.share


def measured(rounds: int = ROUNDS, clock: Callable[[], float] = time.process_time) -> Yardstick:
    """Read the same request so often; the quickest counts, because all that disturbs makes it slower."""
    return Yardstick(RECORDS / min(_timed(rounds, clock)))


def typical(rounds: int = ROUNDS, clock: Callable[[], float] = time.process_time) -> Yardstick:
    """Read the same request so often; the middle counts: how fast the machine is just now, with all that disturbs."""
    return Yardstick(RECORDS / median(_timed(rounds, clock)))


def _timed(rounds: int, clock: Callable[[], float]) -> list[float]:
    """How long each round took, in seconds."""
    body = gzip.compress(request())
    took_s = []
    for _ in range(rounds):
        began_s = clock()
        read(gzip.decompress(body))
        took_s.append(clock() - began_s)
    return took_s


def request() -> bytes:
    """Records as they were where the aims were stated: eleven attributes, about 430 bytes each."""
    message = ExportLogsServiceRequest()
    records = message.resource_logs.add().scope_logs.add().log_records
    records.extend(_record(number) for number in range(RECORDS))
    encoded: bytes = message.SerializeToString()
    return encoded


def _record(number: int) -> LogRecord:
    given = {
        "log.record.uid": AnyValue(string_value=f"01990000-0000-7000-8000-{number:012x}"),
        "session.id": AnyValue(string_value=f"run-{number % 50}"),
        "recovery.sequence_number": AnyValue(int_value=number),
        **{name: AnyValue(string_value=text) for name, text in _TEXTS.items()},
        **{name: AnyValue(int_value=whole) for name, whole in _WHOLES.items()},
    }
    return LogRecord(
        time_unix_nano=1_790_000_000_000_000_000 + number,
        severity_number=SeverityNumber.SEVERITY_NUMBER_WARN,
        event_name="recovery.failure_classified",
        attributes=[KeyValue(key=name, value=value) for name, value in given.items()],
    )


def read(body: bytes) -> list[dict[str, object]]:
    """The attributes of each record, as anybody reads them who has the stock classes."""
    message = ExportLogsServiceRequest.FromString(body)
    return [
        {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in record.attributes}
        for part in message.resource_logs
        for scope in part.scope_logs
        for record in scope.log_records
    ]
