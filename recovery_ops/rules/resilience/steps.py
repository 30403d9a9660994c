"""What passes between the ladder and whoever drives it: steps one way, replies the other, and how a climb ends."""

from __future__ import annotations

from enum import StrEnum
from math import inf

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Adjustment, Category, Refusal, State, StopReason
from recovery_ops.rules.events import Escalated, Event
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.spending import SpendRuling


@dataclass(frozen=True, slots=True)
class SilenceLimits:
    """How long an attempt may be silent while something else is ready, in seconds; None: as long as its deadline."""

    response_s: float | None = None
    first_token_s: float | None = None
    """From the beginning of the attempt."""
    stall_s: float | None = None


NO_LIMITS = SilenceLimits()


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
    silence: SilenceLimits = NO_LIMITS
    continues: bool = False
    """Whether the model goes on with the part of a broken stream; otherwise it begins anew."""
    credential: str | None = None
    """The label of the key to use; None where the operation has none."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Let this much time pass, on something that a cancel or a new desired state can end; answer Woke."""

    delay_s: float
    operation: str


@dataclass(frozen=True, slots=True)
class Emit:
    """Record an event; answer None."""

    event: Event


@dataclass(frozen=True, slots=True)
class AskUser:
    """Put the question to the user who waits; answer Decided or Cancelled. Deadlines stand still meanwhile."""

    question: Escalated


@dataclass(frozen=True, slots=True)
class Reserve:
    """Reserve a model call under the spend caps; answer Reserved, OverCap, OutOfTime or Cancelled."""

    operation: str
    model: str | None
    has_cheaper: bool = False
    """Whether another model of the chain may be asked instead."""
    deadline_s: float = inf
    """How long open calls of the same accounts may be waited for."""


Action = Call | Wait | AskUser | Reserve
"""What a driver does; an `Emit` is only recorded."""
Step = Action | Emit


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
    is_partial: bool = False
    """Whether the caller has a part of the answer: a stream broke after its first token."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The call, or the wait, was ended by the caller."""

    now: float


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A fallback's own guard left it out: there is no answer, and no failure to speak of."""

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


@dataclass(frozen=True, slots=True)
class Reserved:
    """The call may be made. `held_s` is how long a person was waited for."""

    now: float
    held_s: float = 0.0


@dataclass(frozen=True, slots=True)
class OverCap:
    """An account is at its cap, and no person has raised it. `is_news`: not yet recorded for this run and operation."""

    now: float
    ruling: SpendRuling
    held_s: float = 0.0
    is_news: bool = True


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """Open calls of the same accounts did not end in time."""

    now: float


Reply = Returned | Raised | LeftOut | Cancelled | Woke | Decided | Reserved | OverCap | OutOfTime | None


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
class Parked:
    """A spend cap is reached, and nothing cheaper answers: the run ends here, and may be resumed."""

    ruling: SpendRuling
    attempts: int = 0


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
    attempts: int
    rungs: tuple[str, ...]
    no_retry: str = ""
    """As of `Failed`."""
    reason: str = ""
    """A word of the rules where it is not the category of the failure."""


@dataclass(frozen=True, slots=True)
class CalledOff:
    """The caller cancelled; nothing failed."""


Ending = Answered | Withdrawn | Refused | Parked | Failed | Stopped | CalledOff
