"""Progress of the desired state by instance, as the agents report it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from django.utils import timezone

from events.rows import AgentRow
from events.wording import span_text
from recovery_ops.rules.enums import ApplyStatus

_FILLS = {
    ApplyStatus.APPLIED: "",
    ApplyStatus.PENDING: "url(#p-pending)",
    ApplyStatus.FAILED: "url(#p-open)",
    ApplyStatus.DRIFTED: "url(#p-half_open)",
    ApplyStatus.UNREACHABLE: "url(#p-unknown)",
}
_MOST_NAMED = 6
_GAP = 0.35


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One stretch of the bar, as SVG attributes, with its word for the legend."""

    word: str
    x: str
    width: str
    fill: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """An instance that is not where it should be, and why."""

    instance: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Applying:
    """Where the instances in a scope stand against one revision."""

    revision: int
    agents: dict[ApplyStatus, Sequence[AgentRow]]
    newest: int
    """The newest revision there is, which may be a later one."""
    waited_s: float | None = None
    """How long ago the revision was made: how long what is pending has been so."""
    what: str = ""
    parts: list[Part] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(len(rows) for rows in self.agents.values())

    @property
    def applied(self) -> int:
        return len(self.agents.get(ApplyStatus.APPLIED, ()))

    @property
    def is_complete(self) -> bool:
        return self.applied == self.total

    @property
    def waits_for_reachable(self) -> bool:
        """Whether somebody who can be reached has not applied it."""
        late = (ApplyStatus.PENDING, ApplyStatus.FAILED, ApplyStatus.DRIFTED)
        return any(self.agents.get(status) for status in late)

    @property
    def head(self) -> str:
        """`Policy 3: 37/40 applied`."""
        if not self.total:
            return "No instance in this scope has reported"
        return f"{self.what + ': ' if self.what else ''}{self.applied}/{self.total} applied"

    @property
    def rest(self) -> str:
        """`, 2 pending (14 s), 1 unreachable`: what follows the head."""
        return self._rest(with_wait=True) if self.total else "; the change applies to the first one that does."

    @property
    def plain(self) -> str:
        """The same as a sentence that holds still: `37 of 40 applied, 2 pending, 1 unreachable`."""
        return f"{self.applied} of {self.total} applied{self._rest(with_wait=False)}"

    @property
    def legend(self) -> list[Part]:
        return self.parts

    def _rest(self, *, with_wait: bool) -> str:
        said = ""
        for status, rows in self.agents.items():
            if status is ApplyStatus.APPLIED or not rows:
                continue
            said += f", {len(rows)} {status}"
            if with_wait and status is ApplyStatus.PENDING and self.waited_s is not None:
                said += f" ({span_text(math.floor(self.waited_s))})"
        return said

    def missing(self) -> list[tuple[str, list[Named], int]]:
        """Each status but applied with its instances by name, and how many more there are."""
        found = []
        for status, rows in self.agents.items():
            if status is ApplyStatus.APPLIED or not rows:
                continue
            named = [Named(instance=row.instance, note=note_of(status, row, self.newest)) for row in rows[:_MOST_NAMED]]
            found.append((status.capitalize(), named, max(0, len(rows) - _MOST_NAMED)))
        return found


def applying(
    revision: int,
    agents: dict[ApplyStatus, Sequence[AgentRow]],
    *,
    newest: int,
    waited_s: float | None = None,
    what: str = "",
) -> Applying:
    """An `Applying` with the stretches of its bar laid out in percent."""
    kept = {status: agents[status] for status in _FILLS if agents.get(status)}
    parts = list(parts_of((str(status), len(rows), _FILLS[status]) for status, rows in kept.items()))
    return Applying(revision=revision, agents=kept, newest=newest, waited_s=waited_s, what=what, parts=parts)


def note_of(status: ApplyStatus, row: AgentRow, newest: int) -> str:
    """Why an instance is not where it should be, as far as it has said. `newest`: the newest revision there is."""
    if status is ApplyStatus.FAILED:
        return row.rejected_reason or "rejected, no reason given"
    if status is ApplyStatus.UNREACHABLE:
        return f"last seen {timezone.localtime(row.last_seen):%H:%M:%S}"
    if status is ApplyStatus.DRIFTED and row.revision > newest:
        return f"on revision {row.revision}, unknown to this server: {lower_words(newest)}"
    if status is ApplyStatus.DRIFTED:
        return f"reports revision {row.revision} with other contents"
    return f"on revision {row.revision}" if row.revision else "no revision applied yet"


def lower_words(newest: int) -> str:
    """When an instance goes back to an older revision (`runtime/config/receiver.py`)."""
    return f"applies {newest} after two connections in a row report it"


def parts_of(counts: Iterable[tuple[str, int, str]]) -> Iterable[Part]:
    """The stretches of a bar, in percent, of words with how many each has and how it is filled."""
    counts = list(counts)
    total = sum(number for _, number, _ in counts)
    x = 0.0
    for word, number, fill in counts:
        width = 100 * number / total
        gap = _GAP if x + width < 99.9 else 0.0
        yield Part(word=word, x=f"{x:.2f}%", width=f"{max(0.3, width - gap):.2f}%", fill=fill)
        x += width
