"""What narrows a list of runs beside their kind: conditions on what is told of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from events.narrowing import Narrowed, is_number
from events.runs.going import Goes, Reporting, how_it_goes
from events.runs.rows import RUNGS, RunStory
from recovery_ops.rules.words import Category, RunStatus

RECOVERED = "recovered"
STATUSES = (*Goes, RECOVERED, *RunStatus)
"""How a run stands: it goes on (`running` are all of those), and how; it ended well after a failure; or what it said at
its end."""
_OF_GOING = frozenset(Goes) - {Goes.RUNNING}
ASKS = {
    "status": f"one of {', '.join(STATUSES)}",
    "category": "only runs with a failure of this category",
    "model": "only runs in which a call to a provider or model of this name is told",
    "policy": "only runs under this version of the policy",
    "provider": "only runs in which a call to this provider is told",
    "service": "only runs of this service",
    "agent": "only runs of this service or instance",
    "q": "only runs with this in their id or name",
    "rung": f"only runs that climbed to this rung at least, 1 to {len(RUNGS)}",
    "failures": "only runs with so many failed attempts at least",
    "waited_s": "only runs that waited so many seconds at least",
    "took_s": "only runs that took so many seconds at least, or do so far",
    "cost_usd": "only runs that said they cost so many US dollars at least",
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
    def beside_failures(self) -> Narrow:
        """The same without what a failure says by itself, where the failures were looked through for it already."""
        return replace(self, category="", model="")

    @property
    def is_of_going(self) -> bool:
        """Whether it takes who reports now to know which runs are asked for."""
        return self.status in _OF_GOING

    @property
    def is_of_backends(self) -> bool:
        """Whether it takes what a run called to know that."""
        return bool(self.model or self.provider)

    def keeps(self, story: RunStory, now: datetime, reporting: Reporting) -> bool:
        """Whether a run is one of those that are asked for; `reporting` is looked at where it `is_of_going`."""
        return (
            self._is_status(story, now, reporting)
            and self._keeps_words(story)
            and story.level >= self.rung
            and story.failed_attempts >= self.failures
            and story.waited_by(now) >= self.waited_s
            and (not self.took_s or story.length(now) >= timedelta(seconds=self.took_s))
            and story.numbers.get("cost_usd", 0.0) >= self.cost_usd
        )

    def _keeps_words(self, story: RunStory) -> bool:
        return (
            (not self.category or self.category in {one.value for one in story.failures})
            and (not self.model or any(self.model.lower() in name.lower() for name in story.models))
            and (not self.provider or any(name.partition(" / ")[0] == self.provider for name in story.models))
            and self.service in ("", story.service)
            and self.policy in ("", story.policy)
            and self.agent in ("", story.service, story.instance)
            and self.q.lower() in f"{story.run} {story.name}".lower()
        )

    def _is_status(self, story: RunStory, now: datetime, reporting: Reporting) -> bool:
        if not self.status:
            return True
        if self.status == Goes.RUNNING:
            return story.ended is None
        if self.is_of_going:
            return how_it_goes(story, now, reporting) == self.status
        if self.status == RECOVERED:
            return story.status is RunStatus.SUCCEEDED and story.failed_attempts > 0
        return story.status == self.status


def faults_in(given: Mapping[str, str]) -> dict[str, str]:
    """What of an address cannot be read, by name, with what it has to be."""
    words = {"status": STATUSES, "category": tuple(Category)}
    faults = {
        name: f"is one of {', '.join(known)}"
        for name, known in words.items()
        if given.get(name, "") not in ("", *known)
    }
    return faults | {name: "is a number from 0 on" for name in NUMBERS if not is_number(given.get(name) or "0")}
