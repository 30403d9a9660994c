"""`retry_on`, `retry_if`, `retry_result` and `jitter` of a guard: sync, async, trio and blocks alike."""

from __future__ import annotations

import asyncio
import gc
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.enums import Category, DelaySource, Evidence
from recovery_ops.rules.events import AttemptSucceeded, CallsCounted, FailureClassified, HookFailed, RetryScheduled
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS, FAIL_CLOSED, OperationPolicy, Settings, parse_policy
from recovery_ops.rules.resilience.retry import delay_after
from recovery_ops.runtime import CircuitOpen, ConfigurationError, Degraded, RecoveryExhausted, Response, StopRun
from recovery_ops.runtime.testing import HttpError, Lab
from tests.support.examples import examples

WAYS = ["thread", "asyncio", "trio", "returns_awaitable"]
SAFE: dict[str, Any] = {"read_only": True}


class NotYet(Exception):
    """A failure of the caller's own, which the rules do not know."""


class Pause(Exception):
    """A framework's control flow."""


@pytest.fixture
def lab() -> Lab:
    return Lab(default_source="main_agent")


def called(lab: Lab, way: str, script: Callable[[], Any], **options: Any) -> Any:
    """The result of a guarded call, made in one of the ways."""

    async def later() -> Any:
        return script()

    def starts() -> Any:
        return later()

    made: Any = {"thread": script, "returns_awaitable": starts}.get(way, later)
    guarded: Any = lab.recovery.guard("poll", **options)(made)

    async def main() -> Any:
        return await guarded()

    if way == "thread":
        return guarded()
    return trio.run(main) if way == "trio" else asyncio.run(main())


def kept(lab: Lab) -> list[str]:
    return [fact.category.value for fact in lab.events_of(FailureClassified)]


def is_not_yet(error: Exception) -> bool:
    return isinstance(error, NotYet)


def is_pending(result: object) -> bool:
    return result == "pending"


@pytest.mark.parametrize("way", WAYS)
class TestErrors:
    @pytest.mark.parametrize(
        ("options", "calls"),
        [
            ({}, 1),
            ({"retry_on": NotYet}, 3),
            ({"retry_on": (KeyError, NotYet)}, 3),
            ({"retry_on": KeyError}, 1),
            ({"retry_on": ()}, 1),
            ({"retry_if": is_not_yet}, 3),
            ({"retry_if": lambda error: False}, 1),
            ({"retry_on": KeyError, "retry_if": is_not_yet}, 3),
            ({"retry_on": NotYet, "max_retries": 1}, 2),
            ({"retry_on": NotYet, "read_only": False}, 1),
        ],
    )
    def test_declared_error_is_retried(self, lab: Lab, way: str, options: Any, calls: int) -> None:
        script = lab.script(NotYet(), NotYet(), "done")
        try:
            assert called(lab, way, script, **(SAFE | options)) == "done"
        except (NotYet, RecoveryExhausted):
            assert calls < 3
        assert script.calls == calls
        assert set(kept(lab)) == {"unknown"}, "the category stays"

    def test_what_rules_retry_stays_retried(self, lab: Lab, way: str) -> None:
        script = lab.script(TimeoutError(), "done")
        assert called(lab, way, script, retry_on=NotYet, retry_if=lambda error: False, **SAFE) == "done"

    def test_predicate_that_raises_counts_as_false(self, lab: Lab, way: str) -> None:
        script = lab.script(NotYet(), "done")
        with pytest.raises(NotYet):
            called(lab, way, script, retry_if=lambda error: error.missing, **SAFE)
        assert [(fact.hook, fact.error_type) for fact in lab.events_of(HookFailed)] == [("retry_if", "AttributeError")]
        assert script.calls == 1

    @pytest.mark.parametrize("passing", [KeyboardInterrupt, SystemExit])
    def test_interrupt_of_predicate_ends_the_call(self, lab: Lab, way: str, passing: type[BaseException]) -> None:
        def interrupted(error: Exception) -> bool:
            raise passing

        with pytest.raises((passing, BaseExceptionGroup)):
            called(lab, way, lab.script(NotYet()), retry_if=interrupted, **SAFE)
        assert lab.events_of(RetryScheduled) == []

    def test_cancel_is_never_declared_transient(self, lab: Lab, way: str) -> None:
        script = lab.script(KeyboardInterrupt(), "done")
        with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)):
            called(lab, way, script, retry_on=Exception, retry_if=lambda error: True, **SAFE)
        assert script.calls == 1


@pytest.mark.parametrize("way", WAYS)
class TestResults:
    def test_rejected_result_is_a_failed_attempt(self, lab: Lab, way: str) -> None:
        script = lab.script("pending", "pending", "done")
        assert called(lab, way, script, retry_result=is_pending, **SAFE) == "done"
        assert kept(lab) == ["semantic", "semantic"]
        assert lab.waits == [0.5, 1.0]
        assert len(lab.events_of(AttemptSucceeded)) == 1

    @pytest.mark.parametrize("reraise", [None, True, False])
    def test_last_rejected_result_is_in_the_report(self, lab: Lab, way: str, reraise: bool | None) -> None:
        script = lab.script("pending")
        with pytest.raises(RecoveryExhausted) as caught:
            called(lab, way, script, retry_result=is_pending, reraise=reraise, **SAFE)
        report = lab.recovery.report(caught.value)
        assert report is not None
        assert (report.last_result, report.attempts, report.category) == ("pending", 4, Category.SEMANTIC)
        assert (caught.value.last_result, caught.value.last_error, caught.value.__cause__) == ("pending", None, None)
        assert pickle.loads(pickle.dumps(caught.value)).last_result == "pending"

    def test_later_error_leaves_no_result(self, lab: Lab, way: str) -> None:
        with pytest.raises(RecoveryExhausted) as caught:
            called(lab, way, lab.script("pending", KeyError("x")), retry_result=is_pending, **SAFE)
        assert caught.value.last_result is None
        assert isinstance(caught.value.last_error, KeyError)

    def test_result_of_harmful_call_is_not_retried(self, lab: Lab, way: str) -> None:
        script = lab.script("pending")
        with pytest.raises(RecoveryExhausted) as caught:
            called(lab, way, script, retry_result=is_pending)
        assert (script.calls, caught.value.last_result) == (1, "pending")

    def test_predicate_that_raises_lets_pass(self, lab: Lab, way: str) -> None:
        assert called(lab, way, lab.script("done"), retry_result=lambda result: result.missing, **SAFE) == "done"
        assert [(fact.operation, fact.hook) for fact in lab.events_of(HookFailed)] == [("poll", "retry_result")]

    def test_fallback_answers_for_rejected_result(self, lab: Lab, way: str) -> None:
        found = called(
            lab, way, lab.script("pending"), retry_result=is_pending, fallback=lambda: "pending", max_retries=0
        )
        assert found == "pending", "the predicate is about the operation's own result"

    def test_optional_operation_is_left_out(self, lab: Lab, way: str) -> None:
        found = called(lab, way, lab.script("pending"), retry_result=is_pending, optional=True)
        assert isinstance(found, Degraded)
        assert found.reason == "semantic"

    def test_outcome_climbs_alike(self, lab: Lab, way: str) -> None:
        script = lab.script("pending", "done")
        found = called(lab, way, script, retry_result=is_pending, timeout=60, **SAFE)
        assert (found, script.calls) == ("done", 2)


class TestWhatBinds:
    def test_background_capacity_fails_fast(self, lab: Lab) -> None:
        script = lab.script(529, "done")
        with pytest.raises(HttpError):
            lab.recovery.guard("q", source="titles", retry_on=Exception, **SAFE)(script)()
        assert script.calls == 1

    @pytest.mark.parametrize(
        "refusal",
        [
            Response(402, {}, {"error": {"code": "insufficient_quota"}}),
            Response(503, {"x-should-retry": "false"}),
            Response(409, {}, {"error": {"code": "idempotency_key_in_use"}}),
        ],
    )
    def test_final_word_of_server_binds(self, lab: Lab, refusal: Response) -> None:
        script = lab.script(refusal, "done")
        with pytest.raises(HttpError):
            lab.recovery.guard("q", retry_on=Exception, **SAFE)(script)()
        assert script.calls == 1

    def test_live_policy_with_no_retries_binds(self, lab: Lab) -> None:
        policy = parse_policy({"rules": [{"match": {"operation": "q"}, "settings": {"max_retries": 0}}]})
        lab.recovery.apply(Desired(revision=1, policy=policy))
        script = lab.script(NotYet(), "done")
        with pytest.raises(NotYet):
            lab.recovery.guard("q", retry_on=NotYet, **SAFE)(script)()
        assert script.calls == 1

    def test_what_inner_guard_exhausted_is_not_retried(self, lab: Lab) -> None:
        script = lab.script(NotYet())
        inner = lab.recovery.guard("inner", retry_on=NotYet, **SAFE)(script)
        with pytest.raises(RecoveryExhausted):
            lab.recovery.guard("outer", retry_on=Exception, retry_if=lambda error: True, **SAFE)(inner)()
        assert script.calls == 4

    def test_open_breaker_ends_retries(self, lab: Lab) -> None:
        script = lab.script(503)
        guarded = lab.recovery.guard(
            "q", retry_on=Exception, max_retries=9, settings=Settings(consecutive_failures=3), **SAFE
        )(script)
        with pytest.raises(RecoveryExhausted):
            guarded()
        assert script.calls == 3
        with pytest.raises(CircuitOpen):
            guarded()

    def test_end_of_run_is_not_retried(self, lab: Lab) -> None:
        calls = []

        def forbidden() -> None:
            calls.append(1)
            raise StopRun(Category.PERMISSION, "no")

        with pytest.raises(StopRun):
            lab.recovery.guard("q", retry_on=Exception, reraise=True, **SAFE)(forbidden)()
        assert len(calls) == 1

    def test_declared_401_is_retried_once(self, lab: Lab) -> None:
        script = lab.script(401, "done")
        assert lab.recovery.guard("q", retry_on=HttpError, **SAFE)(script)() == "done"

    def test_control_flow_of_predicate_passes(self, lab: Lab) -> None:
        lab.recovery.control_flow = (*lab.recovery.control_flow, Pause)

        def pausing(about: object) -> bool:
            raise Pause

        for outcome, options in ((NotYet(), {"retry_if": pausing}), ("done", {"retry_result": pausing})):
            guard: Any = lab.recovery.guard
            with pytest.raises(Pause):
                guard(f"q-{outcome}", **options, **SAFE)(lab.script(outcome))()
        assert lab.events_of(HookFailed) == []

    def test_probe_is_free_after_interrupted_predicate(self, lab: Lab) -> None:
        def interrupted(error: Exception) -> bool:
            raise KeyboardInterrupt

        numbers = Settings(consecutive_failures=1, max_wait_in_half_open_s=600)
        script = lab.script(503, NotYet(), "done")
        once = lab.recovery.guard("q", max_retries=0, settings=numbers)(script)
        with pytest.raises(HttpError):
            once()
        lab.clock.push(120.0)
        with pytest.raises(KeyboardInterrupt):
            lab.recovery.guard("q", max_retries=0, settings=numbers, retry_if=interrupted)(script)()
        assert once() == "done"


class TestBlocks:
    def test_attempts_are_widened(self, lab: Lab) -> None:
        script = lab.script(NotYet(), KeyError("x"), "done")
        for each in lab.recovery.attempts("b", retry_on=NotYet, retry_if=lambda one: isinstance(one, KeyError), **SAFE):
            with each:
                script()
        assert script.calls == 3

    def test_attempts_in_tasks_are_widened(self, lab: Lab) -> None:
        script = lab.script(NotYet(), "done")

        async def main() -> None:
            async for each in lab.recovery.attempts("b", retry_on=NotYet, jitter="full", **SAFE):
                async with each:
                    script()

        asyncio.run(main())
        assert script.calls == 2

    def test_block_has_no_result_to_reject(self, lab: Lab) -> None:
        with pytest.raises(ConfigurationError):
            lab.recovery.attempts("b", retry_result=is_pending)
        with pytest.raises(ConfigurationError), lab.recovery.guard("b", retry_result=is_pending):
            pass


class TestJitter:
    @pytest.mark.parametrize(("jitter", "waits"), [("additive", [0.5625, 1.125]), ("full", [0.25, 0.5])])
    def test_chance_adds_or_draws(self, jitter: Any, waits: list[float]) -> None:
        lab = Lab(default_source="main_agent", chance=lambda: 0.5)
        lab.recovery.guard("q", jitter=jitter, **SAFE)(lab.script(503, 503, "done"))()
        assert lab.waits == waits

    def test_full_is_additive_after_retry_after(self) -> None:
        lab = Lab(default_source="main_agent", chance=lambda: 0.5)
        script = lab.script(Response(408, {"retry-after": "7"}), "done")
        lab.recovery.guard("q", jitter="full", **SAFE)(script)()
        assert lab.waits == [7.0625]

    @given(st.floats(0, 0.999), st.integers(1, 40), st.none() | st.floats(0, 100))
    @settings(max_examples=examples(100, 1000))
    def test_full_stays_within_its_delay(self, drawn: float, attempt: int, asked_s: float | None) -> None:
        failure = Failure(Category.SERVER_ERROR, Evidence.HTTP_STATUS, retry_after_s=asked_s)
        policy = OperationPolicy(settings=BUILT_IN_DEFAULTS["operation"].over(FAIL_CLOSED))
        delay_s, source = delay_after(
            failure, attempt=attempt, policy=policy, chance=lambda: drawn, is_full_jitter=True
        )
        if asked_s is None:
            assert (source, 0 <= delay_s <= min(0.5 * 2 ** (attempt - 1), 32.0)) == (DelaySource.BACKOFF, True)
        else:
            assert delay_s >= asked_s


class TestDeclaring:
    @pytest.mark.parametrize(
        "options",
        [
            {"retry_on": "NotYet"},
            {"retry_on": [NotYet]},
            {"retry_on": NotYet()},
            {"retry_on": (NotYet, 3)},
            {"retry_on": asyncio.CancelledError},
            {"retry_if": True},
            {"retry_result": asyncio.sleep},
            {"jitter": "ful"},
        ],
    )
    def test_value_that_never_works_raises(self, lab: Lab, options: Any) -> None:
        with pytest.raises(ConfigurationError):
            lab.recovery.guard("q", **options)

    def test_method_and_name_are_kept(self, lab: Lab) -> None:
        answers = lab.script("pending", "done")

        class Client:
            @lab.recovery.guard(retry_result=is_pending, read_only=True)
            def fetch(self, key: str) -> Any:
                return answers(key)

        assert Client.fetch.__name__ == "fetch"
        assert Client().fetch.outcome("k").attempts == 2

    def test_awaitable_of_rejected_call_is_closed(self, lab: Lab) -> None:
        """An awaitable that is never awaited says so when it goes."""

        async def later() -> str:
            return "done"

        def starts() -> Any:
            lab.trip("q")
            return later()

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(CircuitOpen):
                asyncio.run(_awaited(lab.recovery.guard("q", retry_result=is_pending, **SAFE)(starts)))
            gc.collect()


async def _awaited(guarded: Any) -> Any:
    found = guarded()
    return await found


class TestCancels:
    @pytest.mark.parametrize("steps", range(6))
    @pytest.mark.parametrize("is_plain", [True, False])
    def test_cancel_at_every_await_stays_one(self, lab: Lab, steps: int, is_plain: bool) -> None:
        """Each attempt awaits twice; the cancel comes after so many turns of the loop, also in a wait."""
        ended = []

        async def fetch() -> str:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            ended.append(1)
            return "pending"

        def starts() -> Any:
            return fetch()

        guarded: Any = lab.recovery.guard("q", retry_result=is_pending, **SAFE)(starts if is_plain else fetch)

        async def main() -> bool:
            task = asyncio.create_task(_awaited(guarded))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled()

        assert asyncio.run(main())
        assert len(lab.events_of(FailureClassified)) == len(ended), "the cancelled attempt is none that failed"
        lab.clock.push(60.0)
        lab.recovery.housekeep()
        assert [fact.in_flight for fact in lab.events_of(CallsCounted)][-1:] in ([], [0])

    def test_call_of_interrupted_predicate_is_over(self, lab: Lab) -> None:
        def interrupted(error: Exception) -> bool:
            raise KeyboardInterrupt

        guarded = lab.recovery.guard("q", retry_if=interrupted, **SAFE)(lab.script(NotYet(), "done"))
        with pytest.raises(KeyboardInterrupt):
            guarded()
        assert guarded() == "done"
        lab.clock.push(60.0)
        lab.recovery.housekeep()
        counted = lab.events_of(CallsCounted)
        assert sum(fact.calls for fact in counted) == 2
        assert sum(fact.successes for fact in counted) == 1
        assert counted[-1].in_flight == 0
