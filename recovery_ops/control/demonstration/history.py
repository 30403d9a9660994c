"""The demonstration's generated history: an hour before its first start, stored as if agents had sent it.

Users answer its questions on a clock of the past, by the services that act every day: clocks and audit log are as they
would have been.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Any
from uuid import UUID

from django.db import transaction

from events.capacity.detection import look_back
from events.capacity.following import follow_runs
from events.capacity.reach import read_reach
from events.ingest.records import Row, read_records
from events.models import Agent
from events.moments import from_us, to_us
from events.otlp.sent import Batch, Sent
from events.store.writes import store_facts
from recovery_ops.control.core.actors import Actor, system_actor
from recovery_ops.control.core.permissions import Grants
from recovery_ops.control.dashboard.services import annotate
from recovery_ops.control.demonstration.models import Demonstration
from recovery_ops.control.demonstration.simulation import HOUR_S, Recorded, simulated
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.seed import hold, let_go
from recovery_ops.control.escalations.services.actions import respond
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import ASKED, open_escalations
from recovery_ops.rules.events import Record
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.roles import Role
from recovery_ops.wire import encode

GROUP_ROWS = 500
"""Events stored in one transaction: agents and users wait for no more."""
_OPENED_AFTER = timedelta(seconds=3)
_PEOPLE = ("ana", "bob", "chen")
_TAKEN_S, _DECIDED_S = (20.0, 200.0), (60.0, 300.0)


def generate_history(environment: str, now: datetime) -> int:
    """Store the history up to `now`; return the number of events, 0 where the environment has a past already."""
    if Demonstration.objects.filter(environment=environment).exists():
        return 0
    if Agent.objects.filter(environment=environment).exists():
        return 0
    now = now.replace(second=0, microsecond=0)  # sums of minutes are of either side of it
    start = now - timedelta(seconds=HOUR_S)
    # First, so that alerts and reports leave out the first of its events, too.
    Demonstration.objects.create(environment=environment, history_start=start, history_end=now)
    annotate(
        by=system_actor("demonstration"),
        environment=environment,
        reason="Set-up of the demonstration.",
        text="Generated history",
        at=start,
        until=now,
    )
    rows = list(_rows(environment, start))
    people = _People(environment)
    try:
        for group in _groups(rows):
            hold(environment, now)
            people.act_until(from_us(group[0].at_us))
            with transaction.atomic():
                store_facts(group)
            if group[-1].event == ASKED:
                people.open(from_us(group[-1].at_us) + _OPENED_AFTER)
        people.act_until(now)
        look_back(environment, now)
        read_reach(environment, now)
        follow_runs(environment, now)
    finally:
        let_go(environment)
    return len(rows)


def _rows(environment: str, start: datetime) -> Iterator[Row]:
    """Every event of the simulation, encoded and read as if an agent had sent it."""
    start_us = to_us(start)
    policy = parse_policy(live_policy(environment).document)
    for number, one in enumerate(simulated(policy)):
        yield _row(one, environment, start_us + int(one.at_s * 1_000_000), number)


def _row(one: Recorded, environment: str, at_us: int, number: int) -> Row:
    uid = UUID(bytes=(at_us // 1000).to_bytes(6, "big") + struct.pack(">HQ", 0x7DE0, 1 << 63 | number))
    event = encode(
        Record(
            event=one.event,
            uid=str(uid),
            sequence_number=number,
            at_ns=at_us * 1000,
            source=one.source,
            is_foreground=one.is_foreground,
            run=one.run,
        )
    )
    sent = Sent(event.event_name, at_us * 1000, 0, event.severity, event.body, event.attributes, "", "")
    resource: dict[str, object] = {
        "service.name": one.service,
        "service.instance.id": one.instance,
        "service.version": one.version,
    }
    [row] = read_records([Batch(resource, "generated history", [sent])], environment, at_us).rows
    return row


def _groups(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Groups of one transaction each; a question ends its group, because users answer it before the next event."""
    group: list[Row] = []
    for row in rows:
        group.append(row)
        if len(group) == GROUP_ROWS or row.event == ASKED:
            yield group
            group = []
    if group:
        yield group


class _People:
    """Users without accounts who answer what agents ask, each question a few minutes after it."""

    def __init__(self, environment: str) -> None:
        self._environment = environment
        self._chance = random.Random("people of the history")  # made up, and the same each time
        self._may = Grants({environment: Role.RESPONDER}).may
        self._due: list[tuple[datetime, int, int, str, Actor]] = []
        self._order = count()

    def open(self, now: datetime) -> None:
        """Put the newest question to people."""
        open_escalations(self._environment, now)
        one = Escalation.objects.filter(environment=self._environment).latest("pk")
        by = Actor(name=self._chance.choice(_PEOPLE), kind="person", channel="web", may=self._may)
        taken = now + timedelta(seconds=self._chance.uniform(*_TAKEN_S))
        decided = taken + timedelta(seconds=self._chance.uniform(*_DECIDED_S))
        verb = "approve" if self._chance.random() < 0.7 else "reject"
        for at, what in ((taken, "acknowledge"), (decided, verb)):
            heappush(self._due, (at, next(self._order), one.pk, what, by))

    def act_until(self, moment: datetime) -> None:
        """Everything that users do by then."""
        while self._due and self._due[0][0] <= moment:
            at, _, number, verb, by = heappop(self._due)
            keep_deadlines(self._environment, at)
            if Escalation.objects.get(pk=number).is_open:
                self._respond(number, verb, by, at)

    def _respond(self, number: int, verb: str, by: Actor, at: datetime) -> None:
        why: dict[str, Any] = {
            "acknowledge": {"reason": ""},
            "approve": {"reason": "Checked; the refund is correct."},
            "reject": {"reason": "No refund without a receipt."},
        }
        respond(verb, number=number, environment=self._environment, by=by, now=at, **why[verb])
