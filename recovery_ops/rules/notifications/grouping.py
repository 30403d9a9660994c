"""When people are told: grouping, flap suppression, quiet hours, and that whoever heard of a trouble hears of its end.

What is held about one subject goes out as one message. The first of it goes out at once (after the time that a rule
groups by); what follows is held until it has settled, so twenty moves in five minutes are an alert and a summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from enum import StrEnum

from recovery_ops.rules.lazy_dataclass import dataclass


class Phase(StrEnum):
    """Where in the life of a trouble something happened."""

    BEGAN = "began"
    ACKNOWLEDGED = "acknowledged"
    ENDED = "ended"
    TOLD = "told"
    """Something to know that has no end of its own."""


class Severity(StrEnum):
    """How much it matters, the least first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    def reaches(self, least: Severity) -> bool:
        """Whether it matters at least so much."""
        return _RANK[self] >= _RANK[least]


_RANK = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calm:
    """The numbers of the rule, in seconds."""

    settle_s: float = 30.0
    """What has not moved for this long has settled."""
    flap_s: float = 300.0
    """What does not settle is summed up this often."""
    most: int = 4
    """Messages about one subject within `flap_s`; what comes on top waits for its turn, settled or not."""


CALM = Calm()


@dataclass(frozen=True, slots=True)
class Held:
    """Something that nobody was told yet: when it was found (seconds), and what it was."""

    at: float
    phase: Phase
    severity: Severity
    is_flappy: bool = False
    """Whether it is of a kind that moves to and fro."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message about the subject that is out: when (seconds), and what it said last."""

    at: float
    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """Hours in which only what matters is told, by the wall clock of a place; `passes` is the least that is told."""

    begins: time
    ends: time
    passes: Severity = Severity.CRITICAL

    def until(self, local: datetime) -> datetime | None:
        """When the quiet ends that holds at this moment; None where none does. Both are of the same zone."""
        now = local.time().replace(tzinfo=None)
        if self.begins == self.ends:
            return None
        if self.begins < self.ends:
            holds, days = self.begins <= now < self.ends, 0
        else:  # over midnight
            holds, days = now >= self.begins or now < self.ends, 1 if now >= self.begins else 0
        if not holds:
            return None
        return datetime.combine(local.date() + timedelta(days=days), self.ends, tzinfo=local.tzinfo)


def due_at(
    held: Sequence[Held],
    sent: Sequence[Sent],
    *,
    now: float,
    group_s: float = 0.0,
    quiet_until: float | None = None,
    snoozed_until: float | None = None,
    passes: Severity = Severity.CRITICAL,
    calm: Calm = CALM,
) -> float | None:
    """When what is held about one subject is to be told, in seconds; None where nothing is held.

    `held` and `sent` are in order of time. `quiet_until`: quiet hours hold now, and end then. The end of what was told
    passes them, and so does what is severe enough. `snoozed_until`: somebody holds it back until then, however severe
    it is; the end of what was told passes that, too.
    """
    if not held:
        return None
    due = _calm(held, [one for one in sent if now - one.at < calm.flap_s], group_s, calm)
    if _ends_what_was_told(held, sent):
        return due
    if snoozed_until is not None:
        due = max(due, snoozed_until)
    if quiet_until is None or any(one.severity.reaches(passes) for one in held):
        return due
    return max(due, quiet_until)


def _calm(held: Sequence[Held], recent: Sequence[Sent], group_s: float, calm: Calm) -> float:
    first, last = held[0].at, held[-1].at
    if not recent or not all(one.is_flappy for one in held):
        return first + group_s
    if len(recent) >= calm.most:
        return max(recent[-calm.most].at + calm.flap_s, first)
    return min(last + calm.settle_s, first + calm.flap_s)


def _ends_what_was_told(held: Sequence[Held], sent: Sequence[Sent]) -> bool:
    is_told = bool(sent) and sent[-1].phase in (Phase.BEGAN, Phase.ACKNOWLEDGED)
    return is_told and held[-1].phase in (Phase.ENDED, Phase.ACKNOWLEDGED)
