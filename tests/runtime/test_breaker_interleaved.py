"""One breaker, many threads and tasks: a model that begins and ends calls in any order, and an operator in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired, Override, Reset
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.runtime import CircuitOpen, RecoveryExhausted
from recovery_ops.runtime.testing import Lab

PATIENCE_S = 30.0
COOLDOWN_S = 60.0
GIVEN_UP_S = 120.0
"""Of a probe whose call has no deadline."""


@dataclass
class Underway:
    """A call in a thread or task of its own: it says whether it came in, and ends when it is told to."""

    has_begun: SimpleQueue[str] = field(default_factory=SimpleQueue)
    how: SimpleQueue[BaseException | None] = field(default_factory=SimpleQueue)
    has_ended: threading.Event = field(default_factory=threading.Event)
    began_at: float = 0.0
    is_probe: bool = False

    def began(self) -> str:
        return self.has_begun.get(timeout=PATIENCE_S)

    def end(self, error: BaseException | None) -> None:
        self.how.put(error)
        assert self.has_ended.wait(PATIENCE_S)


class Crowd:
    """Starts calls in threads and in tasks of one loop, and tells each when to end."""

    def __init__(self, lab: Lab) -> None:
        decorate = lab.recovery.guard("search", idempotent=True, max_retries=0)
        self.in_thread: Callable[[Underway], None] = decorate(_answer)
        self.in_task: Callable[[Underway], Coroutine[Any, Any, None]] = decorate(_answer_async)
        self.loop = asyncio.new_event_loop()
        self.looping = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.looping.start()

    def start(self, *, as_task: bool) -> Underway:
        one = Underway()
        if as_task:
            asyncio.run_coroutine_threadsafe(_watched_async(self.in_task, one), self.loop)
        else:
            threading.Thread(target=_watched, args=(self.in_thread, one), daemon=True).start()
        return one

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.looping.join(PATIENCE_S)
        self.loop.close()


def _answer(one: Underway) -> None:
    one.has_begun.put("in")
    error = one.how.get()
    if error is not None:
        raise error


async def _answer_async(one: Underway) -> None:
    one.has_begun.put("in")
    error = await asyncio.to_thread(one.how.get)
    if error is not None:
        raise error


def _watched(call: Callable[[Underway], None], one: Underway) -> None:
    try:
        call(one)
    except CircuitOpen:
        one.has_begun.put("refused")
    except (RecoveryExhausted, asyncio.CancelledError):
        pass
    finally:
        one.has_ended.set()


async def _watched_async(call: Callable[[Underway], Coroutine[Any, Any, None]], one: Underway) -> None:
    try:
        await call(one)
    except CircuitOpen:
        one.has_begun.put("refused")
    except (RecoveryExhausted, asyncio.CancelledError):
        pass
    finally:
        one.has_ended.set()


class Interleaved(RuleBasedStateMachine):
    """What must hold of one breaker under any interleaving of calls, time and an operator."""

    def __init__(self) -> None:
        super().__init__()
        self.lab = Lab(reraise=False)
        self.crowd = Crowd(self.lab)
        self.inside: list[Underway] = []
        self.revision = 0
        self.mode: State | None = None
        self.permitted = 1
        self.resets: tuple[Reset, ...] = ()

    def teardown(self) -> None:
        for one in self.inside:
            one.end(None)
        self.crowd.close()

    @initialize(permitted=st.integers(1, 3), failures=st.integers(1, 4))
    def begin(self, permitted: int, failures: int) -> None:
        self.permitted, self.failures = permitted, failures
        self.obey()

    def obey(self, *, resets: bool = False) -> None:
        self.revision += 1
        now = self.lab.clock.wall()
        override = Override(
            id=f"ov-{self.revision}", mode=self.mode or State.FORCED_OPEN, scope=Scope(operation="search"), reason="x",
            by="ana", starts_at=now, expires_at=now + 1e6, revision=self.revision,
        )  # fmt: skip
        if resets:
            self.resets = (Reset(scope=Scope(operation="search"), revision=self.revision),)
        settings = {
            "consecutive_failures": self.failures,
            "failure_rate_threshold": 0,
            "permitted_calls_in_half_open": self.permitted,
            "wait_duration_in_open_s": COOLDOWN_S,
            "max_wait_in_half_open_s": 10.0,
        }
        self.lab.recovery.apply(
            Desired(
                revision=self.revision,
                policy=parse_policy({"rules": [{"scope": {}, "settings": settings}]}),
                overrides=(override,) if self.mode else (),
                resets=self.resets,
            )
        )

    @property
    def breaker(self) -> Any:
        return self.lab.recovery.breaker("search")

    @rule(as_task=st.booleans())
    def start(self, as_task: bool) -> None:
        before, computed = self.breaker.state, self.breaker.computed
        probes = self.probes_out()
        one = self.crowd.start(as_task=as_task)
        came_in = one.began() == "in"
        one.began_at = self.lab.clock.now()
        one.is_probe = came_in and self.mode is None and self.breaker.computed is State.HALF_OPEN
        if before is State.FORCED_OPEN:
            assert not came_in
        if before in (State.DISABLED, State.METRICS_ONLY) or (before is State.CLOSED and computed is State.CLOSED):
            assert came_in
        if one.is_probe:
            assert len(probes) < self.permitted
        if came_in:
            self.inside.append(one)

    def probes_out(self) -> list[Underway]:
        """Probes that are under way and not yet given up."""
        now = self.lab.clock.now()
        return [one for one in self.inside if one.is_probe and now - one.began_at < GIVEN_UP_S]

    @precondition(lambda self: self.inside)
    @rule(data=st.data(), how=st.sampled_from(["ok", "ok", "fails", "fails", "mistake", "interrupted"]))
    def end(self, data: st.DataObject, how: str) -> None:
        index = data.draw(st.integers(0, len(self.inside) - 1))
        errors: dict[str, BaseException | None] = {
            "ok": None,
            "fails": TimeoutError(),
            "mistake": ValueError(),
            "interrupted": asyncio.CancelledError(),
        }
        self.inside.pop(index).end(errors[how])
        if self.breaker.computed is State.CLOSED:
            self.forget_probes()

    def forget_probes(self) -> None:
        for one in self.inside:
            one.is_probe = False

    @rule(seconds=st.sampled_from([1.0, COOLDOWN_S, GIVEN_UP_S]))
    def time_passes(self, seconds: float) -> None:
        self.lab.clock.push(seconds)
        self.lab.recovery.housekeep()

    @rule(mode=st.sampled_from([State.FORCED_OPEN, State.DISABLED, State.METRICS_ONLY, None]))
    def operator(self, mode: State | None) -> None:
        self.mode = mode
        self.obey()
        assert mode is None or self.breaker.state is mode

    @rule()
    def operator_resets(self) -> None:
        self.mode = None
        self.obey(resets=True)
        assert self.breaker.state is State.CLOSED
        self.forget_probes()

    @rule(failures=st.integers(1, 4))
    def operator_tunes(self, failures: int) -> None:
        before = self.breaker.state, self.breaker.computed, self.breaker.retry_at
        self.failures = failures
        self.obey()
        assert (self.breaker.state, self.breaker.computed, self.breaker.retry_at) == before

    @invariant()
    def every_change_begins_where_the_last_one_ended(self) -> None:
        state = State.CLOSED
        for fact in self.lab.events_of(events.BreakerStateChanged):
            assert fact.previous_state is state
            state = fact.state
        if self.breaker is not None:
            assert self.breaker.state is state

    @invariant()
    def the_quick_path_is_taken_only_while_nothing_is_wrong(self) -> None:
        operation = self.lab.recovery.operations.get("search")
        if operation is not None and operation.is_on_fast_path:
            assert (self.breaker.computed, self.breaker.override) == (State.CLOSED, None)


TestInterleaved = Interleaved.TestCase
TestInterleaved.settings = settings(stateful_step_count=25, deadline=None)


def test_a_probe_under_many_threads_is_exactly_one() -> None:
    lab = Lab(reraise=False)
    fails = lab.recovery.guard("search", idempotent=True, max_retries=0)(lab.script(*[503] * 5))
    for _ in range(5):
        try:
            fails()
        except RecoveryExhausted:
            continue
    lab.clock.push(COOLDOWN_S)
    crowd = Crowd(lab)
    started = [crowd.start(as_task=number % 2 == 0) for number in range(24)]
    said = [one.began() for one in started]
    assert sorted(said) == ["in"] + ["refused"] * 23
    started[said.index("in")].end(None)
    crowd.close()
    assert lab.recovery.breaker("search").state is State.CLOSED  # type: ignore[union-attr]  # it was guarded above
