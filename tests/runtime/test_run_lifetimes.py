"""A run is entered once and ends once, wherever it is closed; what goes on after its end is outside of it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Abort, Desired
from recovery_ops.rules.enums import RunStatus
from recovery_ops.runtime import ConfigurationError, Deadline, DeadlineExceeded, Recovery, attempt
from recovery_ops.runtime.runs.context import current_scope
from recovery_ops.runtime.testing import Lab, RecordedEvents
from tests.support.virtual_time import LoopClock, pause, run_asyncio, run_trio

LIBRARIES = pytest.mark.parametrize("play", [run_asyncio, run_trio], ids=["asyncio", "trio"])


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def timed() -> Recovery:
    """A client in the time of the loop that runs the test."""
    return Recovery("timed", url="", clock=LoopClock(), sink=RecordedEvents(), is_background_work_wanted=False)


def ends(recovery: Recovery) -> list[RunStatus]:
    sink = recovery._sink
    assert isinstance(sink, RecordedEvents)
    return [one.status for one in sink.all if isinstance(one, events.RunFinished)]


class TestEntry:
    def test_nested_entry_of_one_run_is_refused(self, lab: Lab) -> None:
        run = lab.recovery.run("task")
        with run, pytest.raises(ConfigurationError), run:
            raise AssertionError("entered")
        assert ends(lab.recovery) == [RunStatus.SUCCEEDED]
        assert current_scope() is None

    def test_second_entry_after_the_end_is_refused(self, lab: Lab) -> None:
        run = lab.recovery.run("task")
        with run:
            pass
        with pytest.raises(ConfigurationError), run:
            raise AssertionError("entered")
        assert ends(lab.recovery) == [RunStatus.SUCCEEDED]

    def test_entry_in_another_task_is_refused(self, lab: Lab) -> None:
        async def main() -> None:
            async def enter() -> None:
                async with run:
                    raise AssertionError("entered")

            run = lab.recovery.run("task")
            async with run:
                with pytest.raises(ConfigurationError):
                    await asyncio.ensure_future(enter())

        asyncio.run(main())
        assert ends(lab.recovery) == [RunStatus.SUCCEEDED]

    def test_nested_entry_of_one_deadline_is_refused(self) -> None:
        deadline = Deadline(5.0)
        with deadline, pytest.raises(ConfigurationError), deadline:
            raise AssertionError("entered")
        with deadline:
            assert not deadline.has_passed

    def test_close_without_entry_tells_nothing(self, lab: Lab) -> None:
        lab.recovery.run("task").__exit__(None, None, None)
        Deadline(1.0).__exit__(None, None, None)
        assert lab.events_of(events.RunFinished) == []

    def test_second_close_tells_nothing(self, lab: Lab) -> None:
        run = lab.recovery.run("task")
        with run:
            pass
        run.__exit__(None, None, None)
        assert ends(lab.recovery) == [RunStatus.SUCCEEDED]


def elsewhere(work: Callable[[], Any]) -> Any:
    """What the work returns or raises in a thread of its own, with this thread's context."""
    found: list[Any] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            found.append(context.run(work))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


class TestClosedElsewhere:
    def test_thread_dependency_ends_its_run_once(self, lab: Lab) -> None:
        """What FastAPI does with a generator that is not async: begun in one thread, ended in another."""

        @contextmanager
        def dependency() -> Iterator[None]:
            with lab.recovery.run("request", source="main_agent"):
                yield

        held = dependency()
        elsewhere(held.__enter__)
        assert elsewhere(lambda: held.__exit__(None, None, None)) is False
        assert ends(lab.recovery) == [RunStatus.SUCCEEDED]
        assert lab.recovery.runs_in_flight == {}

    @LIBRARIES
    def test_task_dependency_ends_its_run_once(self, timed: Recovery, play: Callable[..., Any]) -> None:
        @asynccontextmanager
        async def dependency() -> AsyncIterator[None]:
            async with timed.run("request", source="main_agent", timeout=5.0):
                yield

        async def main() -> None:
            held = dependency()
            entered = Flag()

            async def begin() -> None:
                await held.__aenter__()
                entered.set()
                await pause(60.0)  # at the run's deadline this task does something else

            async def end() -> None:
                await entered.wait()
                await held.__aexit__(None, None, None)

            await both(begin, end)
            assert current_scope() is None

        play(main)
        assert ends(timed) == [RunStatus.SUCCEEDED]
        assert timed.runs_in_flight == {}

    @LIBRARIES
    def test_task_deadline_closed_elsewhere_cancels_nobody(self, timed: Recovery, play: Callable[..., Any]) -> None:
        async def main() -> None:
            deadline, entered = Deadline(5.0, clock=timed.clock), Flag()

            async def begin() -> None:
                await deadline.__aenter__()
                entered.set()
                await pause(60.0)
                assert current_scope() is None

            async def end() -> None:
                await entered.wait()
                await deadline.__aexit__(None, None, None)

            await both(begin, end)

        play(main)

    def test_run_of_a_task_closed_in_a_thread_cancels_nobody(self, timed: Recovery) -> None:
        async def main() -> None:
            run = timed.run("request", timeout=5.0)
            await run.__aenter__()
            elsewhere(lambda: run.__exit__(None, None, None))
            await pause(60.0)
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0

        run_asyncio(main)
        assert ends(timed) == [RunStatus.SUCCEEDED]

    def test_run_closed_after_its_loop_ends_once(self, timed: Recovery) -> None:
        run = timed.run("request", timeout=5.0)

        async def main() -> None:
            await run.__aenter__()

        run_asyncio(main)
        run.__exit__(None, None, None)
        assert ends(timed) == [RunStatus.SUCCEEDED]

    def test_abandoned_coroutine_ends_quietly(self, timed: Recovery, recwarn: pytest.WarningsRecorder) -> None:
        """A task that nobody awaits is closed by the collector, in whatever context that runs."""
        call = timed.guard("search", idempotent=True)(pause)

        async def work() -> None:
            async with timed.run("request", source="main_agent", timeout=5.0):
                await call(60.0)

        async def main() -> None:
            coroutine = work()
            contextvars.Context().run(lambda: coroutine.send(None))
            coroutine.close()

        run_asyncio(main)
        gc.collect()
        assert [str(one.message) for one in recwarn] == []
        assert ends(timed) == [RunStatus.CANCELLED]

    def test_wrong_order_leaves_no_run_behind(self, lab: Lab) -> None:
        outer, inner = lab.recovery.run("outer"), lab.recovery.run("inner")
        outer.__enter__()
        inner.__enter__()
        outer.__exit__(None, None, None)
        assert current_scope() is inner.scope
        inner.__exit__(None, None, None)
        assert current_scope() is None
        assert lab.recovery.runs_in_flight == {}

    def test_failing_nursery_at_the_deadline_ends_the_run(self, timed: Recovery) -> None:
        async def main() -> None:
            async with timed.run("request", timeout=5.0), trio.open_nursery() as nursery:
                nursery.start_soon(pause, 60.0)
                try:
                    await pause(60.0)
                finally:
                    raise ZeroDivisionError

        with pytest.raises(ExceptionGroup) as ended:
            run_trio(main)
        assert ended.group_contains(ZeroDivisionError)
        assert ends(timed) == [RunStatus.FAILED]
        assert timed.runs_in_flight == {}


class Flag:
    """Something that one task tells another, under asyncio and trio."""

    def __init__(self) -> None:
        self._event: Any = trio.Event() if asyncio._get_running_loop() is None else asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()


async def both(one: Callable[[], Any], other: Callable[[], Any]) -> None:
    """Run two tasks to their ends."""
    if asyncio._get_running_loop() is not None:
        await asyncio.gather(one(), other())
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        nursery.start_soon(other)


class TestOutliving:
    def test_task_after_its_run_is_outside_of_it(self, lab: Lab) -> None:
        call = lab.recovery.guard("search", idempotent=True)(lab.script_async("found"))
        seen: list[Any] = []

        async def main() -> None:
            async def outlive() -> None:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                lab.clock.push(1000.0)
                seen.append(await call())
                seen.append(current_scope())

            async with lab.recovery.run("task", source="main_agent", timeout=5.0):
                task = asyncio.ensure_future(outlive())
            await task

        asyncio.run(main())
        assert seen == ["found", None]

    def test_calls_after_their_run_count_outside(self, lab: Lab) -> None:
        call = lab.recovery.guard("search")(lab.script("found"))
        with lab.recovery.run("task", source="main_agent"):
            call()
            context = contextvars.copy_context()
        context.run(call)
        context.run(call)
        lab.recovery.flush()
        counted = {
            source: (one.calls, one.successes, one.in_flight)
            for one, source in zip(lab.events, lab.read.sources, strict=True)
            if isinstance(one, events.CallsCounted)
        }
        assert counted == {"main_agent": (1, 1, 0), "": (2, 2, 0)}
        assert [one.attempts for one in lab.events_of(events.RunFinished)] == [1]

    def test_thread_after_an_aborted_run_goes_on(self, lab: Lab) -> None:
        call = lab.recovery.guard("search")(lab.script("found"))
        with lab.recovery.run("task", run_id="r-1"):
            lab.recovery.apply(Desired(revision=1, aborts=(Abort(run="r-1"),)))
            context = contextvars.copy_context()
        assert context.run(call) == "found"

    def test_task_after_an_inner_run_is_in_the_outer(self, lab: Lab) -> None:
        with lab.recovery.run("outer", source="main_agent") as outer:
            with lab.recovery.run("inner", source="batch"):
                context = contextvars.copy_context()
            assert context.run(current_scope) is outer.scope

    def test_task_after_a_deadline_has_its_time_again(self, lab: Lab) -> None:
        call = lab.recovery.guard("search")(lab.script("found"))
        with Deadline(1.0, clock=lab.clock):
            context = contextvars.copy_context()
        lab.clock.push(10.0)
        assert context.run(call) == "found"
        assert context.run(current_scope) is None

    def test_deadline_that_outlasts_its_run_keeps_its_time(self, lab: Lab) -> None:
        sources: list[str] = []

        def work() -> str:
            scope = current_scope()
            assert scope is not None
            sources.append(scope.source)
            return "found"

        call = lab.recovery.guard("search")(work)
        with lab.recovery.run("outer", source="outer", timeout=100.0) as outer:
            inner = lab.recovery.run("inner", source="inner", timeout=50.0)
            inner.__enter__()
            with Deadline(30.0, clock=lab.clock):
                call()
                inner.__exit__(None, None, None)
                call()
                call()
                lab.clock.push(31.0)
                with pytest.raises(DeadlineExceeded):
                    call()
            assert current_scope() is outer.scope
        assert sources == ["inner", "outer", "outer"]
        attempts = {one.name: one.attempts for one in lab.events_of(events.RunFinished)}
        assert attempts == {"inner": 1, "outer": 2}

    def test_run_inside_an_ended_run_is_part_of_none(self, lab: Lab) -> None:
        with lab.recovery.run("task", timeout=5.0):
            context = contextvars.copy_context()
        lab.clock.push(100.0)
        run = lab.recovery.run("next", timeout=60.0)
        context.run(run.__enter__)
        assert run.scope.outer is None
        assert run.scope.deadline_at == lab.clock.now() + 60.0


class TestSpending:
    def test_spending_in_deadlines_counts_for_the_run(self, lab: Lab) -> None:
        call = lab.recovery.guard("search", idempotent=True)(lab.script(503, "found", "found"))
        with lab.recovery.run("task", source="main_agent") as run:
            run.scope.spend(1, 2, 0.5)
            with Deadline(60.0, clock=lab.clock), Deadline(50.0, clock=lab.clock):
                inner = current_scope()
                assert inner is not None
                inner.spend(10, 20, 0.25)
                inner.spend(100, 200, None)
                call()
                call()
        (end,) = lab.events_of(events.RunFinished)
        assert (end.input_tokens, end.output_tokens, end.cost_usd, end.attempts) == (111, 222, 0.75, 3)

    def test_spending_of_a_part_counts_after_its_deadline(self, lab: Lab) -> None:
        with lab.recovery.run("task") as run:
            with Deadline(60.0, clock=lab.clock):
                inner = current_scope()
            assert inner is not None
            inner.spend(10, 20, None)  # a stream that is read to its end later
        assert run.input_tokens == 10

    def test_time_of_a_deadline_that_cancels_nobody_is_told(self, lab: Lab) -> None:
        with Deadline(60.0, clock=lab.clock, cancels=False):
            assert attempt().remaining_s == 60.0


class TestOptions:
    @pytest.mark.parametrize("is_async", [False, True])
    def test_run_options_are_in_both_events(self, lab: Lab, is_async: bool) -> None:
        search = lab.recovery.guard("search")(lab.script("found"))

        def spend(run: Any) -> None:
            lab.clock.push(2.0)
            for turn in run.turns():
                search()
                if turn == 3:
                    break
            run.input_tokens, run.output_tokens, run.cost_usd = 100, 12, 0.5

        async def task(run: Any) -> None:
            async with run:
                spend(run)

        run = lab.recovery.run("triage", source="main_agent", run_id="r-7", timeout=5.0)
        if is_async:
            asyncio.run(task(run))
        else:
            with run:
                spend(run)
        assert lab.events == [
            events.RunStarted(name="triage"),
            events.RunFinished(
                name="triage",
                status=RunStatus.SUCCEEDED,
                duration_s=2.0,
                turns=3,
                attempts=3,
                input_tokens=100,
                output_tokens=12,
                cost_usd=0.5,
            ),
        ]
        assert (lab.read.sources, lab.read.runs) == (["main_agent"] * 2, ["r-7"] * 2)

    def test_run_timeout_ends_the_run(self, lab: Lab) -> None:
        with lab.recovery.run(timeout=5.0) as run:
            assert run.scope.deadline_at == lab.clock.now() + 5.0


class TestHolding:
    def test_hold_from_a_worker_thread_moves_the_deadline(self, timed: Recovery) -> None:
        """A blocking tool that asks a person, called from a task of trio."""
        clock = timed.clock

        async def main() -> float:
            async with timed.run("task", source="main_agent", timeout=5.0) as run:
                elsewhere(lambda: run.scope.hold(clock.now()))
                await pause(60.0)
                await trio.lowlevel.checkpoint()
                at = trio.current_time()
                elsewhere(lambda: run.scope.let_go(at))
                with trio.move_on_after(4.0):
                    await pause(60.0)
                return float(trio.current_time())

        assert run_trio(main) == 64.0
        assert ends(timed) == [RunStatus.SUCCEEDED]

    def test_hold_after_the_loop_has_ended_is_harmless(self, timed: Recovery) -> None:
        run = timed.run("task", timeout=5.0)

        async def main() -> None:
            await run.__aenter__()

        run_trio(main)
        run.scope.hold(0.0)
        run.scope.let_go(1.0)
        run.__exit__(None, None, None)
        assert ends(timed) == [RunStatus.SUCCEEDED]
