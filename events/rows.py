"""What the questions asked of the store are answered with: frozen rows, times as aware UTC datetimes.

Unknown is not zero: what no living instance reported is None, or marked as unknown, and never 0 or closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from events.moments import Span, to_us
from recovery_ops.rules.enums import Category, Family, State, Trigger
from recovery_ops.rules.fleet.breaker_trouble import Trouble
from recovery_ops.wire import names


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """One instance of one service. `is_reachable`: it was heard of lately and has not said that it stops."""

    id: int
    service: str
    instance: str
    version: str
    group: str
    status: str
    """What it last said of itself: `starting`, `running`, `draining`, `drained`, `stopping`, `stopped_by_operator` or
    `stopped`; empty before the first heartbeat."""
    first_seen: datetime
    last_seen: datetime
    is_reachable: bool
    heartbeat_age_s: float | None
    uptime_s: float
    revision: int
    config_hash: str
    applied_at: datetime | None
    rejected_revision: int | None
    """A revision that it refused and that nothing it applied has overtaken."""
    rejected_reason: str
    schema_version: int
    clamped: tuple[str, ...]
    """What its own ceilings held back at that revision."""
    breakers_open: int
    runs_in_flight: int
    outbox_pending: int
    outbox_dropped: int
    region: str = ""
    """Where it runs (`cloud.region` of its resource), as its newest heartbeat says; empty where it does not."""
    takes_new_work: bool | None = None
    """Whether it begins runs, as its newest heartbeat says; None where it does not tell."""
    takes_retries: bool | None = None
    """Whether it begins a run again when people ask for that, as its newest heartbeat says; None: it does not tell."""
    retired_at: datetime | None = None
    """When somebody said that it is gone, where nothing was heard since; then it counts as stopped."""

    @property
    def is_follower(self) -> bool:
        """Whether it ever spoke of a desired state: a plain OpenTelemetry sender obeys nobody, and cannot be late."""
        return self.heartbeat_age_s is not None or self.applied_at is not None or self.rejected_revision is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsRow:
    """What one operation of an instance said that it goes by; the whole process where `operation` is empty.

    `in_code`: what its developer said, for the process its local ceilings. `held`: what a ceiling holds back.
    """

    operation: str
    at: datetime
    revision: int
    version: int
    kind: str
    breaker: str
    count: int
    settings: Mapping[str, Any]
    in_code: Mapping[str, Any]
    held: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionMove:
    """An instance came to obey a revision of the desired state, or refused it (`is_refused`) for a `reason`."""

    at: datetime
    revision: int | None
    is_refused: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceState:
    """One breaker in one instance. `state` is None while the instance is unreachable; it last said `reported_state`."""

    agent: AgentRow
    breaker: str
    state: State | None
    reported_state: State
    since: datetime | None
    """None: it never reported a move, so it has been closed since it began."""
    trigger: Trigger | None
    calls: int | None
    failures: int | None
    failure_rate: float | None
    threshold: float | None
    last_category: Category | None
    wait_s: float | None
    override_id: str
    revision: int | None
    operation: str = ""
    """The operation behind it that was called last."""

    @property
    def name(self) -> str:
        """`search_web on research/r-3`."""
        return f"{self.breaker} on {self.agent.service}/{self.agent.instance}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarter:
    """What was counted of one breaker in the last quarter of an hour: three whole spans of 5 min and the running one.

    `start` is when the first of them begins in which it was called, `last_call_at` when the last such one ends; where
    there is none, `start` is when all of them begin, and `last_call_at` None.
    """

    start: datetime
    attempts: int
    failures: dict[Category, int]
    last_call_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRow:
    """One breaker across the fleet.

    `counts` holds reachable instances by state; `unknown` the unreachable ones; `instances` is the sum of both. `worst`
    is the worst state that anybody reports now, None when nobody can be asked; `since` is when the first instance got
    into it. `failure_rate` is measured over the last minutes while calls flow, else the evidence of the last move.
    """

    name: str
    operations: tuple[str, ...]
    services: tuple[str, ...]
    counts: dict[State, int]
    unknown: int
    instances: int
    worst: State | None
    since: datetime | None
    failure_rate: float | None
    threshold: float | None
    calls_per_min: float
    failures_per_min: float
    rejected_per_min: float
    last_category: Category | None
    since_by: dict[State, datetime] = field(default_factory=dict)
    """When the first instance that is in a state now got into it, by state."""
    quarter: Quarter | None = None
    """Where it was asked for."""
    groups: tuple[str, ...] = ()
    """The groups of its instances; those that are in none have no word for it."""
    next_probe: datetime | None = None
    """When the first of the instances that are open, or wait half-open, lets a call through, as it told when it moved.

    None where none is, or none told; in the past where the next call will be the probe.
    """
    providers: tuple[str, ...] = ()
    """Where it was asked for: the providers that its calls of the last day went to, as far as anybody said."""
    in_flight: int | None = None
    """Where it was asked for: calls under way, as its instances counted them last. None where none counted lately."""
    last_worst: State | None = None
    """The worst state that its unreachable instances reported last: stale."""
    calls_trouble: Trouble | None = None
    """Whether its calls fail or are rejected, whatever its state."""

    @property
    def is_flowing(self) -> bool:
        """Whether no reachable instance blocks calls."""
        return not any(self.counts.get(state) for state in (State.FORCED_OPEN, State.OPEN, State.HALF_OPEN))

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong although the breaker blocks no calls; None while it blocks them, or nobody reports."""
        return self.calls_trouble if self.is_flowing and self.worst is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One move of one breaker in one instance, with its evidence."""

    fact_id: int | None
    """None where it was read from the current state, which does not know its fact."""
    at: datetime
    service: str
    instance: str
    breaker: str
    state: State
    previous_state: State | None
    trigger: Trigger | None
    calls: int | None
    failures: int | None
    failure_rate: float | None
    threshold: float | None
    last_category: Category | None
    override_id: str
    revision: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A span in which one breaker of one instance was in one state. `state` None: nobody knows. `end` None: so far."""

    service: str
    instance: str
    breaker: str
    state: State | None
    start: datetime
    end: datetime | None
    cause: Transition | None = None

    def until(self, now: datetime) -> datetime:
        """Its end, or `now` while it goes on."""
        return self.end if self.end is not None else now

    def length(self, now: datetime) -> timedelta:
        """How long it lasted, or lasts so far."""
        return self.until(now) - self.start


class Lanes(dict[str, dict[str, list[Segment]]]):
    """Breaker → instance → segments in order, without gaps or overlaps, from `start` to `end` of the window.

    The lane of an instance that was born or stopped in the window is that much shorter.
    `bin_s` is 0 where each span is exact; otherwise spans were rounded out to bins of that many seconds, each showing
    the worst state in it, because there were more than can be drawn.
    """

    def __init__(self, *, start: datetime, end: datetime, bin_s: int = 0) -> None:
        super().__init__()
        self.start = start
        self.end = end
        self.bin_s = bin_s

    @property
    def count(self) -> int:
        """How many segments there are."""
        return sum(len(segments) for instances in self.values() for segments in instances.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class MajoritySegment:
    """A span in which most known instances of a breaker were in one state (the worse one in a draw).

    `most` is the largest number of instances in it at once, `last` the number at its end, of `known` that could be
    asked then, beside `unknown` that could not. `worst` is the worst state of any of them at its end, `worst_count` how
    many. `cause` is the move that made it the state of most.
    """

    breaker: str
    state: State | None
    start: datetime
    end: datetime
    most: int
    last: int
    known: int
    unknown: int
    worst: State | None
    worst_count: int
    cause: Transition | None = None

    @property
    def instances(self) -> int:
        """All instances at its end, known or not."""
        return self.known + self.unknown

    @property
    def is_there(self) -> bool:
        """Whether any instance lived then: before the first and after the last there is nothing to know."""
        return self.state is not None or self.instances > 0


class Presence(NamedTuple):
    """An instance in a window: born, perhaps gone, perhaps silent now and then (microseconds since the epoch)."""

    name: str
    born_us: int
    ended_us: int | None
    silences: Sequence[Span] = ()


class Fleet(dict[str, list[MajoritySegment]]):
    """Breaker → what most of the fleet was in, without gaps from `start` to `end`. `bin_s` as in `Lanes`.

    `presences` are all instances of the window, whatever breakers they have, and `services` what they are of.
    """

    presences: Sequence[Presence] = ()
    services: Sequence[str] = ()

    def __init__(self, *, start: datetime, end: datetime, bin_s: int = 0) -> None:
        super().__init__()
        self.start = start
        self.end = end
        self.bin_s = bin_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Counts per bin of `bin_s` seconds, one list per series, all of the same length; the first bin begins at `start`.

    `start` lies on a multiple of the bin, so it may be a little before the window, and the last bin may still fill.
    `unknown` marks the bins in which no instance lived to report: their zeros say nothing. The first `absent` of them
    lie before anybody's first sign of life, so that there was nothing to know.
    """

    start: datetime
    bin_s: int
    series: dict[str, list[int]]
    unknown: list[bool]
    absent: int = 0

    @property
    def length(self) -> int:
        """How many bins there are."""
        return len(self.unknown)

    def starts(self) -> list[datetime]:
        """When each bin begins."""
        return [self.start + timedelta(seconds=self.bin_s * index) for index in range(self.length)]

    def total(self) -> list[int]:
        """All series added up."""
        return [sum(values) for values in zip(*self.series.values(), strict=True)] or [0] * self.length

    def since(self, began: datetime | None) -> Self:
        """The same, told when the environment gave its first sign of life."""
        if began is None:
            return self
        before = int((began - self.start).total_seconds() // self.bin_s)
        unknown_first = next((place for place, gap in enumerate(self.unknown) if not gap), self.length)
        return replace(self, absent=max(0, min(before, unknown_first)))

    def gaps(self) -> list[tuple[int, int]]:
        """Runs of bins in which somebody was missed, as (first, last)."""
        runs: list[tuple[int, int]] = []
        for index in range(self.absent, self.length):
            if self.unknown[index] and runs and runs[-1][1] == index - 1:
                runs[-1] = (runs[-1][0], index)
            elif self.unknown[index]:
                runs.append((index, index))
        return runs


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityBins(Bins):
    """Capacity errors by "provider / model"; `series` holds the sums of both kinds."""

    rate_limited: dict[str, list[int]] = field(default_factory=dict)
    overloaded: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradationRow:
    """An interval in which one instance answered with less than the real thing. `ended` None: so far."""

    operation: str
    kind: str
    from_name: str
    to_name: str
    reason: str
    category: Category | None
    service: str
    instance: str
    heard: datetime
    """The last sign of life of its instance."""
    started: datetime
    ended: datetime | None
    calls: int
    """Calls answered so; known only when it has ended."""


class Derivation(NamedTuple):
    """What a fact was made of here that its sender did not tell itself: `span`, `span_event` or `log_record`."""

    kind: str
    trace_id: str
    span_id: str

    @staticmethod
    def of(attributes: object, trace_id: str, span_id: str) -> Derivation | None:
        """That of a stored fact; None for one that was sent as it is."""
        kind = attributes.get(names.DERIVED_FROM) if isinstance(attributes, Mapping) else None
        return Derivation(kind, trace_id, span_id) if isinstance(kind, str) and kind in DERIVED_WORDS else None

    @property
    def words(self) -> str:
        """`derived from a span`."""
        return DERIVED_WORDS[self.kind]


DERIVED_WORDS = {
    "span": "derived from a span",
    "span_event": "derived from an exception on a span",
    "log_record": "derived from a logged exception",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRow:
    """One classified failure."""

    fact_id: int
    fingerprint: str
    """By which it is one with others; empty where it does not tell."""
    at: datetime
    service: str
    instance: str
    operation: str
    breaker: str
    category: Category
    family: Family
    status_code: int | None
    error_type: str
    message: str
    attempt: int | None
    source: str
    is_foreground: bool
    run: str
    provider: str
    model: str
    retry_after_s: float | None
    derived: Derivation | None
    credential: str = ""
    """The label of the key that the attempt used; empty where the agent names none."""

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands among others: its moment in microseconds, and its number."""
        return to_us(self.at), self.fact_id


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """One operation as it was called lately. Rates are None where no call was counted."""

    operation: str
    breaker: str
    services: tuple[str, ...]
    sources: tuple[str, ...]
    foreground_sources: tuple[str, ...]
    calls_per_min: float
    failures_per_min: float
    fallbacks_per_min: float
    attempts_per_call: float | None
    """Amplification: attempts ÷ calls that made one, over the last hour."""
    failure_rate: float | None
    """Failures ÷ attempts over the last hour."""


WORST_FIRST: Sequence[State] = (
    State.FORCED_OPEN,
    State.OPEN,
    State.HALF_OPEN,
    State.DISABLED,
    State.METRICS_ONLY,
    State.CLOSED,
)
"""What a person should see first: calls blocked by a person, by the rules, half; then overrides that let calls flow."""

RANK: dict[State | None, int] = {state: len(WORST_FIRST) - place for place, state in enumerate(WORST_FIRST)} | {None: 0}
"""6 for the worst state, 1 for closed, 0 for unknown."""
