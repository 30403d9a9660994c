"""Some busy hours of a small fleet, by chance but always the same: every kind of event that a question reads."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from events.capacity.detection import look_back
from events.capacity.reach import read_reach
from events.ingest.cardinality import Kind
from events.models import Agent, KnownName
from events.moments import to_us
from events.recoveries.summing import sum_days
from recovery_ops.rules import events as facts
from recovery_ops.rules.enums import (
    Category,
    Compensation,
    CompensationOutcome,
    DelaySource,
    RunStatus,
    State,
    StopReason,
    Trigger,
    Verdict,
)
from tests.support.stories import NOW, Story, ago, counted, failed, heartbeat, moved

INSTANCES = (
    ("billing", "b-1"),
    ("billing", "b-2"),
    ("billing", "b-3"),
    ("research", "a-1"),
    ("research", "a-2"),
    ("research", "a-3"),
)
SILENT = ("research", "a-3")
"""Of this one nothing was received lately."""
RETIRED = ("billing", "b-3")
"""Somebody said of this one that it is gone."""
SILENT_S = 1800.0
VERSIONS = {"b-1": "2.1", "b-2": "2.0", "b-3": "2.0", "a-1": "7", "a-2": "", "a-3": "7"}
OPERATIONS = ("crm.update", "search_web", "summarize")
BACKENDS = {
    "crm.update": ("", ""),
    "search_web": ("helios", "helios-large"),
    "summarize": ("acme", "small"),
}
SOURCES = (("user", True), ("batch", False))
CATEGORIES = (Category.OVERLOADED, Category.RATE_LIMITED, Category.TIMEOUT, Category.UNKNOWN)
HOURS_S = 3 * 3600
T = TypeVar("T", bound=facts.Event)


class Entry(NamedTuple):
    """One event, who reports it, and so many seconds before now."""

    ago_s: float
    service: str
    instance: str
    event: facts.Event
    run: str = ""
    source: str = ""
    is_foreground: bool = False

    @property
    def who(self) -> tuple[str, str]:
        return self.service, self.instance

    @property
    def at_us(self) -> int:
        """As it is stored: by the millisecond."""
        return int(ago(self.ago_s).timestamp() * 1000) * 1000


def busy_hours(seed: int) -> list[Entry]:
    """All events, in the order in which they arrive, which is any."""
    chance = random.Random(seed)
    told = [
        *(one for number in range(60) for one in _run(chance, number)),
        *_counts(chance),
        *_breakers(chance),
        *_degradations(chance),
        *_instances(chance),
        *_shortage(chance),
        *_last_week(chance),
    ]
    chance.shuffle(told)
    return [one._replace(instance=f"{one.instance[0]}-1") if _is_gone(one) else one for one in told]


def store(environment: str, told: Iterable[Entry]) -> None:
    """Store them in this order, and sum up what the worker sums up of this environment."""
    story = Story(environment)
    for one in told:
        about: dict[str, Any] = {"run": one.run, "source": one.source, "is_foreground": one.is_foreground}
        version = VERSIONS[one.instance] if one.ago_s < HOURS_S else "1"
        story.tell(one.event, at=one.ago_s, service=one.service, instance=one.instance, version=version, **about)
    story.store()
    Agent.objects.filter(environment=environment, instance=RETIRED[1]).update(retired_us=to_us(NOW))
    for name in OPERATIONS:
        KnownName.objects.create(environment=environment, kind=Kind.OPERATION, name=name, seen_day=0)
        KnownName.objects.create(environment=environment, kind=Kind.FINGERPRINT, name=f"{name}-x", seen_day=0)
    look_back(environment, NOW)
    read_reach(environment, NOW)
    sum_days(environment, NOW, most=9)


def of_kind(told: Sequence[Entry], kind: type[T]) -> list[tuple[Entry, T]]:
    """Those of one kind, the oldest first."""
    found = [(one, one.event) for one in told if isinstance(one.event, kind)]
    return sorted(found, key=lambda pair: pair[0].at_us)


def _is_gone(one: Entry) -> bool:
    return one.who in (SILENT, RETIRED) and one.ago_s < SILENT_S


def _moment(chance: random.Random, first: float, last: float) -> float:
    return chance.randrange(int(first * 1000), int(last * 1000)) / 1000


def _failure(chance: random.Random, operation: str, attempt: int = 1) -> facts.FailureClassified:
    category = chance.choice(CATEGORIES)
    provider, model = BACKENDS[operation]
    return failed(
        category,
        operation,
        attempt=attempt,
        retryable=chance.random() < 0.7,
        fingerprint="" if chance.random() < 0.2 else f"{operation}-{chance.choice('xy')}",
        message=chance.choice(("no room", "too late", "")),
        error_type=chance.choice(("Busy", "Late")),
        status_code=chance.choice((None, 429, 529)),
        retry_after_s=chance.choice((None, 2.0, 30.5)),
        provider=provider or None,
        model=model or None,
    )


def _run(chance: random.Random, number: int) -> Iterator[Entry]:
    """A run with its failures, what was done about them, and mostly an end."""
    service, instance = chance.choice(INSTANCES)
    source, is_foreground = chance.choice(SOURCES)
    at = _moment(chance, 20, chance.choice((600, HOURS_S)))

    def tell(event: facts.Event) -> Entry:
        return Entry(at, service, instance, event, f"run-{number}", source, is_foreground)

    yield tell(facts.RunStarted(name=f"errand {number % 4}"))
    for attempt in range(1, chance.randrange(1, 6)):
        at = max(1.0, at - _moment(chance, 1, 90))
        operation = chance.choice(OPERATIONS)
        yield tell(failure := _failure(chance, operation, attempt))
        at = max(0.5, at - 0.25)
        category = failure.category
        match chance.randrange(6):
            case 0 | 1 | 2:
                delay_s = chance.choice((1.5, 20.0, 600.0))
                yield tell(
                    facts.RetryScheduled(
                        operation=operation,
                        attempt=attempt,
                        delay_s=delay_s,
                        delay_source=DelaySource.BACKOFF,
                        category=category,
                    )
                )
            case 3:
                yield tell(facts.FallbackActivated(operation=operation, fallback="cache", level=1, category=category))
            case 4:
                yield tell(
                    facts.CompensationFinished(
                        operation=operation,
                        compensation=chance.choice(list(Compensation)[:2]),
                        outcome=chance.choice(list(CompensationOutcome)[:2]),
                        verdict=chance.choice(list(Verdict)[:2]),
                    )
                )
            case _:
                yield tell(facts.AttemptSucceeded(operation=operation, attempt=attempt + 1, breaker=operation))
    if chance.random() < 0.2:
        yield tell(
            facts.Escalated(queue="policy", reason="policy_denied", escalation_id=f"e-{number}", message="May it?")
        )
    if chance.random() < 0.75:
        at = max(0.1, at - _moment(chance, 1, 60))
        status = chance.choice([one for one in RunStatus if one is not RunStatus.RUNNING])
        if status is RunStatus.FAILED:
            yield tell(facts.Exhausted(operation=chance.choice(OPERATIONS), reason=StopReason.ATTEMPTS, attempts=3))
        yield tell(facts.RunFinished(status=status, duration_s=30.0, cost_usd=chance.choice((None, 0.25, 0.5))))


def _counts(chance: random.Random) -> Iterator[Entry]:
    """What every instance counted now and then, and lately."""
    for service, instance in INSTANCES:
        for operation in OPERATIONS:
            moments = [_moment(chance, 20, HOURS_S) for _ in range(12)]
            if (service, instance) not in (SILENT, RETIRED):
                moments += [_moment(chance, 1, 14) for _ in range(2)]
            for at in moments:
                source, is_foreground = chance.choice(SOURCES)
                calls = chance.randrange(1, 40)
                provider, model = BACKENDS[operation]
                event = counted(
                    calls,
                    operation,
                    attempts=calls + chance.randrange(9),
                    successes=calls - chance.randrange(calls),
                    rejected=chance.randrange(calls),
                    in_flight=chance.randrange(5),
                    input_tokens=chance.randrange(900),
                    output_tokens=chance.randrange(90),
                    failures={Category.TIMEOUT.value: chance.randrange(3)},
                    provider=provider or None,
                    model=model or None,
                )
                yield Entry(at, service, instance, event, source=source, is_foreground=is_foreground)


def _breakers(chance: random.Random) -> Iterator[Entry]:
    for service, instance in INSTANCES:
        for operation in OPERATIONS[:2]:
            before = State.CLOSED
            for at in sorted((_moment(chance, 9, HOURS_S) for _ in range(6)), reverse=True):
                state = chance.choice([one for one in (State.OPEN, State.HALF_OPEN, State.CLOSED) if one is not before])
                rate = chance.randrange(50, 100) / 100
                how: dict[str, Any] = {"failure_rate": rate, "calls": 100, "failures": int(rate * 100)}
                trigger = Trigger.FAILURE_RATE if state is State.OPEN else Trigger.WAIT_ELAPSED
                event = moved(state, before=before, breaker=operation, trigger=trigger, wait_s=30.0, **how)
                yield Entry(at, service, instance, event)
                before = state
            for _ in range(3):
                count = chance.randrange(1, 9)
                refused = facts.BreakerRejected(operation=operation, breaker=operation, state=State.OPEN, count=count)
                yield Entry(_moment(chance, 1, HOURS_S), service, instance, refused)


def _degradations(chance: random.Random) -> Iterator[Entry]:
    for service, instance in INSTANCES:
        for operation in OPERATIONS:
            begun = _moment(chance, 700, HOURS_S)
            reduced: dict[str, Any] = {"operation": operation, "kind": "fallback", "to_name": "cache"}
            yield Entry(begun, service, instance, facts.DegradationStarted(**reduced, reason="breaker_open"))
            if chance.random() < 0.7:
                lasted_s = chance.randrange(5, 600)
                event = facts.DegradationEnded(**reduced, duration_s=lasted_s, calls=chance.randrange(9))
                yield Entry(begun - lasted_s, service, instance, event)


def _instances(chance: random.Random) -> Iterator[Entry]:
    for place, (service, instance) in enumerate(INSTANCES):
        last = SILENT_S if (service, instance) in (SILENT, RETIRED) else 2.0 + place
        for at in (last, last + 900, last + 3600):
            state = heartbeat(uptime_s=4 * 3600.0 - at, revision=place, runs_in_flight=chance.randrange(1, 4))
            yield Entry(at, service, instance, state)
        for revision in range(3):
            at = _moment(chance, 20, HOURS_S)
            applied = facts.DesiredStateApplied(revision=revision, config_hash="x")
            rejected = facts.DesiredStateRejected(revision=revision, config_hash="x", reason="too new")
            yield Entry(at, service, instance, rejected if revision == 1 else applied)
        stated = facts.SettingsInForce(operation="search_web", revision=place, settings={"max_retries": place})
        yield Entry(_moment(chance, 20, HOURS_S), service, instance, stated)


def _shortage(chance: random.Random) -> Iterator[Entry]:
    """Two outages of backends: one is over, one goes on."""
    for operation, first, last in (("search_web", 4000, 4200), ("summarize", 5, 150)):
        provider, model = BACKENDS[operation]
        for _ in range(40):
            service, instance = chance.choice(INSTANCES)
            event = failed(
                Category.OVERLOADED,
                operation,
                fingerprint=f"{operation}-outage",
                provider=provider,
                model=model,
                status_code=529,
            )
            run = f"run-{chance.randrange(60)}"
            yield Entry(_moment(chance, first, last), service, instance, event, run, "user", is_foreground=True)


def _last_week(chance: random.Random) -> Iterator[Entry]:
    """A few failures and counts of the days before."""
    for _ in range(25):
        service, instance = chance.choice(INSTANCES)
        operation = chance.choice(OPERATIONS)
        at = _moment(chance, HOURS_S, 7 * 86_400)
        yield Entry(at, service, instance, _failure(chance, operation), "", "user", is_foreground=True)
        yield Entry(at, service, instance, counted(chance.randrange(1, 9), operation))
