"""The fast path: it does what the ladder would have done, hands on what is left of the time, and disturbs nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.desired_state import Desired, Override, Reset
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import CallsCounted, RunFinished, RunStarted
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.runtime import (
    Deadline,
    DeadlineExceeded,
    Recovery,
    RecoveryError,
    RecoveryExhausted,
    RunCancelled,
    attempt,
)
from recovery_ops.runtime.testing import Lab, RecordedEvents, Script

OUTCOMES = st.sampled_from(["ok", "ok", "ok", 500, 529, 429, 404, 401, TimeoutError(), ValueError("a bug")])


@dataclass(frozen=True)
class Step:
    """A call with what its attempts will answer, or something else that happens."""

    outcomes: tuple[Any, ...] = ()
    takes_s: float = 0.0
    after_s: float = 0.0
    source: str | None = None
    run_deadline_s: float | None = None
    does: str = "call"
    which: int = 0


CALLS = st.builds(
    Step,
    outcomes=st.lists(OUTCOMES, min_size=1, max_size=4).map(tuple),
    takes_s=st.sampled_from([0.0, 0.004, 0.3, 4.0]),
    after_s=st.sampled_from([0.0, 0.1, 20.0, 61.0]),
    source=st.sampled_from([None, "", "main_agent"]),
    run_deadline_s=st.sampled_from([None, 2.0, 40.0]),
    which=st.integers(0, 1),
)
EVENTS = st.builds(Step, does=st.sampled_from(["trip", "reset", "release"]), after_s=st.sampled_from([0.0, 70.0]))
STORIES = st.lists(st.one_of(CALLS, CALLS, CALLS, EVENTS), min_size=1, max_size=12)


class Teller:
    """Plays a story to two operations of one backend, on the fast path or always up the ladder."""

    def __init__(self, *, is_quick: bool, is_async: bool, deadline_s: float | None) -> None:
        self.lab, self.is_quick, self.is_async = Lab(reraise=False), is_quick, is_async
        self.script = Script(["ok"])
        self.revision = 0
        self.resets: tuple[Reset, ...] = ()
        self.ends: list[str] = []
        self.guards = [
            self.lab.recovery.guard(name, idempotent=True, breaker="shared", attempt_timeout=deadline_s)(self.answer())
            for name in ("search", "fetch")
        ]

    def answer(self) -> Callable[[], Any]:
        async def answer_async() -> Any:
            return self.script()

        def answer() -> Any:
            return self.script()

        return answer_async if self.is_async else answer

    def play(self, story: list[Step]) -> Teller:
        for step in story:
            self.lab.clock.push(step.after_s)
            if step.does == "call":
                self.call(step)
            else:
                self.change(step.does)
        self.lab.recovery.flush()
        return self

    def call(self, step: Step) -> None:
        self.script = self.lab.script(*step.outcomes, takes_s=step.takes_s)
        guarded = self.guards[step.which]
        call = guarded if self.is_quick else guarded.outcome
        try:
            if step.source is None:
                self.end(call)
            else:
                with self.lab.recovery.run(source=step.source, timeout=step.run_deadline_s):
                    self.end(call)
        except RecoveryError as error:  # the run's own end
            self.ends.append(type(error).__name__)

    def end(self, call: Callable[[], Any]) -> None:
        try:
            found = call()
            if self.is_async:
                found = asyncio.run(found)
            self.ends.append(str(found if self.is_quick else found.value))
        except RecoveryError as error:
            self.ends.append(type(error).__name__)

    def change(self, what: str) -> None:
        self.revision += 1
        now, scope = self.lab.clock.wall(), Scope()
        trip = Override(
            id=f"ov-{self.revision}",
            mode=State.FORCED_OPEN,
            scope=scope,
            reason="a test",
            by="ana",
            starts_at=now,
            expires_at=now + 60.0,
            revision=self.revision,
        )
        overrides = (trip,) if what == "trip" else ()
        if what == "reset":
            self.resets = (*self.resets, Reset(scope=scope, revision=self.revision))
        self.lab.recovery.apply(Desired(revision=self.revision, overrides=overrides, resets=self.resets))

    def told(self) -> dict[str, Any]:
        breaker = self.lab.recovery.breaker("shared")
        assert breaker is not None
        return {
            "ends": self.ends,
            "facts": self.lab.events,
            "sources": self.lab.read.sources,
            "waits": self.lab.waits,
            "now": self.lab.clock.now(),
            "state": breaker.state,
            "window": breaker.reading(self.lab.clock.now()),
        }


class TestEquality:
    @given(STORIES, st.sampled_from([None, 5.0]))
    def test_threads_hear_and_see_the_same_as_on_the_ladder(self, story: list[Step], deadline_s: float | None) -> None:
        quick, ladder = (
            Teller(is_quick=is_quick, is_async=False, deadline_s=deadline_s).play(story).told()
            for is_quick in (True, False)
        )
        assert quick == ladder

    @given(STORIES, st.sampled_from([None, 5.0]))
    def test_tasks_too(self, story: list[Step], deadline_s: float | None) -> None:
        quick, ladder = (
            Teller(is_quick=is_quick, is_async=True, deadline_s=deadline_s).play(story).told()
            for is_quick in (True, False)
        )
        assert quick == ladder

    def test_the_stories_take_the_quick_path(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from recovery_ops.runtime.calls import fast_path as quick

        climbs: list[Any] = []
        monkeypatch.setattr(quick, "execute_value", lambda *given: climbs.append(given))
        Teller(is_quick=True, is_async=False, deadline_s=None).play([Step(("ok",), source="main_agent")] * 3)
        assert climbs == []


class TestTime:
    def test_a_thread_is_handed_what_is_left(self) -> None:
        lab = Lab(reraise=False)

        @lab.recovery.guard("search", attempt_timeout=10.0)
        def search() -> float | None:
            return attempt().remaining_s

        assert search() == 10.0
        with lab.recovery.run(timeout=4.0):
            lab.clock.push(1.0)
            assert search() == 3.0
        assert attempt().remaining_s is None

    def test_a_thread_is_handed_what_is_left_of_the_run_alone(self) -> None:
        lab = Lab(reraise=False)
        guarded = lab.recovery.guard("search")(lambda: attempt().remaining_s)
        assert guarded() is None
        with lab.recovery.run(timeout=4.0):
            lab.clock.push(1.0)
            assert guarded() == 3.0
            with Deadline(2.0, clock=lab.clock):
                assert guarded() == 2.0

    @pytest.mark.parametrize("is_nested", [True, False])
    def test_a_run_that_was_called_off_calls_nothing(self, is_nested: bool) -> None:
        lab, called = Lab(reraise=False), []
        guarded = lab.recovery.guard("search")(lambda: called.append(1))
        with lab.recovery.run() as run, Deadline(60.0, clock=lab.clock) if is_nested else nullcontext():
            guarded()
            run.cancel()
            with pytest.raises(RunCancelled):
                guarded()
        assert called == [1]

    def test_a_run_that_is_over_calls_nothing(self) -> None:
        lab, called = Lab(reraise=False), []
        guarded = lab.recovery.guard("search")(lambda: called.append(1))
        with lab.recovery.run(timeout=4.0):
            lab.clock.push(4.0)
            with pytest.raises(DeadlineExceeded):
                guarded()
        assert called == []

    def test_durations_are_counted_where_there_is_a_deadline(self) -> None:
        lab = Lab(reraise=False)
        guarded = lab.recovery.guard("search", attempt_timeout=10.0)(lab.script("ok", takes_s=0.2))
        plain = lab.recovery.guard("fetch")(lab.script("ok", takes_s=0.2))
        for _ in range(3):
            guarded(), guarded.outcome(), plain(), plain.outcome()
        lab.recovery.flush()
        search, fetch = lab.events_of(CallsCounted)
        assert dict(zip((*search.latency_bounds_s, None), search.latency_counts, strict=True))[0.25] == 6
        assert sum(search.latency_counts) == search.successes == 6
        assert fetch.latency_counts == ()

    def test_only_the_newest_durations_wait_to_be_counted(self) -> None:
        lab = Lab(reraise=False)
        guarded = lab.recovery.guard("search", attempt_timeout=10.0)(lab.script("ok"))
        for _ in range(3):
            for _ in range(2000):
                guarded()
            lab.recovery.sweep()
        lab.recovery.flush()
        (counted,) = lab.events_of(CallsCounted)
        assert sum(counted.latency_counts) == 6000

    def test_a_laboratorys_clock_does_not_time_tasks_out(self) -> None:
        lab = Lab(reraise=False)  # its clock reads 1000 s; the loop's says how long the machine is up

        @lab.recovery.guard("search", attempt_timeout=3600.0)
        async def search() -> str:
            for _ in range(3):
                await asyncio.sleep(0.001)
            return "ok"

        assert asyncio.run(search()) == "ok"
        assert lab.events == []


class TestNesting:
    def test_a_call_within_an_attempt_does_not_read_its_adjustments(self) -> None:
        lab, seen = Lab(reraise=False), []

        @lab.recovery.guard("inner", idempotent=True)
        def inner() -> None:
            seen.append(attempt())

        @lab.recovery.guard("outer", idempotent=True, refresh_credentials=lambda: None)
        def outer() -> str:
            if not seen:
                seen.append(attempt())
                error = Script([401])
                error()
            inner()
            return "ok"

        with lab.recovery.run(source="main_agent"):
            assert outer() == "ok"
        assert (seen[1].number, seen[1].adjustment) == (1, None)

    def test_keyed_call_gives_inner_calls_keys_of_their_own(self) -> None:
        lab = Lab(reraise=False)
        inner = lab.recovery.guard("inner")(lambda: attempt().idempotency_key)
        outer = lab.recovery.guard("outer", idempotency_key=lambda: "order-7")(lambda: (inner(), inner()))
        first, second = outer()
        assert len({first, second, "order-7", None}) == 4
        assert outer() == (first, second)


@pytest.fixture
def recovery() -> Recovery:
    return Recovery("quick", url="", sink=RecordedEvents(), is_background_work_wanted=False, reraise=False)


class TestTasks:
    def test_loops_of_several_threads_share_an_operation(self, recovery: Recovery) -> None:
        """Each call is ended by the timer of its own loop, whoever asked last."""
        ends: list[str] = []
        all_here = threading.Barrier(3)

        @recovery.guard("search", idempotent=True, max_retries=0, attempt_timeout=0.02)
        async def search(seconds: float) -> None:
            await asyncio.sleep(seconds)

        async def main() -> None:
            all_here.wait(10.0)
            await search(0.0)
            with pytest.raises(RecoveryExhausted):
                await search(3600.0)
            ends.append("ended")

        threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30.0)
        assert ends == ["ended"] * 3

    def test_one_loop_after_another_in_one_thread(self, recovery: Recovery) -> None:
        @recovery.guard("search", idempotent=True, max_retries=0, attempt_timeout=0.01)
        async def search() -> None:
            await asyncio.sleep(3600.0)

        for _ in range(3):
            with pytest.raises(RecoveryExhausted):
                asyncio.run(search())

    def test_a_cancel_that_the_call_swallowed_is_taken_back(self, recovery: Recovery) -> None:
        @recovery.guard("stubborn", idempotent=True, attempt_timeout=0.01)
        async def stubborn() -> str:
            try:
                await asyncio.sleep(3600.0)
            except asyncio.CancelledError:
                return "anyway"
            return "never"

        async def main() -> tuple[str, int]:
            answer = await stubborn()
            task = asyncio.current_task()
            assert task is not None
            return answer, task.cancelling()

        assert asyncio.run(main()) == ("anyway", 0)

    def test_a_late_call_tells_where_it_hung(self, recovery: Recovery) -> None:
        @recovery.guard("slow", idempotent=True, max_retries=0, attempt_timeout=0.01)
        async def slow() -> None:
            await hanging_place()

        async def hanging_place() -> None:
            await asyncio.sleep(3600.0)

        with pytest.raises(RecoveryExhausted) as failed:
            asyncio.run(slow())
        cause = failed.value.last_error
        assert isinstance(cause, TimeoutError)
        names, trace = [], cause.__traceback__
        while trace is not None:
            names.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        assert "hanging_place" in names

    def test_entries_do_not_pile_up_behind_a_slow_call(self, recovery: Recovery) -> None:
        @recovery.guard("search", attempt_timeout=60.0)
        async def search(release: asyncio.Event | None = None) -> None:
            if release is not None:
                await release.wait()

        async def main() -> int:
            for _ in range(100):
                await search()
            release = asyncio.Event()
            slow = asyncio.create_task(search(release))
            await asyncio.sleep(0)
            release.set()
            await slow
            line = search.operation.own_timers()._latest
            assert line is not None
            return len(line.entries)

        assert asyncio.run(main()) == 0


def test_the_story_tells_more_than_runs() -> None:
    teller = Teller(is_quick=True, is_async=False, deadline_s=None).play([Step((500, "ok"), source="main_agent")])
    kinds = {type(fact).__name__ for fact in teller.lab.events if not isinstance(fact, RunStarted | RunFinished)}
    assert kinds == {"FailureClassified", "RetryScheduled", "AttemptSucceeded", "CallsCounted"}
