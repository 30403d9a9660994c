"""What is folded is what the facts say, in whatever order, batches and repetitions they came."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.deployments.models import ServiceVersion
from events.ingest.records import read_records
from events.issues.models import FailureKind, FailureSum, InstanceFailureSum
from events.models import (
    Agent,
    BreakerState,
    Degradation,
    Fact,
    InstanceMoves,
    MinuteSum,
    SettingsInForce,
    SpanSum,
)
from events.otlp.sent import Batch, Sent
from events.projections import verification
from events.projections.lanes_anew import sum_lanes_anew
from events.projections.summing import COUNTERS
from events.store.writes import store_facts
from recovery_ops.rules import events as facts
from recovery_ops.rules.enums import Category, DelaySource, State, StopReason, Trigger
from recovery_ops.rules.events import Event as AnyFact
from tests.support.examples import examples
from tests.support.folds import (
    NOW,
    NOW_US,
    Told,
    check,
    clear,
    ended,
    failure,
    heartbeat,
    move,
    numbers,
    some_facts,
    some_run_events,
    started,
    stated,
)

MINUTE = 60.0


def deliver(records: Sequence[tuple[str, Sent]]) -> int:
    """Store one request's records; return how many were new."""
    batches = [
        Batch({"service.name": "billing", "service.instance.id": instance, "service.version": "1"}, "t", [sent])
        for instance, sent in records
    ]
    with transaction.atomic():
        return store_facts(read_records(batches, "dev", NOW_US).rows)


def in_all_orders(told: Told) -> list[list[tuple[str, Sent]]]:
    return [told.records, told.records[::-1]]


@pytest.mark.django_db(transaction=True)
class TestEachOrder:
    """The same facts forwards and backwards, one by one."""

    @pytest.fixture(params=[1, -1], ids=["forwards", "backwards"])
    def tell(self, request: pytest.FixtureRequest) -> Any:
        def deliver_each(told: Told) -> None:
            for record in told.records[:: request.param]:
                deliver([record])
            check()

        return deliver_each

    def test_the_newest_settings_are_in_force(self, tell: Any) -> None:
        told = Told()
        for ago, retries in ((30, 3), (10, 1), (20, 2)):
            told.tell(stated(retries), ago)
        tell(told.tell(facts.SettingsInForce(revision=7, settings={"guards.turns": 20}, count=1), 15))
        process, search = SettingsInForce.objects.order_by("operation")
        assert (process.count, process.revision, json.loads(process.stated)["settings"]) == (1, 7, {"guards.turns": 20})
        assert json.loads(search.stated) == {
            "settings": {"max_retries": 1, "persistent": False, "fallbacks": "a, b"},
            "in_code": {"max_retries": 5},
            "held": {"max_retries": 4},
        }
        assert (search.kind, search.breaker, search.at_us) == ("tool", "backend", NOW_US - 10_000_000)
        assert not BreakerState.objects.exists(), "what could be called is not what is"
        assert not MinuteSum.objects.exists()

    def test_the_newest_move_is_the_state(self, tell: Any) -> None:
        last = move(
            State.HALF_OPEN, trigger=Trigger.WAIT_ELAPSED, calls=20, failures=11, failure_rate=0.55, wait_s=60.0
        )
        tell(Told().tell(move(State.OPEN), 30).tell(last, 10, number=5).tell(failure(), 5))
        state = BreakerState.objects.get()
        assert (state.state, state.trigger, state.calls, state.failure_rate) == ("half_open", "wait_elapsed", 20, 0.55)
        assert (state.at_us, state.seen_us) == (NOW_US - 10_000_000, NOW_US - NOW_US % 60_000_000)

    def test_of_one_moment_the_higher_number_is_newer(self, tell: Any) -> None:
        tell(Told().tell(move(State.CLOSED), 10, number=9).tell(move(State.OPEN), 10, number=8))
        assert BreakerState.objects.get().state == "closed"

    def test_a_breaker_that_never_moved_is_closed(self, tell: Any) -> None:
        tell(Told().tell(failure(), 20).tell(failure(), 10))
        state = BreakerState.objects.get()
        assert (state.state, state.at_us, bytes(state.position)) == ("closed", None, b"")

    def test_an_agent_is_what_its_newest_facts_say(self, tell: Any) -> None:
        tell(
            Told()
            .tell(heartbeat(3, outbox_pending=7), 30)
            .tell(facts.DesiredStateApplied(revision=5, config_hash="five", clamped=("max_retries",)), 20)
            .tell(
                facts.DesiredStateRejected(revision=6, config_hash="six", reason="unknown setting", kept_revision=5), 15
            )
            .tell(heartbeat(5, "draining", breakers_open=2), 10)
        )
        agent = Agent.objects.get()
        assert (agent.service, agent.instance, agent.version) == ("billing", "a-1", "1")
        assert (agent.status, agent.breakers_open, agent.outbox_pending) == ("draining", 2, 0)
        assert (agent.revision, agent.config_hash, agent.applied_revision) == (5, "hash-5", 5)
        assert (agent.applied_us, agent.clamped) == (NOW_US - 20_000_000, '["max_retries"]')
        assert (agent.rejected_revision, agent.rejected_reason) == (6, "unknown setting")
        assert agent.first_seen_us == agent.last_seen_us == NOW_US

    def test_whether_it_takes_new_work_is_what_its_newest_heartbeat_says_if_that_says_it(self, tell: Any) -> None:
        told = Told().tell(heartbeat(3, takes_new_work=True), 30)
        tell(told.tell(heartbeat(4, "draining", takes_new_work=False, runs_in_flight=2), 20))
        assert (Agent.objects.get().takes_new_work, Agent.objects.get().runs_in_flight) == (False, 2)
        clear()
        tell(told.tell(heartbeat(4), 10))
        assert Agent.objects.get().takes_new_work is None, "another version, that does not tell"

    def test_whether_it_takes_retries_is_what_its_newest_heartbeat_says_if_that_says_it(self, tell: Any) -> None:
        told = Told().tell(heartbeat(3, takes_retries=True), 30)
        tell(told.tell(heartbeat(4, takes_retries=False), 20))
        assert Agent.objects.get().takes_retries is False
        clear()
        tell(told.tell(heartbeat(4), 10))
        assert Agent.objects.get().takes_retries is None

    def test_a_degradation_goes_from_start_to_end(self, tell: Any) -> None:
        told = Told().tell(started(from_name="search", to_name="cache"), 100).tell(ended(60.0, calls=4), 40)
        tell(told.tell(started("withdrawn"), 30).tell(started(to_name="default"), 20))
        rows = list(
            Degradation.objects.order_by("started_us").values_list("kind", "to_name", "started_us", "ended_us", "calls")
        )
        assert rows == [
            ("fallback", "cache", NOW_US - 100_000_000, NOW_US - 40_000_000, 4),
            ("withdrawn", "", NOW_US - 30_000_000, None, 0),
            ("fallback", "default", NOW_US - 20_000_000, None, 0),
        ]

    def test_one_that_comes_late_leaves_what_follows_its_neighbour_as_it_stands(self, tell: Any) -> None:
        told, begins = Told(), range(100, 0, -10)
        for ago in begins:
            told.tell(started(), ago).tell(ended(5.0), ago - 5)
        tell(told)
        rows = dict(Degradation.objects.values_list("started_us", "pk"))
        tell(told.tell(ended(1.0), 72))
        changed = dict(Degradation.objects.values_list("started_us", "pk"))
        assert changed.keys() - rows.keys() == {NOW_US - 73_000_000}
        assert {start for start, pk in rows.items() if changed[start] != pk} == {NOW_US - 70_000_000}

    def test_a_second_start_prolongs(self, tell: Any) -> None:
        tell(Told().tell(started(to_name="a"), 100).tell(started(to_name="b"), 80).tell(ended(50.0), 50))
        row = Degradation.objects.get()
        assert (row.to_name, row.started_us, row.ended_us) == ("b", NOW_US - 100_000_000, NOW_US - 50_000_000)

    def test_an_end_without_a_start_reaches_back_but_not_into_the_one_before(self, tell: Any) -> None:
        tell(Told().tell(ended(10.0), 100).tell(ended(1000.0), 50))
        rows = list(Degradation.objects.order_by("started_us").values_list("started_us", "ended_us"))
        assert rows == [
            (NOW_US - 110_000_000, NOW_US - 100_000_000),
            (NOW_US - 100_000_000, NOW_US - 50_000_000),
        ]


def sums(**dimensions: Any) -> dict[str, int]:
    rows = list(MinuteSum.objects.filter(**dimensions))
    totals = {name: sum(getattr(row, name) for row in rows) for name in COUNTERS}
    return {name: total for name, total in totals.items() if total}


COUNTED: dict[str, tuple[AnyFact, dict[str, int]]] = {
    "a failure": (failure(), {"facts": 1, "failures": 1}),
    "a 429": (failure(Category.QUOTA_EXHAUSTED, status_code=429), {"facts": 1, "failures": 1, "rate_limited": 1}),
    "rate limited": (failure(Category.RATE_LIMITED), {"facts": 1, "failures": 1, "rate_limited": 1}),
    "a 529": (failure(Category.SERVER_ERROR, status_code=529), {"facts": 1, "failures": 1, "overloaded": 1}),
    "overloaded": (failure(Category.OVERLOADED, status_code=503), {"facts": 1, "failures": 1, "overloaded": 1}),
    "a retry": (
        facts.RetryScheduled(
            attempt=2, max_retries=3, delay_s=1, delay_source=DelaySource.BACKOFF, category=Category.TIMEOUT
        ),
        {"facts": 1, "retries": 1},
    ),
    "a fallback": (facts.FallbackActivated(fallback="cache", level=1), {"facts": 1, "fallbacks": 1}),
    "rejections": (facts.BreakerRejected(breaker="b", state=State.OPEN, count=17), {"facts": 1, "rejections": 17}),
    "calls let through": (
        facts.BreakerRejected(breaker="b", state=State.DISABLED, count=17, reason="not_enforced"),
        {"facts": 1},
    ),
    "an end of the ladder": (facts.Exhausted(reason=StopReason.ATTEMPTS, attempts=3), {"facts": 1, "exhausted": 1}),
    "a degradation": (started(), {"facts": 1, "degradations": 1}),
    "the end of a degradation": (ended(1.0), {"facts": 1}),
    "another model": (
        facts.ModelFallback(from_model="a", to_model="b", category=Category.OVERLOADED, consecutive=3),
        {"facts": 1, "model_fallbacks": 1},
    ),
    "counts": (
        facts.CallsCounted(
            operation="o", interval_s=10, calls=100, attempts=120, successes=90, failures={"timeout": 30}
        ),
        {"calls": 100, "attempts": 120, "successes": 90},
    ),
    "counts beyond reason": (
        facts.CallsCounted(operation="o", interval_s=10, calls=10**12, attempts=-5, successes=1),
        {"calls": 10**9, "successes": 1},
    ),
    "a heartbeat": (heartbeat(1), {}),
    "a heartbeat that begins nothing": (heartbeat(1, "draining", takes_new_work=False, runs_in_flight=3), {}),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("what", COUNTED)
def test_a_minute_counts_what_happened_in_it(what: str) -> None:
    fact, expected = COUNTED[what]
    deliver(Told().tell(fact, 10).records)
    assert sums() == expected
    check()


@pytest.mark.django_db(transaction=True)
def test_sums_are_apart_by_minute_and_dimensions() -> None:
    told = (
        Told().tell(failure(provider="p", model="m"), 10, source="main_agent", is_foreground=True).tell(failure(), 10)
    )
    told.tell(failure(), 10 + MINUTE).tell(failure(Category.NETWORK), 10)
    deliver(told.records[:2])
    deliver(told.records[1:])
    assert MinuteSum.objects.count() == 4
    assert sums(source="main_agent", is_foreground=True, provider="p", model="m") == {"facts": 1, "failures": 1}
    assert sums(minute=NOW_US // 60_000_000 - 1) == {"facts": 1, "failures": 1}
    check()


moments = st.sampled_from([0.0, 1.0, 2.0, 30.0, 61.0, 1000.0, 86_400.0, 1_209_600.0])
ahead = st.sampled_from([-1.0, -86_400.0])


@st.composite
def deliveries(draw: st.DrawFn, moments: Any = moments) -> tuple[list[Any], list[list[Any]]]:
    """Some facts, and the same facts as they may arrive: shuffled, some of them again, in batches of any size."""
    told = [Told("a-1"), Told("a-2")]
    for whose, fact, ago, number in draw(
        st.lists(st.tuples(st.integers(0, 1), some_facts, moments, numbers), min_size=1, max_size=16)
    ):
        told[whose].tell(fact, ago, number=number + 1)
    runs = st.tuples(st.integers(0, 1), some_run_events, moments, numbers, st.sampled_from(["run-1", "run-2"]))
    for whose, fact, ago, number, run in draw(st.lists(runs, max_size=12)):
        told[whose].tell(fact, ago, number=number + 1, run=run, source="main_agent", policy_version=number)
    records = told[0].records + told[1].records
    again = draw(st.lists(st.sampled_from(records), max_size=8))
    arriving = draw(st.permutations(records + again))
    cuts = sorted(draw(st.lists(st.integers(0, len(arriving)), max_size=4)))
    bounds = [0, *cuts, len(arriving)]
    return records, [arriving[start:end] for start, end in pairwise(bounds)]


@settings(max_examples=examples(8, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(told=deliveries())
def test_no_order_batching_or_repetition_changes_the_tables(engine: str, told: tuple[Any, Any]) -> None:
    records, arriving = told
    clear()
    assert deliver(records) == len(records)
    expected = verification.stored_tables(0)
    check()
    clear()
    assert sum(deliver(batch) for batch in arriving) == len(records)
    assert verification.stored_tables(0) == expected
    check()


@settings(max_examples=examples(8, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(told=deliveries(moments | ahead))
def test_a_clock_that_runs_ahead_leaves_the_tables_as_the_facts_say(engine: str, told: tuple[Any, Any]) -> None:
    records, arriving = told  # such a fact happened when it came, so the tables depend on when that was
    clear()
    assert sum(deliver(batch) for batch in arriving) == len(records)
    check()


def test_the_command_names_what_differs(engine: str) -> None:
    deliver(Told().tell(move(State.OPEN), 10).tell(failure(), 5).tell(started(), 4).records)
    recently = int(datetime.now(UTC).timestamp() * 1e6)
    Fact.objects.all().update(at_us=recently, received_us=recently)
    with pytest.raises(CommandError, match=r"\b3\b"):
        call_command("verify_facts")


def test_the_command_is_content_with_what_was_just_stored(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = (
        Told().tell(move(State.OPEN), 10).tell(started(), 4).tell(stated(2), 3).tell(stated(3), 30).tell(stated(4), 1)
    )
    deliver(told.records[:3])
    deliver(told.records[3:])
    call_command("verify_facts")
    said = capsys.readouterr().out.splitlines()[-1]
    assert re.findall(r"\d+", said)[:4] == ["5", "1", "1", "1"], "facts, agents, breakers, tables of settings"
    assert json.loads(SettingsInForce.objects.get().stated)["settings"]["max_retries"] == 4


@pytest.mark.parametrize(
    ("model", "column", "value"),
    [
        (MinuteSum, "failures", 7),
        (SpanSum, "failures", 7),
        (InstanceMoves, "first", 7),
        (FailureSum, "failures", 7),
        (FailureSum, "last_us", 7),
        (InstanceFailureSum, "failures", 7),
        (FailureKind, "operation", "mail"),
        (BreakerState, "state", "closed"),
        (Degradation, "ended_us", 5),
        (SettingsInForce, "stated", "{}"),
        (ServiceVersion, "first_us", NOW_US - 5),
        (Agent, "version", "2"),
        (Agent, "last_seen_us", NOW_US + 1),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_any_altered_value_is_found(model: Any, column: str, value: object) -> None:
    deliver(Told().tell(move(State.OPEN), 10).tell(failure(), 5).tell(started(), 4).tell(stated(1), 3).records)
    model.objects.update(**{column: value})
    folded, _ = verification.refold()
    assert len(list(verification.differences(folded, NOW))) >= 1


@pytest.mark.parametrize(("value", "faults"), [(None, 0), (True, 1)])
@pytest.mark.django_db(transaction=True)
def test_what_a_server_of_before_left_empty_is_no_fault_and_what_it_says_wrongly_is(
    value: bool | None, faults: int
) -> None:
    deliver(Told().tell(heartbeat(1, "draining", takes_new_work=False), 3).records)
    Agent.objects.update(takes_new_work=value)
    assert len(list(verification.differences(verification.refold()[0], NOW))) == faults


@pytest.mark.parametrize(("value", "faults"), [(None, 0), (False, 1)])
@pytest.mark.django_db(transaction=True)
def test_the_same_of_whether_it_takes_retries(value: bool | None, faults: int) -> None:
    deliver(Told().tell(heartbeat(1, takes_new_work=True, takes_retries=True), 3).records)
    Agent.objects.update(takes_retries=value)
    assert len(list(verification.differences(verification.refold()[0], NOW))) == faults


def test_lanes_that_are_summed_anew_are_those_that_were_folded(engine: str) -> None:
    told, other = Told(), Told("a-2")
    for number, state in enumerate(State):
        told.tell(move(state), 40.0 * number).tell(move(state, breaker="backend"), 7000.0 * number)
        other.tell(move(state), 3.0 * number)
    deliver(told.records)
    deliver(other.records)
    folded = verification.stored_tables(0)["lane"]
    InstanceMoves.objects.update(moves=7)
    assert sum_lanes_anew() == 3 * len(State)
    assert verification.stored_tables(0)["lane"] == folded
    check()


@pytest.mark.django_db(transaction=True)
def test_an_agent_that_only_repeats_what_another_said_is_none() -> None:
    record = Told().tell(failure(), 10).records[0]
    deliver([record])
    assert deliver([("a-2", record[1])]) == 0
    assert [agent.instance for agent in Agent.objects.all()] == ["a-1"]
