"""Brings what is stored of a trace to what all of its parts that are known say, whichever came first.

A failure gets the call, the run and the closest category that the spans around it know; calls get the failures in them.
What changes is written to the stored event, and folded tables follow by signed differences.
"""

# ruff: noqa: S608  (only names of our own columns are put together; every value is a parameter)

from __future__ import annotations

import copy
import uuid
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson
from django.db import connection

from events.derived.facts import key_of
from events.derived.marks import Mark, Marks, Place, passed_through, said_above, upwards
from events.derived.refining import refine
from events.ingest.cardinality import known_names
from events.ingest.records import LOG, NOT_OURS, AgentName, Row
from events.projections.corrections import Corrections
from events.store import statements
from events.store.writes import row_of
from recovery_ops.rules.events import CallsCounted, FailureClassified
from recovery_ops.wire import names

FAILED = names.EVENTS[FailureClassified].name
COUNTED = names.EVENTS[CallsCounted].name
_FAILURES, _ATTEMPTS, _SUCCESSES = (
    names.attribute_of(CallsCounted, name) for name in ("failures", "attempts", "successes")
)
_FROM_LOG = "log_record"
_SECOND_US = 1_000_000
_WRITTEN = (
    *("event", "operation", "breaker", "category", "provider", "model", "region", "run", "severity", "attributes"),
    "body",
)


@dataclass(slots=True)
class Trace:
    """What is known of a trace: its marks, which errors of it are failures, when each happened, and what came now.

    `known_uids` and `known_places`: errors and spans that came before, so that their events may be stored.
    `new`: events of this transaction that will be stored, by uid; `passing`: finds what an error that is passed on
    would be as a failure.
    """

    environment: str
    marks: Marks
    told: set[bytes]
    at_us: Mapping[bytes, int]
    touched: set[Place]
    known_uids: Container[bytes]
    known_places: Container[Place]
    new: Mapping[bytes, Row]
    passing: Callable[[Sequence[Place]], list[Row]]
    corrections: Corrections
    _calls: dict[Place, Place] = field(default_factory=dict)
    """Of each span, that of the nearest call around it, or itself."""
    _errors: dict[Place, list[bytes]] = field(default_factory=dict)
    """Of each call, the failures in it."""
    _stored: dict[bytes, tuple[int, Row, Row] | None] = field(default_factory=dict)

    def settle(self) -> None:
        """Refine every failure that something new is said of, and the calls that it was in."""
        self._find_calls()
        through = passed_through(self.marks)
        calls: set[Place] = set()
        for place, mark in self.marks.items():
            around = [*upwards(self.marks, place), *through.get(place, ())]
            if self.touched.isdisjoint(around):
                continue
            call = self._calls.get(place)
            if call is not None:
                calls.add(call)
                self._count_once(call)
            for uid, error in mark.errors.items():
                if uid in self.told:
                    self._refine(uid, place, through.get(place, []) if error.is_own else [])
        for call in calls:
            self._count(call)
        self._write()

    def _refine(self, uid: bytes, place: Place, passing: list[Place]) -> None:
        row = self._failure(uid)
        if row is None:
            return
        arrived = self.new.get(uid)
        if arrived is not None and arrived is not row and is_from_log(row) and not is_from_log(arrived):
            for name in ("operation", "category", "provider", "model", "run", "region", "body"):
                setattr(row, name, getattr(arrived, name))
            row.attributes = copy.deepcopy(arrived.attributes)
        if refine(row, self.passing(passing) if passing else (), said_above(self.marks, place)) and row is arrived:
            _finish(row)

    def _find_calls(self) -> None:
        for place, mark in self.marks.items():
            call = next((at for at in upwards(self.marks, place) if _operation(self.marks[at])), None)
            if call is not None:
                self._calls[place] = call
                self._errors.setdefault(call, []).extend(uid for uid in mark.errors if uid in self.told)

    def _count_once(self, call: Place) -> None:
        """Leave a framework's span around a vendor's uncounted where both are of one call."""
        _, *above = upwards(self.marks, call)
        outer = next((at for at in above if _operation(self.marks[at])), None)
        if outer is None or _operation(self.marks[outer]) != _operation(self.marks[call]):
            return
        row = self._counting(outer)
        if row is not None:
            row.event = LOG
            row.attributes[NOT_OURS] = f"{names.PREFIX}{COUNTED}"
            _finish(row)

    def _counting(self, call: Place) -> Row | None:
        """The event that counts a call."""
        ended_ns = self.marks[call].ended_ns
        uid = uuid.UUID(key_of("calls", "".join(call), at_ns=ended_ns)).bytes
        return self._row(uid, COUNTED, ended_ns // 1000, is_known=call in self.known_places)

    def _count(self, call: Place) -> None:
        """Have the event that counts a call say which failures were in it."""
        row = self._counting(call)
        if row is None or row.event != COUNTED:
            return
        rows = (self._failure(uid) for uid in self._errors.get(call, ()))
        failures = Counter(found.category for found in rows if found is not None)
        successes = row.attributes.get(_SUCCESSES, 0)
        row.attributes[_ATTEMPTS] = successes + sum(failures.values())
        row.attributes.pop(_FAILURES, None)
        if failures:
            row.attributes[_FAILURES] = dict(failures)
        _finish(row)

    def _failure(self, uid: bytes) -> Row | None:
        return self._row(uid, FAILED, self.at_us.get(uid, 0), is_known=uid in self.known_uids)

    def _row(self, uid: bytes, event: str, at_us: int, *, is_known: bool) -> Row | None:
        """The event as it is stored, or as it will be; changes of it are written. None where it is neither."""
        if uid not in self._stored:
            stored = read_stored(self.environment, uid, at_us, event) if is_known else None
            self._stored[uid] = None if stored is None else (*stored, copy.deepcopy(stored[1]))
        found = self._stored[uid]
        return self.new.get(uid) if found is None else found[1]

    def _write(self) -> None:
        changed = [found for found in self._stored.values() if found is not None and found[1] != found[2]]
        if not changed:
            return
        known_names.bound([row for _, row, _ in changed])
        for fact_id, row, before in changed:
            self.corrections.add(before, -1)
            self.corrections.add(row, 1)
            row.attributes_json = orjson.dumps(row.attributes).decode()
            values = [row.attributes_json if name == "attributes" else getattr(row, name) for name in _WRITTEN]
            columns = ", ".join(f'"{name}" = %s' for name in _WRITTEN)
            with connection.cursor() as cursor:
                cursor.execute(
                    f"UPDATE events_fact SET {columns} WHERE id = %s AND at_us = %s", [*values, fact_id, row.at_us]
                )


def _operation(mark: Mark) -> str:
    return "" if mark.says is None else mark.says.operation


def is_from_log(row: Row) -> bool:
    """Whether a failure is known from a logged exception alone."""
    return row.attributes.get(names.DERIVED_FROM) == _FROM_LOG


def _finish(row: Row) -> None:
    row.attributes_json = orjson.dumps(row.attributes).decode()


def read_stored(environment: str, uid: bytes, at_us: int, event: str) -> tuple[int, Row] | None:
    """A stored event and its number; None where it is not stored. It happened within the second of `at_us`."""
    second_us = at_us - at_us % _SECOND_US
    columns = ", ".join(f'f."{column}"' for column in statements.FACT_COLUMNS)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT f.id, a.service, a.instance, {columns} FROM events_fact f JOIN events_agent a ON a.id = f.agent_id"
            " WHERE f.environment = %s AND f.event = %s AND f.at_us >= %s AND f.at_us < %s AND f.uid = %s",
            [environment, event, second_us, second_us + _SECOND_US, uid],
        )
        found = cursor.fetchone()
    if found is None:
        return None
    fact_id, service, instance, *stored = found
    return fact_id, row_of(stored, AgentName(environment, service, instance))


def rows_of(rows: Iterable[Row]) -> dict[bytes, Row]:
    """The failures and counted calls among these, by uid."""
    return {row.uid: row for row in rows if row.event in (FAILED, COUNTED)}
