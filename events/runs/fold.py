"""Folds the events of a run into its row. Pure: rows in, values out.

A fold is the same in whatever order, batches and repetitions events arrive: it holds sums, least and greatest values,
and values of the event with the least or greatest place. Status and end are computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeVar

import orjson

from events.ingest.records import Row
from events.issues.fold import FAILED
from events.models import NAME_CHARS
from events.projections.stated import number_of, text_of
from events.rows import DERIVED_WORDS
from recovery_ops.rules import events
from recovery_ops.rules.enums import CAPACITY, Category, RunStatus
from recovery_ops.wire import names

NUMBERS = ("turns", "attempts", "input_tokens", "output_tokens", "cost_usd")
NAMES_KEPT = 64
"""So many operations and models of one run are kept by name."""
INSTANCES_KEPT = 64
"""So many instances of one run are kept apart. The least numbers, so that the order of arrival decides nothing."""
LONGEST_S = 10 * 365 * 86_400.0
"""No wait is taken for longer."""
UNSTATED = "ended"
"""The status of a run that ended without stating how."""
RETRIED, FALLEN_BACK, DEGRADED, ASKED, GIVEN_UP = range(1, 6)
"""The recovery steps by level."""
ENDED_BADLY = frozenset({RunStatus.FAILED.value, RunStatus.STOPPED.value, RunStatus.CANCELLED.value})
LONG_US = 6 * 3_600_000_000
"""A run that lasts longer has an index of its own: a list of a range finds it however early it began."""
_LASTING = (DEGRADED, ASKED)
"""What is reported of these steps behind the end of a run does not count."""
_US = 1_000_000
_STATUSES = frozenset(status.value for status in RunStatus)
_CAPACITY = frozenset(category.value for category in CAPACITY)
_EVENT = {kind: names.EVENTS[kind].name for kind in names.EVENTS}
_STARTED, _FINISHED = _EVENT[events.RunStarted], _EVENT[events.RunFinished]
_RETRY, _SUCCEEDED = _EVENT[events.RetryScheduled], _EVENT[events.AttemptSucceeded]
_FALLBACK, _MODEL_FALLBACK = _EVENT[events.FallbackActivated], _EVENT[events.ModelFallback]
_REDUCED, _ESCALATED = _EVENT[events.DegradationStarted], _EVENT[events.Escalated]
_EXHAUSTED, _STOPPED = _EVENT[events.Exhausted], _EVENT[events.RunStopped]
RUN_EVENTS = frozenset(
    _EVENT[kind]
    for kind in (
        *(events.RunStarted, events.RunFinished, events.FailureClassified, events.RetryScheduled),
        *(events.AttemptSucceeded, events.FallbackActivated, events.ModelFallback, events.DegradationStarted),
        *(events.Escalated, events.Exhausted, events.RunStopped, events.BreakerStateChanged, events.GuardTripped),
        *(events.PermissionDenied, events.HookFailed, events.BudgetWarned, events.BudgetExhausted),
        *(events.CompensationFinished, events.ReversalRefused, events.CheckpointSaved, events.CheckpointRestored),
        *(events.ToolErrorReturned, events.SpendCapReached),
    )
)
"""The events that make a run known."""
_NAME, _STATUS = (names.attribute_of(events.RunFinished, one) for one in ("name", "status"))
_START_NAME = names.attribute_of(events.RunStarted, "name")
_NUMBERS = tuple(names.attribute_of(events.RunFinished, one) for one in NUMBERS)
_DELAY = names.attribute_of(events.RetryScheduled, "delay_s")
_STAND_IN = names.attribute_of(events.FallbackActivated, "fallback")
_OLD_MODEL, _NEW_MODEL = (names.attribute_of(events.ModelFallback, one) for one in ("from_model", "to_model"))
_KIND = names.attribute_of(events.DegradationStarted, "kind")
T = TypeVar("T")


class RunName(NamedTuple):
    """One run in one environment."""

    environment: str
    run: str


@dataclass(slots=True)
class Life:
    """What one instance reported of the start and the end of a run, as greatest values; 0: nothing.

    `start_clock` and `end_clock` are by the instance's own clock.
    """

    start_clock: int = 0
    start_number: int = 0
    start_us: int = 0
    end_clock: int = 0
    end_number: int = 0
    end_us: int = 0
    is_clock_wrong: bool = False

    def join(self, other: Self) -> None:
        """Add what the other knows."""
        self.start_clock = max(self.start_clock, other.start_clock)
        self.start_number = max(self.start_number, other.start_number)
        self.start_us = max(self.start_us, other.start_us)
        self.end_clock = max(self.end_clock, other.end_clock)
        self.end_number = max(self.end_number, other.end_number)
        self.end_us = max(self.end_us, other.end_us)
        self.is_clock_wrong |= other.is_clock_wrong

    @property
    def has_ended(self) -> bool:
        """Whether its end follows its start: by its own clock; by sequence numbers, too, where that clock is wrong."""
        if not self.end_us:
            return False
        return self.end_clock >= self.start_clock or (self.is_clock_wrong and self.end_number > self.start_number)


@dataclass(slots=True)
class RunFold:
    """All that the events of one run add up to. Places are moments and texts of sequence number and id, which sort like
    positions.
    """

    first_us: int
    last_us: int
    origin: list[Any]
    """Of the first event: its place, number of the instance, service, policy."""
    caller: list[Any] | None = None
    """Of the first event with a query source: its place, source, whether in the foreground."""
    title: list[Any] | None = None
    """Of the first event with a name of the run: its place, name."""
    started_us: int | None = None
    begun: list[Any] | None = None
    """Of the last run_started: its place, number of the instance, service."""
    end: list[Any] | None = None
    """Of the last run_finished: its place, status, and each of `NUMBERS` in a list that is empty without it."""
    lives: dict[str, Life] = field(default_factory=dict)
    """By the number of the instance; of more than `INSTANCES_KEPT`, those with the least numbers."""
    failures: dict[str, int] = field(default_factory=dict)
    """By category."""
    failed_us: int = 0
    retries: int = 0
    waited_us: int = 0
    questions: int = 0
    derived: int = 0
    steps: dict[str, list[int]] = field(default_factory=dict)
    """By level, the first and the last moment of each recovery step."""
    waits: dict[str, list[Any]] = field(default_factory=dict)
    """By operation, the place of its last event, the end of the wait or 0, category."""
    stood_in: dict[str, list[Any]] = field(default_factory=dict)
    """By operation, the place of the last fallback, name."""
    gave_up: dict[str, list[Any]] = field(default_factory=dict)
    """By operation, the place at which it was given up first."""
    models: dict[str, list[Any]] = field(default_factory=dict)
    """By provider and model, the first place."""

    def join(self, other: Self) -> None:
        """Add what the other knows."""
        self.first_us, self.last_us = min(self.first_us, other.first_us), max(self.last_us, other.last_us)
        self.origin = min(self.origin, other.origin)
        self.caller, self.title = _either(min, self.caller, other.caller), _either(min, self.title, other.title)
        self.started_us = _either(min, self.started_us, other.started_us)
        self.begun, self.end = _either(max, self.begun, other.begun), _either(max, self.end, other.end)
        for agent, life in other.lives.items():
            self.life_of(agent).join(life)
        for category, count in other.failures.items():
            self.failures[category] = self.failures.get(category, 0) + count
        self.failed_us = max(self.failed_us, other.failed_us)
        self.retries += other.retries
        self.waited_us += other.waited_us
        self.questions += other.questions
        self.derived += other.derived
        for level, (first_us, last_us) in other.steps.items():
            known = self.steps.get(level, [first_us, last_us])
            self.steps[level] = [min(known[0], first_us), max(known[1], last_us)]
        self.waits = _newest(self.waits, other.waits)
        self.stood_in = _newest(self.stood_in, other.stood_in)
        self.gave_up = _oldest(self.gave_up, other.gave_up)
        self.models = _oldest(self.models, other.models)

    def life_of(self, agent: str) -> Life:
        """The life in one instance, to be added to; one that is not kept has no effect."""
        known = self.lives.get(agent)
        if known is not None:
            return known
        if len(self.lives) < INSTANCES_KEPT:
            return self.lives.setdefault(agent, Life())
        last = max(self.lives, key=int)
        if int(agent) > int(last):
            return Life()
        del self.lives[last]
        return self.lives.setdefault(agent, Life())

    @property
    def ended_us(self) -> int | None:
        """When it ended; None while it goes on: where an instance began it and no end followed."""
        if self.end is None:
            return None
        for agent, life in self.lives.items():
            if not life.has_ended and any(
                one.end_us >= life.start_us for other, one in self.lives.items() if other != agent and one.end_us
            ):
                continue
            if not life.has_ended:
                return None
        return int(self.end[0])

    @property
    def status(self) -> str:
        """What it stated at its end; empty while it goes on."""
        if self.end is None or self.ended_us is None:
            return ""
        return self.end[2] if self.end[2] in _STATUSES else UNSTATED

    @property
    def net_waited_us(self) -> int:
        """The sum of its waits, without the rest of one that its end cut short."""
        ended_us = self.ended_us
        return self.waited_us - (0 if ended_us is None else max(0, self.waits_until_us() - ended_us))

    @property
    def level(self) -> int:
        """The highest recovery step; 0 for none."""
        ended_us = self.ended_us
        reached = (
            int(level)
            for level, (first_us, _) in self.steps.items()
            if int(level) not in _LASTING or ended_us is None or first_us < ended_us
        )
        return max(reached, default=0)

    @property
    def holder(self) -> int:
        """The number of the instance that has it in hand: one of another service runs a part of it."""
        is_its_own = self.begun is not None and self.begun[3] == self.origin[3]
        return int(self.begun[2] if self.begun is not None and is_its_own else self.origin[2])

    def waits_until_us(self, categories: frozenset[str] | None = None) -> int:
        """The end of the longest wait that nothing followed, of all or some categories; 0 where there is none."""
        return max(
            (end for *_, end, category in self.waits.values() if categories is None or category in categories),
            default=0,
        )

    def packed(self) -> str:
        """As JSON."""
        return orjson.dumps(self).decode()

    @classmethod
    def of(cls, packed: str) -> Self:
        """From JSON."""
        given = orjson.loads(packed)
        lives = {agent: Life(**life) for agent, life in given.pop("lives").items()}
        return cls(lives=lives, **given)


RunFolds = dict[RunName, RunFold]


def _either(choose: Callable[..., T], mine: T | None, other: T | None) -> T | None:
    if mine is None or other is None:
        return other if mine is None else mine
    return choose(mine, other)


def _newest(mine: dict[str, list[Any]], other: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    for name, value in other.items():
        known = mine.get(name)
        if known is None or value > known:
            mine[name] = value
    return _first(mine, is_newest=True) if len(mine) > NAMES_KEPT else mine


def _oldest(mine: dict[str, list[Any]], other: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    for name, value in other.items():
        known = mine.get(name)
        if known is None or value < known:
            mine[name] = value
    return _first(mine, is_newest=False) if len(mine) > NAMES_KEPT else mine


def _first(named: dict[str, list[Any]], *, is_newest: bool) -> dict[str, list[Any]]:
    """Some of many names, the same whatever came in between."""
    ordered = sorted(named, key=lambda name: (named[name], name), reverse=is_newest)
    return {name: named[name] for name in ordered[:NAMES_KEPT]}


# -- events ------------------------------------------------------------------------------------------------------------


def add_runs(found: RunFolds, rows: Iterable[Row]) -> None:
    """Add what these rows of one or more instances report of runs."""
    by_run: dict[RunName, list[Row]] = {}
    for row in rows:
        if row.run and row.event in RUN_EVENTS:
            by_run.setdefault(RunName(row.environment, row.run), []).append(row)
    for name, mine in by_run.items():
        news, known = _fold(sorted(mine, key=_place)), found.get(name)
        if known is None:
            found[name] = news
        else:
            known.join(news)


def _fold(rows: Sequence[Row]) -> RunFold:
    """Rows of one run in their order."""
    first = rows[0]
    policy = text_of(first.attributes.get(names.POLICY_VERSION), NAME_CHARS)
    fold = RunFold(first.at_us, rows[-1].at_us, [*_place(first), first.agent_id, first.agent.service, policy])
    caller = next((row for row in rows if row.source), None)
    if caller is not None:
        fold.caller = [*_place(caller), caller.source, caller.is_foreground]
    backends: dict[tuple[str, str], Row] = {}
    last: dict[str, tuple[Row, int]] = {}
    for row in rows:
        if row.provider or row.model:
            backends.setdefault((row.provider, row.model), row)
        if text_of(row.attributes.get(names.DERIVED_FROM), NAME_CHARS) in DERIVED_WORDS and row.event != _RETRY:
            fold.derived += 1
        handler = _HANDLERS.get(row.event)
        if handler is not None:
            until_us = handler(fold, row)
            if until_us is not None:
                last[row.operation or row.breaker] = row, until_us
    for (provider, model), row in backends.items():
        fold.models[" / ".join(filter(None, (provider, model)))] = [*_place(row)]
    fold.waits = {name: [*_place(row), until_us, row.category] for name, (row, until_us) in last.items()}
    fold.waits, fold.models = _newest(fold.waits, {}), _oldest(fold.models, {})
    return fold


def _place(row: Row) -> tuple[int, str]:
    return row.at_us, f"{row.sequence_number:016x}{row.uid[-4:].hex()}"


def _reach(fold: RunFold, level: int, at_us: int) -> int:
    """A recovery step; nothing is waited for behind it."""
    known = fold.steps.get(str(level))
    if known is None:
        fold.steps[str(level)] = [at_us, at_us]
    else:
        known[1] = at_us
    return 0


def _life(fold: RunFold, row: Row) -> tuple[Life, int]:
    life = fold.life_of(str(row.agent_id))
    if row.stated_us is not None or row.at_us == row.received_us:
        life.is_clock_wrong = True
    return life, row.at_us if row.stated_us is None else row.stated_us


def _title(fold: RunFold, row: Row, attribute: str) -> None:
    name = text_of(row.attributes.get(attribute), NAME_CHARS)
    if name and fold.title is None:
        fold.title = [*_place(row), name]


def _started(fold: RunFold, row: Row) -> None:
    life, clock = _life(fold, row)
    life.start_clock, life.start_us = max(life.start_clock, clock), max(life.start_us, row.at_us)
    life.start_number = max(life.start_number, row.sequence_number)
    fold.started_us = row.at_us if fold.started_us is None else fold.started_us
    fold.begun = [*_place(row), row.agent_id, row.agent.service]
    _title(fold, row, _START_NAME)


def _finished(fold: RunFold, row: Row) -> None:
    life, clock = _life(fold, row)
    life.end_clock, life.end_us = max(life.end_clock, clock), max(life.end_us, row.at_us)
    life.end_number = max(life.end_number, row.sequence_number)
    said = (number_of(row.attributes.get(name)) for name in _NUMBERS)
    numbers = [[] if number is None else [number] for number in said]
    fold.end = [
        *_place(row),
        text_of(row.attributes.get(_STATUS), 32),
        numbers,
    ]
    _title(fold, row, _NAME)


def _failed(fold: RunFold, row: Row) -> int:
    category = row.category or Category.UNKNOWN.value
    fold.failures[category] = fold.failures.get(category, 0) + 1
    fold.failed_us = row.at_us
    return _reach(fold, RETRIED, row.at_us)


def _retried(fold: RunFold, row: Row) -> int | None:
    fold.retries += 1
    delay_us = int(min(LONGEST_S, max(0.0, number_of(row.attributes.get(_DELAY)) or 0.0)) * _US)
    if not delay_us:
        return None
    fold.waited_us += delay_us
    _reach(fold, RETRIED, row.at_us)
    return row.at_us + delay_us


def _succeeded(fold: RunFold, row: Row) -> int:
    return _reach(fold, RETRIED, row.at_us)


def _fell_back(fold: RunFold, row: Row) -> int:
    stand_in = text_of(row.attributes.get(_STAND_IN), NAME_CHARS)
    fold.stood_in[row.operation] = [*_place(row), stand_in]
    return _reach(fold, FALLEN_BACK, row.at_us)


def _model_fell_back(fold: RunFold, row: Row) -> int:
    old = text_of(row.attributes.get(_OLD_MODEL), NAME_CHARS) or row.operation
    new = text_of(row.attributes.get(_NEW_MODEL), NAME_CHARS) or row.model
    fold.stood_in[old] = [*_place(row), new]
    return _reach(fold, FALLEN_BACK, row.at_us)


def _reduced(fold: RunFold, row: Row) -> int | None:
    # Every other kind is reported by the fallback itself.
    return _reach(fold, DEGRADED, row.at_us) if row.attributes.get(_KIND) == "withdrawn" else None


def _asked(fold: RunFold, row: Row) -> int:
    fold.questions += 1
    return _reach(fold, ASKED, row.at_us)


def _gave_up(fold: RunFold, row: Row) -> int:
    fold.gave_up.setdefault(row.operation, [*_place(row)])
    return _reach(fold, GIVEN_UP, row.at_us)


def _stopped(fold: RunFold, row: Row) -> int:
    return _reach(fold, GIVEN_UP, row.at_us)


_HANDLERS: dict[str, Callable[[RunFold, Row], int | None]] = {
    _STARTED: _started,
    _FINISHED: _finished,
    FAILED: _failed,
    _RETRY: _retried,
    _SUCCEEDED: _succeeded,
    _FALLBACK: _fell_back,
    _MODEL_FALLBACK: _model_fell_back,
    _REDUCED: _reduced,
    _ESCALATED: _asked,
    _EXHAUSTED: _gave_up,
    _STOPPED: _stopped,
}
"""What each event adds; the end of the wait that it announces, 0 where it ends one, None where it does neither."""


# -- columns -----------------------------------------------------------------------------------------------------------

RUN_KEY = ("environment", "run")
RUN_COLUMNS = (
    *("agent_id", "holder_id", "first_us", "last_us", "started_us", "ended_us", "status", "is_failed"),
    *("is_long", "name", "source", "policy"),
    *("level", "failures", "categories", "models_named", "retries", "questions", "waited_us", "waits_until_us"),
    *("capacity_until_us", "cost_usd", "fold"),
)


def run_values(fold: RunFold) -> tuple[Any, ...]:
    """The values of `RUN_COLUMNS`."""
    ended_us = fold.ended_us
    named = sorted(fold.models, key=lambda name: (fold.models[name], name))
    return (
        fold.origin[2],
        fold.holder,
        fold.first_us,
        fold.last_us,
        fold.first_us if fold.started_us is None else fold.started_us,
        ended_us,
        fold.status,
        fold.status in ENDED_BADLY,
        fold.last_us - fold.first_us > LONG_US,
        fold.title[2] if fold.title else "",
        fold.caller[2] if fold.caller else "",
        fold.origin[4],
        fold.level,
        sum(fold.failures.values()),
        orjson.dumps(fold.failures, option=orjson.OPT_SORT_KEYS).decode(),
        orjson.dumps(named).decode(),
        fold.retries,
        fold.questions,
        fold.net_waited_us,
        0 if ended_us is not None else fold.waits_until_us(),
        0 if ended_us is not None else fold.waits_until_us(_CAPACITY),
        next(iter(fold.end[-1][NUMBERS.index("cost_usd")]), None) if fold.end else None,
        fold.packed(),
    )
