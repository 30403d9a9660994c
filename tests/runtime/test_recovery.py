"""The runtime through its public door: guards, runs, the desired state, counts; with a pushed clock and no threads."""

from __future__ import annotations

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.enums import RunStatus, State
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.runtime import (
    CircuitOpen,
    ConfigurationError,
    DeadlineExceeded,
    Degraded,
    Fallback,
    Outcome,
    Recovery,
    RecoveryExhausted,
    Response,
    RetryAfterActive,
    StopRun,
    attempt,
)
from recovery_ops.runtime.testing import Lab
from tests.support.recovery import NO_RETRY, broken, tripped


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


class TestGuard:
    def test_arguments_and_results_pass_through(self, lab: Lab) -> None:
        script = lab.script("found")
        assert lab.recovery.guard("search")(script)("a", b=1) == "found"
        assert script.arguments == [(("a",), {"b": 1})]

    def test_a_guarded_function_keeps_its_name_and_doc(self, lab: Lab) -> None:
        @lab.recovery.guard()
        def search(query: str) -> str:
            """Finds."""
            return query

        assert (search.__name__, search.__doc__) == ("search", "Finds.")
        assert search.operation.name == "search"

    def test_the_last_error_is_the_cause(self, lab: Lab) -> None:
        error = ValueError("a bug")
        with pytest.raises(RecoveryExhausted) as failed:
            lab.recovery.guard("search")(lab.script(error))()
        assert failed.value.__cause__ is failed.value.last_error is error
        assert failed.value.user_message
        assert "a bug" not in failed.value.user_message

    def test_an_open_breaker_says_when_to_come_back(self, lab: Lab) -> None:
        guarded = broken(lab)
        with pytest.raises(CircuitOpen) as refused:
            guarded()
        assert refused.value.state is State.OPEN
        assert refused.value.retry_at is not None
        assert refused.value.retry_at.timestamp() == pytest.approx(lab.clock.wall() + 60.0)

    def test_outcome_of_nothing_is_second_best(self, lab: Lab) -> None:
        for script, is_degraded in ((lab.script(500), True), (lab.script("fine"), False)):
            lab = Lab()
            guarded = lab.recovery.guard("prices", optional=True)(script)
            with lab.recovery.run():
                assert guarded.outcome().is_degraded is is_degraded

    def test_an_outcome_says_how_it_was_come_by(self, lab: Lab) -> None:
        guarded = lab.recovery.guard(
            "prices", fallback=Fallback(lab.script(42), name="cache", warning="up to 1 h old", data_age_s=3600.0)
        )(lab.script(ValueError()))
        outcome = guarded.outcome()
        assert (outcome.value, outcome.fallback, outcome.warning) == (42, "cache", "up to 1 h old")
        assert outcome.is_degraded

    def test_fallbacks_are_tried_in_order_each_behind_its_own_breaker(self, lab: Lab) -> None:
        first = Fallback(lab.script(TimeoutError()), name="first", idempotent=True)
        second = Fallback(lab.script("second"), name="second")
        guarded = lab.recovery.guard("search", fallback=[first, second])(lab.script(ValueError()))
        for _ in range(6):
            assert guarded() == "second"
        breaker = lab.recovery.breaker("first")
        assert breaker is not None
        assert breaker.state is State.OPEN
        assert [fact.level for fact in lab.events_of(events.FallbackActivated)] == [2] * 6

    def test_a_worse_answer_than_none_is_not_given(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("dose", fallback=lab.script("old"), fallback_allowed=False)(
            lab.script(ValueError())
        )
        with pytest.raises(RecoveryExhausted):
            guarded()

    def test_optional_operations_are_left_out(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("mood", optional=True)(lab.script(ValueError()))
        with lab.recovery.run() as run:
            answer = guarded()
        assert answer == Degraded("mood", "bug")
        assert not answer
        assert run.withdrawn == {"mood"}

    def test_the_run_knows_what_the_user_must_be_told(self, lab: Lab) -> None:
        cache = Fallback(lambda: 419, name="cache", warning="prices up to 1 h old")
        guarded = lab.recovery.guard("prices", fallback=cache)(lab.script(503))
        with lab.recovery.run() as run:
            assert (guarded(), guarded()) == (419, 419)
            assert run.warnings == ("prices up to 1 h old",)
            assert run.withdrawn == frozenset()

    def test_off_means_out_of_the_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RECOVERY_OPS_OFF", "1")

        failure = ZeroDivisionError()

        def function() -> None:
            raise failure

        with pytest.raises(ZeroDivisionError) as caught:
            Recovery("x", url="", reraise=False).guard("search", optional=True)(function)()
        assert caught.value is failure

    def test_off_still_says_how_a_result_was_come_by(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RECOVERY_OPS_OFF", "1")
        guard = Recovery("x", url="", reraise=False).guard

        async def answer(number: int) -> int:
            return number

        class Client:
            def ask(self, number: int) -> int:
                return number

            async def tell(self, number: int) -> int:
                return number

        assert asyncio.run(guard("tell")(Client().tell).outcome(7)) == Outcome(7)
        assert asyncio.run(guard("answer")(answer).outcome(7)) == Outcome(7)
        assert guard("ask")(Client().ask).outcome(7) == Outcome(7)  # a method takes no attributes
        assert guard("length")(len)("four") == 4

    def test_off_still_sends_the_key_upstream(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without it a provider would take a repetition, by whomever, for a new request."""
        monkeypatch.setenv("RECOVERY_OPS_OFF", "1")
        guard = Recovery("x", url="", reraise=False).guard

        async def pay_later(order: str) -> str | None:
            return attempt().idempotency_key

        def pay(order: str) -> str | None:
            return attempt().idempotency_key

        said: Any = {"idempotency_key": lambda order: f"pay-{order}"}
        assert guard("pay", **said)(pay)("7") == "pay-7"
        assert guard("pay", **said)(pay).outcome("7") == Outcome("pay-7")
        assert asyncio.run(guard("pay", **said)(pay_later)("7")) == "pay-7"
        assert attempt().idempotency_key is None

    def test_interrupts_pass_untouched_and_count_as_nothing(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search")(lab.script(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            guarded()
        assert lab.events == []

    def test_the_attempt_knows_what_to_change(self, lab: Lab) -> None:
        seen = []

        @lab.recovery.guard("model", kind="model", idempotent=True, refresh_credentials=lambda: None)
        def model() -> str:
            seen.append(attempt())
            if len(seen) < 2:
                raise Unauthorised
            return "ok"

        with lab.recovery.run(source="main_agent"):
            assert model() == "ok"
        assert seen[1].adjustment == "refresh_credentials"
        assert seen[1].number == 2
        assert seen[1].remaining_s == pytest.approx(120.0)

    def test_a_hook_that_raises_is_said_and_gone_on_without(self, lab: Lab) -> None:
        def hook() -> None:
            raise RuntimeError("no vault")

        guarded = lab.recovery.guard("crm", idempotent=True, refresh_credentials=hook)(lab.script(401, "ok"))
        with lab.recovery.run(source="main_agent"):
            assert guarded() == "ok"
        (fact,) = lab.events_of(events.HookFailed)
        assert fact.hook == "refresh_credentials"

    def test_an_idempotency_key_makes_an_operation_repeatable(self, lab: Lab) -> None:
        keys = []

        @lab.recovery.guard("pay", idempotency_key=lambda order: f"order-{order}")
        def pay(order: int) -> str:
            keys.append(attempt().idempotency_key)
            if len(keys) < 2:
                raise TimeoutError
            return "paid"

        with lab.recovery.run(source="main_agent"):
            assert pay(7) == "paid"
        assert keys[1] == "order-7"

    def test_a_fallback_that_cannot_be_called_is_refused_at_once(self, lab: Lab) -> None:
        async def later() -> None: ...

        with pytest.raises(ConfigurationError, match="must not be async"):
            lab.recovery.guard("search", fallback=later)(lambda: None)

    def test_the_vendors_gate_is_an_error_of_its_own(self, lab: Lab) -> None:
        limited = Response(429, {"retry-after": "600"})
        guarded = lab.recovery.guard("search", idempotent=True)(lab.script(limited))
        with pytest.raises(RecoveryExhausted), lab.recovery.run(source="main_agent"):
            guarded()
        with pytest.raises(RetryAfterActive):
            guarded()


class Unauthorised(Exception):
    status_code = 401


class TestRun:
    def test_a_run_is_told_from_beginning_to_end(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search")(lab.script("ok"))
        with lab.recovery.run("answer", source="main_agent", run_id="r-1"):
            guarded()
            lab.clock.push(2.0)
        (started,), (finished,) = lab.events_of(events.RunStarted), lab.events_of(events.RunFinished)
        assert (started.name, finished.status, finished.duration_s) == ("answer", RunStatus.SUCCEEDED, 2.0)
        assert set(lab.read.runs) == {"r-1"}

    @pytest.mark.parametrize(
        ("outcome", "status"),
        [(403, RunStatus.STOPPED), (ValueError(), RunStatus.FAILED), (KeyboardInterrupt(), RunStatus.CANCELLED)],
    )
    def test_how_it_ended(self, lab: Lab, outcome: Any, status: RunStatus) -> None:
        guarded = lab.recovery.guard("search")(lab.script(outcome))
        with pytest.raises((StopRun, RecoveryExhausted, KeyboardInterrupt)), lab.recovery.run():
            guarded()
        assert lab.events_of(events.RunFinished)[0].status is status

    @pytest.mark.parametrize(
        ("outcomes", "said", "attempts"),
        [
            ((503, 503), {"optional": True, "max_retries": 1}, 2),
            ((403,), {}, 1),
            ((503,), {"foundational": True, "max_retries": 1}, 2),
            ((503,), {"max_retries": 0, "fallback": lambda: "old"}, 2),
            ((503, KeyboardInterrupt()), {}, 2),
            ((KeyboardInterrupt(),), {}, 1),
            (("ok",), {}, 1),
        ],
        ids=["left out", "stopped", "foundational", "fallback", "interrupted later", "interrupted", "ok"],
    )
    def test_run_counts_attempts_of_every_ending(
        self, lab: Lab, outcomes: tuple[Any, ...], said: dict[str, Any], attempts: int
    ) -> None:
        guarded = lab.recovery.guard("search", idempotent=True, **said)(lab.script(*outcomes))
        with suppress(StopRun, KeyboardInterrupt), lab.recovery.run(source="main_agent"):
            guarded()
        assert [fact.attempts for fact in lab.events_of(events.RunFinished)] == [attempts]

    def test_run_counts_guarded_fallback_once(self, lab: Lab) -> None:
        other = lab.recovery.guard("other", idempotent=True, max_retries=1)(lab.script(503, "ok"))
        guarded = lab.recovery.guard("search", idempotent=True, max_retries=0, fallback=other)(lab.script(503))
        with lab.recovery.run(source="main_agent"):
            assert guarded() == "ok"
        assert [fact.attempts for fact in lab.events_of(events.RunFinished)] == [3]

    def test_run_without_calls_has_zero_attempts(self, lab: Lab) -> None:
        with lab.recovery.run():
            pass
        assert [fact.attempts for fact in lab.events_of(events.RunFinished)] == [0]

    def test_second_best_answers_make_it_degraded(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search", fallback=Fallback(lab.script("old"), name="c", warning="old"))(
            lab.script(ValueError())
        )
        with lab.recovery.run() as run:
            guarded()
        assert run.scope.warnings == ["old"]
        assert lab.events_of(events.RunFinished)[0].status is RunStatus.DEGRADED

    def test_an_inner_run_can_only_end_sooner(self, lab: Lab) -> None:
        with lab.recovery.run(timeout=10.0) as outer, lab.recovery.run(timeout=100.0) as inner:
            assert inner.scope.deadline_at == outer.scope.deadline_at

    def test_no_call_after_the_deadline(self, lab: Lab) -> None:
        late = lab.recovery.guard("search", settings=NO_RETRY)(lab.script("ok"))
        with lab.recovery.run(timeout=1.0):
            lab.clock.push(2.0)
            with pytest.raises(DeadlineExceeded):
                late.outcome()

    def test_a_run_ends_where_the_policy_says_if_nobody_says_anything(self, lab: Lab) -> None:
        late = lab.recovery.guard("search", settings=NO_RETRY)(lab.script("ok"))
        with lab.recovery.run():
            lab.clock.push(299.0)
            assert late.outcome().value == "ok"
            lab.clock.push(2.0)
            with pytest.raises(DeadlineExceeded):
                late.outcome()
        lab.recovery.apply(Desired(revision=1, policy=parse_policy({"guards": {"run_deadline_s": 1000}})))
        with lab.recovery.run(), lab.recovery.run(timeout=math.inf):
            lab.clock.push(999.0)
            assert late.outcome().value == "ok"
            lab.clock.push(2.0)
            with pytest.raises(DeadlineExceeded):
                late.outcome()

    @pytest.mark.parametrize("deadline_s", [0.0, -1.0, math.nan])
    def test_a_deadline_is_a_positive_number(self, lab: Lab, deadline_s: float) -> None:
        with pytest.raises(ValueError, match="positive"):
            lab.recovery.run(timeout=deadline_s)

    def test_an_open_breaker_is_told_before_a_deadline_that_has_passed(self, lab: Lab) -> None:
        broken(lab)
        late = lab.recovery.guard("search", settings=NO_RETRY)(lab.script("ok"))
        with lab.recovery.run(timeout=1.0):
            lab.clock.push(2.0)
            with pytest.raises(CircuitOpen):
                late()

    def test_a_guards_own_source_beats_the_runs(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("titles", idempotent=True, source="titles")(lab.script(529))
        with pytest.raises(RecoveryExhausted), lab.recovery.run(source="main_agent"):
            guarded()
        assert lab.waits == []


class TestCounting:
    def test_the_denominators_add_up(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search", idempotent=True)(lab.script("ok", 529, "ok", ValueError()))
        with lab.recovery.run(source="main_agent"):
            guarded()
            guarded()
            with pytest.raises(RecoveryExhausted):
                guarded()
        lab.recovery.flush()
        (counted,) = lab.events_of(events.CallsCounted)
        assert (counted.calls, counted.attempts, counted.successes) == (3, 4, 2)
        assert counted.failures == {"overloaded": 1, "bug": 1}
        assert (counted.retries, counted.exhausted, counted.in_flight) == (1, 1, 0)

    def test_each_interval_is_told_alone(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search")(lab.script("ok"))
        for calls in (3, 2):
            for _ in range(calls):
                guarded()
            lab.recovery.flush()
        lab.recovery.flush()
        assert [fact.calls for fact in lab.events_of(events.CallsCounted)] == [3, 2]

    def test_refused_calls_are_added_up(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search")(lab.script("ok"))
        lab.recovery.apply(tripped(lab, Scope()))
        for _ in range(40):
            with pytest.raises(CircuitOpen):
                guarded()
        lab.recovery.flush()
        (rejected,) = lab.events_of(events.BreakerRejected)
        assert (rejected.count, rejected.state, rejected.reason) == (40, State.FORCED_OPEN, "override")

    def test_sources_without_end_are_counted_together(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search")(lambda: "ok")
        for number in range(300):
            with lab.recovery.run(source=f"made-up-{number}"):
                guarded()
        lab.recovery.flush()
        counted = lab.events_of(events.CallsCounted)
        assert len(counted) == 201
        assert max(fact.calls for fact in counted) == 100
        assert sum(fact.calls for fact in counted) == 300

    def test_nothing_is_lost_between_threads(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search")(lambda: "ok")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: [guarded() for _ in range(500)], range(8)))
        lab.recovery.flush()
        (counted,) = lab.events_of(events.CallsCounted)
        assert (counted.calls, counted.successes, counted.in_flight) == (4000, 4000, 0)


class TestTasks:
    def test_async_callables_are_guarded_alike(self, lab: Lab) -> None:
        outcomes = lab.script(529, "ok")

        @lab.recovery.guard("search", idempotent=True)
        async def search() -> Any:
            return outcomes()

        async def main() -> Any:
            async with lab.recovery.run(source="main_agent"):
                return await search()

        assert asyncio.run(main()) == "ok"
        assert lab.waits == [0.5]

    def test_a_cancel_in_a_wait_ends_it_in_order(self) -> None:
        recovery = Recovery("x", url="", is_background_work_wanted=False, reraise=False)
        calls = []

        @recovery.guard("search", idempotent=True, base_delay=60.0, kind="tool", attempt_timeout=1000.0)
        async def search() -> None:
            calls.append(1)
            raise TimeoutError

        async def main() -> None:
            async with recovery.run(source="main_agent"):
                task = asyncio.create_task(search())
                while not calls:
                    await asyncio.sleep(0)
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

        asyncio.run(main())
        assert calls == [1]
        assert recovery.cell_of("search", "main_agent").waiting == 0

    def test_a_trip_wakes_waiting_tasks_and_threads(self) -> None:
        recovery = Recovery("x", url="", is_background_work_wanted=False, reraise=False)
        entered = threading.Event()

        @recovery.guard("search", idempotent=True, base_delay=60.0, attempt_timeout=1000.0)
        def search() -> None:
            entered.set()
            raise TimeoutError

        def work() -> Exception | None:
            try:
                with recovery.run(source="main_agent", timeout=1000.0):
                    search()
            except RecoveryExhausted as error:
                return error
            return None

        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(work)
            assert entered.wait(10.0)
            lab = Lab(reraise=False)
            desired = tripped(lab, Scope())
            now = recovery.clock.wall()
            held = replace(desired.overrides[0], starts_at=now - 1, expires_at=now + 600)
            while not future.done():
                recovery.apply(replace(desired, overrides=(held,)))
            error = future.result()
        assert isinstance(error, RecoveryExhausted)
        assert error.reason == "breaker_open"


def test_only_one_of_many_threads_gets_the_probe() -> None:
    lab = Lab(reraise=False)
    guarded = broken(lab)
    lab.clock.push(60.0)
    gate, inside = threading.Event(), []

    def slow() -> str:
        inside.append(1)
        gate.wait(10.0)
        return "ok"

    probe = lab.recovery.guard("search", idempotent=True, settings=NO_RETRY)(slow)
    refused = []

    def work() -> None:
        try:
            probe()
        except CircuitOpen:
            refused.append(1)
            if len(refused) == 7:
                gate.set()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10.0)
    assert (len(inside), len(refused)) == (1, 7)
    assert guarded.operation.standing.breaker.state is State.CLOSED


def test_a_guard_says_in_which_region_what_answers_stands(lab: Lab) -> None:
    guarded = lab.recovery.guard("ask", region="eu-west-1", idempotent=True, settings=NO_RETRY)(
        lab.script(TimeoutError())
    )
    with pytest.raises(RecoveryExhausted):
        guarded()
    assert [fact.region for fact in lab.events if isinstance(fact, events.FailureClassified)] == ["eu-west-1"]
