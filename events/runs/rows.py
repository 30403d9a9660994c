"""What a run is told with: frozen rows, times as aware UTC datetimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from events.rows import Derivation
from recovery_ops.rules.enums import Category, Rung, RunStatus

RUNGS: tuple[Rung, ...] = tuple(Rung)
RUNG_WORDS: dict[Rung, str] = {
    Rung.RETRY: "Retry",
    Rung.FALLBACK: "Fallback",
    Rung.DEGRADE: "Degrade",
    Rung.ASK: "Human input",
    Rung.FAIL: "Fail",
}
LOST = "lost"
"""How a run stands whose instance fell silent before it ended."""


def level_of(rung: Rung | None) -> int:
    """1 for the cheapest rung; 0 where none was climbed."""
    return 0 if rung is None else RUNGS.index(rung) + 1


class RunFact(NamedTuple):
    """One stored fact of a run. `said` holds its attributes under the names that travel."""

    fact_id: int
    at: datetime
    event: str
    operation: str
    breaker: str
    category: Category | None
    state: str
    provider: str
    model: str
    source: str
    is_foreground: bool
    service: str
    instance: str
    version: str
    said: Mapping[str, Any]
    trace_id: str = ""
    span_id: str = ""


class Wait(NamedTuple):
    """A run tries again then, after such a failure."""

    until: datetime
    category: Category | None


class Climb(NamedTuple):
    """From when to when a run was seen on a recovery step."""

    rung: Rung
    start: datetime
    end: datetime


class Kind(StrEnum):
    """What a piece of the ladder is."""

    FAILED = "failed"
    SUCCEEDED = "succeeded"
    WAITING = "waiting"
    SECOND_BEST = "second_best"
    ASKED = "asked"
    GAVE_UP = "gave_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Something that took a while, on one rung. `end` None: so far."""

    rung: Rung
    kind: Kind
    operation: str
    start: datetime
    end: datetime | None
    words: str
    category: Category | None = None
    """Of a wait: after which failure."""
    fact_id: int = 0
    """Of the fact that it was told by; 0 where it is put together from several."""
    decided: datetime | None = None
    """Of a question: when a person decided it. Facts do not tell it: whoever asks on knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the story. `mark` is the state whose mark stands before it."""

    fact_id: int
    at: datetime
    mark: str
    title: str
    operation: str = ""
    detail: str = ""
    fingerprint: str = ""
    derived: Derivation | None = None


class Backend(NamedTuple):
    """What a run called, in an operation; provider and model are empty where no fact of that operation says them."""

    provider: str
    model: str
    operation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """An outage of what a run called, while it ran: its number, and when it was. `end` None: so far."""

    event: int
    number: str
    name: str
    start: datetime
    end: datetime | None
    whose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStory:
    """A run from its first known fact to its last. `ended` None: it goes on, or nobody told its end."""

    run: str
    name: str
    service: str
    instance: str
    version: str
    source: str
    is_foreground: bool
    policy: str
    started: datetime
    is_start_known: bool
    ended: datetime | None
    status: RunStatus | None
    """What it said of itself at its end."""
    pieces: Sequence[Piece]
    """These, `steps`, `moves` and `backends` are empty but for one run that is told step by step."""
    steps: Sequence[Step]
    moves: Sequence[tuple[datetime, str]]
    """Breakers that moved while it ran, for the marks over the ladder."""
    rung: Rung | None
    """The highest rung it climbed to; None where nothing failed."""
    climbs: Sequence[Climb]
    """The rungs it climbed to, the lowest first."""
    failures: Mapping[Category, int]
    """Failed attempts by category, the most frequent first."""
    retries: int
    waited_s: float
    """All that it was to wait, until its end; see `waited_by`."""
    waits: Sequence[Wait]
    """Those that nothing followed; none of one that has ended."""
    stood_in: Mapping[str, str]
    """Operation → who answered instead."""
    gave_up: Sequence[str]
    """Operations that no rung could save."""
    questions: int
    numbers: Mapping[str, float]
    """`turns`, `attempts`, `input_tokens`, `output_tokens`, `cost_usd`, as far as it said."""
    fingerprints: Sequence[str]
    derived_steps: int = 0
    """Lines that its agent did not tell itself."""
    last_failed: datetime | None = None
    models: Sequence[str] = ()
    """The providers and models that its facts name, as "helios / large"."""
    backends: Sequence[Backend] = ()
    behind: Sequence[Behind] = ()
    """The outages of those while it ran, the first first. Its facts do not tell them: whoever asks on knows."""
    answers: int = 0
    """Of the questions, those that a person answered. Facts do not tell it: whoever asks on knows."""
    is_cut: bool = False
    """Whether it has more steps than are told."""
    last_begun: datetime | None = None
    """When it was begun last: a run may be begun again."""
    begun_by: str = ""
    """The instance that did, where it is one of its service."""
    has_spending: bool = False
    """Whether an instance of it reports spend accounts."""

    @property
    def holder(self) -> str:
        """The instance that has it in hand, or had it last."""
        return self.begun_by or self.instance

    @property
    def level(self) -> int:
        return level_of(self.rung)

    @property
    def failed_attempts(self) -> int:
        return sum(self.failures.values())

    @property
    def took(self) -> timedelta | None:
        """How long it took, once it has told its end."""
        return None if self.ended is None else max(self.ended - self.started, timedelta())

    def until(self, now: datetime) -> datetime:
        """Its end, or `now` while it goes on."""
        return self.ended if self.ended is not None else now

    def waited_by(self, now: datetime) -> float:
        """Seconds that it waited: of the longest wait that goes on at `now`, what is behind it."""
        ahead_s = max(((one.until - now).total_seconds() for one in self.waits if one.until > now), default=0.0)
        return max(self.waited_s - ahead_s, 0.0)

    def length(self, now: datetime) -> timedelta:
        """How long it took, or takes so far."""
        return max(self.until(now) - self.started, timedelta())
