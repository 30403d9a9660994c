"""The parts that stand alone: breakers, chains of models, deadlines."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
from typing import Any

import pytest

from recovery_ops.rules.enums import State, Trigger
from recovery_ops.rules.events import BreakerStateChanged, Event
from recovery_ops.rules.policy.model import Settings
from recovery_ops.runtime import (
    CircuitBreaker,
    CircuitOpen,
    ConfigurationError,
    Deadline,
    Model,
    ModelChain,
    Needs,
    RecoveryExhausted,
    Response,
)
from recovery_ops.runtime.testing import HttpError, Lab, PushedClock

OVERFLOW = Response(
    400,
    {},
    {"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}},
)


@pytest.fixture
def clock() -> PushedClock:
    return PushedClock()


def failing() -> None:
    raise TimeoutError


class TestCircuitBreaker:
    def test_it_opens_refuses_and_recovers(self, clock: PushedClock) -> None:
        told: list[Event] = []
        breaker = CircuitBreaker("search", Settings(consecutive_failures=2), clock=clock, on_event=told.append)
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
        breaker = CircuitBreaker("search", Settings(consecutive_failures=1), clock=clock)
        with pytest.raises(ValueError, match="mine"), breaker.attempt():
            raise ValueError("mine")
        assert breaker.state is State.CLOSED

    def test_tripped_released_and_reset(self, clock: PushedClock) -> None:
        breaker = CircuitBreaker("search", clock=clock)
        guarded = breaker(lambda: "ok")
        breaker.trip(60.0)
        with pytest.raises(CircuitOpen):
            guarded()
        breaker.clear_override()
        assert guarded() == "ok"
        breaker.trip(60.0)
        breaker.reset()
        assert breaker.state.value == "closed"

    def test_a_trip_ends_by_itself(self, clock: PushedClock) -> None:
        breaker = CircuitBreaker("search", clock=clock)
        breaker.trip(60.0)
        clock.push(60.0)
        assert breaker.state is State.HALF_OPEN


async def fails_async() -> None:
    await asyncio.sleep(0)
    raise TimeoutError


async def answers_async() -> str:
    await asyncio.sleep(0)
    return "ok"


class Holder:
    """An object that is called, and a method, both to be awaited."""

    async def __call__(self) -> None:
        await fails_async()

    async def method(self) -> None:
        await fails_async()


def future() -> asyncio.Future[None]:
    return asyncio.ensure_future(fails_async())


@functools.wraps(fails_async)
def wrapped(*args: Any) -> Any:
    """A decorator that is not async around a function that is."""
    return fails_async(*args)


AWAITED = {
    "async function": fails_async,
    "partial": functools.partial(fails_async),
    "object": Holder(),
    "method": Holder().method,
    "future": future,
    "wrapped": wrapped,
}


@pytest.mark.parametrize("function", AWAITED.values(), ids=AWAITED)
@pytest.mark.parametrize("how", ["decorated", "called"])
class TestAwaited:
    def guarded(self, breaker: CircuitBreaker, function: Any, how: str) -> Any:
        if how == "called":
            return lambda: breaker.call(function)
        return breaker(function)

    def test_awaited_failures_open_the_breaker(self, clock: PushedClock, function: Any, how: str) -> None:
        breaker = CircuitBreaker("search", Settings(consecutive_failures=2), clock=clock)
        guarded = self.guarded(breaker, function, how)

        async def main() -> None:
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    await guarded()
            assert breaker.state is State.OPEN
            with pytest.raises(CircuitOpen):
                await guarded()

        asyncio.run(main())

    def test_cancelled_probe_gives_its_place_back(self, clock: PushedClock, function: Any, how: str) -> None:
        breaker = CircuitBreaker("search", Settings(consecutive_failures=1), clock=clock)
        guarded = self.guarded(breaker, function, how)

        async def main() -> None:
            with pytest.raises(TimeoutError):
                await guarded()
            clock.push(60.0)
            task = asyncio.ensure_future(as_coroutine(guarded))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert breaker.state.value == "half_open"
            assert await breaker.call(answers_async) == "ok"
            assert breaker.state.value == "closed"

        asyncio.run(main())


async def as_coroutine(guarded: Any) -> Any:
    return await guarded()


def test_decorated_async_function_stays_one() -> None:
    assert inspect.iscoroutinefunction(CircuitBreaker("search")(answers_async))


def test_slow_awaitable_is_a_slow_call(clock: PushedClock) -> None:
    settings = Settings(slow_call_rate_threshold=0.5, slow_call_duration_s=2.0, minimum_number_of_calls=1)
    breaker = CircuitBreaker("search", settings, clock=clock)

    async def slow() -> str:
        clock.push(3.0)
        return "ok"

    def plain() -> Any:
        return slow()

    for function in (slow, plain):
        assert asyncio.run(as_coroutine(functools.partial(breaker.call, function))) == "ok"
        assert breaker.state is State.OPEN
        breaker.reset()


@pytest.mark.parametrize("is_async", [True, False])
def test_generators_are_refused_by_a_breaker(is_async: bool) -> None:
    async def pages_async() -> Any:
        yield 1

    def pages() -> Any:
        yield 1

    with pytest.raises(ConfigurationError):
        CircuitBreaker("search")(pages_async if is_async else pages)


class TestModelChain:
    def test_it_signals_after_overloads_in_a_row(self, clock: PushedClock) -> None:
        chain = ModelChain("large", "small", overloads=2, clock=clock)
        assert chain.failed("large", HttpError(529)) is None
        assert chain.failed("large", HttpError(529)) == "small"
        assert chain.ask() == "small"
        clock.push(60.0)
        assert chain.ask() == "large"
        assert chain.answered("large"), "the primary is back"

    @pytest.mark.parametrize("error", [ValueError("a bug"), KeyError("x"), HttpError(400), HttpError(401)])
    def test_failures_of_the_request_do_not_count(self, clock: PushedClock, error: Exception) -> None:
        chain = ModelChain("large", "small", overloads=1, clock=clock)
        chain.failed("large", error)
        assert chain.ask() == "large"

    @pytest.mark.parametrize("error", [HttpError(500), HttpError(503), HttpError(429), ConnectionRefusedError(111, "")])
    def test_service_failures_in_a_row_ask_next_model(self, clock: PushedClock, error: Exception) -> None:
        chain = ModelChain("large", "small", overloads=2, clock=clock)
        chain.failed("large", error)
        assert chain.failed("large", error) == "small"
        assert chain.ask() == "small"

    @pytest.mark.parametrize("error", [TimeoutError(), HttpError(OVERFLOW)])
    def test_one_request_goes_to_next_model(self, clock: PushedClock, error: Exception) -> None:
        chain = ModelChain("large", "small", clock=clock)
        assert chain.failed("large", error) == "small"
        assert chain.ask() == "large"

    def test_overflow_asks_a_larger_model_only(self, clock: PushedClock) -> None:
        tiny, huge = Model(name="tiny", context_tokens=8000), Model(name="huge", context_tokens=1_000_000)
        chain = ModelChain("large", tiny, huge, clock=clock)
        assert chain.failed("large", HttpError(OVERFLOW)) == "huge"

    @pytest.mark.parametrize(
        ("error", "rest_s"),
        [
            (HttpError(402), 900.0),
            (HttpError(Response(404, {}, {"error": {"code": "model_not_found"}})), 60.0),
            (HttpError(Response(402, {"retry-after": "30"}, None)), 30.0),
            (HttpError(Response(402, {"retry-after": "9" * 20}, None)), 900.0),
            (HttpError(Response(429, {"retry-after": "300"}, None)), 300.0),
            (HttpError(Response(529, {"retry-after": "300"}, None)), 300.0),
            (HttpError(Response(503, {"retry-after": "7"}, {"error": {"type": "overloaded_error"}})), 7.0),
        ],
    )
    def test_model_rests_as_long_as_named(self, clock: PushedClock, error: Exception, rest_s: float) -> None:
        chain = ModelChain("large", "small", clock=clock)
        assert chain.failed("large", error) == "small"
        clock.push(rest_s - 1.0)
        assert chain.ask() == "small"
        clock.push(1.0)
        assert chain.ask() == "large"
        assert chain.answered("large"), "the primary is back"

    def test_a_model_that_cannot_do_it_is_skipped(self, clock: PushedClock) -> None:
        plain = Model(name="plain", has_tools=False)
        chain = ModelChain("large", plain, Model(name="tiny", context_tokens=8000), overloads=1, clock=clock)
        assert chain.failed("large", HttpError(529), Needs(tools=True)) == "tiny"
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
        lab = Lab(reraise=False)
        guarded = lab.recovery.guard("search", idempotent=True)(lab.script(TimeoutError()))
        with (
            lab.recovery.run(source="main_agent"),
            Deadline(1.2, clock=lab.clock),
            pytest.raises(RecoveryExhausted, match="search failed after 2 attempts"),
        ):
            guarded()
        assert lab.waits == [0.5]

    def test_attempts_inside_count_for_the_run(self) -> None:
        lab = Lab(reraise=False)
        guarded = lab.recovery.guard("search", idempotent=True)(lab.script(500, "ok"))
        with lab.recovery.run(source="main_agent") as run, Deadline(100.0, clock=lab.clock):
            guarded()
        assert run.scope.spent.attempts == 2

    def test_attempts_before_it_count_once(self) -> None:
        lab = Lab(reraise=False)
        guarded = lab.recovery.guard("search", idempotent=True)(lab.script(500, "ok", 500, "ok"))
        with lab.recovery.run(source="main_agent") as run:
            guarded()
            with Deadline(100.0, clock=lab.clock):
                guarded()
        assert run.scope.spent.attempts == 4

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
        breaker = CircuitBreaker(
            "db", Settings(consecutive_failures=1), on_event=lambda fact: seen.append(breaker.state)
        )
        heard = threading.Thread(target=_fail_in, args=(breaker,), daemon=True)
        heard.start()
        heard.join(20.0)
        assert (heard.is_alive(), seen) == (False, [State.OPEN])

    def test_what_it_raises_is_its_own_business(self, caplog: pytest.LogCaptureFixture) -> None:
        def broken(fact: object) -> None:
            raise OSError("no pipe")

        breaker = CircuitBreaker("db", Settings(consecutive_failures=1), on_event=broken)
        _fail_in(breaker)
        breaker.reset()
        assert breaker.call(lambda: "well") == "well"
        assert [record.message for record in caplog.records] == [
            "recovery-ops: on_event of breaker db raised OSError('no pipe')"
        ]


def _fail_in(breaker: CircuitBreaker) -> None:
    with contextlib.suppress(TimeoutError), breaker.attempt():
        raise TimeoutError
