"""What a rule may ask for, and what was found: one thing that happened, as every rule reads it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from recovery_ops.rules.notifications.grouping import Phase, Severity

LOOKED_BACK = timedelta(minutes=15)
"""How late a fact may come and still be told: what is older is history, and stands on the pages."""

MONTHLY_REPORT = "monthly_report"
"""Told as what is to be known, so only by rules that tell everything."""

TRIGGERS: dict[str, str] = {
    "escalation": "Escalation opened, acknowledged or resolved",
    "sla": "Escalation deadline at 50, 80 and 100 %",
    "breaker_moved": "Breaker opened or closed",
    "breaker_stuck": "Breaker stuck",
    "capacity": "Capacity incident started or ended",
    "burn": "Retry budget burn rate high",
    "degraded": "Operation degraded or recovered",
    "degradation_ended": "Operation recovered",
    "first_seen": "Issue new",
    "regressed": "Issue regressed",
    "failures_many": "Failure threshold reached",
    "second_person": "Approval requested or break-glass used",
    "override_expiring": "Override or load shedding expiring",
    MONTHLY_REPORT: "Monthly report",
}
"""What a rule may ask for, in the order in which forms show it. The end of what was told is always told, too."""

OF_CAUSES = ("escalation", "sla", "first_seen", "regressed", "failures_many")
"""What may be about a cause of failures: all that a rule that names causes may ask for."""
OF_NO_PROVIDER = ("second_person", MONTHLY_REPORT)
"""What is about no operation, and so about no provider."""

BRIEFLY: dict[str, str] = {
    "escalation": "escalations",
    "sla": "escalation deadlines",
    "breaker_moved": "breakers",
    "breaker_stuck": "stuck breakers",
    "capacity": "capacity incidents",
    "burn": "retry budgets",
    "degraded": "degradations",
    "degradation_ended": "recovered operations",
    "first_seen": "new issues",
    "regressed": "regressed issues",
    "failures_many": "failure threshold",
    "second_person": "approval requests",
    "override_expiring": "expiring overrides",
    MONTHLY_REPORT: "monthly report",
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
