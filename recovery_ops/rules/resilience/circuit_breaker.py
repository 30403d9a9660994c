"""A breaker: which calls pass, what moves its state, and what an operator may impose on it.

One breaker belongs to one instance. It knows no clock: every method is told the time (`now`, seconds that never run
backwards) and chance (`chance`, 0 ≤ chance < 1). It takes no lock: the caller makes sure that one thread at a time is
inside, except for `successes.steps`, which counts a success of a calm breaker from any thread.

In half-open every call that passes is a probe. A probe holds one of the permitted places until it returns or is given
up. Its vote counts, also after it was given up, until a probe fails, an operator trips the breaker, or it closes.

Under an override the rules go on computing: what `state` would be is kept in `computed`, so that `metrics_only` can
tell what it would have done, and ending `disabled` or `metrics_only` lands in the state the rules reached meanwhile.
"""

from __future__ import annotations

from recovery_ops.rules.enums import Category, State, Trigger
from recovery_ops.rules.events import BreakerStateChanged, Event
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.model import FAIL_CLOSED, Settings
from recovery_ops.rules.resilience.sliding_window import Reading, Tally, Window

PROBE_WITHOUT_DEADLINE_S = 120.0
"""How long a probe may take where its call has no deadline of its own."""

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
    events: tuple[Event, ...] = ()

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


@dataclass(slots=True)
class _Probe:
    """A call that passed in half-open and has not returned."""

    began: float
    deadline_s: float
    """The call's own."""
    counts: bool = True
    is_given_up: bool = False

    def given_up_at(self, settings: Settings) -> float:
        return self.began + max(self.deadline_s, settings.max_wait_in_half_open_s or 0.0)


class Breaker:
    """The state machine of one breaker; see the module's docstring for time, chance and locking."""

    def __init__(self, name: str, settings: Settings = FAIL_CLOSED) -> None:
        self.name = name
        self.settings = settings
        self.computed = State.CLOSED
        self.override: Imposed | None = None
        self.window = Window()
        self.retry_at: float | None = None
        """When an open breaker lets a probe through."""
        self._probes: dict[int, _Probe] = {}
        self._tickets = 0
        self._probes_passed = 0
        self._consecutive_limit = 0
        """Failures in a row that opened it, or would have at the last failure."""
        self._is_slow_outage = False
        """Slow calls opened it: a slow success does not close it."""
        self._reset_due: float | None = None
        self._last_category: Category | None = None
        self._operation_of_last_failure = name

    @property
    def state(self) -> State:
        """What holds for callers: the override's state while there is one, else what the rules computed."""
        return self.override.mode if self.override else self.computed

    @property
    def last_category(self) -> Category | None:
        """What its last failure was."""
        return self._last_category

    @property
    def successes(self) -> Tally:
        """Raised once for each success of a calm breaker."""
        return self.window.successes

    @property
    def is_on_fast_path(self) -> bool:
        """Whether a success needs nothing but to be counted: no lock, no time."""
        return (
            self.computed is State.CLOSED
            and self.override is None
            and self._reset_due is None
            and self.settings.sliding_window_type == "count_based"
            and not self.settings.slow_call_rate_threshold
        )

    def admit(self, now: float, *, deadline_s: float | None = None) -> Admission:
        """May a call be made now? Moves an open breaker whose cooldown is over to half_open.

        `deadline_s` is how long the call may take (None or 0: nobody says); a probe is not given up before that.
        """
        events = self.sweep(now)
        if self.override is not None and self.override.mode is State.FORCED_OPEN:
            return Admission(False, State.FORCED_OPEN, retry_in_s=max(0.0, self.override.ends_at - now), events=events)
        ticket, refused_for_s = 0, None
        if self.computed is State.OPEN:
            if self.retry_at is not None and now >= self.retry_at:
                events += self._move(State.HALF_OPEN, Trigger.WAIT_ELAPSED, now)
            else:
                refused_for_s = (self.retry_at or now) - now
        if self.computed is State.HALF_OPEN:
            ticket, refused_for_s = self._take_probe(now, deadline_s or PROBE_WITHOUT_DEADLINE_S)
        if refused_for_s is None:
            return Admission(True, self.state, ticket=ticket, events=events)
        is_overruled = self.override is not None
        return Admission(
            is_overruled,
            self.state,
            retry_in_s=None if is_overruled else refused_for_s,
            would_reject=is_overruled,
            events=events,
        )

    def refuses(self, now: float) -> bool:
        """Whether `admit` would refuse a call now. Takes no probe and changes nothing; `sweep` first."""
        if self.override is not None:
            return self.override.mode is State.FORCED_OPEN
        if self.computed is State.CLOSED:
            return False
        is_waiting = self.retry_at is not None and now < self.retry_at
        if self.computed is State.HALF_OPEN:
            return is_waiting or not self._has_place()
        return self.retry_at is None or is_waiting or len(self._waited_for()) >= self._permitted

    def succeed(self, now: float, *, duration_s: float = 0.0, ticket: int = 0) -> tuple[Event, ...]:
        """A call that counts went well."""
        is_slow = self._is_slow(duration_s)
        if self.computed is State.CLOSED:
            self.window.note_success(now, is_slow=is_slow)
            return self._judge(now) if is_slow else ()
        probe = self._probes.pop(ticket, None)
        if probe is None or not probe.counts:
            return ()  # a call from before it opened, or a probe from before the last failure: it decides nothing
        if is_slow and self._is_slow_outage:
            return self._probe_failed(now)
        self._probes_passed += 1
        if self._probes_passed < self._permitted:
            return ()
        return self._move(State.CLOSED, Trigger.PROBE_SUCCEEDED, now)

    def fail(
        self,
        now: float,
        category: Category,
        *,
        operation: str = "",
        duration_s: float = 0.0,
        ticket: int = 0,
        has_fallback: bool = False,
    ) -> tuple[Event, ...]:
        """A call failed in a way that counts (`words.BREAKER_COUNTS`). `has_fallback`: something else is ready."""
        self._last_category, self._operation_of_last_failure = category, operation
        if self.computed is State.CLOSED:
            self.window.note_failure(now, is_slow=self._is_slow(duration_s))
            return self._judge(now, has_fallback=has_fallback)
        probe = self._probes.pop(ticket, None)
        return self._probe_failed(now) if probe is not None and probe.counts else ()

    def ignore(self, ticket: int = 0) -> None:
        """A call ended in a way that says nothing about the service: its probe may be made again."""
        self._probes.pop(ticket, None)

    def sweep(self, now: float) -> tuple[Event, ...]:
        """What time alone changes: an override that ends, a probe that never came back, a reset that was ramped."""
        events: tuple[Event, ...] = ()
        self.window.book(now)
        if self._reset_due is not None and now >= self._reset_due:
            self._reset_due = None
            events += self._reset_now(now, Trigger.OPERATOR_RESET)
        if self.override is not None and now >= self.override.ends_at:
            events += self._end_override(now, Trigger.OVERRIDE_EXPIRED, chance=self._ramp_chance)
        if self._probes:
            events += self._give_up_probes(now)
        return events

    _ramp_chance = 0.0

    def impose(self, override: Imposed | None, now: float, *, chance: float = 0.0) -> tuple[Event, ...]:
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
        if override.mode is State.FORCED_OPEN:
            self._void_probes()
        if held is not None and held.mode is State.FORCED_OPEN:
            self._await_probe(now)
        return (self._changed(previous, TRIGGER_OF_MODE[override.mode], now),)

    def expire(self, now: float) -> tuple[Event, ...]:
        """The override's time is over, whatever its own end says (the wall clock was set, or a ceiling clamped it)."""
        return self._end_override(now, Trigger.OVERRIDE_EXPIRED, chance=self._ramp_chance)

    def reset(self, now: float, *, delay_s: float = 0.0) -> tuple[Event, ...]:
        """Close with a fresh window and let go of any override; after `delay_s` where a reset of many is ramped."""
        if delay_s > 0:
            self._reset_due = now + delay_s
            return ()
        return self._reset_now(now, Trigger.OPERATOR_RESET)

    def probe(self, now: float) -> tuple[Event, ...]:
        """Let a probe through now instead of after the cooldown, or after the ramp of a trip that ended."""
        if self.computed is State.OPEN:
            return self._move(State.HALF_OPEN, Trigger.OPERATOR_PROBE, now)
        self.retry_at = None
        return ()

    def forget_probes(self) -> None:
        """The calls that are out are another process's: none of them will return here."""
        self._probes.clear()

    def configure(self, settings: Settings) -> None:
        """New thresholds; state, cooldown and window stay, so tuning in an outage does not reopen the flood."""
        self.settings = settings

    def reading(self, now: float) -> Reading:
        """The window as the current settings see it."""
        return self.window.read(
            now,
            size=self.settings.sliding_window_size or 1,
            is_time_based=self.settings.sliding_window_type == "time_based",
        )

    @property
    def _permitted(self) -> int:
        return self.settings.permitted_calls_in_half_open or 1

    def _take_probe(self, now: float, deadline_s: float) -> tuple[int, float | None]:
        if self.retry_at is not None and now < self.retry_at:
            return 0, self.retry_at - now
        if not self._has_place():
            return 0, max(0.0, min(one.given_up_at(self.settings) for one in self._waited_for()) - now)
        self._tickets += 1
        self._probes[self._tickets] = _Probe(now, deadline_s)
        return self._tickets, None

    def _has_place(self) -> bool:
        # One probe is always missing: an edit may permit fewer than have passed.
        passed = min(self._probes_passed, self._permitted - 1)
        return len(self._waited_for()) + passed < self._permitted

    def _waited_for(self) -> list[_Probe]:
        return [one for one in self._probes.values() if not one.is_given_up]

    def _give_up_probes(self, now: float) -> tuple[Event, ...]:
        """A probe that is given up counts as a failure, unless it decides nothing any more."""
        late = {ticket: one for ticket, one in self._probes.items() if now >= one.given_up_at(self.settings)}
        is_abandoned = False
        for ticket, one in late.items():
            is_abandoned |= one.counts and not one.is_given_up
            one.is_given_up = True
            if not one.counts:
                del self._probes[ticket]
        if not is_abandoned or self.computed is not State.HALF_OPEN:
            return ()
        return self._move(State.OPEN, Trigger.PROBE_ABANDONED, now)

    def _probe_failed(self, now: float) -> tuple[Event, ...]:
        self._void_probes()
        return self._move(State.OPEN, Trigger.PROBE_FAILED, now) if self.computed is State.HALF_OPEN else ()

    def _void_probes(self) -> None:
        """The probes that are out decide nothing any more. Those not given up still hold their places."""
        self._probes_passed = 0
        for ticket, one in [*self._probes.items()]:
            one.counts = False
            if one.is_given_up:
                del self._probes[ticket]

    def _judge(self, now: float, *, has_fallback: bool = False) -> tuple[Event, ...]:
        reading = self.reading(now)
        settings = self.settings
        self._consecutive_limit = _consecutive_limit(settings, has_fallback=has_fallback)
        if self._consecutive_limit and reading.consecutive_failures >= self._consecutive_limit:
            return self._move(State.OPEN, Trigger.CONSECUTIVE_FAILURES, now, reading)
        if reading.calls < (settings.minimum_number_of_calls or 1):
            return ()
        if settings.failure_rate_threshold and reading.failure_rate >= settings.failure_rate_threshold:
            return self._move(State.OPEN, Trigger.FAILURE_RATE, now, reading)
        if settings.slow_call_rate_threshold and reading.slow_call_rate >= settings.slow_call_rate_threshold:
            self._is_slow_outage = True
            return self._move(State.OPEN, Trigger.SLOW_CALL_RATE, now, reading)
        return ()

    def _move(self, to: State, trigger: Trigger, now: float, reading: Reading | None = None) -> tuple[Event, ...]:
        previous, reading = self.state, reading or self.reading(now)
        is_visible = self.override is None
        self.computed = to
        if to is State.HALF_OPEN:
            self._probes_passed = 0
        self.retry_at = now + (self.settings.wait_duration_in_open_s or 0.0) if to is State.OPEN else None
        event = self._changed(previous, trigger, now, reading) if is_visible else None
        if to is State.CLOSED:
            self._start_fresh()
        return (event,) if event else ()

    def _start_fresh(self) -> None:
        self._probes.clear()
        self._probes_passed = 0
        self._is_slow_outage = False
        self.window.clear()

    def _await_probe(self, now: float, *, delay_s: float = 0.0) -> None:
        self.computed = State.HALF_OPEN
        self._void_probes()
        self.retry_at = now + delay_s if delay_s > 0 else None

    def _end_override(self, now: float, trigger: Trigger, *, chance: float) -> tuple[Event, ...]:
        held = self.override
        if held is None:
            return ()
        self.override = None
        if held.mode is State.FORCED_OPEN:
            self._await_probe(now, delay_s=chance * held.ramp_s)
        if held.mode is self.state:
            return ()
        return (self._changed(held.mode, trigger, now, ended=held),)

    def _reset_now(self, now: float, trigger: Trigger) -> tuple[Event, ...]:
        previous, reading = self.state, self.reading(now)
        self.override = None
        self._reset_due = None
        self.computed = State.CLOSED
        self.retry_at = None
        self._start_fresh()
        return () if previous is State.CLOSED else (self._changed(previous, trigger, now, reading),)

    def _is_slow(self, duration_s: float) -> bool:
        return bool(self.settings.slow_call_rate_threshold) and duration_s >= (
            self.settings.slow_call_duration_s or 0.0
        )

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
            return float(self._consecutive_limit)
        if trigger is Trigger.SLOW_CALL_RATE:
            return self.settings.slow_call_rate_threshold
        return self.settings.failure_rate_threshold

    def _wait_s(self, now: float) -> float | None:
        if self.override is not None:
            return round(max(0.0, self.override.ends_at - now), 3)
        return None if self.retry_at is None else round(max(0.0, self.retry_at - now), 3)


def _consecutive_limit(settings: Settings, *, has_fallback: bool) -> int:
    """Failures in a row that open; 0: none do. With a fallback fewer, where the policy says so."""
    limit = settings.consecutive_failures or 0
    lower = settings.consecutive_failures_with_fallback or 0
    return min(limit, lower) if has_fallback and lower else limit
