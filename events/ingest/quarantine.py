"""What could not be read or stored: kept with its reason, within bounds, to be looked at, replayed or dropped.

A line is replayed by the same path that its request came by, at the time it was received then, so a fact has the same
key and moment as if it had been taken the first time.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from django.db import DataError, IntegrityError, transaction

from events.derived.traces import decide_alone, settle
from events.ingest import tallies
from events.ingest.cardinality import known_names
from events.ingest.masking import cleaner_of
from events.ingest.records import LOG, NOT_OURS, Intake, Row
from events.models import Quarantine
from events.otlp.reading import read_request
from events.otlp.refused import KEPT_EACH, PAYLOAD_BYTES, Refused
from events.otlp.request_masking import blot, blot_start
from events.otlp.rewriting import request_of
from events.otlp.sent import Encoding, Malformed, Sent, Signal
from events.store.writes import store_facts
from recovery_ops.wire import names

ROWS = 1000
"""What is kept of each environment: the newest."""
CONTENT_CHARS = 4096
REASON_CHARS = 200

FAULTS_OF_DATA = (DataError, IntegrityError, ValueError, OverflowError)
"""What a database or its driver raises for a value that it cannot hold. Everything else may be better in a second."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of lines: `stored` facts that are new, `settled` lines that are gone, `left` ones that stay."""

    stored: int
    settled: int
    left: int


def set_aside(intakes: Sequence[Intake]) -> None:
    """Keep what was refused, masked, and let go of what is too old. In the caller's transaction."""
    lines = [line for intake in intakes for line in lines_of(intake)]
    if not lines:
        return
    Quarantine.objects.bulk_create(lines)
    counts: Counter[tuple[str, str]] = Counter()
    for intake in intakes:
        counts[intake.environment, tallies.SET_ASIDE] += len(intake.refused)
        counts[intake.environment, tallies.LET_GO] += max(0, len(intake.refused) - KEPT_EACH)
    for environment in {line.environment for line in lines}:
        mine = Quarantine.objects.filter(environment=environment)
        surplus = mine.order_by("-id").values_list("id", flat=True)[ROWS : ROWS + 1]
        counts[environment, tallies.LET_GO] += mine.filter(id__lte=next(iter(surplus), 0)).delete()[0]
    tallies.add(counts, max(intake.received_us for intake in intakes))


def lines_of(intake: Intake) -> Sequence[Quarantine]:
    """What is to be kept of a request, masked, which takes up to half a second: what `prepare` has made of it, and what
    was refused since.
    """
    made = intake.lines
    return [*made, *(_line(intake, refused) for refused in intake.refused[len(made) : KEPT_EACH])]


def prepare(intake: Intake) -> Intake:
    """Make the lines of what is refused, before the one writer that all others wait for has to."""
    intake.lines = lines_of(intake)
    return intake


def _line(intake: Intake, refused: Refused) -> Quarantine:
    is_whole = refused.is_whole and len(refused.content) <= PAYLOAD_BYTES
    encoding = refused.encoding or intake.encoding or Encoding.JSON
    payload = blot(refused.content, encoding, intake.cleaner) if is_whole else b""
    shown = (
        payload[:CONTENT_CHARS] if is_whole else blot_start(refused.content, encoding, CONTENT_CHARS, intake.cleaner)
    )
    return Quarantine(
        environment=intake.environment,
        received_us=intake.received_us,
        key_prefix=intake.key_prefix,
        reason=intake.cleaner.text(refused.reason, REASON_CHARS),
        size_bytes=max(refused.size_bytes, len(refused.content)),
        content=intake.cleaner.text(shown.decode(errors="backslashreplace"), CONTENT_CHARS),
        signal=intake.signal.value,
        encoding=encoding.value if is_whole else "",
        payload=payload,
    )


def replay(lines: Iterable[Quarantine], *, now_us: int) -> Settled:
    """Take these lines in once more. In the caller's transaction, which is left usable whatever the database says."""
    read = [(line, _read(line)) for line in lines]
    whole = [(line, found) for line, found in read if isinstance(found, Intake)]
    try:
        faults: dict[int, str] = {}
        stored = _stored([found for _, found in whole])
    except FAULTS_OF_DATA:
        stored, faults = _stored_apart(whole)
    counts: Counter[tuple[str, str]] = Counter()
    for line, found in read:
        fault = found if isinstance(found, str) else faults.get(line.pk)
        if fault is None:
            counts[line.environment, tallies.REPLAYED] += 1
            line.delete()
        else:
            line.reason = cleaner_of(line.environment).text(fault, REASON_CHARS)
            line.tries += 1
            line.save(update_fields=["reason", "tries"])
    tallies.add(counts, now_us)
    settled = sum(counts.values())
    return Settled(stored, settled, len(read) - settled)


def drop(lines: Collection[Quarantine], *, now_us: int) -> Settled:
    """Forget these lines for good. In the caller's transaction."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in lines:
        line.delete()
        counts[line.environment, tallies.DROPPED] += 1
    tallies.add(counts, now_us)
    return Settled(0, len(lines), 0)


def _read(line: Quarantine) -> Intake | str:
    """What a line says now, or why it still cannot be read."""
    if not line.encoding:
        return line.reason
    try:
        intake = read_request(
            Signal(line.signal),
            Encoding(line.encoding),
            bytes(line.payload),
            environment=line.environment,
            received_us=line.received_us,
            key_prefix=line.key_prefix,
        )
    except Malformed as fault:
        return fault.reason
    return intake.refused[0].reason if intake.refused else intake


def _stored(intakes: Sequence[Intake]) -> int:
    """Store what these say or none of it, by the way that arriving requests go; return how many facts are new."""
    try:
        with transaction.atomic():
            known_names.bound([row for intake in intakes for row in (*intake.rows, *intake.held)])
            return store_facts(*settle(intakes)) if intakes else 0
    except FAULTS_OF_DATA:
        known_names.forget()
        raise


def _stored_apart(read: Sequence[tuple[Quarantine, Intake]]) -> tuple[int, dict[int, str]]:
    """Store each line by itself; return how many facts are new, and what is wrong with which line."""
    stored, faults = 0, {}
    decide_alone([intake for _, intake in read])
    for line, intake in read:
        try:
            stored += _stored([intake])
        except FAULTS_OF_DATA as error:
            faults[line.pk] = f"cannot be stored: {error}"
    return stored, faults


def request_of_row(row: Row) -> bytes:
    """A request that gives this row again, under the same key."""
    ours = names.ATTRIBUTES
    columns = {
        names.UID: str(uuid.UUID(bytes=row.uid)),
        names.SEQUENCE_NUMBER: row.sequence_number,
        names.OPERATION: row.operation,
        ours["breaker"]: row.breaker,
        names.QUERY_SOURCE: row.source,
        names.IS_FOREGROUND: row.is_foreground,
        names.RUN: row.run,
        ours["category"]: row.category,
        ours["state"]: row.state,
        ours["provider"]: row.provider,
        ours["model"]: row.model,
        ours["region"]: row.region,
    }
    attributes = {
        **{name: value for name, value in columns.items() if value not in ("", 0, False, None)},
        **row.attributes,
    }
    event = str(attributes.pop(NOT_OURS, "")) if row.event == LOG else names.PREFIX + row.event
    at_us = row.at_us if row.stated_us is None else row.stated_us
    sent = Sent(event, at_us * 1000, 0, row.severity, row.body, attributes, row.trace_id, row.span_id)
    origin = {names.SERVICE_NAME: row.agent.service, names.SERVICE_INSTANCE_ID: row.agent.instance}
    described = {key: row.attributes[key] for key in (names.SERVICE_VERSION, names.GROUP) if key in row.attributes}
    return request_of(sent, origin | described, "")
