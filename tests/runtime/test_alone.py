"""The parts that stand alone: breakers, chains of models, deadlines."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from recovery_ops.rules.facts import BreakerStateChanged, Fact
from recovery_ops.rules.policy import Knobs
from recovery_ops.rules.words import State, Trigger
from recovery_ops.runtime import (
    CircuitBreaker,
    CircuitOpen,
    Deadline,
    Model,
    ModelChain,
    ModelFallback,
    Needs,
    RecoveryExhausted,
)
from recovery_ops.runtime.testing import HttpError, Lab, PushedClock


@pytest.fixture
def clock() -> PushedClock:
    return PushedClock()


def failing() -> None:
    raise TimeoutError


class TestCircuitBreaker:
    def test_it_opens_refuses_and_recovers(self, clock: PushedClock) -> None:
        told: list[Fact] = []
        breaker = CircuitBreaker("search", Knobs(consecutive_failures=2), clock=clock, on_fact=told.append)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                breaker.call(failing)
        with pytest.raises(CircuitOpen) as refused:
            breaker.call(failing)
        assert refused.value.retry_at is not None
        clock.push(60.0)
        assert breaker.call(lambda: "ok") == "ok"
        assert breaker.state is State.CLOSED
        assert [fact.trigger for fact in told if isinstance(fact, BreakerStateChanged)] == [
            Trigger.CONSECUTIVE_FAILURES,
            Trigger.WAIT_ELAPSED,
            Trigger.PROBE_SUCCEEDED,
        ]

    def test_the_callers_mistakes_do_not_count(self, clock: PushedClock) -> None:
        breaker = CircuitBreaker("search", Knobs(consecutive_failures=1), clock=clock)
        with pytest.raises(ValueError, match="mine"), breaker.attempt():
            raise ValueError("mine")
        assert breaker.state is State.CLOSED

    def test_tripped_released_and_reset(self, clock: PushedClock) -> None:
        breaker = CircuitBreaker("search", clock=clock)
        guarded = breaker(lambda: "ok")
        breaker.trip(60.0)
        with pytest.raises(CircuitOpen):
            guarded()
        breaker.release()
        assert guarded() == "ok"
        breaker.trip(60.0)
        breaker.reset()
        assert breaker.state.value == "closed"

    def test_a_trip_ends_by_itself(self, clock: PushedClock) -> None:
        breaker = CircuitBreaker("search", clock=clock)
        breaker.trip(60.0)
        clock.push(60.0)
        assert breaker.state is State.HALF_OPEN


class TestModelChain:
    def test_it_signals_after_overloads_in_a_row(self, clock: PushedClock) -> None:
        chain = ModelChain("large", "small", overloads=2, clock=clock)
        chain.failed("large", HttpError(529))
        with pytest.raises(ModelFallback) as signal:
            chain.failed("large", HttpError(529))
        assert (signal.value.from_model, signal.value.to_model) == ("large", "small")
        assert chain.ask() == "small"
        clock.push(60.0)
        assert chain.ask() == "large"
        assert chain.answered("large"), "the primary is back"

    def test_other_failures_do_not_count(self, clock: PushedClock) -> None:
        chain = ModelChain("large", "small", overloads=1, clock=clock)
        chain.failed("large", HttpError(500))
        assert chain.ask() == "large"

    def test_a_model_that_cannot_do_it_is_skipped(self, clock: PushedClock) -> None:
        plain = Model(name="plain", has_tools=False)
        chain = ModelChain("large", plain, Model(name="tiny", context_tokens=8000), overloads=1, clock=clock)
        with pytest.raises(ModelFallback) as signal:
            chain.failed("large", HttpError(529), Needs(tools=True))
        assert signal.value.to_model == "tiny"
        assert chain.ask(Needs(tools=True, context_tokens=100_000)) == "large", "nobody else can"

    @pytest.mark.parametrize("models", [(), ("a", "a")])
    def test_a_chain_that_is_none_is_refused(self, models: tuple[str, ...]) -> None:
        with pytest.raises(ValueError, match="chain"):
            ModelChain(*models)


class TestDeadline:
    def test_an_inner_one_can_only_be_sooner(self, clock: PushedClock) -> None:
        with Deadline(10.0, clock=clock) as outer:
            with Deadline(100.0, clock=clock) as later:
                assert later.at == outer.at
            with Deadline(1.0, clock=clock) as sooner:
                assert sooner.remaining_s == 1.0
                clock.push(2.0)
                assert sooner.has_passed
                assert not outer.has_passed

    def test_no_wait_goes_past_it(self) -> None:
        lab = Lab()
        guarded = lab.recovery.guard("search", is_destructive=False)(lab.script(TimeoutError()))
        with (
            lab.recovery.run(source="main_agent"),
            Deadline(1.2, clock=lab.clock),
            pytest.raises(RecoveryExhausted, match="search failed after 2 attempts"),
        ):
            guarded()
        assert lab.waits == [0.5]

    def test_attempts_inside_count_for_the_run(self) -> None:
        lab = Lab()
        guarded = lab.recovery.guard("search", is_destructive=False)(lab.script(500, "ok"))
        with lab.recovery.run(source="main_agent") as run, Deadline(100.0, clock=lab.clock):
            guarded()
        assert run.scope.attempts == 2

    def test_attempts_before_it_count_once(self) -> None:
        lab = Lab()
        guarded = lab.recovery.guard("search", is_destructive=False)(lab.script(500, "ok", 500, "ok"))
        with lab.recovery.run(source="main_agent") as run:
            guarded()
            with Deadline(100.0, clock=lab.clock):
                guarded()
        assert run.scope.attempts == 4

    @pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
    def test_what_is_no_deadline_is_refused(self, seconds: float) -> None:
        with pytest.raises(ValueError, match="positive"):
            Deadline(seconds)

    def test_tasks_have_their_own(self, clock: PushedClock) -> None:
        async def main() -> float:
            async with Deadline(5.0, clock=clock), Deadline(50.0, clock=clock) as inner:
                return inner.remaining_s

        assert asyncio.run(main()) == 5.0


class TestHearingOfABreaker:
    def test_whoever_hears_of_a_change_may_look_at_the_breaker(self) -> None:
        seen: list[State] = []
        breaker = CircuitBreaker("db", Knobs(consecutive_failures=1), on_fact=lambda fact: seen.append(breaker.state))
        heard = threading.Thread(target=_fail_in, args=(breaker,), daemon=True)
        heard.start()
        heard.join(20.0)
        assert (heard.is_alive(), seen) == (False, [State.OPEN])

    def test_what_it_raises_is_its_own_business(self, caplog: pytest.LogCaptureFixture) -> None:
        def broken(fact: object) -> None:
            raise OSError("no pipe")

        breaker = CircuitBreaker("db", Knobs(consecutive_failures=1), on_fact=broken)
        _fail_in(breaker)
        breaker.reset()
        assert breaker.call(lambda: "well") == "well"
        assert [record.message for record in caplog.records] == [
            "recovery-ops: on_fact of breaker db raised OSError('no pipe')"
        ]


def _fail_in(breaker: CircuitBreaker) -> None:
    with contextlib.suppress(TimeoutError), breaker.attempt():
        raise TimeoutError
