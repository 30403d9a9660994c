"""Events and the tables that are folded from them."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from hypothesis import strategies as st

from events.deployments.models import ServiceVersion
from events.issues.models import FailureKind, FailureSum, InstanceFailureSum
from events.models import (
    Agent,
    BreakerState,
    Degradation,
    Fact,
    InstanceMoves,
    MinuteSum,
    Quarantine,
    SettingsInForce,
    SpanSum,
)
from events.otlp.sent import Sent
from events.projections import verification
from events.runs.models import Run, RunFailure
from events.store.partitions import is_partitioned
from recovery_ops.rules import events as facts
from recovery_ops.rules.enums import Category, DelaySource, Evidence, RunStatus, State, StopReason, Trigger
from recovery_ops.rules.events import Event as AnyFact
from recovery_ops.rules.events import Record
from recovery_ops.wire import encode

NOW = datetime(2026, 11, 21, 14, 26, 18, tzinfo=UTC)


NOW_US = int(NOW.timestamp()) * 1_000_000


class Told:
    """Facts of one agent, told in any order; `ago` is seconds before now."""

    def __init__(self, instance: str = "a-1") -> None:
        self.instance = instance
        self.records: list[tuple[str, Sent]] = []

    def tell(self, fact: AnyFact, ago: float, *, number: int = 0, **rest: Any) -> Told:
        index = len(self.records) + 1
        uid = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.instance}/{index}"))
        at_ns = NOW_US * 1000 - int(ago * 1e9)
        event = encode(Record(event=fact, uid=uid, sequence_number=number or index, at_ns=at_ns, **rest))
        sent = Sent(event.event_name, event.at_ns, 0, event.severity, event.body, event.attributes, "", "")
        self.records.append((self.instance, sent))
        return self


def clear() -> None:
    states = (BreakerState, SettingsInForce, Degradation, Run, RunFailure)
    failures = (FailureSum, InstanceFailureSum, FailureKind)
    for model in (Fact, *states, *failures, MinuteSum, SpanSum, InstanceMoves, ServiceVersion, Quarantine, Agent):
        model.objects.all().delete()
    if is_partitioned():
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM events_factid")


def check() -> None:
    """The tables are what a fold of all facts says."""
    with verification.one_moment():
        folded, _ = verification.refold()
        assert list(verification.differences(folded, NOW)) == []


def move(state: State, *, breaker: str = "search", trigger: Trigger = Trigger.FAILURE_RATE, **rest: Any) -> AnyFact:
    return facts.BreakerStateChanged(
        operation="search", breaker=breaker, state=state, previous_state=State.CLOSED, trigger=trigger, **rest
    )


def failure(category: Category = Category.TIMEOUT, **rest: Any) -> AnyFact:
    rest = {"operation": "search", "breaker": "search", **rest}
    return facts.FailureClassified(category=category, evidence=Evidence.HTTP_STATUS, retryable=True, attempt=1, **rest)


def started(kind: str = "fallback", **rest: Any) -> AnyFact:
    return facts.DegradationStarted(operation="search", kind=kind, reason="breaker_open", **rest)


def ended(duration_s: float, kind: str = "fallback", **rest: Any) -> AnyFact:
    return facts.DegradationEnded(operation="search", kind=kind, duration_s=duration_s, **rest)


def heartbeat(revision: int, status: str = "running", **rest: Any) -> AnyFact:
    return facts.InstanceHeartbeat(
        interval_s=15,
        uptime_s=60,
        revision=revision,
        config_hash=f"hash-{revision}",
        schema_version=1,
        status=status,
        **rest,
    )


numbers = st.integers(0, 3)


kinds_of_failure = st.builds(
    facts.FailureClassified,
    operation=st.sampled_from(["search", "mail"]),
    category=st.sampled_from([Category.TIMEOUT, Category.RATE_LIMITED]),
    evidence=st.just(Evidence.HTTP_STATUS),
    retryable=st.booleans(),
    attempt=st.integers(1, 4),
    fingerprint=st.sampled_from(["", "f00d"]),
)


some_facts = st.one_of(
    st.builds(move, st.sampled_from(State), breaker=st.sampled_from(["search", "backend"])),
    kinds_of_failure,
    st.builds(started, st.sampled_from(["fallback", "model"]), to_name=st.sampled_from(["", "cache"])),
    st.builds(ended, st.sampled_from([0.0, 5.0, 100.0]), st.sampled_from(["fallback", "model"]), calls=numbers),
    st.builds(
        heartbeat,
        numbers,
        st.sampled_from(["running", "stopped"]),
        takes_new_work=st.sampled_from([None, True, False]),
        takes_retries=st.sampled_from([None, True, False]),
        spend_ledger=st.sampled_from(["", "ledger-1"]),
        spent_calls=st.dictionaries(st.sampled_from(["day:2026-11-21", "run:run-1"]), st.integers(0, 9)),
    ),
    st.builds(facts.DesiredStateApplied, revision=numbers, config_hash=st.just("x")),
    st.builds(facts.DesiredStateRejected, revision=numbers, config_hash=st.just("x"), reason=st.just("no")),
    st.builds(facts.CallsCounted, interval_s=st.just(10.0), calls=numbers, attempts=numbers, successes=numbers),
)


some_run_events = st.one_of(
    kinds_of_failure,
    st.builds(failure, st.sampled_from([Category.TIMEOUT, Category.RATE_LIMITED]), provider=st.sampled_from(["", "p"])),
    st.builds(facts.RunStarted, name=st.sampled_from(["", "errand"])),
    st.builds(
        facts.RunFinished,
        status=st.sampled_from(RunStatus),
        duration_s=st.just(3.0),
        cost_usd=st.sampled_from([None, 0.25]),
        input_tokens=numbers,
    ),
    st.builds(
        facts.RetryScheduled,
        operation=st.sampled_from(["search", "mail"]),
        attempt=st.just(2),
        delay_s=st.sampled_from([0.0, 1.5, 600.0]),
        delay_source=st.just(DelaySource.BACKOFF),
        category=st.sampled_from([Category.TIMEOUT, Category.RATE_LIMITED]),
    ),
    st.builds(facts.AttemptSucceeded, operation=st.sampled_from(["search", "mail"]), attempt=st.just(2)),
    st.builds(facts.FallbackActivated, operation=st.just("search"), fallback=st.sampled_from("ab"), level=st.just(1)),
    st.builds(facts.Escalated, queue=st.just("q"), reason=st.just("r")),
    st.builds(started, st.sampled_from(["fallback", "withdrawn"])),
    st.builds(
        facts.Exhausted,
        operation=st.sampled_from(["search", "mail"]),
        reason=st.just(StopReason.ATTEMPTS),
        attempts=st.just(3),
    ),
)


def stated(retries: int) -> AnyFact:
    return facts.SettingsInForce(
        operation="search",
        revision=retries,
        settings={"max_retries": retries, "persistent": False, "fallbacks": "a, b"},
        in_code={"max_retries": 5},
        held={"max_retries": 4},
        operation_kind="tool",
        breaker="backend",
    )
