"""Breakers, state by state: what passes, what moves them, what an operator may impose."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.breaker import Breaker, Imposed
from recovery_ops.rules.facts import BreakerStateChanged, Fact
from recovery_ops.rules.policy import FAIL_CLOSED, Knobs
from recovery_ops.rules.words import Category, State, Trigger

TIMEOUT = Category.TIMEOUT


def breaker(**knobs: object) -> Breaker:
    return Breaker("search", Knobs(**knobs).over(FAIL_CLOSED))  # type: ignore[arg-type]


def opened(at: float = 0.0, **knobs: object) -> Breaker:
    one = breaker(**knobs)
    for _ in range(5):
        one.fail(at, TIMEOUT)
    assert one.state is State.OPEN
    return one


def change(facts: tuple[Fact, ...]) -> BreakerStateChanged:
    (fact,) = facts
    assert isinstance(fact, BreakerStateChanged)
    return fact


def trip(ends_at: float = 3600.0, **more: object) -> Imposed:
    return Imposed(id="ov-1", mode=State.FORCED_OPEN, ends_at=ends_at, revision=7, **more)  # type: ignore[arg-type]


class TestClosed:
    def test_opens_after_consecutive_failures_with_its_evidence(self) -> None:
        one = breaker()
        for _ in range(4):
            assert one.fail(1.0, TIMEOUT) == ()
        fact = change(one.fail(1.0, TIMEOUT, operation="search_web"))
        assert (fact.state, fact.previous_state) == (State.OPEN, State.CLOSED)
        assert fact.trigger is Trigger.CONSECUTIVE_FAILURES
        assert (fact.calls, fact.failures, fact.threshold, fact.wait_s) == (5, 5, 5.0, 60.0)
        assert (fact.last_category, fact.operation, fact.breaker) == (TIMEOUT, "search_web", "search")

    def test_a_success_in_between_starts_the_row_anew(self) -> None:
        one = breaker(failure_rate_threshold=0.0)
        for _ in range(20):
            for _ in range(4):
                assert one.fail(0.0, TIMEOUT) == ()
            one.successes.add()
        assert one.state is State.CLOSED

    @pytest.mark.parametrize(("successes", "failures", "opens"), [(5, 5, True), (6, 5, False), (4, 5, False)])
    def test_opens_at_the_failure_rate_after_enough_calls(self, successes: int, failures: int, opens: bool) -> None:
        one = breaker(consecutive_failures=0)
        for _ in range(successes):
            one.successes.add()
        facts = [one.fail(0.0, TIMEOUT) for _ in range(failures)]
        assert (one.state is State.OPEN) is opens
        if opens:
            assert change(facts[-1]).trigger is Trigger.FAILURE_RATE
            assert change(facts[-1]).failure_rate == 0.5

    def test_the_window_slides_by_calls(self) -> None:
        one = breaker(consecutive_failures=0)
        for _ in range(4):
            one.fail(0.0, TIMEOUT)
        for _ in range(20):
            one.successes.add()
        assert one.reading(0.0).failures == 0
        assert one.reading(0.0).calls == 20

    def test_the_window_slides_by_seconds(self) -> None:
        one = breaker(sliding_window_type="time_based", sliding_window_size=10, consecutive_failures=0)
        for _ in range(9):
            one.fail(0.0, TIMEOUT)
        assert one.fail(11.0, TIMEOUT) == ()
        assert one.reading(11.0).calls == 1
        for _ in range(8):
            one.fail(11.0, TIMEOUT)
        assert change(one.fail(12.0, TIMEOUT)).trigger is Trigger.FAILURE_RATE

    def test_slow_calls_open_where_that_is_wanted(self) -> None:
        one = breaker(slow_call_rate_threshold=0.5, slow_call_duration_s=2.0)
        assert not one.is_calm
        for _ in range(9):
            assert one.succeed(0.0, duration_s=3.0) == ()
        assert change(one.succeed(0.0, duration_s=3.0)).trigger is Trigger.SLOW_CALL_RATE

    def test_successes_between_failures_are_told(self) -> None:
        one = breaker(consecutive_failures=2)
        one.fail(0.0, TIMEOUT)
        for _ in range(3):
            one.successes.add()
        assert one.window.successes_since_failure() == 3
        one.fail(0.0, TIMEOUT)
        assert one.window.successes_since_failure() == 0


class TestOpen:
    def test_refuses_until_the_cooldown_is_over(self) -> None:
        one = opened()
        admission = one.admit(59.9)
        assert not admission.is_allowed
        assert admission.retry_in_s == pytest.approx(0.1)

    def test_then_lets_one_probe_through(self) -> None:
        one = opened()
        admission = one.admit(60.0)
        assert admission.is_allowed
        assert admission.is_probe
        assert change(admission.facts).trigger is Trigger.WAIT_ELAPSED

    def test_late_outcomes_of_earlier_calls_change_nothing(self) -> None:
        one = opened()
        assert one.fail(1.0, TIMEOUT) == ()
        assert one.succeed(1.0) == ()
        assert one.state is State.OPEN

    def test_an_edit_keeps_state_cooldown_and_window(self) -> None:
        one = opened(at=10.0)
        one.configure(replace(FAIL_CLOSED, consecutive_failures=50, wait_duration_in_open_s=1.0))
        assert one.state is State.OPEN
        assert not one.admit(69.0).is_allowed
        assert one.admit(70.0).is_allowed

    def test_an_operator_may_probe_now(self) -> None:
        one = opened()
        assert change(one.probe(1.0)).trigger is Trigger.OPERATOR_PROBE
        assert one.admit(1.0).is_probe


class TestHalfOpen:
    def test_success_closes_with_a_fresh_window(self) -> None:
        one = opened()
        ticket = one.admit(60.0).ticket
        assert change(one.succeed(61.0, ticket=ticket)).state is State.CLOSED
        assert one.reading(61.0).calls == 0
        assert one.is_calm

    def test_failure_reopens_with_a_fresh_cooldown(self) -> None:
        one = opened()
        ticket = one.admit(60.0).ticket
        assert change(one.fail(65.0, TIMEOUT, ticket=ticket)).trigger is Trigger.PROBE_FAILED
        assert not one.admit(124.0).is_allowed
        assert one.admit(125.0).is_allowed

    def test_only_the_permitted_probes_pass(self) -> None:
        one = opened(permitted_calls_in_half_open=2)
        assert [one.admit(60.0).is_allowed for _ in range(4)] == [True, True, False, False]

    def test_all_permitted_probes_must_succeed(self) -> None:
        one = opened(permitted_calls_in_half_open=2)
        first, second = one.admit(60.0).ticket, one.admit(60.0).ticket
        assert one.succeed(60.5, ticket=first) == ()
        assert change(one.succeed(60.6, ticket=second)).state is State.CLOSED

    def test_a_probe_that_never_returns_counts_as_a_failure(self) -> None:
        one = opened()
        ticket = one.admit(60.0).ticket
        assert change(one.sweep(70.0)).trigger is Trigger.PROBE_ABANDONED
        assert one.succeed(71.0, ticket=ticket) == ()
        assert one.state is State.OPEN

    def test_a_probe_that_says_nothing_may_be_made_again(self) -> None:
        one = opened()
        one.ignore(one.admit(60.0).ticket)
        assert one.admit(60.1).is_probe

    def test_calls_from_before_do_not_decide(self) -> None:
        one = opened()
        one.admit(60.0)
        assert one.succeed(60.1, ticket=0) == ()
        assert one.fail(60.1, TIMEOUT, ticket=0) == ()
        assert one.state is State.HALF_OPEN


class TestForcedOpen:
    def test_passes_nothing_and_no_success_or_timer_leaves_it(self) -> None:
        one = breaker()
        assert change(one.impose(trip(), 0.0)).trigger is Trigger.OPERATOR_TRIP
        one.succeed(1.0)
        assert [one.admit(float(now)).is_allowed for now in (1, 100, 3599)] == [False] * 3

    def test_ends_by_its_own_clock_in_half_open(self) -> None:
        one = breaker()
        one.impose(trip(), 0.0)
        fact = change(one.sweep(3600.0))
        assert (fact.previous_state, fact.state) == (State.FORCED_OPEN, State.HALF_OPEN)
        assert fact.trigger is Trigger.OVERRIDE_EXPIRED
        assert fact.override_id == "ov-1"
        assert one.admit(3600.0).is_probe

    def test_release_is_half_open_never_straight_closed(self) -> None:
        one = breaker()
        one.impose(trip(), 0.0)
        assert change(one.impose(None, 5.0)).state is State.HALF_OPEN

    def test_the_first_probe_is_ramped_across_the_fleet(self) -> None:
        one = breaker()
        one.impose(trip(ramp_s=30.0), 0.0)
        one.impose(None, 100.0, chance=0.5)
        assert one.admit(114.0).retry_in_s == pytest.approx(1.0)
        assert one.admit(115.0).is_probe

    def test_prolonging_is_no_change(self) -> None:
        one = breaker()
        one.impose(trip(ends_at=10.0), 0.0)
        assert one.impose(trip(ends_at=100.0), 5.0) == ()
        assert not one.admit(50.0).is_allowed

    def test_an_override_that_is_already_over_is_not_taken_on(self) -> None:
        one = breaker()
        assert one.impose(trip(ends_at=10.0), 10.0) == ()
        assert one.state is State.CLOSED

    def test_reset_lets_go_of_it_and_closes(self) -> None:
        one = breaker()
        one.impose(trip(), 0.0)
        fact = change(one.reset(5.0))
        assert (fact.previous_state, fact.state, fact.trigger) == (
            State.FORCED_OPEN,
            State.CLOSED,
            Trigger.OPERATOR_RESET,
        )


class TestWatching:
    @pytest.mark.parametrize("mode", [State.DISABLED, State.METRICS_ONLY])
    def test_blocks_nothing_and_ends_in_what_the_rules_computed(self, mode: State) -> None:
        one = breaker()
        one.impose(Imposed(id="ov", mode=mode, ends_at=1000.0), 0.0)
        facts = [one.fail(1.0, TIMEOUT) for _ in range(10)]
        assert not any(facts), "what the rules compute under an override is not a change for callers"
        assert one.admit(2.0).is_allowed
        assert one.admit(2.0).would_reject
        assert one.state is mode
        assert change(one.impose(None, 3.0)).state is State.OPEN

    def test_a_shadow_probe_closes_the_computed_state(self) -> None:
        one = opened()
        one.impose(Imposed(id="ov", mode=State.METRICS_ONLY, ends_at=1000.0), 1.0)
        ticket = one.admit(61.0).ticket
        assert ticket
        assert one.succeed(62.0, ticket=ticket) == ()
        assert one.computed is State.CLOSED


class TestReset:
    def test_closes_with_a_fresh_window(self) -> None:
        one = opened()
        assert change(one.reset(1.0)).trigger is Trigger.OPERATOR_RESET
        assert one.reading(1.0).calls == 0
        for _ in range(4):
            assert one.fail(2.0, TIMEOUT) == ()

    def test_may_be_ramped(self) -> None:
        one = opened()
        assert one.reset(1.0, delay_s=5.0) == ()
        assert not one.admit(5.9).is_allowed
        assert one.admit(6.0).is_allowed
        assert one.state is State.CLOSED

    def test_of_a_closed_breaker_tells_nothing(self) -> None:
        assert breaker().reset(0.0) == ()


OUTCOMES = st.lists(st.booleans(), max_size=80)


@given(OUTCOMES, st.integers(1, 30), st.integers(1, 15), st.sampled_from([0.25, 0.5, 0.9]))
def test_the_counted_window_is_the_listed_window(outcomes: list[bool], size: int, least: int, rate: float) -> None:
    """The cheap window (counters) agrees with the plain one (a list of the last outcomes)."""
    one = breaker(
        consecutive_failures=0, sliding_window_size=size, minimum_number_of_calls=least, failure_rate_threshold=rate
    )
    listed: list[bool] = []
    for is_success in outcomes:
        listed = [*listed, is_success][-size:]
        if is_success:
            one.successes.add()
            continue
        one.fail(0.0, TIMEOUT)
        failures = listed.count(False)
        should_open = len(listed) >= least and failures / len(listed) >= rate
        assert (one.state is State.OPEN) is should_open
        if should_open:
            break


@given(st.lists(st.sampled_from(["admit", "ok", "bad", "ignore", "trip", "release", "reset", "tick"]), max_size=120))
def test_never_more_than_the_permitted_probes_and_forced_open_passes_nothing(moves: list[str]) -> None:
    one = breaker(permitted_calls_in_half_open=2, wait_duration_in_open_s=5.0, max_wait_in_half_open_s=3.0)
    now, out = 0.0, []
    for move in moves:
        if move == "admit":
            admission = one.admit(now)
            assert not (admission.is_allowed and admission.state is State.FORCED_OPEN)
            if admission.is_allowed:
                out.append(admission.ticket)
            assert len(one._probes) <= 2
        elif move in ("ok", "bad") and out:
            ticket = out.pop(0)
            _ = one.succeed(now, ticket=ticket) if move == "ok" else one.fail(now, TIMEOUT, ticket=ticket)
        elif move == "ignore" and out:
            one.ignore(out.pop(0))
        elif move == "trip":
            one.impose(trip(ends_at=now + 50.0), now)
        elif move == "release":
            one.impose(None, now)
        elif move == "reset":
            one.reset(now)
        now += 1.0


@given(OUTCOMES)
def test_every_change_is_told_exactly_once(outcomes: list[bool]) -> None:
    one = breaker(wait_duration_in_open_s=3.0)
    seen = one.state
    for number, is_success in enumerate(outcomes):
        now = float(number)
        admission = one.admit(now)
        facts = admission.facts
        if admission.is_allowed:
            facts += (
                one.succeed(now, ticket=admission.ticket)
                if is_success
                else one.fail(now, TIMEOUT, ticket=admission.ticket)
            )
        for fact in facts:
            assert isinstance(fact, BreakerStateChanged)
            assert fact.previous_state is seen
            seen = fact.state
        assert seen is one.state


def test_knobs_that_say_nothing_are_the_most_restrictive() -> None:
    assert Knobs().over(FAIL_CLOSED) == FAIL_CLOSED
    assert FAIL_CLOSED.max_retries == 0
