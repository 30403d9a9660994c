"""Breakers, state by state: what passes, what moves them, what an operator may impose."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.enums import Category, State, Trigger
from recovery_ops.rules.events import BreakerStateChanged, Event
from recovery_ops.rules.policy.model import FAIL_CLOSED, Settings
from recovery_ops.rules.resilience.circuit_breaker import Breaker, Imposed

TIMEOUT = Category.TIMEOUT


def breaker(**settings: object) -> Breaker:
    return Breaker("search", Settings(**settings).over(FAIL_CLOSED))  # type: ignore[arg-type]


def opened(at: float = 0.0, **settings: object) -> Breaker:
    one = breaker(**settings)
    for _ in range(5):
        one.fail(at, TIMEOUT)
    assert one.state is State.OPEN
    return one


def slow_outage() -> Breaker:
    """A breaker that slow calls opened at 0."""
    one = breaker(slow_call_rate_threshold=0.5, slow_call_duration_s=2.0)
    for _ in range(10):
        one.succeed(0.0, duration_s=3.0)
    assert one.state is State.OPEN
    return one


def change(facts: tuple[Event, ...]) -> BreakerStateChanged:
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
        assert not one.is_on_fast_path
        for _ in range(9):
            assert one.succeed(0.0, duration_s=3.0) == ()
        assert change(one.succeed(0.0, duration_s=3.0)).trigger is Trigger.SLOW_CALL_RATE

    def test_slow_failures_count_as_slow_calls(self) -> None:
        one = breaker(consecutive_failures=0, failure_rate_threshold=0.0, slow_call_rate_threshold=0.5)
        one.configure(replace(one.settings, slow_call_duration_s=2.0))
        for duration_s in [1.99] * 5 + [2.0] * 4:
            assert one.fail(0.0, TIMEOUT, duration_s=duration_s) == ()
        fact = change(one.fail(0.0, TIMEOUT, duration_s=2.0))
        assert (fact.trigger, fact.threshold, fact.calls) == (Trigger.SLOW_CALL_RATE, 0.5, 10)

    @pytest.mark.parametrize(
        ("limit", "lower", "has_fallback", "opens_after"),
        [(5, 3, True, 3), (5, 3, False, 5), (3, 5, True, 3), (4, 0, True, 4)],
    )
    def test_fallback_opens_sooner_and_never_later(
        self, limit: int, lower: int, has_fallback: bool, opens_after: int
    ) -> None:
        one = breaker(consecutive_failures=limit, consecutive_failures_with_fallback=lower, failure_rate_threshold=0.0)
        facts = [one.fail(0.0, TIMEOUT, has_fallback=has_fallback) for _ in range(opens_after)]
        assert [len(fact) for fact in facts] == [0] * (opens_after - 1) + [1]
        assert change(facts[-1]).threshold == opens_after

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
        assert change(admission.events).trigger is Trigger.WAIT_ELAPSED

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
        assert one.is_on_fast_path

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

    @pytest.mark.parametrize(
        ("longest_s", "deadline_s", "given_up_after_s"),
        [(10.0, None, 120.0), (10.0, 0.0, 120.0), (10.0, 15.0, 15.0), (10.0, 5.0, 10.0), (300.0, None, 300.0)],
    )
    def test_probe_is_given_up_after_the_longer_time(
        self, longest_s: float, deadline_s: float | None, given_up_after_s: float
    ) -> None:
        one = opened(max_wait_in_half_open_s=longest_s)
        one.admit(60.0, deadline_s=deadline_s)
        assert one.admit(61.0).retry_in_s == pytest.approx(given_up_after_s - 1.0)
        assert one.sweep(60.0 + given_up_after_s - 0.1) == ()
        assert change(one.sweep(60.0 + given_up_after_s)).trigger is Trigger.PROBE_ABANDONED
        assert not one.admit(60.0 + given_up_after_s + 59.9).is_allowed

    def test_late_success_of_an_abandoned_probe_closes(self) -> None:
        one = opened()
        ticket = one.admit(60.0).ticket
        one.sweep(180.0)
        fact = change(one.succeed(181.0, ticket=ticket))
        assert (fact.previous_state, fact.state, fact.trigger) == (State.OPEN, State.CLOSED, Trigger.PROBE_SUCCEEDED)

    def test_slow_probe_does_not_close_slow_outage(self) -> None:
        one = slow_outage()
        fact = change(one.succeed(65.0, duration_s=5.0, ticket=one.admit(60.0).ticket))
        assert (fact.state, fact.trigger, fact.wait_s) == (State.OPEN, Trigger.PROBE_FAILED, 60.0)
        assert change(one.succeed(126.0, duration_s=1.0, ticket=one.admit(125.0).ticket)).state is State.CLOSED

    def test_slow_probe_closes_outage_of_failures(self) -> None:
        one = opened(slow_call_rate_threshold=0.5, slow_call_duration_s=2.0)
        assert change(one.succeed(65.0, duration_s=5.0, ticket=one.admit(60.0).ticket)).state is State.CLOSED

    def test_failed_probe_keeps_outage_slow(self) -> None:
        one = slow_outage()
        one.fail(61.0, TIMEOUT, ticket=one.admit(60.0).ticket)
        one.succeed(126.0, duration_s=5.0, ticket=one.admit(121.0).ticket)
        assert one.state is State.OPEN

    def test_outage_after_a_reset_is_not_slow(self) -> None:
        one = slow_outage()
        one.reset(1.0)
        for _ in range(5):
            one.fail(2.0, TIMEOUT)
        one.succeed(67.0, duration_s=5.0, ticket=one.admit(62.0).ticket)
        assert one.state is State.CLOSED

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


MOVES = {
    # Both must succeed, in either order, at once or one after the other.
    "2: +a +b - a:ok =half_open - b:ok =closed": "both succeed",
    "2: +a +b b:ok a:ok =closed": "the second returns first",
    "2: +a a:ok =half_open +b - b:ok =closed": "one after the other",
    # One failure reopens, whatever the other does; its outcome decides nothing, and the cooldown is not renewed.
    "2: +a +b a:ok b:bad =open t59 - t1 +c +d -": "the second fails",
    "2: +a +b a:bad =open b:ok =open t60 +c +d - c:ok =half_open d:ok =closed": "the first fails, the second is late",
    "2: +a +b a:bad t30 b:bad =open t30 +c": "both fail, 30 s apart",
    "2: +a a:ok +b b:bad =open t60 +c c:ok =half_open": "what passed before a failure is forgotten",
    # A probe of the last round holds its place until it returns or is given up, and has no vote.
    "2: +a +b a:bad t60 +c - b:ok =half_open +d c:ok =half_open d:ok =closed": "a success of the last round",
    "2: +a +b a:bad t60 +c - b:bad =half_open +d": "a failure of the last round",
    "2: +a +b a:bad permit1 t60 - b:ok =half_open +c": "a probe of the last round holds the only place",
    "2: +a +b a:bad t60 +c - t60 =half_open +d - c:ok d:ok =closed": "given up in the next round",
    # What decides nothing leaves its place.
    "2: +a +b a:none +c - b:ok c:ok =closed": "the first is cancelled",
    "2: +a a:ok +b b:none =half_open +c - c:ok =closed": "the second is cancelled",
    # Given up: a failure that a late return corrects.
    "2: +a +b a:ok t120 =open b:ok =closed": "the second is late",
    "2: +a +b t120 =open a:ok =open b:ok =closed": "both are late",
    "2: +a +b t120 =open a:bad =open b:ok =open": "one fails late",
    "2: +a +b t120 t60 +c +d - a:ok =half_open c:ok =closed": "a late success counts in the next round",
    "2: +a +b t120 t60 +c a:bad =open b:ok =open c:ok =open": "a late failure counts in the next round",
    "2: +a t60 +b t60 =open t59 b:ok =open t1 +c +d": "the second was not given up",
    # Operators.
    "2: +a +b trip a:ok b:ok =forced_open clear =half_open +c +d - c:ok d:ok =closed": "a trip ends every vote",
    "2: +a +b trip clear =half_open - a:ok =half_open +c - b:ok +d": "probes from before a trip hold their places",
    "2: +a +b reset =closed a:bad =closed": "a reset closes",
    "2: +a +b permit1 a:ok =closed": "fewer are permitted",
    "2: +a +b permit1 a:none - b:none +c": "fewer are permitted, none decides",
    "3: +a +b +c a:ok b:ok permit1 c:none =half_open +d - d:ok =closed": "more passed than are permitted now",
    "2: +a +b - permit3 +c - a:ok b:ok =half_open c:ok =closed": "more are permitted",
    "3: +a +b +c - a:ok b:ok =half_open - c:ok =closed": "all three succeed",
    "3: +a +b +c a:ok b:bad =open c:ok =open t60 +d +e +f -": "the second of three fails",
    "3: +a +b a:ok +c - b:none +d - c:ok =half_open d:ok =closed": "one of three is cancelled",
    "3: +a +b +c a:ok b:ok t120 =open c:ok =closed": "the last of three is late",
}


@pytest.mark.parametrize("moves", MOVES, ids=MOVES.values())
def test_half_open_with_several_probes(moves: str) -> None:
    """`+a` admits a probe, `-` is rejected, `a:ok` is its outcome, `t60` lets time pass, `=open` is the state."""
    permitted, _, rest = moves.partition(": ")
    one, now, tickets = opened(permitted_calls_in_half_open=int(permitted)), 60.0, {}
    for move in rest.split():
        name, _, outcome = move.partition(":")
        if move in ("-", f"+{move[1:]}"):
            assert one.refuses(now) is (move == "-"), "before the cooldown's end is noticed, too"
        if move == "-":
            assert not one.admit(now).is_allowed, move
        elif move[0] == "+":
            admission = one.admit(now)
            assert (admission.is_allowed, admission.is_probe) == (True, True), move
            tickets[move[1:]] = admission.ticket
        elif move[0] == "=":
            assert one.state.value == move[1:]
        elif outcome == "ok":
            one.succeed(now, ticket=tickets.pop(name))
        elif outcome == "bad":
            one.fail(now, TIMEOUT, ticket=tickets.pop(name))
        elif outcome == "none":
            one.ignore(tickets.pop(name))
        elif move == "trip":
            one.impose(trip(), now)
        elif move == "clear":
            one.impose(None, now)
        elif move == "reset":
            one.reset(now)
        elif move.startswith("permit"):
            one.configure(replace(one.settings, permitted_calls_in_half_open=int(move[6:])))
        else:
            now += float(move[1:])
            one.sweep(now)


@pytest.mark.parametrize("permitted", [1, 2, 3])
def test_breaker_closes_when_every_probe_succeeds(permitted: int) -> None:
    """Every order in which the probes return, with every outcome of each."""
    names = range(permitted)
    for order, outcomes in product(permutations(names), product([True, False], repeat=permitted)):
        one = opened(permitted_calls_in_half_open=permitted)
        tickets = [one.admit(60.0).ticket for _ in names]
        seen: list[bool] = []
        for name in order:
            before, ticket = one.state, tickets[name]
            seen.append(outcomes[name])
            facts = one.succeed(61.0, ticket=ticket) if seen[-1] else one.fail(61.0, TIMEOUT, ticket=ticket)
            expected = State.OPEN if False in seen else State.CLOSED if len(seen) == permitted else State.HALF_OPEN
            assert (one.state, len(facts)) == (expected, expected is not before)


def test_operator_probe_ends_the_ramp() -> None:
    one = breaker()
    one.impose(trip(ramp_s=30.0), 0.0)
    one.impose(None, 100.0, chance=0.5)
    assert not one.admit(101.0).is_allowed
    assert one.probe(102.0) == ()
    assert one.admit(102.0).is_probe


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
        fact = change(one.reset(1.0))
        assert (fact.trigger, fact.wait_s) == (Trigger.OPERATOR_RESET, None)
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
        facts = admission.events
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


def test_settings_that_say_nothing_are_the_most_restrictive() -> None:
    assert Settings().over(FAIL_CLOSED) == FAIL_CLOSED
    assert FAIL_CLOSED.max_retries == 0
