"""The guards of a run, count by count."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import BudgetExhausted, BudgetWarned, GuardTripped, PermissionDenied
from recovery_ops.rules.policy.escalation_rules import BUILT_IN_ESCALATIONS
from recovery_ops.rules.policy.settings import Problem
from recovery_ops.rules.run_limits import (
    DEFAULT_LIMITS,
    GUARD_SETTINGS,
    BudgetVerdict,
    Effect,
    ErrorBudget,
    GuardLimits,
    RunGuards,
    asked,
    guards_document,
    parse_guards,
)

OK, WARN, ABORT = BudgetVerdict.OK, BudgetVerdict.WARN, BudgetVerdict.ABORT


class TestErrorBudget:
    @pytest.mark.parametrize(
        ("outcomes", "verdicts"),
        [
            ("fff", [OK, OK, WARN]),
            ("ffff", [OK, OK, WARN, WARN]),
            ("ffsff", [OK, OK, OK, OK]),
            ("ffsfff", [OK, OK, OK, OK, WARN]),
            ("ffsffsffsffsff", [OK] * 9 + [ABORT]),
            ("f" * 10, [OK, OK, *[WARN] * 7, ABORT]),
        ],
    )
    def test_three_in_a_row_warn_and_ten_in_all_abort(self, outcomes: str, verdicts: list[BudgetVerdict]) -> None:
        budget, found = ErrorBudget(), []
        for one in outcomes:
            if one == "f":
                found.append(budget.failed())
            else:
                budget.succeeded()
        assert found == verdicts

    def test_a_success_ends_the_row_and_forgives_nothing(self) -> None:
        budget = ErrorBudget(warn_after=1, abort_after=2)
        assert budget.failed() is WARN
        budget.succeeded()
        assert (budget.verdict, budget.consecutive, budget.total) == (OK, 0, 1)
        assert budget.failed() is ABORT

    @pytest.mark.parametrize("given", [{"warn_after": 0}, {"abort_after": -1}])
    def test_a_limit_that_could_never_hold_is_refused(self, given: dict[str, int]) -> None:
        with pytest.raises(ValueError, match="from 1"):
            ErrorBudget(**given)


class TestToolFailures:
    def test_the_third_in_a_row_stops_the_tool(self) -> None:
        guards = RunGuards()
        effects = [guards.tool_failed("search", DEFAULT_LIMITS).effect for _ in range(2)]
        ruling = guards.tool_failed("search", DEFAULT_LIMITS)
        assert [*effects, ruling.effect] == [Effect.GO_ON, Effect.GO_ON, Effect.STOP_CALLING]
        assert ruling.events == (GuardTripped(operation="search", guard="tool_failures", count=3, limit=3),)
        assert guards.stopped_tools == {"search"}

    def test_a_success_of_the_tool_resets_its_count_and_no_other(self) -> None:
        guards = RunGuards()
        for tool in ("search", "mail", "search", "mail"):
            guards.tool_failed(tool, DEFAULT_LIMITS)
        guards.tool_succeeded("search")
        guards.tool_failed("search", DEFAULT_LIMITS)
        guards.tool_failed("mail", DEFAULT_LIMITS)
        assert guards.stopped_tools == {"mail"}

    def test_the_tools_own_guard_wins_where_the_budget_fires_too(self) -> None:
        """Three failures of one tool are three in a row across tools as well: the run only loses the tool."""
        guards = RunGuards()
        limits = GuardLimits(errors_before_abort=3)
        rulings = [guards.tool_failed("search", limits) for _ in range(3)]
        assert rulings[-1].effect is Effect.STOP_CALLING
        assert not any(isinstance(fact, BudgetWarned | BudgetExhausted) for fact in rulings[-1].events)
        assert guards.tool_failed("mail", limits).effect is Effect.STOP_RUN

    def test_failures_of_several_tools_warn_once_until_a_success(self) -> None:
        guards = RunGuards()
        rulings = [guards.tool_failed(tool, DEFAULT_LIMITS) for tool in "abcd"]
        assert [ruling.effect for ruling in rulings[2:]] == [Effect.CHANGE_APPROACH] * 2
        warned = BudgetWarned(budget="errors", spent=3, limit=3)
        assert [ruling.events for ruling in rulings] == [(), (), (warned,), ()]
        guards.tool_succeeded("a")
        again = [guards.tool_failed(tool, DEFAULT_LIMITS) for tool in "efg"]
        assert again[2].events == (warned,)

    def test_the_tenth_in_all_ends_the_run(self) -> None:
        guards = RunGuards()
        rulings = [guards.tool_failed(f"tool-{number}", DEFAULT_LIMITS) for number in range(11)]
        assert [ruling.effect for ruling in rulings[8:]] == [
            Effect.CHANGE_APPROACH,
            Effect.STOP_RUN,
            Effect.STOP_RUN,
        ]
        assert rulings[9].events == (BudgetExhausted(budget="errors", spent=10, limit=10),)
        assert rulings[10].events == ()

    def test_a_tool_that_does_not_exist_counts_in_the_budget_alone(self) -> None:
        guards = RunGuards()
        assert [guards.tool_failed("", DEFAULT_LIMITS).effect for _ in range(3)][-1] is Effect.CHANGE_APPROACH
        assert guards.stopped_tools == set()

    def test_stopped_tool_counts_in_the_budget_alone(self) -> None:
        guards = RunGuards()
        for _ in range(3):
            guards.tool_failed("search", DEFAULT_LIMITS)
        again = guards.tool_failed("search", DEFAULT_LIMITS)
        assert again.effect is Effect.CHANGE_APPROACH
        assert again.events == (BudgetWarned(budget="errors", spent=4, limit=3),)

    def test_the_limits_of_the_moment_hold(self) -> None:
        guards = RunGuards()
        guards.tool_failed("search", DEFAULT_LIMITS)
        assert guards.tool_failed("search", GuardLimits(tool_failures=1)).effect is Effect.STOP_CALLING


@pytest.mark.parametrize(("call_s", "step_s"), [(0.0, 300.0), (9.0, 30.0), (10.0, 30.0), (20.0, 60.0), (200.0, 600.0)])
def test_step_takes_a_multiple_of_its_call(call_s: float, step_s: float) -> None:
    assert DEFAULT_LIMITS.step_deadline_s(call_s) == step_s


class TestTurns:
    def test_twenty_and_no_more(self) -> None:
        guards = RunGuards()
        assert {guards.turn(DEFAULT_LIMITS).effect for _ in range(20)} == {Effect.GO_ON}
        ruling = guards.turn(DEFAULT_LIMITS)
        assert ruling.effect is Effect.STOP_RUN
        assert ruling.events == (GuardTripped(guard="turns", count=20, limit=20),)
        assert guards.turns == 20


class TestDenials:
    def denied(self, guards: RunGuards, times: int, limits: GuardLimits = DEFAULT_LIMITS) -> list[Effect]:
        return [guards.denied("pay", "no", limits).effect for _ in range(times)]

    def test_three_in_a_row_ask_a_person_once(self) -> None:
        guards = RunGuards()
        assert self.denied(guards, 5) == [Effect.GO_ON, Effect.GO_ON, Effect.ASK_A_PERSON, Effect.GO_ON, Effect.GO_ON]
        assert guards.asks_a_person

    def test_a_permission_ends_the_row(self) -> None:
        guards = RunGuards()
        self.denied(guards, 2)
        guards.permitted()
        assert self.denied(guards, 2) == [Effect.GO_ON, Effect.GO_ON]
        assert (guards.denials_in_a_row, guards.denials_in_all) == (2, 4)

    def test_twenty_in_all_ask_a_person(self) -> None:
        guards = RunGuards()
        for _ in range(19):
            self.denied(guards, 1)
            guards.permitted()
        ruling = guards.denied("pay", "no", DEFAULT_LIMITS)
        assert ruling.events == (
            PermissionDenied(operation="pay", reason="no", consecutive=1, total=20),
            GuardTripped(operation="pay", guard="permission_denials", count=20, limit=20),
        )

    def test_the_question_names_the_tool_and_the_queue(self) -> None:
        fact = asked("pay", "no", BUILT_IN_ESCALATIONS[Category.PERMISSION])
        assert (fact.deadline_s, fact.default_action) == (86_400.0, "deny")
        assert (fact.operation, fact.queue, fact.reason, fact.message) == (
            "pay",
            "policy_review",
            "permission_denials",
            "no",
        )


class TestCompaction:
    def test_the_third_failure_in_a_row_switches_it_off_for_good(self) -> None:
        guards = RunGuards()
        rulings = [guards.compaction_failed(DEFAULT_LIMITS) for _ in range(4)]
        tripped = GuardTripped(guard="compaction_failures", count=3, limit=3)
        assert [ruling.events for ruling in rulings] == [(), (), (tripped,), ()]
        guards.compaction_succeeded()
        assert not guards.may_compact

    def test_a_success_ends_the_row(self) -> None:
        guards = RunGuards()
        for has_worked in (False, False, True, False, False):
            if has_worked:
                guards.compaction_succeeded()
            else:
                guards.compaction_failed(DEFAULT_LIMITS)
        assert guards.may_compact


class TestSection:
    def parsed(self, given: object) -> tuple[GuardLimits, list[Problem]]:
        problems: list[Problem] = []
        return parse_guards(given, "guards", problems), problems

    @pytest.mark.parametrize("given", [None, {}, {"a_limit_of_tomorrow": 7}, {"turns": None}])
    def test_what_is_left_out_is_the_default(self, given: object) -> None:
        assert self.parsed(given) == (DEFAULT_LIMITS, [])

    @pytest.mark.parametrize(
        ("given", "path"),
        [
            ([], "guards"),
            ("3", "guards"),
            ({"turns": 0}, "guards.turns"),
            ({"turns": -1}, "guards.turns"),
            ({"turns": 2.5}, "guards.turns"),
            ({"turns": True}, "guards.turns"),
            ({"turns": "20"}, "guards.turns"),
            ({"tool_failures": 10_001}, "guards.tool_failures"),
            ({"denials_in_all": float("nan")}, "guards.denials_in_all"),
        ],
    )
    def test_a_fault_is_named_by_its_path(self, given: object, path: str) -> None:
        limits, problems = self.parsed(given)
        assert limits == DEFAULT_LIMITS
        assert [problem.path for problem in problems] == [path]

    @given(
        st.fixed_dictionaries(
            {
                name: st.sampled_from(setting.words)
                if setting.words
                else st.integers(int(setting.minimum) or 1, int(setting.maximum))
                for name, setting in GUARD_SETTINGS.items()
            }
        )
    )
    def test_a_section_comes_back_as_it_was_written(self, given: dict[str, Any]) -> None:
        limits, problems = self.parsed(given)
        assert problems == []
        assert guards_document(limits) == given

    def test_every_limit_has_a_setting(self) -> None:
        assert list(guards_document(DEFAULT_LIMITS)) == list(GUARD_SETTINGS)
