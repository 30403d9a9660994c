"""What a rule may ask for, and what was found: one thing that happened, as every rule reads it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from recovery_ops.rules.telling import Phase, Severity

LOOKED_BACK = timedelta(minutes=15)
"""How late a fact may come and still be told: what is older is history, and stands on the pages."""

MONTHLY_REPORT = "monthly_report"
"""Told as what is to be known, so only by rules that tell everything."""

TRIGGERS: dict[str, str] = {
    "escalation": "An escalation is opened, taken, and closed",
    "sla": "A deadline of an escalation: 50, 80 and 100 % of its time are gone",
    "breaker_moved": "A breaker opens, and closes again",
    "breaker_stuck": "A breaker is stuck: half-open for too long, open without calls, or blind to failures",
    "capacity": "A capacity event begins, and ends",
    "burn": "A retry budget is spent too fast, and no longer",
    "degraded": "An operation answers with less, and is whole again",
    "degradation_ended": "An operation is whole again",
    "first_seen": "A kind of failure that was never seen before",
    "regressed": "A kind of failure that is back: after a day without one, or after somebody resolved it",
    "failures_many": "Many failures of one operation in a short time (N in T)",
    "second_person": "An act waits for a second person, or was done without one",
    "override_expiring": "An override, or load that is shed, is about to end",
    MONTHLY_REPORT: "The report of a month, when it is over",
}
"""What a rule may ask for, in the order in which forms show it. The end of what was told is always told, too."""

OF_CAUSES = ("escalation", "sla", "first_seen", "regressed", "failures_many")
"""What may be about a cause of failures: all that a rule that names causes may ask for."""
OF_NO_PROVIDER = ("second_person", MONTHLY_REPORT)
"""What is about no operation, and so about no provider."""

BRIEFLY: dict[str, str] = {
    "escalation": "escalations",
    "sla": "deadlines of escalations",
    "breaker_moved": "breakers",
    "breaker_stuck": "stuck breakers",
    "capacity": "capacity events",
    "burn": "retry budgets",
    "degraded": "degradations",
    "degradation_ended": "ends of degradations",
    "first_seen": "new kinds of failure",
    "regressed": "kinds of failure that are back",
    "failures_many": "many failures",
    "second_person": "requests for a second person",
    "override_expiring": "overrides about to end",
    MONTHLY_REPORT: "the report of each month",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One thing that happened. A rule tells it once: `event` and `kind` are the same however often it is found.

    It is told by rules that ask for one of `triggers`; `phase` ENDED and ACKNOWLEDGED also by every rule that told the
    beginning of the same `subject`. `operation` and `queue` are what a rule's patterns look at; empty fits every one.
    `causes` are the fingerprints of failures it is about, and `providers` whose trouble it is where it says so itself:
    a rule that names some is not for what says none.
    """

    kind: str
    event: str
    subject: str
    phase: Phase
    severity: Severity
    at: datetime
    title: str
    text: str = ""
    path: str = ""
    triggers: frozenset[str] = frozenset()
    operation: str = ""
    queue: str = ""
    causes: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset()
    is_flappy: bool = False
    rule: int | None = None
    """Where only one rule asked: its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at an environment: `asked` are the triggers that some rule asks for, `open` what was told to go on."""

    environment: str
    now: datetime
    asked: AbstractSet[str] = field(default_factory=frozenset)
    open: AbstractSet[str] = field(default_factory=frozenset)

    @property
    def since(self) -> datetime:
        """How far back facts are read."""
        return self.now - LOOKED_BACK

    def wants(self, *triggers: str) -> bool:
        """Whether some rule asks for one of these."""
        return not self.asked.isdisjoint(triggers)
