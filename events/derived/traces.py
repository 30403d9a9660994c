"""Tells each error of a trace once, however its spans were spread over requests, processes and restarts.

What has to be remembered of spans is kept for a day in a table, in the transaction that stores their facts. A trace
in which nothing fails leaves no row. Of an error that turns out to be only passed on, because the span that it came
from was sent later, the fact stays, as a record of plain kind, and is no failure any more; sums follow. An error that
was passed on as far as was known when it came is no fact; it is kept beside its mark, and may become a failure later.
"""

# ruff: noqa: S608  (only names of our own columns are put together; every value is a parameter)

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID
from zlib import crc32

import orjson
from django.db import connection, transaction

from events.derived import open_parents, trace_corrections
from events.derived.facts import exception_of, key_of_failure
from events.derived.marks import LOGGED, Error, Mark, Marks, Place, Says, joined, told
from events.derived.open_parents import SpanOf
from events.derived.readings import EXCEPTION_TYPES, class_name_of, text_of
from events.ingest.records import LOG, NOT_OURS, AgentName, Intake, Row
from events.models import SpanMark
from events.projections.corrections import Corrections
from events.store import statements
from recovery_ops.rules.events import FailureClassified
from recovery_ops.wire import names
from recovery_ops.wire import otel_names as foreign

MARKS_MOST = 2_000
"""So many spans of one trace are remembered; of more, errors in the others are told each by itself."""
ERRORS_MOST = 256
"""So many errors of one span are remembered before each that is logged in it is told: a span may last a day."""
PASSED_ON = "exception"
"""The event name of an error that was passed on, as a record of plain kind."""
_FAILED = names.EVENTS[FailureClassified].name
_SECOND_US = 1_000_000
_KEPT = tuple(
    "attributes_json" if name == "attributes" else name
    for name in statements.FACT_COLUMNS
    if name not in ("environment", "uid", "agent_id")
)
"""What is kept of a failure that is none so far, behind whose it is and its uid."""
_CHUNK = 200
LOCKS = 256
"""Eight processes that hold all of them take a third of what PostgreSQL has room for as it is delivered."""
_LOCK = (
    "SELECT CASE WHEN alone THEN pg_advisory_xact_lock({ours}, lock)::text"
    " ELSE pg_advisory_xact_lock_shared({ours}, lock)::text END"
    " FROM unnest(%s::int[], %s::boolean[]) AS wanted(lock, alone)"
).format(ours=crc32(b"recovery-ops: traces") % 2**31)


class Trace(NamedTuple):
    """A trace in an environment."""

    environment: str
    trace_id: str


@dataclass(slots=True)
class _Known:
    """What is remembered of a trace, and what was told of it: uids, and when their facts happened."""

    marks: Marks = field(default_factory=dict)
    at_us: dict[bytes, int] = field(default_factory=dict)
    told: set[bytes] = field(default_factory=set)
    seen_us: int = 0


@dataclass(frozen=True, slots=True)
class _Arrived:
    """What has just come of an environment, by uid: when its facts happened, those that are failures or would be, and
    of these those that are none as far as their requests know.

    Of one environment, because the same spans may come of several and have the same uids there.
    """

    at_us: Mapping[bytes, int]
    events: Mapping[bytes, Row]
    failures: Mapping[bytes, Row]
    held: Mapping[bytes, Row]
    received_us: int

    def stored_of(self, row: Row) -> Row:
        """Of events with one uid the one that is stored: what a span says rather than what was logged in it."""
        if row.event == _FAILED:
            return self.failures.get(row.uid, row)
        return self.events.get(row.uid, row) if row.event == trace_corrections.COUNTED else row


def settle(intakes: Sequence[Intake]) -> tuple[list[Row], Corrections]:
    """The rows of these requests that are to be stored, and what changes in folded tables for what was told too early.

    Remembers the spans. In the caller's transaction; a few statements where spans came, none where none did.
    """
    rows = [row for intake in intakes for row in intake.rows]
    corrections = Corrections()
    coming, logged = _by_trace(intakes), _logged_by_trace(intakes)
    if not coming and not logged:
        return rows, corrections
    troubled = {
        trace for trace, marks in coming.items() if any(mark.is_trouble or mark.says for mark in marks.values())
    }
    troubled |= logged.keys()
    open_ = {trace for trace, marks in coming.items() if not all(mark.went_well for mark in marks.values())}
    known = _known(coming.keys() | troubled, troubled, open_)
    troubled |= known.keys()
    _add_links(intakes, troubled, coming)
    _recall_children({trace: marks for trace, marks in coming.items() if trace in troubled})
    numbered = {trace: _numbered(theirs, known.get(trace, _Known()).marks) for trace, theirs in logged.items()}
    arrived = {name: _arrived(name, intakes) for name in {intake.environment for intake in intakes}}
    silent: set[tuple[str, bytes]] = set()
    ends_ns: dict[SpanOf, int] = {}
    remembered: list[SpanMark] = []
    for trace in sorted(troubled):
        before, here = known.get(trace, _Known()), arrived[trace.environment]
        said = joined([coming.get(trace, {}), numbered.get(trace, {})])
        now, passed_on, found = _decide(trace, before, said, here, corrections, ends_ns, remembered)
        silent |= {(trace.environment, uid) for uid in passed_on}
        rows += [here.held[uid] for uid in sorted(now & here.held.keys() - before.told)] + found
    _store(remembered)
    for trace in coming.keys() - troubled:
        theirs = coming[trace].items()
        ends_ns |= {SpanOf(trace.environment, *place): one.whole_ns for place, one in theirs if not one.went_well}
    open_parents.remember(ends_ns, max(here.received_us for here in arrived.values()))
    told = [row for row in rows if row.event != _FAILED or (row.environment, row.uid) not in silent]
    return [row for row in told if arrived[row.environment].stored_of(row) is row], corrections


def _arrived(environment: str, intakes: Iterable[Intake]) -> _Arrived:
    theirs = [intake for intake in intakes if intake.environment == environment]
    rows = [row for intake in theirs for row in intake.rows]
    held = {row.uid: row for intake in theirs for row in intake.held}
    return _Arrived(
        {row.uid: row.at_us for row in (*rows, *held.values())},
        trace_corrections.rows_of(rows),
        held | _failures_of(rows),
        held,
        max(intake.received_us for intake in theirs),
    )


def _failures_of(rows: Iterable[Row]) -> dict[bytes, Row]:
    found: dict[bytes, Row] = {}
    for row in rows:
        if row.event == _FAILED and (row.uid not in found or not trace_corrections.is_from_log(row)):
            found[row.uid] = row
    return found


def _add_links(intakes: Iterable[Intake], troubled: Container[Trace], coming: dict[Trace, Marks]) -> None:
    """Add whose children the spans are that tell nothing, in traces with something remembered (docs/decisions/0009)."""
    for intake in intakes:
        for place, link in intake.links.items():
            if (trace := Trace(intake.environment, place.trace_id)) in troubled:
                coming.setdefault(trace, {}).setdefault(place, Mark()).link(*link)


def _recall_children(coming: Mapping[Trace, Marks]) -> None:
    """Add to what is said of spans that failed which child of theirs went well before anything of the trace failed."""
    failed = {
        SpanOf(trace.environment, *place): mark
        for trace, marks in coming.items()
        for place, mark in marks.items()
        if mark.is_failed
    }
    for span, whole_ns in open_parents.recall(failed).items():
        failed[span].whole_ns = max(failed[span].whole_ns, whole_ns)


def _decide(
    trace: Trace,
    before: _Known,
    said: Marks,
    arrived: _Arrived,
    corrections: Corrections,
    ends_ns: dict[SpanOf, int],
    remembered: list[SpanMark],
) -> tuple[set[bytes], set[bytes], list[Row]]:
    """Which errors of a trace are failures and which are passed on; and failures of before that are no facts yet.

    Adds to `ends_ns` which child went well of spans that there is no room for; their errors are told. Adds to
    `remembered` what is to be stored of its spans.
    """
    marks = joined([before.marks, said])
    news = sorted(said.keys() - before.marks.keys())
    room = max(0, MARKS_MOST - len(before.marks))
    beyond = {place: marks[place] for place in news[room:]}
    ends_ns |= {SpanOf(trace.environment, *place): mark.whole_ns for place, mark in beyond.items() if mark.whole_ns}
    every = {uid for mark in marks.values() for uid in mark.errors}
    now = told(marks) | {uid for mark in beyond.values() for uid in mark.errors}
    at_us = {uid: before.at_us[uid] if uid in before.at_us else arrived.at_us.get(uid, 0) for uid in every}
    again = (now & before.at_us.keys()) - before.told
    # What is new and no failure may have been told as one by a logged exception, which has the same key.
    no_more = (before.told | (every - before.at_us.keys())) - now
    altered = again | no_more
    unmet = {
        uid
        for uid in sorted(altered)
        if not _let_be(trace.environment, uid, at_us[uid], _FAILED if uid in again else LOG, corrections)
    }
    unmet &= again - arrived.failures.keys()
    found = _passed_on(trace, {place for place, mark in marks.items() if mark.errors.keys() & unmet}, unmet)
    held = {**arrived.events, **arrived.failures, **{row.uid: row for row in found}}

    def passing(places: Sequence[Place]) -> list[Row]:
        return _own_rows(trace, places, marks, held, at_us)

    trace_corrections.Trace(
        trace.environment, marks, now, at_us, {*said}, before.at_us, before.marks, held, passing, corrections
    ).settle()
    if said:
        touched = {place for place, mark in before.marks.items() if place in said or mark.errors.keys() & altered}
        kept = {place: marks[place] for place in (*news[:room], *sorted(touched))}
        # What is a failure and is nowhere is not remembered as told: it will be once it is sent again.
        is_told = now - (unmet - {row.uid for row in found})
        remembered += _remember(trace, kept, at_us, is_told, arrived, max(arrived.received_us, before.seen_us))
    return now, every - now, found


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
        error_type, told_as = text_of(row.attributes, EXCEPTION_TYPES), exception_of(row.attributes)
        at_ns = (row.at_us if row.stated_us is None else row.stated_us) * 1000
        mark.errors[row.uid] = Error(row.uid, error_type, False, told_as, LOGGED, at_ns)
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


def decide_alone(intakes: Sequence[Intake]) -> None:
    """Let nobody else decide about the traces of these until the transaction ends.

    For who settles them one after the other: what is stored of the first keeps others waiting, who may have what the
    second waits for.
    """
    if connection.vendor == "postgresql":
        traces = _by_trace(intakes).keys() | _logged_by_trace(intakes).keys()
        _lock(dict.fromkeys(traces, True))


class _KnownMeanwhile(Exception):
    """Traces in which nothing seemed to fail are remembered as others."""

    def __init__(self, traces: AbstractSet[Trace]) -> None:
        super().__init__()
        self.traces = traces


def _known(traces: AbstractSet[Trace], troubled: AbstractSet[Trace], open_: AbstractSet[Trace]) -> dict[Trace, _Known]:
    """What is remembered of these. It changes no more until the transaction ends, but by us.

    Of traces that are not `open_`, nothing is to be remembered, unless something is already.
    """
    if connection.vendor != "postgresql":
        return _read(traces)
    if others := traces - troubled - open_:
        troubled = troubled | _read(others).keys()
    while wanted := troubled | open_:
        try:
            with transaction.atomic():  # if left by an error, it gives the locks back
                _lock({trace: trace in troubled for trace in wanted})
                found = _read(wanted)
                if more := found.keys() - troubled:
                    raise _KnownMeanwhile(more)
                return found
        except _KnownMeanwhile as meanwhile:
            troubled = troubled | meanwhile.traces
    return {}


def _lock(traces: Mapping[Trace, bool]) -> None:
    """One process at a time decides about a trace; several may say of one that nothing fails in it: False.

    In order, against deadlocks. A lock is for many traces: PostgreSQL keeps a line of each, and has room for thousands.
    """
    wanted: dict[int, bool] = {}
    for trace, is_alone in traces.items():
        lock = crc32("/".join(trace).encode(errors="replace")) % LOCKS
        wanted[lock] = wanted.get(lock, False) or is_alone
    ordered = sorted(wanted)
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [ordered, [wanted[lock] for lock in ordered]])


def _read(traces: Iterable[Trace]) -> dict[Trace, _Known]:
    """What is remembered of these."""
    found: dict[Trace, _Known] = {}
    by_environment: dict[str, list[str]] = {}
    for trace in traces:
        by_environment.setdefault(trace.environment, []).append(trace.trace_id)
    columns = ("seen_us", "parent_id", "ended_ns", "is_failed", "error_type", "whole_ns", "says", "errors")
    for environment, ids in by_environment.items():
        remaining = iter(sorted(ids))
        while chunk := list(islice(remaining, _CHUNK)):
            stored = SpanMark.objects.filter(environment=environment, trace_id__in=chunk)
            for trace_id, span_id, seen_us, *values, says, errors in stored.values_list(
                "trace_id", "span_id", *columns
            ):
                known = found.setdefault(Trace(environment, trace_id), _Known())
                known.seen_us = max(known.seen_us, seen_us)
                mark = known.marks[Place(trace_id, span_id)] = Mark(*values)
                mark.says = None if says is None else Says(*says)
                for uid_text, error_type, is_own, at_us, is_told, *told_as in errors:
                    uid = bytes.fromhex(uid_text)
                    if is_own is None:
                        mark.logged[uid] = bytes.fromhex(error_type)
                        continue
                    mark.errors[uid] = Error(uid, error_type, is_own, *told_as)
                    known.at_us[uid] = at_us
                    if is_told:
                        known.told.add(uid)
    return found


def _remember(
    trace: Trace,
    marks: Marks,
    at_us: Mapping[bytes, int],
    now: Container[bytes],
    arrived: _Arrived,
    seen_us: int,
) -> list[SpanMark]:
    """What is remembered of some spans of a trace, as rows."""
    rows = []
    for place, mark in marks.items():
        errors: list[tuple[Any, ...]] = [
            (
                uid.hex(),
                error.error_type,
                error.is_own,
                at_us[uid],
                uid in now,
                error.exception,
                error.teller,
                error.at_ns,
            )
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
                says=mark.says,
                errors=errors,
                passed_on=_silent_of(mark, now, arrived.failures),
                seen_us=seen_us,
            )
        )
    return rows


def _store(rows: Sequence[SpanMark]) -> None:
    """Write what is remembered of spans, by as few statements for all traces as it takes."""
    columns = ["parent_id", "ended_ns", "is_failed", "error_type", "whole_ns", "says", "errors", "seen_us"]
    for those, news in (
        ([row for row in rows if row.passed_on is None], []),  # what is kept of before stays
        ([row for row in rows if row.passed_on is not None], ["passed_on"]),
    ):
        SpanMark.objects.bulk_create(
            those,
            update_conflicts=True,
            unique_fields=["environment", "trace_id", "span_id"],
            update_fields=[*columns, *news],
        )


# -- what only passes an error on --------------------------------------------------------------------------------------


def _silent_of(mark: Mark, now: Container[bytes], failures: Mapping[bytes, Row]) -> list[Any] | None:
    """What the span's own error would be as a failure, if that has come and is none.

    Of the errors that it dealt with nothing is kept: the child that told of one is not taken back.
    """
    for uid, error in mark.errors.items():
        if error.is_own and uid not in now and (row := failures.get(uid)) is not None:
            return [row.agent.service, row.agent.instance, row.uid.hex(), *(getattr(row, name) for name in _KEPT)]
    return None


def _passed_on(trace: Trace, places: Iterable[Place], uids: Container[bytes]) -> list[Row]:
    """Those of these failures that are kept beside the marks of these spans, as they came."""
    if not (ids := sorted(place.span_id for place in places)):
        return []
    found = []
    marks = SpanMark.objects.filter(environment=trace.environment, trace_id=trace.trace_id, passed_on__isnull=False)
    for chunk in (ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK)):
        kept: Iterable[Any] = marks.filter(span_id__in=chunk).values_list("passed_on", flat=True)
        for service, instance, uid_text, *values in kept:
            if (uid := bytes.fromhex(uid_text)) in uids:
                given = dict(zip(_KEPT, values, strict=True))
                agent = AgentName(trace.environment, service, instance)
                attributes = orjson.loads(given["attributes_json"])
                found.append(Row(trace.environment, uid, agent=agent, attributes=attributes, **given))
    return found


def _own_rows(
    trace: Trace, places: Sequence[Place], marks: Marks, arrived: Mapping[bytes, Row], at_us: Mapping[bytes, int]
) -> list[Row]:
    """What the own errors of these spans, which pass them on, would be as failures; those that are known, in order."""
    own = {place: next((uid for uid, error in marks[place].errors.items() if error.is_own), b"") for place in places}
    away = {place: uid for place, uid in own.items() if uid and uid not in arrived}
    kept = {row.uid: row for row in _passed_on(trace, away, {*away.values()})}
    for uid in away.values():
        if uid not in kept:
            stored = trace_corrections.read_stored(trace.environment, uid, at_us.get(uid, 0), LOG)
            if stored is not None:
                kept[uid] = stored[1]
    known = {**kept, **arrived}
    return [known[uid] for uid in own.values() if uid in known]


# -- what was told too early -------------------------------------------------------------------------------------------


def _let_be(environment: str, uid: bytes, at_us: int, event: str, corrections: Corrections) -> bool:
    """Change what kind of fact this is, if it is stored as the other one; add to `corrections` what that changes.

    Returns whether it was.
    """
    found = trace_corrections.read_stored(environment, uid, at_us, LOG if event == _FAILED else _FAILED)
    if found is None:
        return False
    fact_id, row = found
    corrections.add(row, -1)
    row.event = event
    if event == LOG:
        row.attributes[NOT_OURS] = PASSED_ON
    else:
        row.attributes.pop(NOT_OURS, None)
    corrections.add(row, 1)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE events_fact SET event = %s, attributes = %s WHERE id = %s AND at_us = %s",
            [event, orjson.dumps(row.attributes).decode(), fact_id, row.at_us],
        )
    return True
