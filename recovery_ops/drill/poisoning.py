"""J10: each thing that a store may choke on, inside a good batch, in both encodings over HTTP."""

from __future__ import annotations

import gzip
import json
import re
import time
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from recovery_ops.drill.faults import Drill
from recovery_ops.drill.floods import Felt
from recovery_ops.drill.history import History
from recovery_ops.drill.poisons import POISONS, Poison, framed
from recovery_ops.drill.senders import posted
from recovery_ops.drill.story import Story, body_of, made, uid_of
from recovery_ops.wire import names

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_FEWEST = 10
"""Good records around each poison."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came of one request: its status, how many records it says it did not take, and how long it took."""

    status: int
    rejected: int
    took_s: float


def poisoned_records(drill: Drill, history: History) -> None:
    """J10: one poison in each good batch. The others are stored; it is stored as it has to be, or set aside with its
    reason and said to be; no answer is other than 200.
    """
    story, wrong = Story(drill.chance.randrange(2**40)), list[str]()
    given = [(poison, kind) for poison in POISONS for kind in (PROTOBUF, JSON) if _can_say(poison, kind)]
    around = max(_FEWEST, -(-drill.records // len(given)))
    for number, (poison, kind) in enumerate(given):
        address = drill.addresses[number % len(drill.addresses)]
        fault = _give(drill, history, story.batch(around), poison, kind, address)
        if fault:
            wrong.append(f"{poison.words} in {kind.rpartition('-')[2].rpartition('/')[2]}: {fault}")
    if wrong:
        raise Felt("; ".join(wrong))
    counts = [sum(one == kind for _, one in given) for kind in (PROTOBUF, JSON)]
    words = f"{counts[0]} poisons in protobuf and {counts[1]} in JSON, each in a batch of {around} good records"
    history.notes.append(f"{words}: {history.poisoned} set aside with a reason, {len(given) - history.poisoned} kept")


def _can_say(poison: Poison, kind: str) -> bool:
    return poison.is_of_json if kind == JSON else poison.protobuf is not None


def _give(
    drill: Drill, history: History, good: list[tuple[bytes, LogRecord]], poison: Poison, kind: str, address: str
) -> str:
    """Send one batch with a poison in its middle; return what is wrong with what became of it, empty for nothing."""
    from events.models import Fact, Quarantine

    place, uid = history.environment, drill.chance.randbytes(16)
    aside = Quarantine.objects.filter(environment=place)
    newest = aside.order_by("-pk").values_list("pk", flat=True).first() or 0
    uids, records = [uid for uid, _ in good], [record for _, record in good]
    base = made("recovery.failure_classified", {names.UID: uid_of(uid), names.RUN: f"run {uid.hex()}"}, time.time_ns())
    middle = drill.chance.randrange(len(records))
    body = (_json if kind == JSON else _protobuf)(records, base, poison, middle)
    history.note_sent(uids)
    answer = _posted(address, drill.key_of(place), body, kind)
    history.note_try(answer.status)
    if answer.status != 200:
        return f"it was answered {answer.status}"
    history.note_acknowledged(uids, answer.took_s)
    reasons = list(aside.filter(pk__gt=newest).values_list("reason", flat=True))
    row = Fact.objects.filter(environment=place, uid=uid).first()
    if poison.is_kept is None:
        history.poisoned += 1
        if row is not None or answer.rejected != 1 or len(reasons) != 1:
            return f"{answer.rejected} were rejected, {len(reasons)} set aside, {'one' if row else 'none'} stored"
        return "" if re.search(poison.reason, reasons[0]) else f"it was set aside because it {reasons[0]}"
    history.note_sent([uid])
    history.note_acknowledged([uid], answer.took_s)
    if row is None or answer.rejected or reasons:
        return f"it was not stored: {reasons}"
    return "" if poison.is_kept(row) else f"it was stored as {_shown(row)}"


def _protobuf(records: list[LogRecord], base: LogRecord, poison: Poison, at: int) -> bytes:
    """A request of one instance, one of whose records need not be a record any more."""
    empty = ExportLogsServiceRequest.FromString(gzip.decompress(body_of([], "i-0")))
    parts = [record.SerializeToString() for record in records]
    parts.insert(at, base.SerializeToString() + (poison.protobuf or b""))
    scope = b"".join(framed(2, part) for part in parts)
    return framed(1, framed(1, empty.resource_logs[0].resource.SerializeToString()) + framed(2, scope))


def _json(records: list[LogRecord], base: LogRecord, poison: Poison, at: int) -> bytes:
    """The same in JSON, with whatever Python can write that is none: NaN, halves of surrogate pairs."""
    written = [_of_record(record) for record in records]
    poisoned = _of_record(base)
    poisoned["attributes"] += list(poison.pairs or ())
    written.insert(at, poisoned | dict(poison.members or {}))
    empty = ExportLogsServiceRequest.FromString(gzip.decompress(body_of([], "i-0")))
    request = MessageToDict(empty)
    request["resourceLogs"][0]["scopeLogs"] = [{"logRecords": written}]
    return json.dumps(request).encode()


def _of_record(record: LogRecord) -> dict[str, Any]:
    return dict(MessageToDict(record, use_integers_for_enums=True))


def _posted(address: str, key: str, body: bytes, kind: str) -> _Answer:
    began = time.monotonic()
    status, content = posted(address, key, gzip.compress(body, 1), content_type=kind)
    took_s = time.monotonic() - began
    if status != 200:
        return _Answer(status, 0, took_s)
    if kind == JSON:
        told = json.loads(content).get("partialSuccess", {})
        return _Answer(status, int(told.get("rejectedLogRecords", 0)), took_s)
    response = ExportLogsServiceResponse.FromString(content)
    return _Answer(status, response.partial_success.rejected_log_records, took_s)


def _shown(row: Any) -> str:
    kept = {name: str(value)[:40] for name, value in row.attributes.items()}
    return f"{row.event} of {row.operation[:20]!r}, {row.at_us}, {row.stated_us}, {kept}"
