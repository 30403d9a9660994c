"""Breakers of guarded operations: probes that take long, come late or never."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.enums import State, Trigger
from recovery_ops.rules.events import BreakerStateChanged
from recovery_ops.rules.policy.model import FAIL_CLOSED, Settings, parse_policy
from recovery_ops.runtime import (
    CircuitBreaker,
    CircuitOpen,
    ConfigurationError,
    Deadline,
    Fallback,
    RecoveryError,
    RecoveryExhausted,
)
from recovery_ops.runtime.testing import Lab, PushedClock
from tests.support.recovery import NO_RETRY, broken, state

COOLDOWN_S = 60.0


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


def triggers(lab: Lab) -> list[Trigger]:
    return [fact.trigger for fact in lab.events_of(BreakerStateChanged)]


def opened(lab: Lab, during: Callable[[], Any], **said: Any) -> Callable[[], Any]:
    """A guarded operation whose breaker is open and whose cooldown is over; `during` happens in each later call."""
    has_opened = False

    def search() -> str:
        if not has_opened:
            raise TimeoutError
        during()
        return "ok"

    guarded: Callable[[], Any] = lab.recovery.guard("search", idempotent=True, settings=NO_RETRY, **said)(search)
    for _ in range(5):
        with pytest.raises(RecoveryExhausted):
            guarded()
    has_opened = True
    lab.clock.push(COOLDOWN_S)
    return guarded


def after(lab: Lab, seconds: float, *, slices: int = 5) -> Callable[[], None]:
    """Time that passes within a call, while the housekeeper does its rounds."""

    def passes() -> None:
        for _ in range(slices):
            lab.clock.push(seconds / slices)
            lab.recovery.housekeep()

    return passes


@pytest.mark.parametrize(
    ("said", "takes_s"),
    [({}, 15.0), ({}, 119.0), ({"kind": "model"}, 119.0), ({"kind": "tool"}, 9.9), ({"attempt_timeout": 300.0}, 299.0)],
)
def test_long_healthy_probe_closes(lab: Lab, said: dict[str, Any], takes_s: float) -> None:
    guarded = opened(lab, after(lab, takes_s), **said)
    assert guarded() == "ok"
    assert triggers(lab)[1:] == [Trigger.WAIT_ELAPSED, Trigger.PROBE_SUCCEEDED]
    assert state(lab) == "closed"


@pytest.mark.parametrize(
    ("said", "takes_s"), [({}, 121.0), ({"kind": "tool"}, 11.0), ({"attempt_timeout": 15.0}, 16.0)]
)
def test_late_success_of_abandoned_probe_closes(lab: Lab, said: dict[str, Any], takes_s: float) -> None:
    guarded = opened(lab, after(lab, takes_s), **said)
    assert guarded() == "ok"
    assert triggers(lab)[1:] == [Trigger.WAIT_ELAPSED, Trigger.PROBE_ABANDONED, Trigger.PROBE_SUCCEEDED]
    assert state(lab) == "closed"


def test_calls_beside_a_long_probe_are_rejected(lab: Lab) -> None:
    inner: list[CircuitOpen] = []

    def during() -> None:
        lab.clock.push(15.0)
        with pytest.raises(CircuitOpen) as rejected:
            guarded()
        inner.append(rejected.value)

    guarded = opened(lab, during)
    guarded()
    [rejected] = inner
    assert rejected.retry_at is not None
    assert rejected.retry_at.timestamp() - lab.clock.wall() == pytest.approx(105.0)


def test_shared_breaker_waits_for_each_call(lab: Lab) -> None:
    """The deadline is that of the call which is the probe, not that of the breaker's other operations."""
    guarded = opened(lab, after(lab, 100.0), breaker="helios", kind="model")
    lab.recovery.guard("fetch", breaker="helios", kind="tool")(lab.script("ok"))
    assert guarded() == "ok"
    assert Trigger.PROBE_ABANDONED not in triggers(lab)


def test_forked_child_does_not_wait_for_the_parents_probe(lab: Lab) -> None:
    guarded = opened(lab, lambda: None)
    breaker = lab.recovery.breaker("search")
    assert breaker is not None
    assert breaker.admit(lab.clock.now()).is_probe
    lab.recovery.before_fork()
    lab.recovery.after_fork_in_child()
    assert guarded() == "ok"
    assert state(lab) == "closed"


def test_breaker_alone_waits_for_a_long_probe() -> None:
    clock = PushedClock()
    breaker = CircuitBreaker("search", Settings(consecutive_failures=1), clock=clock)
    with pytest.raises(TimeoutError), breaker.attempt():
        raise TimeoutError
    for takes_s, then in ((119.0, "half_open"), (121.0, "open")):
        clock.push(COOLDOWN_S)
        with breaker.attempt():
            clock.push(takes_s)
            assert breaker.state.value == then
        assert breaker.state.value == "closed"
        with pytest.raises(TimeoutError), breaker.attempt():
            raise TimeoutError


def by_time(revision: int = 1) -> Desired:
    settings = {
        "sliding_window_type": "time_based",
        "sliding_window_size": 60,
        "consecutive_failures": 0,
        "max_retries": 0,
        "max_retries_background": 0,
    }
    return Desired(revision=revision, policy=parse_policy({"rules": [{"id": "r", "scope": {}, "settings": settings}]}))


@pytest.mark.parametrize(("since_s", "then"), [(600.0, "open"), (30.0, "closed")])
def test_switch_to_time_keeps_times_of_successes(lab: Lab, since_s: float, then: str) -> None:
    outcomes = lab.script(*["ok"] * 1000, TimeoutError())
    guarded = lab.recovery.guard("search", idempotent=True)(outcomes)
    for _ in range(1000):
        guarded()
    lab.recovery.housekeep()
    lab.clock.push(since_s)
    lab.recovery.apply(by_time())
    for _ in range(10):
        with pytest.raises(RecoveryExhausted):
            guarded()
    assert state(lab) == then


class TestNested:
    """A call that an inner guard rejects says nothing of the service: it counts for no breaker around it."""

    @pytest.fixture
    def outer(self, lab: Lab) -> Any:
        @lab.recovery.guard("answer", idempotent=True, settings=NO_RETRY)
        def answer() -> Any:
            return self.inner()

        return answer

    def fail(self, outer: Any, calls: int) -> None:
        for _ in range(calls):
            with pytest.raises(RecoveryError):
                outer()

    def test_inner_rejections_keep_outer_breaker_closed(self, lab: Lab, outer: Any) -> None:
        self.inner = broken(lab)
        self.fail(outer, 20)
        assert (state(lab, "search"), state(lab, "answer")) == ("open", "closed")

    def test_cooldowns_of_nested_guards_do_not_add_up(self, lab: Lab, outer: Any) -> None:
        self.inner = lab.recovery.guard("search", idempotent=True, settings=NO_RETRY)(
            lab.script(*[TimeoutError()] * 3, "ok")
        )
        self.inner.operation.standing.breaker.configure(Settings(consecutive_failures=3).over(FAIL_CLOSED))
        for _ in range(62):  # it opens at the third call, a second after the second
            self.fail(outer, 1)
            lab.clock.push(1.0)
        assert outer() == "ok"

    def test_inner_failures_count_for_both(self, lab: Lab, outer: Any) -> None:
        self.inner = lab.recovery.guard("search", idempotent=True, settings=NO_RETRY)(lab.script(TimeoutError()))
        self.fail(outer, 5)
        assert (state(lab, "search"), state(lab, "answer")) == ("open", "open")

    def test_rejection_of_breaker_alone_does_not_count(self, lab: Lab, outer: Any) -> None:
        breaker = CircuitBreaker("db", clock=lab.clock)
        breaker.trip()
        self.inner = breaker(lab.script("ok"))
        self.fail(outer, 20)
        assert state(lab, "answer") == "closed"
        around = CircuitBreaker("around", Settings(consecutive_failures=1), clock=lab.clock)
        with pytest.raises(CircuitOpen):
            around.call(self.inner)
        assert around.state is State.CLOSED

    def test_wrapped_rejection_does_not_count(self, lab: Lab, outer: Any) -> None:
        search = broken(lab)

        def inner() -> None:
            try:
                search()
            except CircuitOpen as error:
                raise LookupFailed from error

        self.inner = inner
        self.fail(outer, 20)
        assert state(lab, "answer") == "closed"

    def test_failure_after_a_rejection_counts(self, lab: Lab, outer: Any) -> None:
        search = broken(lab)

        def inner() -> None:
            try:
                search()
            except CircuitOpen as error:
                raise TimeoutError from error

        self.inner = inner
        self.fail(outer, 5)
        assert state(lab, "answer") == "open"

    def test_rejection_for_want_of_time_does_not_count(self, lab: Lab, outer: Any) -> None:
        search = lab.recovery.guard("search")(lab.script("ok"))

        def inner() -> Any:
            with Deadline(1.0, clock=lab.clock):
                lab.clock.push(2.0)
                return search()

        self.inner = inner
        self.fail(outer, 20)
        assert state(lab, "answer") == "closed"

    def test_rejected_probe_gives_its_place_back(self, lab: Lab, outer: Any) -> None:
        self.inner = lab.script(TimeoutError())
        self.fail(outer, 5)
        lab.clock.push(COOLDOWN_S)
        self.inner = broken(lab)
        self.fail(outer, 3)
        assert state(lab, "answer") == "half_open"
        self.inner = lab.script("ok")
        assert outer() == "ok"
        assert state(lab, "answer") == "closed"


class LookupFailed(Exception):
    """What an application makes of a rejection."""


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_cancelled_probe_gives_its_place_back(lab: Lab, end: type[BaseException]) -> None:
    ends: list[BaseException] = [end()]

    def during() -> None:
        if ends:
            raise ends.pop()

    search = opened(lab, during)
    with pytest.raises(end):
        search()
    assert state(lab) == "half_open"
    assert search() == "ok"
    assert state(lab) == "closed"


class TestSharedThresholds:
    SAID = ("search", Settings(consecutive_failures=2)), ("fetch", None)

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_thresholds_are_those_that_code_names(self, order: tuple[int, int]) -> None:
        lab = Lab(reraise=False)
        for name, settings in (self.SAID[one] for one in order):
            lab.recovery.guard(name, breaker="helios", settings=settings)(lab.script(503))
        operations = lab.recovery.snapshot()["operations"]
        assert {"search", "fetch"} <= set(operations)
        fetch = lab.recovery.guard("fetch", breaker="helios")(lab.script(503))
        for _ in range(2):
            with pytest.raises(RecoveryExhausted):
                fetch()
        with pytest.raises(CircuitOpen):
            fetch()

    def test_different_thresholds_are_refused(self) -> None:
        lab = Lab()
        first = lab.recovery.guard("search", breaker="helios", settings=Settings(consecutive_failures=2))
        other = lab.recovery.guard("fetch", breaker="helios", settings=Settings(consecutive_failures=3))
        first(lab.script("ok"))
        with pytest.raises(ConfigurationError, match=r"helios.*consecutive_failures.*2.*search.*3.*fetch"):
            other(lab.script("ok"))
        assert "fetch" not in lab.recovery.snapshot()["operations"]
        lab.recovery.guard("fetch", breaker="helios", settings=Settings(consecutive_failures=2))(lab.script("ok"))

    def test_fallback_that_is_declared_later_is_checked(self) -> None:
        lab = Lab()
        said = Settings(consecutive_failures=2)
        lab.recovery.guard("search", breaker="helios", settings=said, fallback=Fallback(lambda: "old", name="stored"))(
            lab.script("ok")
        )
        with pytest.raises(ConfigurationError):
            lab.recovery.guard("stored", breaker="helios", settings=Settings(consecutive_failures=3))(lambda: "old")
