"""Filters of a list of runs beside its tab: conditions on the folded columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from django.db.models import F, Q, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from events.moments import US_PER_S
from events.pages.narrowing import Narrowed, is_number
from events.runs.going import Goes
from events.runs.rows import RUNGS
from recovery_ops.rules.enums import Category, RunStatus

RECOVERED = "recovered"
STATUSES = (*Goes, RECOVERED, *RunStatus)
"""How a run stands: it goes on (`running` are all of those), and how; it ended well after a failure; or what it said at
its end."""
_OF_GOING = frozenset(Goes) - {Goes.RUNNING}
ASKS = {
    "status": f"one of {', '.join(STATUSES)}",
    "category": "only runs with a failure of this category",
    "model": "only runs with calls to this provider or model",
    "policy": "only runs with this policy version",
    "provider": "only runs with calls to this provider",
    "service": "only runs of this service",
    "agent": "only runs of this service or instance",
    "q": "only runs with this in their id or name",
    "rung": f"only runs with at least this recovery step, 1 to {len(RUNGS)}",
    "failures": "only runs with at least this number of failed attempts",
    "waited_s": "only runs with at least this waiting time in seconds",
    "took_s": "only runs with at least this duration in seconds",
    "cost_usd": "only runs with at least this reported cost in US dollars",
}
"""What a list of runs may be narrowed by, and what that means."""
NUMBERS = ("rung", "failures", "waited_s", "took_s", "cost_usd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrow(Narrowed):
    """What is asked for; an empty text and a zero ask for nothing. Of numbers, the least that will do."""

    status: str = ""
    category: str = ""
    model: str = ""
    provider: str = ""
    service: str = ""
    policy: str = ""
    agent: str = ""
    q: str = ""
    rung: float = 0.0
    failures: float = 0.0
    waited_s: float = 0.0
    took_s: float = 0.0
    cost_usd: float = 0.0

    @classmethod
    def is_readable(cls, name: str, text: str) -> bool:
        """What has a fault (`faults_in`) is not."""
        return name not in faults_in({name: text})

    @property
    def is_any(self) -> bool:
        """Whether every run will do."""
        return self == Narrow()

    @property
    def is_of_going(self) -> bool:
        """Whether it takes who reports now to know which runs are asked for."""
        return self.status in _OF_GOING

    def condition(self, now_us: int) -> Q:
        """All of it but the status, for the columns of `Run`."""
        numbers = {"level__gte": self.rung, "failures__gte": self.failures, "cost_usd__gte": self.cost_usd}
        found = Q(**{name: least for name, least in numbers.items() if least})
        texts = {"agent__service": self.service, "policy": self.policy}
        found &= Q(**{name: text for name, text in texts.items() if text})
        if self.agent:
            found &= Q(agent__service=self.agent) | Q(agent__instance=self.agent)
        if self.q:
            found &= Q(run__icontains=self.q) | Q(name__icontains=self.q)
        if self.model:
            found &= Q(models_named__icontains=_in_json(self.model))
        if self.provider:
            name = _in_json(self.provider)
            found &= _holds("models_named", f'"{name} / ') | _holds("models_named", f'"{name}"')
        if self.category:
            found &= _holds("categories", f'"{self.category}":')
        return found & self._lasted(now_us)

    def _lasted(self, now_us: int) -> Q:
        took_us, waited_us = int(self.took_s * US_PER_S), int(self.waited_s * US_PER_S)
        found = Q()
        if took_us:
            found &= Q(ended_us__gte=F("started_us") + took_us) | Q(
                ended_us__isnull=True, started_us__lte=now_us - took_us
            )
        if waited_us:
            waits = Q(waits_until_us__gt=now_us)
            found &= Q(~waits, waited_us__gte=waited_us) | Q(
                waits, waited_us__gte=F("waits_until_us") - now_us + waited_us
            )
        return found


def _in_json(text: str) -> str:
    return orjson.dumps(text).decode()[1:-1]


def _holds(column: str, text: str) -> Q:
    """Whether a column holds a text, letter by letter: SQLite's LIKE takes small letters for capitals."""
    return Q(GreaterThan(StrIndex(F(column), Value(text)), 0))


def faults_in(given: Mapping[str, str]) -> dict[str, str]:
    """What of an address cannot be read, by name, with what it has to be."""
    words = {"status": STATUSES, "category": tuple(Category)}
    faults = {
        name: f"is one of {', '.join(known)}"
        for name, known in words.items()
        if given.get(name, "") not in ("", *known)
    }
    return faults | {name: "is a number from 0 on" for name in NUMBERS if not is_number(given.get(name) or "0")}
