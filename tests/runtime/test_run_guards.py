"""The guards of a run at work: failures, errors, turns, compactions; new in each run, never in the context."""

from __future__ import annotations

import contextvars
import threading

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.tools.results import Detail, ResultKind
from recovery_ops.runtime import Deadline, StopRun
from recovery_ops.runtime.testing import Lab
from tests.runtime.tools.toolboxes import PLAYS, Play, live_limits, open_tool, registry_of, scripted, use

SCHEMA = {"type": "object", "required": ["n"]}


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture(params=PLAYS)
def play(request: pytest.FixtureRequest) -> Play:
    return PLAYS[request.param]


class TestOneTool:
    def test_after_three_failures_in_a_row_it_is_not_called_any_more(self, play: Play, lab: Lab) -> None:
        script = lab.script(ValueError())
        registry = registry_of(lab, open_tool("search", script), scripted(lab, "mail", "sent"))
        with lab.recovery.run(source="main_agent"):
            results = play(registry, [use("search", str(number)) for number in range(5)])
            assert [tool.name for tool in registry.offered()] == ["mail"]
        assert script.calls == 3
        assert [result.detail for result in results] == [Detail.NONE] * 3 + [Detail.STOPPED_TOOL] * 2
        assert "do not call it again. Answer with what you have, or ask for help." in results[2].content
        assert "it is not called any more in this task" in results[3].content
        (fact,) = lab.events_of(events.GuardTripped)
        assert (fact.operation, fact.guard, fact.count, fact.limit) == ("search", "tool_failures", 3, 3)

    def test_an_operation_counts_once_after_its_retries(self, play: Play, lab: Lab) -> None:
        script = lab.script(503, 503, ValueError())
        registry = registry_of(lab, open_tool("search", script, read_only=True, max_retries=2))
        with lab.recovery.run(source="main_agent") as run:
            play(registry, [use("search")])
        assert script.calls == 3
        assert run.scope.guards.budget.total == 1

    def test_a_success_resets_it(self, play: Play, lab: Lab) -> None:
        outcomes = [ValueError(), ValueError(), "ok", ValueError(), ValueError(), "ok"]
        registry = registry_of(lab, scripted(lab, "search", *outcomes))
        with lab.recovery.run(source="main_agent"):
            play(registry, [use("search", str(number)) for number in range(6)])
        assert lab.events_of(events.GuardTripped) == []

    def test_arguments_that_never_fit_count(self, play: Play, lab: Lab) -> None:
        registry = registry_of(lab, scripted(lab, "sum", 1, input_schema=SCHEMA))
        with lab.recovery.run(source="main_agent"):
            results = play(registry, [use("sum", str(number)) for number in range(4)])
        assert [result.detail for result in results] == [Detail.INVALID_ARGUMENTS] * 3 + [Detail.STOPPED_TOOL]

    def test_it_is_new_in_each_run(self, play: Play, lab: Lab) -> None:
        script = lab.script(ValueError())
        registry = registry_of(lab, open_tool("search", script))
        for _ in range(2):
            with lab.recovery.run(source="main_agent"):
                play(registry, [use("search", str(number)) for number in range(4)])
        assert script.calls == 6

    def test_an_inner_deadline_counts_in_the_same_run(self, lab: Lab) -> None:
        registry = registry_of(lab, scripted(lab, "search", ValueError()))
        with lab.recovery.run(source="main_agent") as run, Deadline(5.0, clock=lab.clock):
            PLAYS["threads"](registry, [use("search")])
        assert run.scope.guards.budget.total == 1

    def test_outside_a_run_nothing_is_guarded(self, play: Play, lab: Lab) -> None:
        script = lab.script(ValueError())
        play(registry_of(lab, open_tool("search", script)), [use("search", str(number)) for number in range(12)])
        assert script.calls == 12


class TestErrorBudget:
    def test_three_tools_failing_in_a_row_tell_the_model_to_change(self, play: Play, lab: Lab) -> None:
        registry = registry_of(lab, *(scripted(lab, name, ValueError()) for name in "abc"))
        with lab.recovery.run(source="main_agent"):
            results = play(registry, [use(name) for name in "abc"])
        said = ["take another approach" in result.content for result in results]
        assert said == [False, False, True]
        (fact,) = lab.events_of(events.BudgetWarned)
        assert (fact.budget, fact.spent, fact.limit) == ("errors", 3, 3)

    def test_unknown_tools_count(self, play: Play, lab: Lab) -> None:
        with lab.recovery.run(source="main_agent"):
            results = play(registry_of(lab), [use("x", str(number)) for number in range(3)])
        assert "take another approach" in results[2].content

    def test_ten_in_all_end_the_run_after_the_transcript_is_whole(self, play: Play, lab: Lab) -> None:
        registry = registry_of(lab, *(scripted(lab, f"t{number}", ValueError()) for number in range(12)))
        into: list[object] = []
        with pytest.raises(StopRun) as stopped, lab.recovery.run(source="main_agent"):
            play(registry, [use(f"t{number}") for number in range(12)], into=into)
        assert (stopped.value.reason, stopped.value.category) == ("errors", Category.BUG)
        assert str(stopped.value) == "Too many steps of this task failed."
        kinds = [result.kind for result in stopped.value.results]
        assert kinds == [ResultKind.FAILED] * 10 + [ResultKind.CANCELLED] * 2
        assert tuple(into) == stopped.value.results
        assert len(lab.events_of(events.BudgetExhausted)) == len(lab.events_of(events.RunStopped)) == 1
        (finished,) = lab.events_of(events.RunFinished)
        assert finished.status is RunStatus.STOPPED

    def test_the_tools_guard_wins_where_both_fire(self, play: Play, lab: Lab) -> None:
        live_limits(lab, errors_before_abort=3)
        registry = registry_of(lab, scripted(lab, "search", ValueError()))
        with lab.recovery.run(source="main_agent"):
            results = play(registry, [use("search", str(number)) for number in range(4)])
        assert results[3].detail is Detail.STOPPED_TOOL
        assert lab.events_of(events.BudgetExhausted) == []

    def test_a_live_policy_changes_the_numbers_of_a_run_under_way(self, play: Play, lab: Lab) -> None:
        registry = registry_of(lab, scripted(lab, "search", ValueError()))
        with lab.recovery.run(source="main_agent"):
            play(registry, [use("search")])
            live_limits(lab, tool_failures=2)
            play(registry, [use("search")])
            assert registry.offered() == ()


class TestTurns:
    def test_twenty_turns_and_no_more(self, lab: Lab) -> None:
        def endless() -> None:
            with lab.recovery.run(source="main_agent") as run:
                numbers.extend(iter(run.turn, 0))

        numbers: list[int] = []
        with pytest.raises(StopRun) as stopped:
            endless()
        assert numbers == list(range(1, 21))
        assert (stopped.value.reason, stopped.value.category) == ("turns", None)
        (tripped,) = lab.events_of(events.GuardTripped)
        assert (tripped.guard, tripped.count, tripped.limit) == ("turns", 20, 20)
        (finished,) = lab.events_of(events.RunFinished)
        assert (finished.turns, finished.status) == (20, RunStatus.STOPPED)

    def test_the_policy_says_how_many(self, lab: Lab) -> None:
        live_limits(lab, turns=1)
        with lab.recovery.run() as run:
            run.turn()
            with pytest.raises(StopRun):
                run.turn()
            with pytest.raises(StopRun):
                run.turn()
        assert len(lab.events_of(events.RunStopped)) == 1


class TestCompaction:
    def test_three_failures_in_a_row_switch_it_off(self, lab: Lab) -> None:
        with lab.recovery.run() as run:
            answers = [run.compaction(has_worked=worked) for worked in (False, False, True, False, False, False, True)]
            assert not run.may_compact
        assert answers == [True] * 5 + [False] * 2
        (fact,) = lab.events_of(events.GuardTripped)
        assert fact.guard == "compaction_failures"
        with lab.recovery.run() as run:
            assert run.may_compact


def test_counts_of_many_threads_are_not_lost(lab: Lab) -> None:
    """Threads that share a run (a context copied into each) count together."""
    live_limits(lab, tool_failures=10_000, errors_before_abort=10_000, repeats_before_stop=10_000)
    registry = registry_of(lab, scripted(lab, "search", ValueError()))
    with lab.recovery.run(source="main_agent") as run:
        contexts = [contextvars.copy_context() for _ in range(8)]

        def work(context: contextvars.Context) -> None:
            context.run(PLAYS["threads"], registry, [use("search")] * 25)

        threads = [threading.Thread(target=work, args=(context,)) for context in contexts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    counted = run.scope.guards.budget.total
    refused = sum(fact.count for fact in lab.recovery.rejections.taken(0.0))
    assert counted + refused == 200
