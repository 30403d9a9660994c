"""A whole turn of tool calls: side by side, called off, interrupted, ended midway; the results are always whole."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import Event, ToolErrorReturned
from recovery_ops.rules.tools.results import Detail, ResultKind
from recovery_ops.runtime import Recovery, StopRun, ToolRegistry, ToolResult
from recovery_ops.runtime.testing import HttpError, Lab, RecordedEvents
from tests.runtime.tools.toolboxes import PLAYS, Play, open_tool, registry_of, scripted, use


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture(params=PLAYS)
def play(request: pytest.FixtureRequest) -> Play:
    return PLAYS[request.param]


def kinds(results: list[ToolResult]) -> list[ResultKind]:
    return [result.kind for result in results]


OK, CANCELLED = ResultKind.SUCCEEDED, ResultKind.CANCELLED


class TestInterrupts:
    @pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_an_interrupt_passes_after_the_results_are_whole(
        self, play: Play, lab: Lab, interrupt: type[BaseException]
    ) -> None:
        registry = registry_of(lab, scripted(lab, "search", "x"), scripted(lab, "slow", interrupt()))
        into: list[ToolResult] = []
        with pytest.raises(interrupt), lab.recovery.run(source="main_agent"):
            play(registry, [use("search", "1"), use("slow", "2"), use("search", "3")], into=into)
        assert [result.tool_use_id for result in into] == ["1", "2", "3"]
        assert kinds(into) == [OK, CANCELLED, CANCELLED]
        assert "slow was cancelled before it finished; what it did is not known" in into[1].content
        assert "search was not called: the turn was cancelled" in into[2].content
        assert not any(result.is_error for result in into)

    def test_an_interrupt_in_a_wait_between_attempts_passes_too(self, lab: Lab) -> None:
        def interrupt() -> None:
            raise KeyboardInterrupt

        registry = registry_of(lab, scripted(lab, "search", 503, read_only=True, max_retries=3))
        into: list[ToolResult] = []
        lab.waker.at(0.1, interrupt)
        with pytest.raises(KeyboardInterrupt), lab.recovery.run(source="main_agent"):
            registry.run_tools([use("search", "1"), use("search", "2")], into=into)
        assert kinds(into) == [CANCELLED, CANCELLED]

    def test_an_interrupt_in_a_hook_passes_too(self, play: Play, lab: Lab) -> None:
        def check(tool: object, arguments: object) -> bool:
            raise KeyboardInterrupt

        registry = registry_of(lab, open_tool("pay", lambda: 1, require_permission=True), permission=check)
        into: list[ToolResult] = []
        with pytest.raises(KeyboardInterrupt):
            play(registry, [use("pay")], into=into)
        assert kinds(into) == [CANCELLED]
        assert "pay was not called" in into[0].content

    def test_a_defect_of_ours_costs_no_result(self, play: Play, caplog: pytest.LogCaptureFixture) -> None:
        class Broken(RecordedEvents):
            def emit(self, fact: Event, *rest: Any) -> None:
                if isinstance(fact, ToolErrorReturned):
                    raise OSError("a sink that breaks its word")

        recovery = Recovery("x", url="", sink=Broken(), is_background_work_wanted=False)
        registry = ToolRegistry(recovery, tools=[open_tool("search", lambda: "x")])
        assert kinds(play(registry, [use("none"), use("search")])) == [ResultKind.FAILED, OK]
        assert "could not settle the result of none" in caplog.text


class Hanging:
    """Handlers that hang until they are let go, and know how many hang."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def hang(self, **arguments: Any) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await anyio.sleep(arguments.get("for_s", 30))
        finally:
            self.now -= 1
        return "done"

    def tool(self, name: str = "hang", **said: Any) -> Any:
        return open_tool(name, self.hang, **{"read_only": True, "attempt_timeout": 60.0} | said)


async def called_off(registry: ToolRegistry, uses: list[Any], into: list[ToolResult]) -> None:
    """Cancel the turn once its calls hang."""
    task = asyncio.ensure_future(registry.run_tools_async(uses, into=into))
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    await task


class TestCancels:
    @pytest.mark.parametrize("idempotent", [False, True], ids=["alone", "together"])
    def test_a_cancel_of_the_task_passes_and_leaves_nothing_running(self, lab: Lab, idempotent: bool) -> None:
        hanging = Hanging()
        registry = registry_of(lab, hanging.tool(idempotent=idempotent), scripted(lab, "search", "x"))
        into: list[ToolResult] = []
        with pytest.raises(asyncio.CancelledError), lab.recovery.run(source="main_agent") as run:
            asyncio.run(called_off(registry, [use("hang", "1"), use("hang", "2"), use("search", "3")], into))
        assert [result.tool_use_id for result in into] == ["1", "2", "3"]
        assert set(kinds(into)) == {CANCELLED}
        assert hanging.now == 0
        assert run.scope.guards.budget.total == 0

    def test_a_timeout_around_the_turn_is_a_cancel(self, lab: Lab) -> None:
        hanging = Hanging()
        into: list[ToolResult] = []

        async def turn() -> None:
            async with asyncio.timeout(0.01):
                await registry_of(lab, hanging.tool()).run_tools_async([use("hang")], into=into)

        with pytest.raises(TimeoutError):
            asyncio.run(turn())
        assert kinds(into) == [CANCELLED]

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_a_scope_of_anyio_calls_a_turn_off(self, lab: Lab, backend: str) -> None:
        hanging = Hanging()
        first = open_tool("sync", lambda: "x", idempotent=False)  # so the others wait for its end
        registry = registry_of(lab, hanging.tool(), first)
        into: list[ToolResult] = []

        async def call_off(scope: anyio.CancelScope) -> None:
            while hanging.now < 2:
                await anyio.sleep(0)
            scope.cancel()

        async def turn() -> bool:
            async with anyio.create_task_group() as group:
                with anyio.CancelScope() as scope:
                    group.start_soon(call_off, scope)
                    await registry.run_tools_async([use("sync", "1"), use("hang", "2"), use("hang", "3")], into=into)
            return scope.cancelled_caught

        assert anyio.run(turn, backend=backend)
        assert kinds(into) == [OK, CANCELLED, CANCELLED]
        assert hanging.now == 0

    def test_a_nursery_of_trio_calls_a_turn_off(self, lab: Lab) -> None:
        hanging = Hanging()
        into: list[ToolResult] = []

        async def turn() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run, nursery)
                while hanging.now < 2:
                    await trio.sleep(0)
                nursery.cancel_scope.cancel()

        async def run(nursery: trio.Nursery) -> None:
            await registry_of(lab, hanging.tool()).run_tools_async([use("hang"), use("hang")], into=into)

        trio.run(turn)
        assert kinds(into) == [CANCELLED, CANCELLED]


def under_asyncio(work: Callable[[], Awaitable[Any]]) -> Any:
    return anyio.run(work, backend="asyncio")


def under_trio(work: Callable[[], Awaitable[Any]]) -> Any:
    return anyio.run(work, backend="trio")


@pytest.mark.parametrize("start", [under_asyncio, under_trio])
class TestTogether:
    def test_neighbours_that_do_no_harm_run_at_once(self, lab: Lab, start: Any) -> None:
        hanging = Hanging()
        registry = registry_of(lab, hanging.tool())
        uses = [use("hang", str(number), for_s=0.01) for number in range(12)]
        results = start(lambda: registry.run_tools_async(uses, at_once=4))
        assert [result.tool_use_id for result in results] == [one.id for one in uses]
        assert set(kinds(results)) == {OK}
        assert hanging.most == 4

    def test_a_destructive_one_runs_alone_and_in_its_turn(self, lab: Lab, start: Any) -> None:
        hanging, order = Hanging(), []

        def write(**arguments: Any) -> str:
            order.append(hanging.now)
            return "written"

        registry = registry_of(lab, hanging.tool(), open_tool("write", write))
        uses = [
            use("hang", "1", for_s=0.01),
            use("hang", "2", for_s=0.01),
            use("write", "3"),
            use("hang", "4", for_s=0),
        ]
        assert set(kinds(start(lambda: registry.run_tools_async(uses)))) == {OK}
        assert order == [0]
        assert hanging.most == 2

    def test_handlers_that_block_run_side_by_side_in_threads(self, lab: Lab, start: Any) -> None:
        meeting = threading.Barrier(3, timeout=10)
        registry = registry_of(lab, open_tool("meet", meeting.wait, read_only=True))
        results = start(lambda: registry.run_tools_async([use("meet", str(number)) for number in range(3)]))
        assert sorted(result.value for result in results) == [0, 1, 2]

    def test_one_that_ends_the_run_calls_off_its_neighbours(self, lab: Lab, start: Any) -> None:
        hanging = Hanging()
        registry = registry_of(lab, hanging.tool(), scripted(lab, "buckets", 403, read_only=True))
        uses = [use("hang", "1"), use("buckets", "2"), use("hang", "3"), use("none", "4")]

        async def turn() -> None:
            async with lab.recovery.run(source="main_agent"):
                await registry.run_tools_async(uses)

        with pytest.raises(StopRun) as stopped:
            start(turn)
        results = stopped.value.results
        assert [result.tool_use_id for result in results] == ["1", "2", "3", "4"]
        assert [result.detail for result in results][1] is Detail.RUN_STOPPED
        assert kinds([results[0], results[2]]) == [CANCELLED, CANCELLED]
        assert hanging.now == 0

    def test_stop_ends_the_turn_before_the_next_group(self, lab: Lab, start: Any) -> None:
        written = lab.script("written")
        registry = registry_of(lab, scripted(lab, "buckets", 403, read_only=True), open_tool("write", written))
        with pytest.raises(StopRun) as stopped:
            start(lambda: registry.run_tools_async([use("buckets"), use("write")]))
        assert written.calls == 0
        assert kinds(list(stopped.value.results))[1:] == [CANCELLED]
        assert "the task was ended" in stopped.value.results[1].content

    def test_first_of_two_stops_is_raised(self, lab: Lab, start: Any) -> None:
        waiting: list[anyio.Event] = []
        ended: list[str] = []

        def forbidden(name: str) -> Any:
            async def handler() -> None:
                waiting.append(mine := anyio.Event())
                for one in waiting if len(waiting) == 2 else ():
                    one.set()
                await mine.wait()
                ended.append(name)
                raise HttpError(403)

            return open_tool(name, handler, read_only=True)

        registry = registry_of(lab, forbidden("left"), forbidden("right"))
        with pytest.raises(StopRun) as stopped:
            start(lambda: registry.run_tools_async([use("left"), use("right")]))
        assert stopped.value.operation == ended[0]

    def test_a_deadline_of_one_leaves_its_neighbours_alone(self, lab: Lab, start: Any) -> None:
        hanging = Hanging()
        slow = hanging.tool("slow", attempt_timeout=0.01, optional=True)
        registry = registry_of(lab, slow, hanging.tool())
        results = start(lambda: registry.run_tools_async([use("slow"), use("hang", for_s=0.05)]))
        assert results[0].detail is Detail.WITHDRAWN
        assert results[1].kind is OK

    def test_a_handler_that_raises_a_group_is_one_failure(self, lab: Lab, start: Any) -> None:
        async def many() -> None:
            raise ExceptionGroup("several", [TimeoutError(), ValueError()])

        (result,) = start(lambda: registry_of(lab, open_tool("many", many)).run_tools_async([use("many")]))
        assert result.category is Category.BUG


class TestSingly:
    def test_one_call_in_a_thread(self, lab: Lab) -> None:
        assert registry_of(lab, scripted(lab, "search", "x")).run_tool(use("search")).value == "x"

    def test_one_call_in_a_task(self, lab: Lab) -> None:
        registry = registry_of(lab, scripted(lab, "search", "x"))
        assert asyncio.run(registry.run_tool_async(use("search"))).value == "x"

    def test_a_stop_has_the_result(self, lab: Lab) -> None:
        with pytest.raises(StopRun) as stopped:
            registry_of(lab, scripted(lab, "buckets", 403)).run_tool(use("buckets"))
        assert len(stopped.value.results) == 1

    def test_an_async_handler_in_a_thread_with_a_loop_is_an_error_that_says_what_to_use(self, lab: Lab) -> None:
        async def search() -> str:
            return "x"

        registry = registry_of(lab, open_tool("search", search))

        async def turn() -> ToolResult:
            return registry.run_tool(use("search"))

        result = asyncio.run(turn())
        assert result.kind is ResultKind.FAILED
        assert result.for_developer is not None
        assert "await run_tool_async" in result.for_developer.message
        assert trio.run(turn).kind is ResultKind.FAILED

    def test_no_calls_are_no_results(self, play: Play, lab: Lab) -> None:
        assert play(registry_of(lab), []) == []

    def test_a_block_that_is_none_gets_its_result_too(self, play: Play, lab: Lab) -> None:
        results = play(registry_of(lab), [None, {}, {"id": "1"}, 7])
        assert set(kinds(results)) == {ResultKind.UNKNOWN_TOOL}
        assert [result.tool_use_id for result in results] == ["", "", "1", ""]
