"""Tells each error of a trace once, however its spans were spread over requests, processes and restarts.

What has to be remembered of spans is kept for a day in a table, in the transaction that stores their facts. A trace
in which nothing fails leaves no row. Of an error that turns out to be only passed on, because the span that it came
from was sent later, the fact stays, as a record of plain kind, and is no failure any more; sums follow.
"""

# ruff: noqa: S608  (only names of our own columns are put together; every value is a parameter)

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple
from uuid import UUID

import orjson
from django.db import connection

from events import statements
from events.derived.facts import key_of_failure
from events.derived.marks import Error, Mark, Marks, Place, joined, told
from events.derived.readings import EXCEPTION_TYPES, class_name_of, text_of
from events.fold import fold
from events.models import SpanMark
from events.records import LOG, NOT_OURS, AgentName, Intake, Row
from events.store import row_of
from events.summing import Sums
from recovery_ops.rules.facts import FailureClassified
from recovery_ops.wire import foreign, names

MARKS_MOST = 2_000
"""So many spans of one trace are remembered; of more, errors in the others are told each by itself."""
ERRORS_MOST = 256
"""So many errors of one span are remembered before each that is logged in it is told: a span may last a day."""
PASSED_ON = "exception"
"""The event name of an error that was passed on, as a record of plain kind."""
_FAILED = names.EVENTS[FailureClassified].name
_SECOND_US = 1_000_000
_CHUNK = 200


class Trace(NamedTuple):
    """A trace in an environment."""

    environment: str
    trace_id: str


@dataclass(frozen=True, slots=True)
class _Known:
    """What is remembered of a trace, and what was told of it: uids, and when their facts happened."""

    marks: Marks
    at_us: dict[bytes, int]
    told: set[bytes]


def settle(intakes: Sequence[Intake]) -> tuple[list[Row], Sums]:
    """The rows of these requests that are to be stored, and what is to be added to sums for what was told too early.

    Remembers the spans. In the caller's transaction; one statement where no span failed, none where no span came.
    """
    rows = [row for intake in intakes for row in intake.rows]
    corrections: Sums = {}
    coming, logged = _by_trace(intakes), _logged_by_trace(intakes)
    if not coming and not logged:
        return rows, corrections
    troubled = {trace for trace, marks in coming.items() if any(mark.is_trouble for mark in marks.values())}
    troubled |= logged.keys()
    _lock(troubled)
    known = _read(coming.keys() | logged.keys())
    numbered = {
        trace: _numbered(theirs, known[trace].marks if trace in known else {}) for trace, theirs in logged.items()
    }
    held = {row.uid: row for intake in intakes for row in intake.held}
    moments = {row.uid: row.at_us for row in (*rows, *held.values())}
    received_us = max(intake.received_us for intake in intakes)
    silent: set[bytes] = set()
    for trace in sorted(troubled | known.keys()):
        before = known.get(trace, _Known({}, {}, set()))
        said = joined([coming.get(trace, {}), numbered.get(trace, {})])
        marks = joined([before.marks, said])
        every, now = {uid for mark in marks.values() for uid in mark.errors}, told(marks)
        at_us = {uid: before.at_us[uid] if uid in before.at_us else moments.get(uid, 0) for uid in every}
        silent |= every - now
        rows += [held[uid] for uid in sorted(now & held.keys() - before.told)]
        again = (now & before.at_us.keys()) - before.told
        # What is new and no failure may have been told as one by a logged exception, which has the same key.
        no_more = (before.told | (every - before.at_us.keys())) - now
        for uid in sorted(again | no_more):
            _let_be(trace.environment, uid, at_us[uid], _FAILED if uid in again else LOG, corrections)
        if said:
            altered = again | no_more
            touched = {place for place, mark in marks.items() if place in said or mark.errors.keys() & altered}
            room = MARKS_MOST - len(before.marks)
            news = sorted(touched - before.marks.keys())[: max(0, room)]
            kept = {place: marks[place] for place in (*news, *(touched & before.marks.keys()))}
            _remember(trace, kept, at_us, now, received_us)
    return [row for row in rows if row.uid not in silent or row.event != _FAILED], corrections


def _by_trace(intakes: Iterable[Intake]) -> dict[Trace, Marks]:
    found: dict[Trace, Marks] = {}
    for intake in intakes:
        for place, mark in intake.marks.items():
            found.setdefault(Trace(intake.environment, place.trace_id), {}).setdefault(place, Mark()).join(mark)
    return found


def _logged_by_trace(intakes: Iterable[Intake]) -> dict[Trace, list[tuple[Row, bytes]]]:
    found: dict[Trace, list[tuple[Row, bytes]]] = {}
    for intake in intakes:
        kept = {id(row) for row in intake.rows} if intake.logged else ()
        for row, first in intake.logged:
            if id(row) in kept:
                found.setdefault(Trace(row.environment, row.trace_id), []).append((row, first))
    return found


def _numbered(logged: Iterable[tuple[Row, bytes]], before: Marks) -> Marks:
    """What these exceptions are to be remembered as; their rows get the uids of the errors that they are.

    Whoever logs an exception and goes on has dealt with it, as a span has that has it as an event. Of equal ones of one
    second each that comes has the next number, as events of a span have: so the first is the first of these, if the
    span tells of it. One that is sent again has the number that it had. Those of a span in which too much was logged
    keep the uids that they were made with, and each is told.
    """
    found: Marks = {}
    last: dict[tuple[Place, str, int], int] = {}
    for row, first in logged:
        place = Place(row.trace_id, row.span_id)
        known, mark = before.get(place) or Mark(), found.setdefault(place, Mark())
        uid = known.logged.get(first) or mark.logged.get(first)
        is_full = len(before) >= MARKS_MOST if place not in before else len(known.errors) >= ERRORS_MOST
        if uid is None and (is_full or len(mark.errors) >= ERRORS_MOST):
            row.uid = first
            continue
        row.uid = mark.logged[first] = uid or _next_of(row, place, {*known.logged.values()}, last)
        mark.errors[row.uid] = Error(row.uid, text_of(row.attributes, EXCEPTION_TYPES), is_own=False)
    return {place: mark for place, mark in found.items() if mark.errors}


def _next_of(row: Row, place: Place, given: Container[bytes], last: dict[tuple[Place, str, int], int]) -> bytes:
    """The uid of the first equal error of its second that no logged exception has; `last` are numbers given here."""
    at_us = row.at_us if row.stated_us is None else row.stated_us
    error_type = text_of(row.attributes, (foreign.ERROR_TYPE,))
    group = (place, class_name_of(error_type), at_us // _SECOND_US)
    while True:
        last[group] = last.get(group, 0) + 1
        uid = UUID(key_of_failure("".join(place), error_type, at_us * 1000, last[group])).bytes
        if uid not in given:
            return uid


def _lock(traces: Iterable[Trace]) -> None:
    """On PostgreSQL one process at a time decides about a trace; in order, against deadlocks."""
    if connection.vendor == "postgresql" and (keys := sorted("/".join(trace) for trace in traces)):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(one, 0)) FROM unnest(%s::text[]) one", [keys])


def _read(traces: Iterable[Trace]) -> dict[Trace, _Known]:
    """What is remembered of these."""
    found: dict[Trace, _Known] = {}
    by_environment: dict[str, list[str]] = {}
    for trace in traces:
        by_environment.setdefault(trace.environment, []).append(trace.trace_id)
    columns = ("trace_id", "span_id", "parent_id", "ended_ns", "is_failed", "error_type", "whole_ns", "errors")
    for environment, ids in by_environment.items():
        remaining = iter(sorted(ids))
        while chunk := list(islice(remaining, _CHUNK)):
            stored = SpanMark.objects.filter(environment=environment, trace_id__in=chunk)
            for trace_id, span_id, *values, errors in stored.values_list(*columns):
                known = found.setdefault(Trace(environment, trace_id), _Known({}, {}, set()))
                mark = known.marks[Place(trace_id, span_id)] = Mark(*values)
                for uid_text, error_type, is_own, at_us, is_told in errors:
                    uid = bytes.fromhex(uid_text)
                    if is_own is None:
                        mark.logged[uid] = bytes.fromhex(error_type)
                        continue
                    mark.errors[uid] = Error(uid, error_type, is_own)
                    known.at_us[uid] = at_us
                    if is_told:
                        known.told.add(uid)
    return found


def _remember(trace: Trace, marks: Marks, at_us: Mapping[bytes, int], now: set[bytes], received_us: int) -> None:
    """Write what is remembered of some spans of a trace."""
    rows = []
    for place, mark in marks.items():
        errors: list[tuple[str, str, bool | None, int, bool]] = [
            (uid.hex(), error.error_type, error.is_own, at_us[uid], uid in now)
            for uid, error in sorted(mark.errors.items())
        ]
        # A server of before takes these for errors of which there is no fact, and lets them be.
        errors += [(first.hex(), uid.hex(), None, 0, False) for first, uid in sorted(mark.logged.items())]
        rows.append(
            SpanMark(
                environment=trace.environment,
                trace_id=trace.trace_id,
                span_id=place.span_id,
                parent_id=mark.parent_id,
                ended_ns=mark.ended_ns,
                is_failed=mark.is_failed,
                error_type=mark.error_type,
                whole_ns=mark.whole_ns,
                errors=errors,
                seen_us=received_us,
            )
        )
    SpanMark.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["environment", "trace_id", "span_id"],
        update_fields=["parent_id", "ended_ns", "is_failed", "error_type", "whole_ns", "errors", "seen_us"],
    )


# -- what was told too early -------------------------------------------------------------------------------------------


def _let_be(environment: str, uid: bytes, at_us: int, event: str, corrections: Sums) -> None:
    """Change what kind of fact this is, if it is stored as the other one; add to `corrections` what changes in sums."""
    other = LOG if event == _FAILED else _FAILED
    second_us = at_us - at_us % _SECOND_US
    columns = ", ".join(f'f."{column}"' for column in statements.FACT_COLUMNS)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT f.id, a.service, a.instance, {columns} FROM events_fact f JOIN events_agent a ON a.id = f.agent_id"
            " WHERE f.environment = %s AND f.event = %s AND f.at_us >= %s AND f.at_us < %s AND f.uid = %s",
            [environment, other, second_us, second_us + _SECOND_US, uid],
        )
        found = cursor.fetchone()
        if found is None:
            return
        fact_id, service, instance, *stored = found
        row = row_of(stored, AgentName(environment, service, instance))
        _add(corrections, fold([row]).sums, -1)
        row.event = event
        if event == LOG:
            row.attributes[NOT_OURS] = PASSED_ON
        else:
            row.attributes.pop(NOT_OURS, None)
        _add(corrections, fold([row]).sums, 1)
        cursor.execute(
            "UPDATE events_fact SET event = %s, attributes = %s WHERE id = %s AND at_us = %s",
            [event, orjson.dumps(row.attributes).decode(), fact_id, row.at_us],
        )


def _add(sums: Sums, others: Sums, times: int) -> None:
    for name, counters in others.items():
        known = sums.get(name) or [0] * len(counters)
        sums[name] = [one + times * other for one, other in zip(known, counters, strict=True)]
