"""A laboratory whose facts are stored as an agent's would be: real rules, a pushed clock, a recording to replay."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import UUID

from django.db import transaction

from events.ingest.records import read_records
from events.otlp.sent import Batch, Sent
from events.store.writes import store_facts
from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.events import Event, Record
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.runtime.testing import HttpError, Lab, PushedClock, RecordedEvents
from recovery_ops.wire import encode, names

_numbers = count(10**9)


class Tape(RecordedEvents):
    """Keeps facts with the time at which they came."""

    def __init__(self, clock: PushedClock) -> None:
        super().__init__()
        self._clock = clock
        self.records: list[Record] = []

    def emit(
        self, fact: Event, source: str = "", is_foreground: bool = False, run: str = "", policy_version: str = ""
    ) -> None:
        number = next(_numbers)
        self.records.append(
            Record(
                event=fact,
                uid=str(UUID(int=number)),
                sequence_number=number,
                at_ns=self._clock.wall_ns(),
                source=source,
                is_foreground=is_foreground,
                run=run,
                policy_version=policy_version,
            )
        )


class Studio:
    """An agent `research/<instance>` that obeys a policy document, and what it did."""

    def __init__(self, document: dict[str, Any], *, instance: str = "r-0") -> None:
        self.lab = Lab(
            "research", desired=Desired(revision=1, policy=parse_policy(document)), chance=lambda: 0.5, reraise=False
        )
        self.tape = Tape(self.lab.clock)
        self.lab.recovery.use_sink(self.tape)
        self.instance = instance
        self.began_s = self.lab.clock.wall()

    def guard(self, name: str, outcomes: list[Any], *, takes_s: float = 0.05, **said: Any) -> Callable[[], Any]:
        """An operation that answers these, one an attempt, and then goes well."""
        left = iter(outcomes)

        def answer() -> str:
            self.lab.clock.push(takes_s)
            outcome: Any = next(left, "ok")
            if outcome == "ok":
                return "ok"
            raise outcome if isinstance(outcome, BaseException) else HttpError(outcome)

        return self.lab.recovery.guard(name, **({"idempotent": True} | said))(answer)

    def rest(self, seconds: float) -> None:
        """Let time pass; what was refused is told by the second."""
        self._tell_rejections()
        self.lab.clock.push(seconds)
        self.lab.recovery.sweep()

    def _tell_rejections(self) -> None:
        for fact in self.lab.recovery.rejections.taken(self.lab.clock.now()):
            self.tape.emit(fact)

    def store(self, environment: str = "dev") -> None:
        """Send what was taped, as far as it was not sent."""
        self.lab.recovery.sweep()
        self._tell_rejections()
        batch = Batch({names.SERVICE_NAME: "research", names.SERVICE_INSTANCE_ID: self.instance}, "tests")
        for record in self.tape.records:
            event = encode(record)
            batch.records.append(
                Sent(event.event_name, event.at_ns, 0, event.severity, event.body, event.attributes, "", "")
            )
        self.tape.records = []
        intake = read_records([batch], environment, int(self.lab.clock.wall() * 1e6) + 10**9)
        assert not intake.refused
        with transaction.atomic():
            store_facts(intake.rows)
