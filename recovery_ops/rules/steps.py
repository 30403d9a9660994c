"""What passes between the ladder and whoever drives it: steps one way, replies the other, and how a climb ends."""

from __future__ import annotations

from enum import StrEnum

from recovery_ops.rules.facts import Escalated, Fact
from recovery_ops.rules.failures import Failure
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.words import Adjustment, Category, Refusal, State, StopReason


@dataclass(frozen=True, slots=True)
class Call:
    """Make the call. `level` 0 is the operation itself, 1 its first fallback; answer Returned, Raised or Cancelled."""

    operation: str
    attempt: int
    level: int = 0
    adjustment: Adjustment | None = None
    max_tokens: int | None = None
    deadline_s: float | None = None
    """What is left for this attempt; None where nothing limits it."""
    model: str | None = None
    """Which model of the chain to ask; None where there is no chain."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Let this much time pass, on something that a cancel or a new desired state can end; answer Woke."""

    delay_s: float
    operation: str


@dataclass(frozen=True, slots=True)
class Emit:
    """Record a fact; answer None."""

    fact: Fact


@dataclass(frozen=True, slots=True)
class AskUser:
    """Put the question to the user who waits; answer Decided or Cancelled. Deadlines stand still meanwhile."""

    question: Escalated


Step = Call | Wait | Emit | AskUser


@dataclass(frozen=True, slots=True)
class Returned:
    """The call returned."""

    now: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class Raised:
    """The call failed."""

    now: float
    failure: Failure
    duration_s: float


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The call, or the wait, was ended by the caller."""

    now: float


class Cause(StrEnum):
    """What ended a wait."""

    ELAPSED = "elapsed"
    CHANGED = "changed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Woke:
    """The wait is over."""

    now: float
    cause: Cause = Cause.ELAPSED


@dataclass(frozen=True, slots=True)
class Decided:
    """What a person said: make the call once more, or do not."""

    now: float
    is_yes: bool


Reply = Returned | Raised | Cancelled | Woke | Decided | None


@dataclass(frozen=True, slots=True)
class Answered:
    """There is a result, from the operation (level 0) or from a fallback."""

    name: str
    level: int
    attempts: int
    warning: str | None = None
    data_age_s: float | None = None


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """An optional operation is left out: the caller gets a `Degraded`."""

    reason: str
    category: Category | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The call was never made."""

    refusal: Refusal
    state: State
    retry_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Every rung was climbed and none held."""

    reason: StopReason
    attempts: int
    rungs: tuple[str, ...]
    failure: Failure | None
    retry_in_s: float | None = None
    no_retry: str = ""
    """Why the operation was not called again: the word of `RetryDecision`; empty where none was decided on."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The run must end now; the model gets no turn."""

    failure: Failure
    no_retry: str = ""
    """As of `Failed`."""


@dataclass(frozen=True, slots=True)
class CalledOff:
    """The caller cancelled; nothing failed."""


Ending = Answered | Withdrawn | Refused | Failed | Stopped | CalledOff
