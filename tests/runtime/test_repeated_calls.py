"""Repeated calls of a run at work: tools of a registry and guards of kind `tool`, in threads and in tasks."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio

from recovery_ops.rules import events
from recovery_ops.rules.enums import RunStatus
from recovery_ops.rules.run_limits import REPEATED_CALLS
from recovery_ops.rules.tools.results import ResultKind
from recovery_ops.runtime import Deadline, RunCancelled, StopRun
from recovery_ops.runtime.runs import repeated_calls as counting
from recovery_ops.runtime.testing import Lab
from tests.runtime.test_questions import decided
from tests.runtime.tools.toolboxes import PLAYS, Play, live_limits, open_tool, registry_of, scripted, use

Caller = Callable[..., Any]
"""Calls a guarded function once."""


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture(params=PLAYS)
def play(request: pytest.FixtureRequest) -> Play:
    return PLAYS[request.param]


def same(times: int, tool: str = "search") -> list[Any]:
    return [use(tool, str(number), query="breakers") for number in range(times)]


def tripped(lab: Lab) -> list[tuple[str, str, int, int]]:
    return [(one.operation, one.guard, one.count, one.limit) for one in lab.events_of(events.GuardTripped)]


def end_of(lab: Lab, *work: Callable[[], object], times: int = 1, **said: Any) -> str:
    """Do work in a run, and return the reason of its stop; empty where it went to its end."""
    try:
        with lab.recovery.run(**{"source": "main_agent", **said}):
            for _ in range(times):
                for one in work:
                    one()
    except StopRun as stop:
        return stop.reason
    return ""


class TestRegistry:
    def test_third_result_warns_and_fifth_stops(self, play: Play, lab: Lab) -> None:
        registry = registry_of(lab, scripted(lab, "search", "found"))
        with pytest.raises(StopRun) as stopped, lab.recovery.run(source="main_agent"):
            play(registry, same(7))
        assert (stopped.value.reason, stopped.value.category) == (REPEATED_CALLS, None)
        kinds = [result.kind for result in stopped.value.results]
        assert kinds == [ResultKind.SUCCEEDED] * 5 + [ResultKind.CANCELLED] * 2
        assert [bool(result.advice) for result in stopped.value.results] == [False, False, True, True] + [False] * 3
        third = stopped.value.results[2]
        assert third.content == f"found\n{third.advice}"
        assert "call 3 of search" in third.advice
        assert tripped(lab) == [("search", REPEATED_CALLS, 5, 5)]
        [warned] = lab.events_of(events.BudgetWarned)
        assert (warned.operation, warned.budget, warned.spent, warned.limit) == ("search", REPEATED_CALLS, 3, 3)
        [end] = lab.events_of(events.RunStopped)
        assert (end.operation, end.reason) == ("search", REPEATED_CALLS)
        [finished] = lab.events_of(events.RunFinished)
        assert (finished.status, finished.repeated_calls) == (RunStatus.STOPPED, 5)

    def test_secret_that_differs_in_arguments_is_no_repetition(self, play: Play, lab: Lab) -> None:
        registry = registry_of(lab, scripted(lab, "search", "found"))
        with lab.recovery.run(source="main_agent"):
            play(registry, [use("search", str(number), token=f"sk-{number}" + "a1B2" * 10) for number in range(8)])
        assert lab.events_of(events.BudgetWarned) == []

    def test_operators_trip_ends_no_run(self, play: Play, lab: Lab) -> None:
        """Calls that are rejected are never made, so they are no repetition."""
        registry = registry_of(lab, scripted(lab, "search", "found"))
        lab.trip("search")
        with lab.recovery.run(source="main_agent"):
            results = play(registry, same(12))
        assert {result.detail.value for result in results} == {"refused"}

    def test_limit_of_failures_wins_over_the_same_failure(self, play: Play, lab: Lab) -> None:
        registry = registry_of(lab, scripted(lab, "search", ValueError("no")))
        with lab.recovery.run(source="main_agent"):
            play(registry, same(5))
        assert tripped(lab) == [("search", "tool_failures", 3, 3)]
        assert lab.events_of(events.BudgetWarned) == []

    def test_live_policy_changes_a_run_under_way(self, play: Play, lab: Lab) -> None:
        registry = registry_of(lab, scripted(lab, "search", "found"))
        twice, thrice = (lambda: play(registry, same(2))), (lambda: play(registry, same(1)))
        assert end_of(lab, twice, lambda: live_limits(lab, repeats_before_stop=3), thrice) == REPEATED_CALLS
        assert tripped(lab) == [("search", REPEATED_CALLS, 3, 3)]

    def test_parallel_calls_of_a_turn_count(self, lab: Lab) -> None:
        registry = registry_of(lab, scripted(lab, "search", "found", read_only=True))
        assert end_of(lab, lambda: asyncio.run(registry.run_tools_async(same(5)))) == REPEATED_CALLS

    def test_counts_of_many_threads_are_not_lost(self, lab: Lab) -> None:
        live_limits(lab, repeat_action="warn", repeats_before_warning=10_000)
        registry = registry_of(lab, scripted(lab, "search", "found"))
        with lab.recovery.run(source="main_agent"):
            contexts = [contextvars.copy_context() for _ in range(8)]
            threads = [
                threading.Thread(target=context.run, args=(registry.run_tools, same(25))) for context in contexts
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        [finished] = lab.events_of(events.RunFinished)
        assert finished.repeated_calls == 200

    def test_runs_count_apart(self, play: Play, lab: Lab) -> None:
        registry = registry_of(lab, scripted(lab, "search", "found"))
        for _ in range(3):
            with lab.recovery.run(source="main_agent"):
                play(registry, same(2))
        assert [one.repeated_calls for one in lab.events_of(events.RunFinished)] == [2, 2, 2]
        assert lab.events_of(events.BudgetWarned) == []

    def test_guarded_functions_inside_a_tool_are_a_part_of_it(self, play: Play, lab: Lab) -> None:
        parts = [lab.recovery.guard(name, kind="tool")(lambda: "part") for name in ("a", "b", "c")]
        registry = registry_of(lab, open_tool("search", lambda **_: [part() for part in parts]))
        assert end_of(lab, lambda: play(registry, same(5))) == REPEATED_CALLS
        assert tripped(lab) == [("search", REPEATED_CALLS, 5, 5)]

    @pytest.mark.parametrize("is_off", [True, False], ids=["off", "outside-runs"])
    def test_nothing_is_hashed_where_nothing_is_counted(
        self, play: Play, lab: Lab, monkeypatch: pytest.MonkeyPatch, is_off: bool
    ) -> None:
        hashed: list[object] = []
        monkeypatch.setattr(counting, "mark_of_call", lambda call, result: hashed.append(call))
        registry = registry_of(lab, scripted(lab, "search", "found"))
        guarded = lab.recovery.guard("find", kind="tool")(lambda: "found")
        if is_off:
            live_limits(lab, repeat_action="off")
            with lab.recovery.run(source="main_agent"):
                play(registry, same(6))
                assert [guarded() for _ in range(6)] == ["found"] * 6
        else:
            play(registry, same(6))
            assert [guarded() for _ in range(6)] == ["found"] * 6
        assert hashed == []


class TestAPerson:
    def test_users_yes_goes_on_and_begins_a_new_row(self, play: Play, lab: Lab) -> None:
        live_limits(lab, repeat_action="ask")
        asked: list[tuple[str, Any]] = []

        def ask(tool: Any, arguments: Any, reason: str) -> bool:
            asked.append((tool.name, arguments))
            return True

        registry = registry_of(lab, scripted(lab, "search", "found"), ask_person=ask)
        with lab.recovery.run(source="main_agent"):
            results = play(registry, same(9))
        assert asked == [("search", {"query": "breakers"})]
        assert {result.kind for result in results} == {ResultKind.SUCCEEDED}
        assert lab.events_of(events.Escalated) == []

    def test_users_no_stops_the_run(self, play: Play, lab: Lab) -> None:
        live_limits(lab, repeat_action="ask")
        registry = registry_of(lab, scripted(lab, "search", "found"), ask_person=lambda *_: False)
        with pytest.raises(StopRun) as stopped, lab.recovery.run(source="main_agent"):
            play(registry, same(9))
        assert stopped.value.reason == REPEATED_CALLS
        assert len([one for one in stopped.value.results if one.kind is ResultKind.SUCCEEDED]) == 5

    @pytest.mark.parametrize(("decision", "calls"), [("approved", 9), ("rejected", 5)])
    def test_answer_of_the_console_decides(self, play: Play, lab: Lab, decision: str, calls: int) -> None:
        live_limits(lab, repeat_action="ask")
        script = lab.script("found")
        registry = registry_of(lab, open_tool("search", script))
        lab.waker.at(600.0, lambda: decided(lab, decision))
        began = lab.clock.now()
        reason = end_of(lab, lambda: play(registry, same(9)), source="background_job", timeout=60.0)
        assert reason == (REPEATED_CALLS if decision == "rejected" else "")
        assert script.calls == calls
        assert lab.clock.now() == began + 600.0
        [question] = lab.events_of(events.Escalated)
        assert (question.operation, question.reason, question.queue) == ("search", REPEATED_CALLS, "budgets")
        assert question.default_action == "deny"

    def test_abort_while_a_person_is_asked_cancels_the_run(self, play: Play, lab: Lab) -> None:
        live_limits(lab, repeat_action="ask")
        registry = registry_of(lab, scripted(lab, "search", "found"))
        with lab.recovery.run(source="main_agent") as run:
            lab.waker.at(5.0, run.cancel)
            results = play(registry, same(6))
            with pytest.raises(RunCancelled):
                run.turn()
        assert [one.kind for one in results] == [ResultKind.SUCCEEDED] * 5 + [ResultKind.CANCELLED]


def threads(function: Any, *args: Any) -> Any:
    return function(*args)


def in_asyncio(function: Any, *args: Any) -> Any:
    async def called() -> Any:
        return await function(*args)

    return asyncio.run(called())


def in_trio(function: Any, *args: Any) -> Any:
    async def called() -> Any:
        return await function(*args)

    return trio.run(called)


CALLERS: dict[str, Caller] = {"thread": threads, "asyncio": in_asyncio, "trio": in_trio}


@pytest.fixture(params=CALLERS)
def caller(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Tools:
    """Guards for one way of calling; `call` calls one with arguments."""

    def __init__(self, lab: Lab, caller: str) -> None:
        self.lab, self.call, self.is_async = lab, CALLERS[caller], caller != "thread"

    def guard(self, name: str, *outcomes: Any, **said: Any) -> Any:
        script = self.lab.script(*outcomes)

        async def task(*args: Any, **kwargs: Any) -> Any:
            return script(*args, **kwargs)

        def thread(*args: Any, **kwargs: Any) -> Any:
            return script(*args, **kwargs)

        made = self.lab.recovery.guard(name, **{"kind": "tool", **said})(task if self.is_async else thread)
        made.script = script
        return made


@pytest.fixture
def tools(lab: Lab, caller: str) -> Tools:
    return Tools(lab, caller)


class TestGuards:
    def test_fifth_call_of_a_tool_raises(self, lab: Lab, tools: Tools) -> None:
        search = tools.guard("search", "found")
        assert end_of(lab, lambda: tools.call(search, "breakers"), times=9) == REPEATED_CALLS
        assert search.script.calls == 5
        assert tripped(lab) == [("search", REPEATED_CALLS, 5, 5)]
        assert [one.spent for one in lab.events_of(events.BudgetWarned)] == [3]

    def test_outcome_and_key_count_alike(self, lab: Lab, tools: Tools) -> None:
        """Calls that leave the fast path."""
        search = tools.guard("search", "found", idempotency_key=lambda query: query)
        ways = (lambda: tools.call(search, "breakers")), (lambda: tools.call(search.outcome, "breakers"))
        assert end_of(lab, *ways, times=9) == REPEATED_CALLS
        assert search.script.calls == 5

    def test_pair_of_tools_counts(self, lab: Lab, tools: Tools) -> None:
        search, read = tools.guard("search", "found"), tools.guard("read", "page")
        pair = (lambda: tools.call(search, "breakers")), (lambda: tools.call(read, 1))
        assert end_of(lab, *pair, times=9) == REPEATED_CALLS
        assert (search.script.calls, read.script.calls) == (5, 4)

    def test_same_failure_counts(self, lab: Lab, tools: Tools) -> None:
        search = tools.guard("search", ValueError("no"))

        def fails() -> None:
            with pytest.raises(ValueError, match="no"):
                tools.call(search, "breakers")

        assert end_of(lab, fails, times=9) == REPEATED_CALLS
        assert search.script.calls == 5

    @pytest.mark.parametrize(
        "said", [{"polling": True}, {"kind": "operation"}, {"kind": "document"}], ids=["polling", "operation", "other"]
    )
    def test_what_is_no_tool_or_polls_is_not_counted(self, lab: Lab, tools: Tools, said: dict[str, Any]) -> None:
        status = tools.guard("status", "running", **said)
        with lab.recovery.run(source="main_agent"):
            assert [tools.call(status) for _ in range(9)] == ["running"] * 9
        assert [one.repeated_calls for one in lab.events_of(events.RunFinished)] == [None]

    @pytest.mark.parametrize("outcomes", [range(9), [object() for _ in range(9)], [object()] * 9])
    def test_results_that_differ_or_cannot_be_compared_are_no_loop(self, lab: Lab, tools: Tools, outcomes: Any) -> None:
        search = tools.guard("search", *outcomes)
        with lab.recovery.run(source="main_agent"):
            for _ in range(9):
                tools.call(search, "breakers")
        assert tripped(lab) == []

    @pytest.mark.parametrize("timeout_s", [0, 10])
    def test_guards_inside_a_tools_guard_are_a_part_of_it(self, lab: Lab, tools: Tools, timeout_s: int) -> None:
        parts = [tools.guard(name, "part") for name in ("a", "b", "c")]

        def thread() -> str:
            return " ".join(part() for part in parts)

        async def task() -> str:
            return " ".join([await part() for part in parts])

        whole = lab.recovery.guard("whole", kind="tool", attempt_timeout=timeout_s)(task if tools.is_async else thread)
        assert end_of(lab, lambda: tools.call(whole), times=5) == REPEATED_CALLS
        assert tripped(lab) == [("whole", REPEATED_CALLS, 5, 5)]

    def test_console_allows_the_run_to_go_on(self, lab: Lab, tools: Tools) -> None:
        live_limits(lab, repeat_action="ask")
        search = tools.guard("search", "found")
        lab.waker.at(30.0, lambda: decided(lab))
        with lab.recovery.run(source="main_agent"):
            assert [tools.call(search, "breakers") for _ in range(9)] == ["found"] * 9

    def test_silence_stops_the_run(self, lab: Lab, tools: Tools) -> None:
        live_limits(lab, repeat_action="ask")
        search = tools.guard("search", "found")
        assert end_of(lab, lambda: tools.call(search, "breakers"), times=9) == REPEATED_CALLS
        assert lab.waits == [1800.0]


class Things:
    def find(self, query: str) -> str:
        return query


def test_method_is_compared_by_its_object(lab: Lab) -> None:
    find = lab.recovery.guard("find", kind="tool")(Things.find)
    one, other, third = Things(), Things(), Things()
    with lab.recovery.run(source="main_agent"):
        for thing in (one, other, third) * 4:
            find(thing, "a")
    assert lab.events_of(events.BudgetWarned) == []
    assert end_of(lab, lambda: find(one, "a"), times=5) == REPEATED_CALLS


class Slotted:
    """An object that takes no weak reference."""

    __slots__ = ()

    def find(self, query: str) -> str:
        return query


@pytest.mark.parametrize("kind", [Things, Slotted])
def test_short_lived_objects_are_no_loop(lab: Lab, kind: Any) -> None:
    find = lab.recovery.guard("find", kind="tool")(kind.find)
    with lab.recovery.run(source="main_agent"):
        for _ in range(12):
            find(kind(), "a")  # the next one may be given the same id
    assert lab.events_of(events.BudgetWarned) == []


def test_deadline_outside_any_run_counts_nothing(lab: Lab) -> None:
    search = lab.recovery.guard("search", kind="tool")(lambda query: query)
    with Deadline(5.0, clock=lab.clock):
        assert [search("a") for _ in range(9)] == ["a"] * 9


def test_deadline_inside_a_run_counts_for_the_run(lab: Lab) -> None:
    search = lab.recovery.guard("search", kind="tool")(lambda query: query)

    def in_time() -> None:
        with Deadline(5.0, clock=lab.clock):
            search("a")

    assert end_of(lab, in_time, times=5) == REPEATED_CALLS


def test_switched_off_runtime_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_OPS_OFF", "1")
    lab = Lab()
    registry = registry_of(lab, scripted(lab, "search", "found"))
    with lab.recovery.run(source="main_agent"):
        assert [result.kind for result in registry.run_tools(same(8))] == [ResultKind.SUCCEEDED] * 8


def test_large_arguments_cost_no_second(lab: Lab) -> None:
    """A call that is too large to be compared is one that differs from all others."""
    search = lab.recovery.guard("search", kind="tool")(len)
    pages = ["x" * 1000] * 5000
    with lab.recovery.run(source="main_agent"):
        assert [search(pages) for _ in range(9)] == [5000] * 9
