"""A breaker beside a plain model of it: calls in any order, late and lost probes, operators and edits of its settings.

The model keeps lists where the breaker keeps counters: every outcome with its time, every call that is under way.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.events import BreakerStateChanged, Event
from recovery_ops.rules.policy.model import FAIL_CLOSED, Settings
from recovery_ops.rules.resilience.circuit_breaker import PROBE_WITHOUT_DEADLINE_S, Breaker, Imposed
from tests.support.examples import examples

COOLDOWN_S, GIVEN_UP_S, SLOW_S, RAMP_S = 60.0, 10.0, 2.0, 20.0
STEPS_S = (1, 7, 10, 59, 60, 120)


@dataclass
class UnderWay:
    """A call that passed and has not returned."""

    ticket: int
    began: float
    gives_up_at: float
    is_probe: bool
    has_vote: bool = False
    is_given_up: bool = False


@dataclass
class Model:
    """What the rules say, as plainly as possible."""

    settings: Settings
    now: float = 1000.0
    computed: State = State.CLOSED
    override: tuple[State, float] | None = None
    retry_at: float = 0.0
    reset_at: float | None = None
    votes: int = 0
    is_slow_outage: bool = False
    outcomes: list[tuple[float, str]] = field(default_factory=list)
    calls: list[UnderWay] = field(default_factory=list)

    @property
    def state(self) -> State:
        return self.override[0] if self.override else self.computed

    @property
    def permitted(self) -> int:
        return self.settings.permitted_calls_in_half_open or 1

    def holding(self) -> list[UnderWay]:
        return [one for one in self.calls if one.is_probe and not one.is_given_up]

    def sweep(self) -> None:
        if self.reset_at is not None and self.now >= self.reset_at:
            self.reset()
        if self.override and self.now >= self.override[1]:
            self.clear()
        late = [one for one in self.holding() if self.now >= one.gives_up_at]
        for one in late:
            one.is_given_up = True
        if self.computed is State.HALF_OPEN and any(one.has_vote for one in late):
            self.computed, self.retry_at = State.OPEN, self.now + COOLDOWN_S

    def admits(self) -> tuple[bool, bool]:
        """Whether a call passes, and whether it is a probe. Moves an open breaker whose cooldown is over."""
        if self.state is State.FORCED_OPEN:
            return False, False
        if self.computed is State.OPEN and self.now >= self.retry_at:
            self.half_open()
        if self.computed is State.CLOSED:
            return True, False
        has_place = len(self.holding()) + min(self.votes, self.permitted - 1) < self.permitted
        is_probe = self.computed is State.HALF_OPEN and self.now >= self.retry_at and has_place
        return is_probe or self.override is not None, is_probe

    def half_open(self, delay_s: float = 0.0) -> None:
        self.computed, self.votes, self.retry_at = State.HALF_OPEN, 0, self.now + delay_s

    def void(self) -> None:
        self.votes = 0
        for one in self.calls:
            one.has_vote = False

    def ended(self, call: UnderWay, how: str) -> None:
        """A call returned: `ok`, `slow`, `failed`, or `nothing` that says anything of the service."""
        self.calls.remove(call)
        if how == "nothing":
            return
        if how == "slow" and not self.settings.slow_call_rate_threshold:
            how = "ok"
        if self.computed is State.CLOSED:
            self.outcomes.append((self.now, how))
            if how != "ok":
                self.judge()
        elif call.has_vote and (how == "failed" or (how == "slow" and self.is_slow_outage)):
            self.void()
            if self.computed is State.HALF_OPEN:
                self.computed, self.retry_at = State.OPEN, self.now + COOLDOWN_S
        elif call.has_vote and how != "failed":
            self.votes += 1
            if self.votes >= self.permitted:
                self.fresh()

    def window(self) -> list[str]:
        size = self.settings.sliding_window_size or 1
        if self.settings.sliding_window_type == "time_based":
            return [how for at, how in self.outcomes if at > self.now - size]
        return [how for _, how in self.outcomes[-size:]]

    def judge(self) -> None:
        window, settings = self.window(), self.settings
        streak = next((n for n, (_, how) in enumerate(reversed(self.outcomes)) if how != "failed"), len(self.outcomes))
        is_open = bool(settings.consecutive_failures and streak >= settings.consecutive_failures)
        if not is_open and len(window) >= (settings.minimum_number_of_calls or 1):
            failed, slow = (window.count(how) / len(window) for how in ("failed", "slow"))
            is_open = bool(settings.failure_rate_threshold and failed >= settings.failure_rate_threshold)
            is_slow = bool(settings.slow_call_rate_threshold and slow >= settings.slow_call_rate_threshold)
            self.is_slow_outage = is_slow and not is_open
            is_open = is_open or is_slow
        if is_open:
            self.computed, self.retry_at = State.OPEN, self.now + COOLDOWN_S

    def fresh(self) -> None:
        self.computed, self.votes, self.is_slow_outage, self.outcomes = State.CLOSED, 0, False, []
        for one in self.calls:
            one.is_probe = one.has_vote = False

    def impose(self, mode: State, ends_at: float) -> None:
        held = self.override[0] if self.override else None
        self.override = (mode, ends_at)
        if mode is held:
            return
        if State.FORCED_OPEN in (mode, held):
            self.void()
        if held is State.FORCED_OPEN:
            self.half_open()

    def clear(self, delay_s: float = 0.0) -> None:
        held, self.override = self.override, None
        if held and held[0] is State.FORCED_OPEN:
            self.void()
            self.half_open(delay_s)

    def reset(self) -> None:
        self.override = self.reset_at = None
        self.fresh()


class BreakerBesideModel(RuleBasedStateMachine):
    """Whatever happens in whatever order, the breaker is where the model is."""

    def __init__(self) -> None:
        super().__init__()
        settings = replace(FAIL_CLOSED, wait_duration_in_open_s=COOLDOWN_S, max_wait_in_half_open_s=GIVEN_UP_S)
        self.model, self.breaker = Model(settings), Breaker("search", settings)
        self.told = State.CLOSED
        self.overrides = 0

    @initialize(permitted=st.integers(1, 3), consecutive=st.integers(1, 3), slow=st.booleans())
    def begin(self, permitted: int, consecutive: int, slow: bool) -> None:
        self.breaker.sweep(self.model.now)
        self.edit(
            permitted_calls_in_half_open=permitted,
            consecutive_failures=consecutive,
            minimum_number_of_calls=1,
            slow_call_rate_threshold=0.5 if slow else 0.0,
        )

    @rule(how=st.sampled_from(["failed", "slow"]), calls=st.integers(1, 3), then_s=st.sampled_from([0, 60, 60, 60]))
    def outage(self, how: str, calls: int, then_s: int) -> None:
        """Calls that go badly at once, and mostly a cooldown: half-open is where the questions are."""
        for _ in range(calls):
            before = len(self.model.calls)
            self.start(deadline_s=None)
            for call in self.model.calls[before:]:
                self.finish(call, how)
        self.time_passes(then_s)

    def hear(self, facts: tuple[Event, ...]) -> None:
        """Each change begins where the last one ended, and is told once."""
        for fact in facts:
            assert isinstance(fact, BreakerStateChanged)
            assert fact.previous_state is self.told
            assert fact.state is not self.told
            self.told = fact.state

    @rule(deadline_s=st.sampled_from([None, 5.0, 30.0]))
    def start(self, deadline_s: float | None) -> None:
        model = self.model
        refuses = self.breaker.refuses(model.now)
        passes, is_probe = model.admits()
        admission = self.breaker.admit(model.now, deadline_s=deadline_s)
        self.hear(admission.events)
        assert (admission.is_allowed, admission.is_probe) == (passes, is_probe)
        assert refuses is not passes
        if passes:
            longest_s = max(GIVEN_UP_S, deadline_s or PROBE_WITHOUT_DEADLINE_S)
            call = UnderWay(admission.ticket, model.now, model.now + longest_s, is_probe, has_vote=is_probe)
            model.calls.append(call)
            assert not is_probe or len(model.holding()) <= model.permitted

    @precondition(lambda self: self.model.calls)
    @rule(data=st.data(), how=st.sampled_from(["ok", "ok", "slow", "failed", "failed", "nothing"]))
    def end(self, data: st.DataObject, how: str) -> None:
        self.finish(data.draw(st.sampled_from(self.model.calls)), how)

    def finish(self, call: UnderWay, how: str) -> None:
        now, breaker = self.model.now, self.breaker
        if how == "failed":
            self.hear(breaker.fail(now, Category.TIMEOUT, ticket=call.ticket))
        elif how == "nothing":
            breaker.ignore(call.ticket)
        elif how == "ok" and breaker.is_on_fast_path:
            breaker.successes.add()  # the fast path
        else:
            self.hear(breaker.succeed(now, duration_s=3.0 if how == "slow" else 1.0, ticket=call.ticket))
        self.model.ended(call, how)

    @rule(seconds=st.sampled_from(STEPS_S))
    def time_passes(self, seconds: int) -> None:
        self.model.now += seconds
        self.model.sweep()
        self.hear(self.breaker.sweep(self.model.now))

    @rule(
        mode=st.sampled_from([State.FORCED_OPEN, State.DISABLED, State.METRICS_ONLY]), lasts_s=st.sampled_from(STEPS_S)
    )
    def impose(self, mode: State, lasts_s: int) -> None:
        self.overrides += 1
        ends_at = self.model.now + lasts_s
        imposed = Imposed(id=f"ov-{self.overrides}", mode=mode, ends_at=ends_at)
        self.hear(self.breaker.impose(imposed, self.model.now))
        self.model.impose(mode, ends_at)

    @rule(is_ramped=st.booleans())
    def clear(self, is_ramped: bool) -> None:
        held = self.breaker.override
        delay_s = 0.5 * RAMP_S if is_ramped else 0.0
        if held is not None:
            self.breaker.override = replace(held, ramp_s=RAMP_S)
        self.hear(self.breaker.impose(None, self.model.now, chance=delay_s / RAMP_S))
        self.model.clear(delay_s)

    @rule(delay_s=st.sampled_from([0.0, 0.0, 7.0]))
    def reset(self, delay_s: float) -> None:
        self.hear(self.breaker.reset(self.model.now, delay_s=delay_s))
        if delay_s:
            self.model.reset_at = self.model.now + delay_s
        else:
            self.model.reset()

    @rule()
    def operator_probes(self) -> None:
        self.hear(self.breaker.probe(self.model.now))
        if self.model.computed is State.OPEN:
            self.model.half_open()
        self.model.retry_at = self.model.now

    @rule(
        permitted=st.integers(1, 3),
        consecutive=st.integers(0, 3),
        least=st.integers(1, 4),
        size=st.sampled_from([3, 10, 60]),
        window=st.sampled_from(["count_based", "time_based"]),
        rate=st.sampled_from([0.0, 0.5, 0.9]),
        slow=st.sampled_from([0.0, 0.0, 0.5]),
    )
    def operator_edits(
        self, permitted: int, consecutive: int, least: int, size: int, window: str, rate: float, slow: float
    ) -> None:
        before = self.breaker.state, self.breaker.computed, self.breaker.retry_at
        self.edit(
            permitted_calls_in_half_open=permitted,
            consecutive_failures=consecutive,
            minimum_number_of_calls=least,
            sliding_window_size=size,
            sliding_window_type=window,
            failure_rate_threshold=rate,
            slow_call_rate_threshold=slow,
        )
        assert (self.breaker.state, self.breaker.computed, self.breaker.retry_at) == before

    def edit(self, **changed: Any) -> None:
        self.model.settings = replace(self.model.settings, slow_call_duration_s=SLOW_S, **changed)
        self.breaker.configure(self.model.settings)

    @invariant()
    def breaker_is_where_the_model_is(self) -> None:
        assert (self.breaker.state, self.breaker.computed) == (self.model.state, self.model.computed)
        assert self.told is self.breaker.state

    @invariant()
    def window_is_the_list(self) -> None:
        reading, window = self.breaker.reading(self.model.now), self.model.window()
        if self.model.computed is State.CLOSED:
            assert (reading.calls, reading.failures) == (len(window), window.count("failed"))

    @invariant()
    def a_call_passes_in_the_end(self) -> None:
        """No wait is for ever: when everything under way is given up, the next call passes, or says when it may."""
        if self.model.state is State.HALF_OPEN and not self.model.holding() and self.model.now >= self.model.retry_at:
            assert not self.breaker.refuses(self.model.now)


TestBreakerBesideModel = BreakerBesideModel.TestCase
TestBreakerBesideModel.settings = settings(max_examples=examples(60, 2000), stateful_step_count=40, deadline=None)
