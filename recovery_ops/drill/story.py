"""Makes up what a fleet tells, from a seed: failures, breakers that move, degradations, counts and heartbeats."""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Callable, Mapping, Sequence

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from recovery_ops.wire import names

BATCH = 500
_A = names.ATTRIBUTES
_KINDS = (
    *["failure_classified"] * 12,
    *["breaker_state_changed"] * 3,
    *("degradation_started", "degradation_ended", "calls_counted", "calls_counted", "instance_heartbeat"),
)
_CATEGORIES = ("overloaded", "rate_limited", "timeout", "network", "server_error", "bug")
_BACKENDS: tuple[Mapping[str, str], ...] = (
    {},
    *(
        {_A["provider"]: provider, _A["model"]: model}
        for provider in ("helios", "selene")
        for model in ("large", "small")
    ),
)
_STATES = ("open", "closed", "half_open", "forced_open")

When = Callable[[random.Random], int]
"""The time of a record in nanoseconds since the epoch, as its sender's clock has it."""


def lately(chance: random.Random) -> int:
    """Within the last hour."""
    return time.time_ns() - chance.randrange(3600 * 10**9)


class Story:
    """Records without end, the same for the same seed but for their times."""

    def __init__(self, seed: int, *, when: When = lately, operations: Sequence[str] = ()) -> None:
        self.chance = random.Random(seed)
        self._when = when
        self._operations = operations or [f"tool_{number}" for number in range(12)]
        self._number = 0

    def batch(self, count: int = BATCH) -> list[tuple[bytes, LogRecord]]:
        """So many records, each with its uid."""
        return [self.record() for _ in range(count)]

    def record(self, **more: object) -> tuple[bytes, LogRecord]:
        """One record with its uid."""
        self._number += 1
        uid, chance = self.chance.randbytes(16), self.chance
        kind = chance.choice(_KINDS)
        operation = chance.choice(self._operations)
        said: dict[str, object] = {
            names.UID: uid_of(uid),
            names.SEQUENCE_NUMBER: self._number,
            names.OPERATION: operation,
            _A["breaker"]: operation,
            **_SAYS[kind](chance),
            **more,
        }
        return uid, made(names.PREFIX + kind, said, self._when(chance))


def uid_of(uid: bytes) -> str:
    """A uid as it travels."""
    text = uid.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


_SAYS: dict[str, Callable[[random.Random], Mapping[str, object]]] = {
    "failure_classified": lambda chance: {
        _A["category"]: chance.choice(_CATEGORIES),
        _A["message"]: "no answer",
        **chance.choice(_BACKENDS),
    },
    "breaker_state_changed": lambda chance: {
        _A["state"]: chance.choice(_STATES),
        _A["previous_state"]: "closed",
        _A["trigger"]: "failure_rate",
    },
    "degradation_started": lambda chance: {_A["kind"]: "fallback", _A["reason"]: "breaker", _A["to_name"]: "cache"},
    "degradation_ended": lambda chance: {_A["kind"]: "fallback", _A["duration_s"]: chance.random() * 60},
    "calls_counted": lambda chance: {_A["calls"]: 10, _A["attempts"]: 12, _A["successes"]: chance.randrange(10)},
    "instance_heartbeat": lambda chance: {_A["uptime_s"]: chance.random() * 1e5, _A["status"]: "running"},
}


def made(event: str, said: Mapping[str, object], time_ns: int) -> LogRecord:
    """A record of protobuf."""
    record = LogRecord(event_name=event, time_unix_nano=time_ns, severity_number=13)  # type: ignore[arg-type]  # WARN
    record.attributes.extend(KeyValue(key=key, value=_value(value)) for key, value in said.items())
    return record


def body_of(records: Sequence[LogRecord], instance: str) -> bytes:
    """A compressed request of one instance."""
    request = ExportLogsServiceRequest()
    part = request.resource_logs.add()
    for key, value in ((names.SERVICE_NAME, "drill"), (names.SERVICE_INSTANCE_ID, instance)):
        part.resource.attributes.append(KeyValue(key=key, value=_value(value)))
    part.scope_logs.add().log_records.extend(records)
    return gzip.compress(request.SerializeToString(), 1)


def _value(given: object) -> AnyValue:
    if isinstance(given, bool):
        return AnyValue(bool_value=given)
    if isinstance(given, int):
        return AnyValue(int_value=given)
    if isinstance(given, float):
        return AnyValue(double_value=given)
    return AnyValue(string_value=str(given))
