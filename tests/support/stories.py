"""Tells the store a story: facts of instances at moments before a fixed now, through the store's own way in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

from django.db import transaction

from events.ingest.masking import cleaner_of
from events.ingest.records import read_records
from events.otlp.sent import Batch, Sent
from events.store.writes import store_facts
from recovery_ops.rules.enums import Category, Evidence, State, Trigger
from recovery_ops.rules.events import (
    BreakerStateChanged,
    CallsCounted,
    Event,
    FailureClassified,
    InstanceHeartbeat,
    Record,
)
from recovery_ops.wire import encode, names

NOW = datetime(2026, 11, 21, 14, 26, 18, tzinfo=UTC)

_A = names.ATTRIBUTES
_numbers = count(1)


def ago(seconds: float) -> datetime:
    """A moment before now."""
    return NOW - timedelta(seconds=seconds)


class Story:
    """Collects facts and stores them together; the moments of facts and receipts are seconds before `NOW`."""

    def __init__(self, environment: str = "dev") -> None:
        self.environment = environment
        self._told: list[tuple[int, Batch]] = []

    def tell(
        self,
        *facts: Event,
        at: float,
        instance: str = "a-1",
        service: str = "research",
        version: str = "",
        region: str = "",
        received: float | None = None,
        **record: Any,
    ) -> Story:
        """These facts happened so many seconds ago, and were received then or so many seconds ago. Their
        `sequence_number` is that of their telling unless it is given.
        """
        given_number = record.pop("sequence_number", 0)
        at_ns = int(ago(at).timestamp() * 1000) * 1_000_000
        told_of = {names.SERVICE_VERSION: version, names.ATTRIBUTES["region"]: region}
        said = {name: value for name, value in told_of.items() if value}
        batch = Batch({names.SERVICE_NAME: service, names.SERVICE_INSTANCE_ID: instance, **said}, "tests")
        for fact in facts:
            uid = next(_numbers)
            number = given_number or uid
            told = Record(event=fact, uid=str(UUID(int=uid)), sequence_number=number, at_ns=at_ns, **record)
            event = encode(told)
            batch.records.append(
                Sent(event.event_name, event.at_ns, 0, event.severity, event.body, event.attributes, "", "")
            )
        self._told.append((at_ns // 1000 if received is None else int(ago(received).timestamp() * 1e6), batch))
        return self

    def without(self, name: str) -> Story:
        """Nothing that was told so far says this of itself."""
        for _, batch in self._told:
            batch.records = [
                one._replace(attributes={key: value for key, value in one.attributes.items() if key != _A[name]})
                for one in batch.records
            ]
        return self

    def store(self) -> Story:
        """Store what was told so far."""
        rows = [row for received_us, batch in self._told for row in self._read(batch, received_us)]
        with transaction.atomic():
            store_facts(rows)
        self._told.clear()
        return self

    def _read(self, batch: Batch, received_us: int) -> Any:
        intake = read_records([batch], self.environment, received_us, cleaner=cleaner_of(self.environment))
        assert not intake.refused
        return intake.rows


def heartbeat(status: str = "running", **rest: Any) -> InstanceHeartbeat:
    """The instance lives."""
    given: dict[str, Any] = {
        "interval_s": 15.0,
        "uptime_s": 60.0,
        "revision": 0,
        "config_hash": "",
        "schema_version": 1,
    } | rest
    return InstanceHeartbeat(status=status, **given)


def moved(to: State, *, before: State = State.CLOSED, breaker: str = "search_web", **rest: Any) -> BreakerStateChanged:
    """A breaker moved; without more, because its failure rate was too high."""
    given: dict[str, Any] = {
        "trigger": Trigger.FAILURE_RATE,
        "calls": 20,
        "failures": 13,
        "failure_rate": 0.65,
        "threshold": 0.5,
    }
    given |= {"last_category": Category.OVERLOADED} | rest
    return BreakerStateChanged(operation=breaker, breaker=breaker, state=to, previous_state=before, **given)


def failed(category: Category = Category.OVERLOADED, operation: str = "search_web", **rest: Any) -> FailureClassified:
    """An attempt failed."""
    given: dict[str, Any] = {
        "evidence": Evidence.HTTP_STATUS,
        "retryable": True,
        "attempt": 1,
        "breaker": operation,
    } | rest
    return FailureClassified(operation=operation, category=category, **given)


def counted(calls: int, operation: str = "search_web", **rest: Any) -> CallsCounted:
    """Calls of the last ten seconds."""
    given: dict[str, Any] = {"interval_s": 10.0, "attempts": calls, "successes": calls, "breaker": operation} | rest
    return CallsCounted(operation=operation, calls=calls, **given)
