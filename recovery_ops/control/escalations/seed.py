"""Questions of a made-up fleet, and people who answer them: to measure with, and to look at full pages.

A clock that runs through the past: agents ask by facts, and what opens questions, keeps their deadlines and acts on
them is what does so every day, told an earlier moment. So clocks, audit log and answers are as they would have been.
The same numbers give the same questions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any

from django.db import transaction

from events.moments import to_us
from events.seeding import Plan, caller_of, fleet_of, operation_name, run_name, told_once
from events.store.writes import store_facts
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.models.heartbeats import Beat
from recovery_ops.control.core.permissions import Grants
from recovery_ops.control.escalations.models import Escalation, EscalationSource
from recovery_ops.control.escalations.services.actions import respond
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.rules import events as facts
from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.escalation_rules import QUESTION
from recovery_ops.rules.roles import Role
from recovery_ops.rules.run_limits import ERRORS

LOOKED_AFTER = timedelta(seconds=3)
_PEOPLE, _OFTEN = ("ana", "bob", "chen", "dora", "emeka"), (5, 4, 3, 2, 1)
_TAKEN_S, _DECIDED_S, _MORNING_S = 300.0, 700.0, 8 * 3600.0
"""Medians: until somebody takes a question, from then until it has its answer; until what had ended is looked at."""
_NIGHT_TIMES = 4.0
"""How much slower people are before seven and after ten in the evening."""


_HELD_FOR = timedelta(seconds=60)
"""Whoever makes up the past says so again and again; a process that was killed holds nobody up for longer."""


def hold(environment: str, now: datetime) -> None:
    """Say that the past of an environment is being made up: a worker's clock, which shows today, stays away from it."""
    Beat.objects.update_or_create(name=_hold(environment), defaults={"at": now})


def let_go(environment: str) -> None:
    """The past is made."""
    Beat.objects.filter(name=_hold(environment)).delete()


def is_held(environment: str, now: datetime) -> bool:
    """Whether the past of an environment is being made up."""
    return Beat.objects.filter(name=_hold(environment), at__gt=now - _HELD_FOR).exists()


def _hold(environment: str) -> str:
    return f"made up: {environment}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """How agents ask one thing. `waits`: the run stands still until it has its own answer."""

    weight: float
    fact: Callable[[random.Random, str], facts.Event]
    waits: bool = False
    is_of_run: bool = False


def _question(chance: random.Random, operation: str) -> facts.Event:
    amount = 20 * chance.randint(2, 40)
    return _asked(
        operation,
        queue="refunds",
        reason=QUESTION,
        message=f"Refund {amount} EUR without a receipt?",
        proposal=f"Refund {amount} EUR and notify the customer.",
        deadline_s=float(chance.choice((1800, 3600, 7200))),
        escalation_id=f"ticket-{chance.getrandbits(48):012x}",
    )


def _refused(chance: random.Random, operation: str) -> facts.Event:
    return _asked(
        operation,
        queue="policy_review",
        category=Category.POLICY_DENIED,
        message="The tool policy denies writes to the archive.",
        deadline_s=float(chance.choice((1800, 5400))),
        escalation_id=f"ticket-{chance.getrandbits(48):012x}",
    )


def _asked(operation: str, *, queue: str, category: Category | None = None, **more: Any) -> facts.Escalated:
    reason = more.pop("reason", None) or (category.value if category else QUESTION)
    return facts.Escalated(operation=operation, queue=queue, reason=reason, category=category, **more)


_ASKINGS = (
    _Asking(weight=0.35, fact=_question, waits=True),
    _Asking(weight=0.15, fact=_refused, waits=True),
    _Asking(
        weight=0.2,
        fact=lambda chance, operation: _asked(
            operation, queue="unclassified", category=Category.UNKNOWN, message="The tool answered: I am a teapot."
        ),
    ),
    _Asking(
        weight=0.1,
        fact=lambda chance, operation: _asked(
            operation, queue="policy_review", category=Category.PERMISSION, message="The token lacks read permission."
        ),
    ),
    _Asking(
        weight=0.1,
        fact=lambda chance, operation: _asked(
            operation, queue="quota", category=Category.QUOTA_EXHAUSTED, message="The monthly credit is exhausted."
        ),
    ),
    _Asking(
        weight=0.05,
        fact=lambda chance, operation: facts.ReversalRefused(
            operation=operation, reason="The shipment has left the house.", action_id=f"{chance.getrandbits(32):08x}"
        ),
    ),
    _Asking(
        weight=0.05,
        fact=lambda chance, operation: facts.BudgetExhausted(budget=ERRORS, spent=10, limit=10),
        is_of_run=True,
    ),
)


class MadeUp:
    """`questions` of a plan, spread evenly over it."""

    def __init__(self, plan: Plan, questions: int) -> None:
        self._plan = plan
        self._chance = random.Random(f"questions {plan.seed}")  # made up, and the same each time
        self._fleet = fleet_of(plan)
        self._people = [_person(name, plan.environment) for name in _PEOPLE]
        self._order, self._stored = count(), 0
        self._due: list[tuple[datetime, int, Callable[[datetime], None]]] = []
        self.asked = 0
        self.is_any = questions > 0
        length = plan.end - plan.start
        for number in range(questions):
            self._at(plan.start + length * (number + 0.5) / questions, self._ask)

    def until(self, moment: datetime) -> Iterator[int]:
        """Let everything happen that is due by then; yield how many were asked after each transaction."""
        while self._due and self._due[0][0] <= moment:
            before = self._stored
            with transaction.atomic():  # the store takes one request in a transaction
                while self._stored == before and self._due and self._due[0][0] <= moment:
                    at, _, act = heappop(self._due)
                    act(at)
            yield self.asked

    def _at(self, moment: datetime, act: Callable[[datetime], None]) -> None:
        heappush(self._due, (moment, next(self._order), act))

    def _ask(self, now: datetime) -> None:
        """Ask until it is a new question: what is asked again of an open one is only counted there."""
        [asking] = self._chance.choices(_ASKINGS, [one.weight for one in _ASKINGS])
        which = int(self._chance.random() * self._plan.breakers)
        row = told_once(
            self._plan,
            asking.fact(self._chance, "" if asking.is_of_run else operation_name(which)),
            at=now - LOOKED_AFTER,
            agent=self._fleet[caller_of(self._plan, which, self._chance.random())],
            run=run_name(self._plan, to_us(now - LOOKED_AFTER), self._chance.random()),
            number=self._stored,
        )
        course = list(self._course(now, waits=asking.waits))
        store_facts([row])
        self._stored += 1
        is_new = open_escalations(self._plan.environment, now) > 0
        source = EscalationSource.objects.select_related("escalation").get(
            environment=self._plan.environment, uid=row.uid
        )
        if source.escalation.opened_at != now:
            self._at(now + LOOKED_AFTER, self._ask)
            return
        self.asked += 1
        if is_new:  # else it was made up before
            self._at(source.escalation.resolve_by, self._look)
            for moment, verb, by, more in course:
                self._at(moment, partial(self._act, source.escalation_id, verb, by, more))

    def _look(self, now: datetime) -> None:
        keep_deadlines(self._plan.environment, now)

    def _course(self, now: datetime, *, waits: bool) -> Iterator[tuple[datetime, str, Actor, dict[str, Any]]]:
        """What people do about one question, unless it is closed by then."""
        chance = self._chance
        [first, second] = chance.choices(self._people, _OFTEN, k=2)
        slow = 1.0 if 7 <= now.hour < 22 else _NIGHT_TIMES
        if chance.random() < 0.1:  # nobody is there
            if chance.random() < 0.7:
                yield self._later(now, _MORNING_S), "resolve", first, {"reason": "Resolved overnight."}
            return
        if not waits and chance.random() < 0.1:
            at = now + timedelta(seconds=60)
            yield at, "snooze", first, {"for_s": float(chance.choice((600, 900)))}
        at = self._later(now, _TAKEN_S * slow)
        yield at, "acknowledge", first, {}
        if chance.random() < 0.2:
            yield self._later(at, 120), "note", first, {"reason": "Checking the provider's status page."}
        if chance.random() < 0.1:
            at = self._later(at, 300)
            yield at, "escalate", first, {"to": "on_call", "reason": "Needs a decision by on-call."}
            at = self._later(at, _TAKEN_S * slow)
            yield at, "acknowledge", second, {}
            first = second
        at = self._later(at, _DECIDED_S * slow)
        if not waits:
            yield at, "resolve", first, {"reason": chance.choice(("The cause is fixed.", "The backend has recovered."))}
        elif (drawn := chance.random()) < 0.3:
            yield at, "reject", first, {"reason": "No refund without a receipt."}
        else:
            text = "Refund half of the amount." if drawn < 0.4 else ""
            yield at, "approve", first, {"reason": "Checked; the refund is correct.", "text": text}

    def _act(self, number: int, verb: str, by: Actor, more: dict[str, Any], now: datetime) -> None:
        """What somebody does about a question, if it is still open."""
        one = Escalation.objects.get(pk=number)
        if not one.is_open or (one.ticket and verb == "resolve"):
            return
        respond(verb, number=number, **{"reason": "", "now": now, "environment": one.environment, "by": by, **more})
        if verb == "acknowledge":
            self._at(now + one.held_for, self._look)
        elif verb == "snooze":
            self._at(now + timedelta(seconds=more["for_s"]), self._look)

    def _later(self, moment: datetime, median_s: float) -> datetime:
        return moment + timedelta(seconds=self._chance.lognormvariate(math.log(median_s), 0.9))


def _person(name: str, environment: str) -> Actor:
    """Somebody who may answer, and has no account: nobody can sign in as them."""
    return Actor(name=name, kind="person", channel="web", may=Grants({environment: Role.RESPONDER}).may)
