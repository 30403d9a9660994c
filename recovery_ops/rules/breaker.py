"""A breaker: which calls pass, what moves its state, and what an operator may impose on it.

One breaker belongs to one instance. It knows no clock: every method is told the time (`now`, seconds that never run
backwards) and chance (`chance`, 0 ≤ chance < 1). It takes no lock: the caller makes sure that one thread at a time is
inside, except for `successes.steps`, which counts a success of a calm breaker from any thread.

Under an override the rules go on computing: what `state` would be is kept in `computed`, so that `metrics_only` can
tell what it would have done, and ending `disabled` or `metrics_only` lands in the state the rules reached meanwhile.
"""

from __future__ import annotations

from recovery_ops.rules.facts import BreakerStateChanged, Fact
from recovery_ops.rules.policy import FAIL_CLOSED, Knobs
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.window import Reading, Tally, Window
from recovery_ops.rules.words import Category, State, Trigger

TRIGGER_OF_MODE = {
    State.FORCED_OPEN: Trigger.OPERATOR_TRIP,
    State.DISABLED: Trigger.OPERATOR_DISABLE,
    State.METRICS_ONLY: Trigger.OPERATOR_OBSERVE,
}


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a call may be made. A probe carries a ticket; its outcome is reported with it."""

    is_allowed: bool
    state: State
    ticket: int = 0
    retry_in_s: float | None = None
    would_reject: bool = False
    """The rules would have refused, an override let it pass."""
    facts: tuple[Fact, ...] = ()

    @property
    def is_probe(self) -> bool:
        """Whether this call decides what becomes of a half-open breaker."""
        return self.ticket > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Imposed:
    """An override as one instance holds it; `ends_at` is on the breaker's own clock."""

    id: str
    mode: State
    ends_at: float
    revision: int = 0
    ramp_s: float = 0.0


class Breaker:
    """The state machine of one breaker; see the module's docstring for time, chance and locking."""

    def __init__(self, name: str, knobs: Knobs = FAIL_CLOSED) -> None:
        self.name = name
        self.knobs = knobs
        self.computed = State.CLOSED
        self.override: Imposed | None = None
        self.window = Window()
        self.retry_at: float | None = None
        """When an open breaker lets a probe through."""
        self._probes: dict[int, float] = {}
        self._tickets = 0
        self._probes_passed = 0
        self._reset_due: float | None = None
        self._last_category: Category | None = None
        self._operation_of_last_failure = name

    @property
    def state(self) -> State:
        """What holds for callers: the override's state while there is one, else what the rules computed."""
        return self.override.mode if self.override else self.computed

    @property
    def successes(self) -> Tally:
        """Raised once for each success of a calm breaker."""
        return self.window.successes

    @property
    def is_calm(self) -> bool:
        """Whether a success needs nothing but to be counted: no lock, no time."""
        return (
            self.computed is State.CLOSED
            and self.override is None
            and self._reset_due is None
            and self.knobs.sliding_window_type == "count_based"
            and not self.knobs.slow_call_rate_threshold
        )

    def admit(self, now: float) -> Admission:
        """May a call be made now? Moves an open breaker whose cooldown is over to half_open."""
        facts = self.sweep(now)
        if self.override is not None and self.override.mode is State.FORCED_OPEN:
            return Admission(False, State.FORCED_OPEN, retry_in_s=max(0.0, self.override.ends_at - now), facts=facts)
        ticket, refused_for_s = 0, None
        if self.computed is State.OPEN:
            if self.retry_at is not None and now >= self.retry_at:
                facts += self._move(State.HALF_OPEN, Trigger.WAIT_ELAPSED, now)
            else:
                refused_for_s = (self.retry_at or now) - now
        if self.computed is State.HALF_OPEN:
            ticket, refused_for_s = self._take_probe(now)
        if refused_for_s is None:
            return Admission(True, self.state, ticket=ticket, facts=facts)
        is_overruled = self.override is not None
        return Admission(
            is_overruled,
            self.state,
            retry_in_s=None if is_overruled else refused_for_s,
            would_reject=is_overruled,
            facts=facts,
        )

    def refuses(self, now: float) -> bool:
        """Whether `admit` would refuse a call now. Takes no probe and changes nothing; `sweep` first."""
        if self.override is not None:
            return self.override.mode is State.FORCED_OPEN
        if self.computed is State.HALF_OPEN:
            is_waiting = self.retry_at is not None and now < self.retry_at
            return is_waiting or not self._has_place()
        return self.computed is State.OPEN and (self.retry_at is None or now < self.retry_at)

    def succeed(self, now: float, *, duration_s: float = 0.0, ticket: int = 0) -> tuple[Fact, ...]:
        """A call that counts went well."""
        is_slow = self._is_slow(duration_s)
        if self.computed is State.HALF_OPEN:
            if self._probes.pop(ticket, None) is None:
                return ()  # a call from before, or a probe that was given up: it decides nothing
            self._probes_passed += 1
            if self._probes_passed < (self.knobs.permitted_calls_in_half_open or 1):
                return ()
            return self._move(State.CLOSED, Trigger.PROBE_SUCCEEDED, now)
        if self.computed is State.CLOSED:
            self.window.note_success(now, is_slow=is_slow)
            if is_slow:
                return self._judge(now)
        return ()

    def fail(
        self, now: float, category: Category, *, operation: str = "", duration_s: float = 0.0, ticket: int = 0
    ) -> tuple[Fact, ...]:
        """A call failed in a way that counts (`words.BREAKER_COUNTS`)."""
        self._last_category, self._operation_of_last_failure = category, operation
        if self.computed is State.HALF_OPEN:
            if self._probes.pop(ticket, None) is None:
                return ()
            return self._move(State.OPEN, Trigger.PROBE_FAILED, now)
        if self.computed is State.OPEN:
            return ()
        self.window.note_failure(now, is_slow=self._is_slow(duration_s))
        return self._judge(now)

    def ignore(self, ticket: int = 0) -> None:
        """A call ended in a way that says nothing about the service: its probe may be made again."""
        self._probes.pop(ticket, None)

    def sweep(self, now: float) -> tuple[Fact, ...]:
        """What time alone changes: an override that ends, a probe that never came back, a reset that was ramped."""
        facts: tuple[Fact, ...] = ()
        if self._reset_due is not None and now >= self._reset_due:
            self._reset_due = None
            facts += self._reset_now(now, Trigger.OPERATOR_RESET)
        if self.override is not None and now >= self.override.ends_at:
            facts += self._end_override(now, Trigger.OVERRIDE_EXPIRED, chance=self._ramp_chance)
        if self.computed is State.HALF_OPEN:
            longest = self.knobs.max_wait_in_half_open_s or 0.0
            if any(now - began >= longest for began in self._probes.values()):
                facts += self._move(State.OPEN, Trigger.PROBE_ABANDONED, now)
        return facts

    _ramp_chance = 0.0

    def impose(self, override: Imposed | None, now: float, *, chance: float = 0.0) -> tuple[Fact, ...]:
        """Take on an override, exchange it for another, or let go of it (None).

        Extending one (same id and mode, another end) is no change of state. `chance` spreads the first probe after a
        trip over the override's ramp, so that a fleet does not come back at once.
        """
        self._ramp_chance = chance
        held = self.override
        if override is None:
            return self._end_override(now, Trigger.OPERATOR_RELEASE, chance=chance) if held else ()
        if now >= override.ends_at:
            return self._end_override(now, Trigger.OVERRIDE_EXPIRED, chance=chance) if held else ()
        previous = self.state
        self.override = override
        if held is not None and held.mode is override.mode:
            return ()
        if held is not None and held.mode is State.FORCED_OPEN:
            self._await_probe(now)
        return (self._changed(previous, TRIGGER_OF_MODE[override.mode], now),)

    def expire(self, now: float) -> tuple[Fact, ...]:
        """The override's time is over, whatever its own end says (the wall clock was set, or a ceiling clamped it)."""
        return self._end_override(now, Trigger.OVERRIDE_EXPIRED, chance=self._ramp_chance)

    def reset(self, now: float, *, delay_s: float = 0.0) -> tuple[Fact, ...]:
        """Close with a fresh window and let go of any override; after `delay_s` where a reset of many is ramped."""
        if delay_s > 0:
            self._reset_due = now + delay_s
            return ()
        return self._reset_now(now, Trigger.OPERATOR_RESET)

    def probe(self, now: float) -> tuple[Fact, ...]:
        """Let a probe through now instead of after the cooldown."""
        if self.computed is not State.OPEN:
            return ()
        return self._move(State.HALF_OPEN, Trigger.OPERATOR_PROBE, now)

    def configure(self, knobs: Knobs) -> None:
        """New thresholds; state, cooldown and window stay, so tuning in an outage does not reopen the flood."""
        self.knobs = knobs

    def reading(self, now: float) -> Reading:
        """The window as the current knobs see it."""
        return self.window.read(
            now,
            size=self.knobs.sliding_window_size or 1,
            is_time_based=self.knobs.sliding_window_type == "time_based",
        )

    def _take_probe(self, now: float) -> tuple[int, float | None]:
        if self.retry_at is not None and now < self.retry_at:
            return 0, self.retry_at - now
        if not self._has_place():
            oldest = min(self._probes.values(), default=now)
            return 0, max(0.0, oldest + (self.knobs.max_wait_in_half_open_s or 0.0) - now)
        self._tickets += 1
        self._probes[self._tickets] = now
        return self._tickets, None

    def _has_place(self) -> bool:
        return len(self._probes) + self._probes_passed < (self.knobs.permitted_calls_in_half_open or 1)

    def _judge(self, now: float) -> tuple[Fact, ...]:
        reading = self.reading(now)
        knobs = self.knobs
        if knobs.consecutive_failures and reading.consecutive_failures >= knobs.consecutive_failures:
            return self._move(State.OPEN, Trigger.CONSECUTIVE_FAILURES, now, reading)
        if reading.calls < (knobs.minimum_number_of_calls or 1):
            return ()
        if knobs.failure_rate_threshold and reading.failure_rate >= knobs.failure_rate_threshold:
            return self._move(State.OPEN, Trigger.FAILURE_RATE, now, reading)
        if knobs.slow_call_rate_threshold and reading.slow_call_rate >= knobs.slow_call_rate_threshold:
            return self._move(State.OPEN, Trigger.SLOW_CALL_RATE, now, reading)
        return ()

    def _move(self, to: State, trigger: Trigger, now: float, reading: Reading | None = None) -> tuple[Fact, ...]:
        previous, reading = self.state, reading or self.reading(now)
        is_visible = self.override is None
        self.computed = to
        self._probes.clear()
        self._probes_passed = 0
        self.retry_at = now + (self.knobs.wait_duration_in_open_s or 0.0) if to is State.OPEN else None
        fact = self._changed(previous, trigger, now, reading) if is_visible else None
        if to is State.CLOSED:
            self.window.clear()
        return (fact,) if fact else ()

    def _await_probe(self, now: float, *, delay_s: float = 0.0) -> None:
        self.computed = State.HALF_OPEN
        self._probes.clear()
        self._probes_passed = 0
        self.retry_at = now + delay_s if delay_s > 0 else None

    def _end_override(self, now: float, trigger: Trigger, *, chance: float) -> tuple[Fact, ...]:
        held = self.override
        if held is None:
            return ()
        self.override = None
        if held.mode is State.FORCED_OPEN:
            self._await_probe(now, delay_s=chance * held.ramp_s)
        if held.mode is self.state:
            return ()
        return (self._changed(held.mode, trigger, now, ended=held),)

    def _reset_now(self, now: float, trigger: Trigger) -> tuple[Fact, ...]:
        previous, reading = self.state, self.reading(now)
        self.override = None
        self._reset_due = None
        self.computed = State.CLOSED
        self.retry_at = None
        self._probes.clear()
        self._probes_passed = 0
        self.window.clear()
        return () if previous is State.CLOSED else (self._changed(previous, trigger, now, reading),)

    def _is_slow(self, duration_s: float) -> bool:
        return bool(self.knobs.slow_call_rate_threshold) and duration_s >= (self.knobs.slow_call_duration_s or 0.0)

    def _changed(
        self,
        previous: State,
        trigger: Trigger,
        now: float,
        reading: Reading | None = None,
        ended: Imposed | None = None,
    ) -> BreakerStateChanged:
        reading = reading or self.reading(now)
        held = self.override or ended
        return BreakerStateChanged(
            operation=self._operation_of_last_failure,
            breaker=self.name,
            state=self.state,
            previous_state=previous,
            trigger=trigger,
            calls=reading.calls,
            failures=reading.failures,
            failure_rate=round(reading.failure_rate, 4),
            threshold=self._threshold(trigger),
            last_category=self._last_category,
            successes_since_failure=reading.successes_since_failure,
            wait_s=self._wait_s(now),
            override_id=held.id if held else None,
            revision=held.revision if held else None,
        )

    def _threshold(self, trigger: Trigger) -> float | None:
        if trigger is Trigger.CONSECUTIVE_FAILURES:
            return float(self.knobs.consecutive_failures or 0)
        if trigger is Trigger.SLOW_CALL_RATE:
            return self.knobs.slow_call_rate_threshold
        return self.knobs.failure_rate_threshold

    def _wait_s(self, now: float) -> float | None:
        if self.override is not None:
            return round(max(0.0, self.override.ends_at - now), 3)
        return None if self.retry_at is None else round(max(0.0, self.retry_at - now), 3)
